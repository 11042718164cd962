/* SPDX-License-Identifier: Apache-2.0 */
#include "priv/nft.h"

#include <errno.h>
#include <nftables/libnftables.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"

static struct mutex nft_lock = MUTEX_INIT("nft");

static void nft_freep(struct nft_ctx **ctx)
{
	if (*ctx)
		nft_ctx_free(*ctx);
}

static int run(const char *text, char **ret_text, struct err *err)
{
	LOCK_SCOPE(&nft_lock);
	/* The context opens its netlink socket here: it must not be reused in another namespace. */
	AUTO(nft_freep) struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);

	if (!ctx)
		return err_set(err, -ENOMEM, "nft: no context");
	nft_ctx_buffer_error(ctx);
	nft_ctx_buffer_output(ctx);
	nft_ctx_output_set_flags(ctx, NFT_CTX_OUTPUT_NUMERIC_ALL);
	if (nft_run_cmd_from_buffer(ctx, text) != 0) {
		const char *why = nft_ctx_get_error_buffer(ctx);

		return err_set(err, -EIO, "nft: %.300s", why && *why ? why : "failed");
	}
	if (ret_text) {
		*ret_text = strdup(nft_ctx_get_output_buffer(ctx));
		if (!*ret_text)
			return err_set(err, -ENOMEM, "nft: out of memory");
	}
	return 0;
}

int nft_run(const char *text, struct err *err)
{
	return run(text, NULL, err);
}

int nft_list(const char *command, char **ret_text, struct err *err)
{
	return run(command, ret_text, err);
}
