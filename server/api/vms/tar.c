/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.c - downloads and uploads a directory as one archive
 *
 * The guest packs and unpacks, as the user; the archive passes through. A pack that
 * fails after its first byte breaks the connection. An upload that fails leaves what
 * was unpacked until then, and says what it failed at.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

#define UNPACK_MS 600000 /* for the rest when the body is complete */

/* Is the token in the header, and not with a weight of zero? */
static bool accepts_gzip(struct request *req)
{
	const char *s = request_header(req, "Accept-Encoding");
	const char *at = s ? strstr(s, "gzip") : NULL;

	return at && strncmp(at, "gzip;q=0", 8) != 0;
}

static int tar_error(int r, const char *path, struct err *err)
{
	char why[sizeof(err->msg)];

	/* The message of the guest's tar or our unpacker is better than the errno's name. */
	if (r == -EIO || r == -EBADMSG || r == -EINVAL || r == -EOPNOTSUPP) {
		memcpy(why, err->msg, sizeof(why));
		return err_tag(err, r == -EIO ? r : -EINVAL, FILES_TAG, "%s", why);
	}
	return file_error(r, path, err);
}

int api_tar_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	bool packed = false, encoded = false;
	struct guest_flow *f;
	char path[PATH_MAX];
	const char *id, *user;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, FILES_TAG, &user, err)) < 0 ||
	    (r = request_path(req, path, err)) < 0 ||
	    (r = request_query_bool(req, "gzip", &packed, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	encoded = !packed && accepts_gzip(req);
	r = guest_tar(g, user, path, packed || encoded, &f, err);
	if (r < 0)
		return tar_error(r, path, err);
	r = reply_flow(req, res, &guest_flow_ops, f, OUTFLOW_UNKNOWN,
	               packed ? "application/gzip" : "application/x-tar", err);
	if (r == 0 && encoded)
		reply_header(res, "Content-Encoding", "gzip");
	return r;
}

static int put_begin(struct request *req, struct guest *g, const char *user, const char *path,
                     struct guest_flow **ret, struct err *err)
{
	const char *encoding = request_header(req, "Content-Encoding");
	const char *type = request_header(req, "Content-Type");
	bool gzip = (encoding && strstr(encoding, "gzip")) || (type && strstr(type, "gzip"));
	bool owners = false;
	int r;

	if ((r = request_query_bool(req, "gzip", &gzip, err)) < 0 ||
	    (r = request_query_bool(req, "owners", &owners, err)) < 0)
		return r;
	return guest_untar(g, user, path, gzip, owners, ret, err);
}

static int put_open(struct request *req, struct err *err)
{
	return upload_open(req, put_begin, tar_error, err);
}

const struct intake api_tar_intake = { put_open, upload_data, upload_drop };

int api_tar_put(struct request *req, struct reply *res, struct err *err)
{
	return upload_finish(req, res, UNPACK_MS, err);
}
