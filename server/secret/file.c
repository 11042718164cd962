/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - files that are one sealed value each, such as the key of the local CA */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "secret/secret.h"

static struct secret_place place(const char *name)
{
	return (struct secret_place){ "file", name };
}

int secret_file_write(struct secrets *k, const char *path, const char *name, const void *p,
                      size_t n, struct err *err)
{
	autofree char *sealed = NULL;
	int r = k ? secret_seal(k, place(name), p, n, &sealed, err) : 0;

	if (r < 0)
		return r;
	return sealed ? io_write_file(AT_FDCWD, path, sealed, strlen(sealed), 0600, err)
	              : io_write_file(AT_FDCWD, path, p, n, 0600, err);
}

int secret_file_read(struct secrets *k, const char *path, const char *name, size_t max, char **ret,
                     struct err *err)
{
	autowipe char *text = NULL;
	int r = io_read_file(AT_FDCWD, path, 2 * max, &text, err); /* base64 makes it longer */

	if (r < 0)
		return r;
	if (!secret_is_sealed(text)) {
		*ret = TAKE_PTR(text);
		return 0;
	}
	if (!k)
		return err_set(err, -ENOKEY, "'%s' is sealed, and there is no key to open it",
		               path);
	r = secret_open(k, place(name), text, ret, NULL, err);
	return r < 0 ? err_wrap(err, r, "read '%s'", path) : 0;
}

int secret_file_renew(struct secrets *k, const char *path, const char *name, size_t max,
                      struct err *err)
{
	autowipe char *sealed = NULL;
	autowipe char *text = NULL;
	int r;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if ((r = io_read_file(AT_FDCWD, path, 2 * max, &sealed, err)) < 0)
		return r;
	if (secret_is_current(k, sealed))
		return 0;
	if ((r = secret_file_read(k, path, name, max, &text, err)) < 0)
		return r;
	return secret_file_write(k, path, name, text, strlen(text), err);
}
