/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes.c - the code that a failed call is answered with
 *
 * A call below tags its error with a code (base/codes.def) where two failures of one errno must be
 * told apart; everything else gets the general code of its errno. Codes without an HTTP status
 * are not sent.
 */
#include "api/call.h"

#include <errno.h>

#include "base/auto.h"

static const struct {
	int code;
	enum err_code name;
} by_errno[] = {
	{ -EINVAL, ERR_BAD_REQUEST },
	{ -E2BIG, ERR_BAD_REQUEST },
	{ -ENAMETOOLONG, ERR_BAD_REQUEST },
	{ -ERANGE, ERR_BAD_REQUEST },
	{ -ENOTSUP, ERR_BAD_REQUEST },
	{ -ENOENT, ERR_NOT_FOUND },
	{ -EACCES, ERR_FORBIDDEN },
	{ -EPERM, ERR_FORBIDDEN },
	{ -EEXIST, ERR_CONFLICT },
	{ -EBUSY, ERR_CONFLICT },
	{ -EAGAIN, ERR_UNAVAILABLE },
	{ -ENOMEM, ERR_UNAVAILABLE },
	{ -ENOBUFS, ERR_UNAVAILABLE },
	{ -ETIMEDOUT, ERR_UNAVAILABLE },
	{ -ESHUTDOWN, ERR_UNAVAILABLE },
	{ -ENOSPC, ERR_NO_LOCAL_STORAGE_CAPACITY },
	{ -EDQUOT, ERR_NO_LOCAL_STORAGE_CAPACITY },
	{ -ECONNRESET, ERR_VM_NOT_RUNNING },
	{ -ENOTCONN, ERR_VM_NOT_RUNNING },
};

enum err_code code_of(const struct err *err)
{
	if (err_code_status(err->tag))
		return err->tag;
	for (size_t i = 0; i < ARRAY_SIZE(by_errno); i++)
		if (by_errno[i].code == err->code)
			return by_errno[i].name;
	return ERR_INTERNAL_ERROR;
}

int guest_call_error(int r, struct err *err)
{
	if (r == -ECONNRESET || r == -ENOTCONN)
		err_tag(err, r, ERR_VM_NOT_RUNNING,
		        "the VM was suspended, stopped or rebooted meanwhile; its log says which");
	return r;
}
