/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untar.c - unpacks a tar stream into the current directory
 *
 * ustar, GNU and pax members: files, directories, symbolic and hard links, FIFOs.
 * The caller has made the current directory the process's root; names that lead out are rejected
 * anyway, because such an archive is not what its sender thinks. Modes and times of
 * directories are set at the end, since a read-only directory must be filled first. Unpacking
 * stops at the first failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define BLOCK 512u
#define META_MAX (64u << 10) /* bytes of one pax or long-name member */
#define DIRS_MAX (1u << 20)  /* directories whose mode and time are set at the end */
#define CHUNK (64u << 10)    /* bytes copied at a time; a multiple of BLOCK */
#define MODE_PLAIN 0777u     /* mode bits that are kept, unless owners are kept too */

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

struct member {
	char type;
	char name[AGENT_PATH_MAX], link[AGENT_PATH_MAX];
	uint64_t size;
	int64_t mtime;
	uint32_t mode, uid, gid;
	bool has_name, has_link, has_size, has_mtime; /* set by a preceding pax or GNU member */
};

struct dir {
	char *name; /* owned */
	uint32_t mode;
	int64_t mtime;
};

struct untar {
	int fd;
	bool owners, any;
	struct member m;
	struct dir *dirs; /* owned */
	size_t n_dirs, cap_dirs;
	char *msg;
	size_t size;
};

__attribute__((format(printf, 3, 4))) static int fail(struct untar *u, int e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->msg, u->size, fmt, ap);
	va_end(ap);
	return e;
}

static int fail_at(struct untar *u, const char *what, int e)
{
	return fail(u, e, "%s '%.180s': %s", what, u->m.name, err_name(e));
}

/* n bytes; *ret_eof: the stream ended before the first of them. */
static int take(struct untar *u, void *p, size_t n, bool *ret_eof)
{
	size_t got = 0;

	if (ret_eof)
		*ret_eof = false;
	while (got < n) {
		ssize_t k = read(u->fd, (uint8_t *)p + got, n - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return fail(u, errno, "read the archive: %s", err_name(errno));
		if (k == 0 && got == 0 && ret_eof) {
			*ret_eof = true;
			return 0;
		}
		if (k == 0)
			return fail(u, EBADMSG, "the archive is truncated");
		got += (size_t)k;
	}
	return 0;
}

/* Octal, or base 256 when the first bit is set. */
static bool number(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((unsigned char)p[0] & 0x80) {
		if ((unsigned char)p[0] != 0x80)
			return false; /* negative, or more than 64 bits are needed */
		for (i = 1; i < n; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | (unsigned char)p[i];
		}
		*ret = v;
		return true;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*ret = v;
	return i == n || p[i] == ' ' || p[i] == '\0';
}

static bool sum_ok(const struct header *h)
{
	const uint8_t *p = (const uint8_t *)h;
	const size_t from = offsetof(struct header, sum);
	uint64_t want, sum = 0;

	if (!number(h->sum, sizeof(h->sum), &want))
		return false;
	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= from && i < from + sizeof(h->sum) ? ' ' : p[i];
	return sum == want;
}

/* The content of a member that describes the next one, NUL-terminated. */
static int take_meta(struct untar *u, uint64_t size, char *ret)
{
	int e;

	if (size >= META_MAX)
		return fail(u, EBADMSG, "the archive has a header of %llu bytes",
		            (unsigned long long)size);
	e = take(u, ret, (size_t)((size + BLOCK - 1) / BLOCK * BLOCK), NULL);
	ret[size] = '\0';
	return e;
}

static int set_text(struct untar *u, char dst[AGENT_PATH_MAX], const char *s)
{
	if (strlen(s) >= AGENT_PATH_MAX)
		return fail(u, ENAMETOOLONG, "the archive has a name of %zu bytes", strlen(s));
	memcpy(dst, s, strlen(s) + 1);
	return 0;
}

static int pax_record(struct untar *u, const char *key, const char *value)
{
	struct member *m = &u->m;

	if (!strcmp(key, "path")) {
		m->has_name = true;
		return set_text(u, m->name, value);
	}
	if (!strcmp(key, "linkpath")) {
		m->has_link = true;
		return set_text(u, m->link, value);
	}
	if (!strcmp(key, "size")) {
		m->has_size = true;
		m->size = strtoull(value, NULL, 10);
	} else if (!strcmp(key, "mtime")) {
		m->has_mtime = true;
		m->mtime = strtoll(value, NULL, 10);
	} else if (!strncmp(key, "GNU.sparse.", 11)) {
		return fail(u, EOPNOTSUPP,
		            "the archive contains a sparse file: create it without --sparse");
	}
	return 0;
}

/* Records "LENGTH KEY=VALUE\n" one after the other. */
static int pax(struct untar *u, char *text, uint64_t size)
{
	char *p = text, *end = text + size;

	while (p < end) {
		char *key, *eq;
		unsigned long n = strtoul(p, &key, 10);
		int e;

		if (n < 5 || n > (size_t)(end - p) || *key != ' ' || key - p >= (ptrdiff_t)n ||
		    p[n - 1] != '\n')
			return fail(u, EBADMSG, "the archive has a damaged pax header");
		p[n - 1] = '\0';
		key++;
		eq = strchr(key, '=');
		if (!eq)
			return fail(u, EBADMSG, "the archive has a damaged pax header");
		*eq = '\0';
		e = pax_record(u, key, eq + 1);
		if (e)
			return e;
		p += n;
	}
	return 0;
}

/* Strips leading slashes and dots and a trailing slash; ".." is rejected. "" is the root. */
static int clean(struct untar *u, char *name)
{
	char *from = name;
	size_t n;

	for (const char *p = name; *p;) {
		n = strcspn(p, "/");
		if (n == 2 && p[0] == '.' && p[1] == '.')
			return fail(u, EINVAL,
			            "the archive contains '%.180s', which leads out of it", name);
		p += n + strspn(p + n, "/");
	}
	while (*from == '/' || (from[0] == '.' && (from[1] == '/' || !from[1])))
		from++;
	n = strlen(from);
	while (n && from[n - 1] == '/')
		n--;
	memmove(name, from, n);
	name[n] = '\0';
	return 0;
}

static int fill(struct untar *u, int fd)
{
	static uint8_t chunk[CHUNK];
	uint64_t left = u->m.size;

	while (left) {
		size_t n = (size_t)MIN(left, (uint64_t)CHUNK);
		int e = take(u, chunk, (n + BLOCK - 1) / BLOCK * BLOCK, NULL), r;

		if (e)
			return e;
		if (fd >= 0 && (r = io_write_all(fd, chunk, n)) < 0)
			return fail_at(u, "write", -r);
		left -= n;
	}
	return 0;
}

static int settle(struct untar *u, int fd)
{
	const struct member *m = &u->m;
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = m->mtime } };

	if (u->owners && fchown(fd, m->uid, m->gid) < 0)
		return fail_at(u, "change the owner of", errno);
	if (fchmod(fd, m->mode) < 0 || futimens(fd, t) < 0)
		return fail_at(u, "set the mode of", errno);
	return 0;
}

static int make_file(struct untar *u)
{
	autofd int fd = open(u->m.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int e;

	if (fd < 0)
		return fail_at(u, "make", errno);
	e = fill(u, fd);
	return e ? e : settle(u, fd);
}

static int make_dir(struct untar *u)
{
	struct member *m = &u->m;
	struct stat st;

	if (*m->name && mkdir(m->name, 0700) < 0 &&
	    (errno != EEXIST || stat(m->name, &st) < 0 || !S_ISDIR(st.st_mode)))
		return fail_at(u, "make directory", errno == EEXIST ? ENOTDIR : errno);
	if (!*m->name)
		return 0; /* the target itself stays as it is */
	if (u->owners && chown(m->name, m->uid, m->gid) < 0)
		return fail_at(u, "change the owner of", errno);
	if (u->n_dirs == u->cap_dirs) {
		size_t cap = u->cap_dirs ? 2 * u->cap_dirs : 64;
		struct dir *p = cap > DIRS_MAX ? NULL : reallocarray(u->dirs, cap, sizeof(*p));

		if (!p)
			return fail(u, ENOMEM, "the archive has too many directories");
		u->dirs = p;
		u->cap_dirs = cap;
	}
	u->dirs[u->n_dirs] = (struct dir){ strdup(m->name), m->mode, m->mtime };
	if (!u->dirs[u->n_dirs].name)
		return fail(u, ENOMEM, "out of memory");
	u->n_dirs++;
	return 0;
}

static int make_link(struct untar *u)
{
	struct member *m = &u->m;
	int e;

	if (m->type == '2') {
		if (symlink(m->link, m->name) < 0 ||
		    (u->owners && lchown(m->name, m->uid, m->gid) < 0))
			return fail_at(u, "make link", errno);
		return 0;
	}
	e = clean(u, m->link);
	if (e)
		return e;
	return link(m->link, m->name) < 0 ? fail_at(u, "make link", errno) : 0;
}

static int make_member(struct untar *u)
{
	struct member *m = &u->m;
	const char *slash;
	int e = clean(u, m->name);

	if (e)
		return e;
	if (m->type == '5')
		m->size = 0;
	slash = strrchr(m->name, '/');
	if (slash && (e = fs_make_parents(m->name, (size_t)(slash - m->name))))
		return fail_at(u, "make the directory of", e);
	if (m->type == '5')
		return make_dir(u);
	if (!*m->name)
		return fail(u, EBADMSG, "the archive contains a member without a name");
	if (unlink(m->name) < 0 && errno != ENOENT)
		return fail_at(u, "replace", errno);
	switch (m->type) {
	case '1':
	case '2':
		e = make_link(u);
		break;
	case '6':
		e = mkfifo(m->name, m->mode) < 0 ? fail_at(u, "make", errno) : 0;
		break;
	case '0':
	case '\0':
	case '7':
		return make_file(u);
	default:
		return fail(u, EOPNOTSUPP,
		            "the archive contains '%.180s', which is of unsupported kind '%c'",
		            m->name, m->type);
	}
	return e ? e : fill(u, -1); /* links have no content; any there is skipped */
}

static int parse_header(struct untar *u, const struct header *h, uint64_t *ret_size)
{
	struct member *m = &u->m;
	uint64_t mode, uid, gid, mtime;

	if (!sum_ok(h) || !number(h->size, sizeof(h->size), ret_size) ||
	    !number(h->mode, sizeof(h->mode), &mode) || !number(h->uid, sizeof(h->uid), &uid) ||
	    !number(h->gid, sizeof(h->gid), &gid) || !number(h->mtime, sizeof(h->mtime), &mtime))
		return fail(u, EBADMSG,
		            u->any ? "the archive is damaged" : "this is not a tar archive");
	m->type = h->type;
	m->mode = (uint32_t)mode & (u->owners ? 07777u : MODE_PLAIN);
	m->uid = (uint32_t)uid;
	m->gid = (uint32_t)gid;
	if (!m->has_mtime)
		m->mtime = (int64_t)mtime;
	if (!m->has_link)
		snprintf(m->link, sizeof(m->link), "%.100s", h->link);
	if (!m->has_name && !memcmp(h->magic, "ustar", 6) && h->prefix[0])
		snprintf(m->name, sizeof(m->name), "%.155s/%.100s", h->prefix, h->name);
	else if (!m->has_name)
		snprintf(m->name, sizeof(m->name), "%.100s", h->name);
	return 0;
}

/* One header and what belongs to it. *ret_end: the archive ended. */
static int next_member(struct untar *u, bool *ret_end)
{
	static char meta[META_MAX + BLOCK];
	static const struct header zero;
	struct member *m = &u->m;
	struct header h = zero;
	uint64_t size = 0;
	int e = take(u, &h, BLOCK, ret_end);

	if (e || *ret_end)
		return e;
	if (!memcmp(&h, &zero, BLOCK)) {
		*ret_end = u->any = true;
		return 0;
	}
	e = parse_header(u, &h, &size);
	if (e)
		return e;
	u->any = true;
	if (h.type == 'x' || h.type == 'g' || h.type == 'L' || h.type == 'K') {
		e = take_meta(u, size, meta);
		if (e || h.type == 'g')
			return e;
		if (h.type == 'x')
			return pax(u, meta, size);
		if (h.type == 'L')
			m->has_name = true;
		else
			m->has_link = true;
		return set_text(u, h.type == 'L' ? m->name : m->link, meta);
	}
	if (!m->has_size)
		m->size = size;
	if (m->size > INT64_MAX)
		return fail(u, EBADMSG, "the archive is damaged");
	e = make_member(u);
	*m = (struct member){ 0 };
	return e;
}

static int finish_dirs(struct untar *u)
{
	for (size_t i = u->n_dirs; i-- > 0;) { /* children before their parents */
		const struct dir *d = &u->dirs[i];
		struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = d->mtime } };

		if (chmod(d->name, d->mode) < 0 || utimensat(AT_FDCWD, d->name, t, 0) < 0)
			return fail(u, errno, "set the mode of '%.180s': %s", d->name,
			            err_name(errno));
	}
	return 0;
}

int untar(int fd, bool owners, char *msg, size_t size)
{
	static struct untar u;
	uint8_t waste[4096];
	bool end = false;
	int e = 0;

	u = (struct untar){ .fd = fd, .owners = owners, .msg = msg, .size = size };
	while (e == 0 && !end)
		e = next_member(&u, &end);
	if (e == 0 && !u.any)
		e = fail(&u, EBADMSG, "this is not a tar archive: it is empty");
	if (e == 0)
		e = finish_dirs(&u);
	while (e == 0) { /* padding after the end, up to the end of the stream */
		ssize_t n = read(fd, waste, sizeof(waste));

		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			e = fail(&u, errno, "read the archive: %s", err_name(errno));
	}
	for (size_t i = 0; i < u.n_dirs; i++)
		free(u.dirs[i].name);
	free(u.dirs);
	return e;
}
