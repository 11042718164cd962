/* SPDX-License-Identifier: Apache-2.0 */
/* priv/nft.h - run an nft text in the network namespace of the calling thread */
#pragma once

struct err;

/* One transaction: all of it or nothing. libnftables has global state: calls are serialised. */
int nft_run(const char *text, struct err *err);
/* Like `nft list ...`; caller frees. */
int nft_list(const char *command, char **ret_text, struct err *err);
