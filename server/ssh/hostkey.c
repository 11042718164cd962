/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostkey.c - the server's host keys
 *
 * One file per kind in <data>/ssh, mode 0600, created at the first start and never changed by us:
 * clients reject a server whose key has changed. An existing key that cannot be read is an error,
 * not a reason to create a new one. They are handed to each pando-ssh, which signs with them; here
 * the library is used for this file only and parses nothing that strangers send.
 *
 * Nodes of a cluster have the same keys, because clients do not know which one they reach: those of
 * the node that came first, which are in the database, sealed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <libssh/libssh.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/ssh_internal.h"
#include "store/store_node.h"

_Static_assert(SSHD_KEYS <= SSHW_KEYS_MAX, "they fit into START");

static const struct kind {
	const char *file;
	enum ssh_keytypes_e type;
	int bits;
} kinds[SSHD_KEYS] = {
	{ "host_ed25519", SSH_KEYTYPE_ED25519, 0 },
	{ "host_rsa", SSH_KEYTYPE_RSA, 3072 },
};

static int make(int dirfd, const struct kind *k, struct err *err)
{
	ssh_key key = NULL;
	char *text = NULL;
	int r;

	if (ssh_pki_generate(k->type, k->bits, &key) != SSH_OK)
		return err_set(err, -EIO, "create the SSH host key '%s'", k->file);
	if (ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) != SSH_OK)
		r = err_set(err, -EIO, "save the SSH host key '%s'", k->file);
	else
		r = io_write_file(dirfd, k->file, text, strlen(text), 0600, err);
	if (text)
		explicit_bzero(text, strlen(text));
	ssh_string_free_char(text);
	ssh_key_free(key);
	return r;
}

/* The one that all nodes have, instead of the file's if that is another. */
static int share(struct store *s, int dirfd, const struct kind *k, char **text, struct err *err)
{
	autowipe char *shared = NULL;
	autofree char *none = NULL;
	char id[64];
	int r;

	snprintf(id, sizeof(id), "ssh/%s", k->file);
	if ((r = store_node_shared(s, id, *text, "", &shared, &none, err)) < 0)
		return r;
	if (strcmp(shared, *text) == 0)
		return 0;
	log_info("the SSH host key '%s' is that of the other nodes from now on", k->file);
	r = io_write_file(dirfd, k->file, shared, strlen(shared), 0600, err);
	auto_wipe_(text);
	*text = TAKE_PTR(shared);
	return r;
}

static int load(struct store *s, int dirfd, const struct kind *k, char **ret, struct err *err)
{
	autowipe char *text = NULL;
	ssh_key key = NULL;
	int r;

	if (faccessat(dirfd, k->file, F_OK, 0) < 0 && errno == ENOENT &&
	    (r = make(dirfd, k, err)) < 0)
		return r;
	r = io_read_file(dirfd, k->file, SSHW_KEY_MAX, &text, err);
	if (r < 0)
		return err_wrap(err, r, "SSH host key");
	if (s && (r = share(s, dirfd, k, &text, err)) < 0)
		return err_wrap(err, r, "SSH host key");
	if (fchmodat(dirfd, k->file, 0600, 0) < 0)
		return err_sys(err, -errno, "restrict the SSH host key '%s'", k->file);
	r = ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key);
	ssh_key_free(key);
	if (r != SSH_OK)
		return err_set(err, -EINVAL,
		               "the SSH host key '%s' cannot be read: restore the file, or remove "
		               "it to get a new key, which clients will report as changed",
		               k->file);
	*ret = TAKE_PTR(text);
	return 0;
}

void hostkey_free(struct sshd *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(d->keys); i++)
		auto_wipe_(&d->keys[i]);
}

int hostkey_load(struct sshd *d, struct err *err)
{
	autofd int dirfd = -1;
	char dir[300];
	int r;

	snprintf(dir, sizeof(dir), "%s/ssh", d->data_dir);
	r = io_mkdirs(dir, 0700, err);
	if (r < 0)
		return r;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, -errno, "open '%s'", dir);
	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r >= 0; i++)
		r = load(d->store, dirfd, &kinds[i], &d->keys[i], err);
	return r;
}
