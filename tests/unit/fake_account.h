/* SPDX-License-Identifier: Apache-2.0 */
/* fake_account.h - see fake_account.c */
#pragma once

struct store;

/* Where accounts are; weak. */
void fake_account_store(struct store *s);
