/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - the file of keys, and the change from one key to the next
 *
 * The file is only ever replaced whole, and a key leaves it only after everything that was sealed
 * with it is on the disk under another one. So whatever is on the disk can be opened with the keys
 * of the file beside it, whenever the process ends.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "secret/secret_internal.h"

static const char way_out[] = "restore it from a backup; docs/OPERATIONS.md (Secrets) says what "
                              "to do if it is lost";

/* ---- the keys in memory ---- */

static struct ring *ring_new(void)
{
	void *p = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* What a kernel or a limit does not allow makes it a little less safe, not wrong. */
	(void)mlock(p, sizeof(struct ring));
	(void)madvise(p, sizeof(struct ring), MADV_DONTDUMP);
	(void)madvise(p, sizeof(struct ring), MADV_WIPEONFORK);
	return p;
}

static void ring_free(struct ring *r)
{
	if (!r)
		return;
	explicit_bzero(r, sizeof(*r));
	munmap(r, sizeof(*r));
}

static void ring_freep(struct ring **r)
{
	ring_free(*r);
}

bool ring_key_get(struct secrets *k, uint8_t id, struct ring_key *ret)
{
	LOCK_SCOPE(&k->lock);
	for (unsigned i = 0; i < k->ring->n; i++)
		if (id == 0 || k->ring->keys[i].id == id) {
			*ret = k->ring->keys[i];
			return true;
		}
	return false;
}

/* ---- the file ---- */

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "7 0123...": an id and a key. */
static int parse_line(const char *line, struct ring_key *ret)
{
	char *end;
	unsigned long id = strtoul(line, &end, 10);

	if (!isdigit((unsigned char)*line) || id < 1 || id > 255 || *end != ' ')
		return -EINVAL;
	ret->id = (uint8_t)id;
	end++;
	for (size_t i = 0; i < KEY_BYTES; i++) {
		int hi = hex_digit(end[2 * i]);
		int lo = hi < 0 ? -1 : hex_digit(end[2 * i + 1]);

		if (lo < 0)
			return -EINVAL;
		ret->key[i] = (uint8_t)(hi << 4 | lo);
	}
	end += 2 * (size_t)KEY_BYTES;
	return strspn(end, " \r") == strlen(end) ? 0 : -EINVAL;
}

/* text is changed. */
static int parse(char *text, struct ring *ret)
{
	char *save = NULL;

	ret->n = 0;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (*l == '#' || strspn(l, " \t\r") == strlen(l))
			continue;
		if (ret->n == KEYS_MAX || parse_line(l, &ret->keys[ret->n]) < 0)
			return -EINVAL;
		for (unsigned i = 0; i < ret->n; i++)
			if (ret->keys[i].id == ret->keys[ret->n].id)
				return -EINVAL;
		ret->n++;
	}
	return ret->n ? 0 : -EINVAL;
}

static int ring_save(const struct secrets *k, const struct ring *ring, struct err *err)
{
	char text[256 + KEYS_MAX * 80], hex[2 * KEY_BYTES + 1];
	int n = snprintf(text, sizeof(text),
	                 "# Keys of the secrets in Pando's database. Without this file they are "
	                 "lost; whoever has it can read them.\n");
	int r;

	for (unsigned i = 0; i < ring->n; i++) {
		hex_encode(ring->keys[i].key, KEY_BYTES, hex);
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%u %s\n", ring->keys[i].id, hex);
	}
	r = io_write_file(AT_FDCWD, k->source, text, (size_t)n, 0600, err);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(hex, sizeof(hex));
	return r;
}

static int read_fd(int fd, char **ret)
{
	autowipe char *text = calloc(1, KEY_FILE_MAX + 1);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = pread(fd, text, KEY_FILE_MAX, 0);
	if (n < 0)
		return -errno;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Only its owner and root may read it. */
static int check_mode(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "read '%s'", path);
	if (st.st_mode & 077)
		return err_set(err, -EINVAL,
		               "'%s' can be read by others (mode %04o): whoever has it can read "
		               "all secrets; chmod 0600 it",
		               path, st.st_mode & 07777);
	return 0;
}

static void add_key(struct ring *ring, uint8_t id)
{
	memmove(&ring->keys[1], &ring->keys[0], ring->n * sizeof(ring->keys[0]));
	ring->keys[0].id = id;
	random_bytes(ring->keys[0].key, KEY_BYTES);
	ring->n++;
}

static int load(struct secrets *k, const struct secrets_conf *c, struct ring *ring, struct err *err)
{
	autowipe char *text = NULL;
	int r;

	if (c->fd >= 0 && !*c->file) {
		snprintf(k->source, sizeof(k->source), "systemd's credential pando.secret-key");
		r = read_fd(c->fd, &text);
		if (r < 0)
			return err_sys(err, r, "read %s", k->source);
	} else {
		if (*c->file)
			snprintf(k->source, sizeof(k->source), "%s", c->file);
		else
			snprintf(k->source, sizeof(k->source), "%s/secret.key", c->data_dir);
		k->writable = true;
		if (access(k->source, F_OK) < 0 && errno == ENOENT) {
			if (!c->create)
				return err_set(err, -EINVAL,
				               "the database has secrets, and the file with their "
				               "key, '%s', is missing: %s",
				               k->source, way_out);
			add_key(ring, 1);
			if ((r = ring_save(k, ring, err)) < 0)
				return r;
			log_info("secrets: made a key in '%s'; keep a copy of it apart from "
			         "backups",
			         k->source);
			return 0;
		}
		if ((r = io_read_file(AT_FDCWD, k->source, KEY_FILE_MAX, &text, err)) < 0 ||
		    (r = check_mode(k->source, err)) < 0)
			return r;
	}
	if (parse(text, ring) < 0)
		return err_set(err, -EINVAL,
		               "'%s' is not a file of keys (lines of an id from 1 to 255 and 64 "
		               "hexadecimal digits, at most %u): %s",
		               k->source, KEYS_MAX, way_out);
	return 0;
}

static void secrets_closep(struct secrets **k)
{
	secrets_close(*k);
}

int secrets_open(const struct secrets_conf *c, struct secrets **ret, struct err *err)
{
	AUTO(secrets_closep) struct secrets *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&k->rotate, "secrets rotate");
	mutex_init(&k->lock, "secrets");
	mutex_unshared(&k->lock);
	k->ring = ring_new();
	if (!k->ring)
		return err_set(err, -ENOMEM, "out of memory");
	r = load(k, c, k->ring, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(k);
	return 0;
}

struct secrets *secrets_close(struct secrets *k)
{
	if (!k)
		return NULL;
	mutex_unshared(&k->lock);
	ring_free(k->ring);
	mutex_destroy(&k->lock);
	mutex_destroy(&k->rotate);
	free(k);
	return NULL;
}

const char *secrets_source(const struct secrets *k)
{
	return k->source;
}

/* ---- rotation ---- */

int secrets_hold(struct secrets *k, int (*fn)(void *ctx, struct err *err), void *ctx,
                 struct err *err)
{
	LOCK_SCOPE(&k->rotate);
	for (size_t i = 0; i < SECRET_HOLDERS_MAX; i++)
		if (!k->holders[i].ctx) {
			k->holders[i] = (struct holder){ fn, ctx };
			return 0;
		}
	return err_set(err, -ENOBUFS, "too many modules keep secrets");
}

void secrets_drop(struct secrets *k, void *ctx)
{
	LOCK_SCOPE(&k->rotate);
	for (size_t i = 0; i < SECRET_HOLDERS_MAX; i++)
		if (k->holders[i].ctx == ctx)
			k->holders[i] = (struct holder){ 0 };
}

/* A copy for changes; the caller frees it. */
static struct ring *ring_copy(struct secrets *k)
{
	struct ring *r = ring_new();

	LOCK_SCOPE(&k->lock);
	if (r)
		*r = *k->ring;
	return r;
}

/* Into the file, then into memory: nothing is ever sealed with a key that is not on the disk. */
static int ring_use(struct secrets *k, const struct ring *ring, struct err *err)
{
	int r = ring_save(k, ring, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&k->lock);
	*k->ring = *ring;
	return 0;
}

/* Everything under the first key, then the others out of the file. */
static int settle(struct secrets *k, struct ring *ring, struct err *err) REQUIRES(&k->rotate)
{
	int r = 0;

	for (size_t i = 0; i < SECRET_HOLDERS_MAX && r >= 0; i++)
		if (k->holders[i].ctx)
			r = k->holders[i].fn(k->holders[i].ctx, err);
	if (r < 0 || ring->n == 1)
		return MIN(r, 0);
	if (!k->writable) {
		log_info("secrets: everything is sealed with key %u; the other keys can be removed "
		         "from %s",
		         ring->keys[0].id, k->source);
		return 0;
	}
	explicit_bzero(&ring->keys[1], sizeof(ring->keys) - sizeof(ring->keys[0]));
	ring->n = 1;
	if ((r = ring_use(k, ring, err)) < 0)
		return r;
	log_info("secrets: everything is sealed with key %u", ring->keys[0].id);
	return 0;
}

int secrets_settle(struct secrets *k, struct err *err)
{
	LOCK_SCOPE(&k->rotate);
	AUTO(ring_freep) struct ring *ring = ring_copy(k);

	if (!ring)
		return err_set(err, -ENOMEM, "out of memory");
	return ring->n > 1 ? settle(k, ring, err) : 0;
}

static uint8_t next_id(const struct ring *ring)
{
	uint8_t id = ring->keys[0].id;

	for (;;) {
		bool used = false;

		id = id == 255 ? 1 : (uint8_t)(id + 1);
		for (unsigned i = 0; i < ring->n; i++)
			used |= ring->keys[i].id == id;
		if (!used)
			return id;
	}
}

int secrets_rotate(struct secrets *k, unsigned *ret_id, struct err *err)
{
	LOCK_SCOPE(&k->rotate);
	AUTO(ring_freep) struct ring *ring = ring_copy(k);
	int r;

	if (!ring)
		return err_set(err, -ENOMEM, "out of memory");
	if (!k->writable)
		return err_tag(err, -EROFS, ERR_CONFLICT,
		               "the key comes from %s, which Pando does not write: put a new key "
		               "in front of the present one, with another id, and restart the "
		               "service; once it has said so in the log, remove the old one",
		               k->source);
	/* What an earlier attempt left is finished by this one. */
	if (ring->n == KEYS_MAX && (r = settle(k, ring, err)) < 0)
		return r;
	add_key(ring, next_id(ring));
	if ((r = ring_use(k, ring, err)) < 0)
		return err_wrap(err, r, "no new key");
	*ret_id = ring->keys[0].id;
	if ((r = settle(k, ring, err)) < 0)
		return err_wrap(err, r,
		                "some secrets are still sealed with the old key, which is kept; "
		                "rotate again");
	return 0;
}
