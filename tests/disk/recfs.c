/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recfs.c - a file system that remembers every change, and fails when it is told to
 *
 *     recfs DIRECTORY SOCKET [LOG]
 *
 * Theory of operation: a FUSE file system is mounted over DIRECTORY and passes everything on to
 * what was there before, so whoever uses the directory (pandod, QEMU in its jail, git in its own)
 * is seen without knowing. /dev/fuse is spoken directly: libfuse of Debian 12 knows no O_TMPFILE.
 * Each change is done and written to LOG under one lock, so the order of the log is an order in
 * which things happened, and a fsync in it comes after all writes that had returned when it was
 * called. The kernel writes through (no write-back cache); what is written into shared mappings
 * (SQLite's -shm) arrives when the kernel writes it back, as on a disk. fsync is recorded and not
 * passed on: cut.py makes from the log what a disk would have had, so this one need not.
 *
 * SOCKET takes lines, each is answered with one: "mark TEXT" goes into the log; "fail OPS PATH NTH
 * COUNT ERRNO", "short ...", "slow ... MS" make the NTH to NTH+COUNT-1st call of OPS (letters, as
 * in enum op) below PATH fail, write only half, or wait; "clear" forgets these and says how often
 * each was met; "calls OPS PATH" counts calls from then on as a rule that does nothing. A node
 * lives as long as its file: only what was deleted and forgotten is freed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define WRITE_MAX (1u << 20)
#define THREADS 8
#define BUCKETS 65536
#define RULES_MAX 16
#define VALID_S 60

/* As in the log, and in rules. */
enum op {
	OP_CREATE = 'c', /* file, directory, link or socket; also O_TMPFILE, with an empty name */
	OP_LINK = 'l',
	OP_UNLINK = 'u',
	OP_RENAME = 'r',
	OP_WRITE = 'w',
	OP_TRUNCATE = 't',
	OP_ALLOCATE = 'a',
	OP_ATTR = 'm',
	OP_SYNC = 's',
	OP_SEEN = 'n', /* a file that was there before */
	OP_MARK = 'k',
	OP_READ = 'd', /* in rules only */
};

struct record {
	uint32_t op, uid, gid, mode;
	uint64_t node, a, b;
	uint32_t name_len, data_len;
};

struct node {
	uint64_t id;
	dev_t dev;
	ino_t ino;
	int path_fd; /* O_PATH */
	int file_fd; /* regular files, once opened */
	uint64_t lookups;
	struct node *next;
};

struct rule {
	char kind[8], ops[16], path[256];
	long nth, count, value, calls, met;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *by_inode[BUCKETS], *by_id[BUCKETS * 16];
static struct node root = { .id = FUSE_ROOT_ID, .file_fd = -1 };
static uint64_t next_id = 2;
static int fuse_fd = -1;
static FILE *log_out;
static char top[4096]; /* of what is below, as the kernel names it */
static struct rule rules[RULES_MAX];
static size_t n_rules;

/* ---- log and nodes ---- */

static void note(struct record r, const char *name, size_t name_len, const void *data, size_t n)
{
	if (!log_out)
		return;
	r.name_len = (uint32_t)name_len;
	r.data_len = (uint32_t)n;
	fwrite(&r, sizeof(r), 1, log_out);
	fwrite(name, 1, name_len, log_out);
	fwrite(data, 1, n, log_out);
	if (r.op == OP_MARK)
		fflush(log_out);
}

static struct node *node_of(uint64_t id)
{
	struct node *n = by_id[id % (sizeof(by_id) / sizeof(*by_id))];

	if (id == FUSE_ROOT_ID)
		return &root;
	/* buckets are chained through by_inode's list only; ids are searched by probing */
	for (size_t i = id; n && n->id != id;) {
		i += 1;
		n = by_id[i % (sizeof(by_id) / sizeof(*by_id))];
	}
	return n;
}

static void id_put(struct node *n)
{
	const size_t size = sizeof(by_id) / sizeof(*by_id);
	size_t i = n->id % size;

	while (by_id[i])
		i = (i + 1) % size;
	by_id[i] = n;
}

/* The hole it leaves is filled with those that were pushed on because of it. */
static void id_drop(struct node *n)
{
	const size_t size = sizeof(by_id) / sizeof(*by_id);
	size_t i = n->id % size;

	while (by_id[i] != n)
		i = (i + 1) % size;
	by_id[i] = NULL;
	for (i = (i + 1) % size; by_id[i]; i = (i + 1) % size) {
		struct node *moved = by_id[i];

		by_id[i] = NULL;
		id_put(moved);
	}
}

/* Takes the O_PATH descriptor. fresh: it was just made, so no old node can have this inode. */
static struct node *node_get(int fd_consume, const struct stat *st, bool fresh)
{
	struct node **head = &by_inode[st->st_ino % BUCKETS], *n;

	for (n = *head; n; n = n->next)
		if (n->ino == st->st_ino && n->dev == st->st_dev) {
			close(fd_consume);
			n->lookups++;
			return n;
		}
	n = calloc(1, sizeof(*n));
	if (!n)
		abort();
	*n = (struct node){ .id = next_id++,
		            .dev = st->st_dev,
		            .ino = st->st_ino,
		            .path_fd = fd_consume,
		            .file_fd = -1,
		            .lookups = 1,
		            .next = *head };
	*head = n;
	id_put(n);
	if (!fresh)
		note((struct record){ .op = OP_SEEN, .node = n->id, .a = st->st_ino }, "", 0, "",
		     0);
	return n;
}

static void node_forget(uint64_t id, uint64_t times)
{
	struct node *n = node_of(id), **at;
	struct stat st;

	if (!n || n == &root || (n->lookups -= times) > 0)
		return;
	if (fstat(n->path_fd, &st) == 0 && st.st_nlink > 0)
		return;
	for (at = &by_inode[n->ino % BUCKETS]; *at != n;)
		at = &(*at)->next;
	*at = n->next;
	id_drop(n);
	close(n->path_fd);
	if (n->file_fd >= 0)
		close(n->file_fd);
	free(n);
}

static const char *proc_path(const struct node *n, char buf[64])
{
	snprintf(buf, 64, "/proc/self/fd/%d", n->path_fd);
	return buf;
}

static int file_of(struct node *n)
{
	char buf[64];

	if (n->file_fd < 0)
		n->file_fd = open(proc_path(n, buf), O_RDWR | O_CLOEXEC);
	return n->file_fd;
}

/* ---- rules ---- */

static bool below(const struct node *n, const char *name, const char *path)
{
	char buf[64], full[4096 + 300];
	ssize_t k = readlink(proc_path(n, buf), full, 4096);
	size_t skip = strlen(top);

	if (k < 0)
		return false;
	full[k] = '\0';
	if (name && *name)
		snprintf(full + k, sizeof(full) - (size_t)k, "/%s", name);
	return !strncmp(full, top, skip) && strstr(full + skip, path) != NULL;
}

/* 0, or what is to happen. Called with the lock; a wait gives it up. */
static const struct rule *met(enum op op, const struct node *n, const char *name)
{
	const struct rule *found = NULL;

	for (size_t i = 0; i < n_rules; i++) {
		struct rule *r = &rules[i];

		if (!strchr(r->ops, (int)op) || !below(n, name, r->path))
			continue;
		r->calls++;
		if (r->calls >= r->nth && r->calls < r->nth + r->count) {
			r->met++;
			found = r;
		}
	}
	if (found && !strcmp(found->kind, "slow")) {
		long ms = found->value;

		pthread_mutex_unlock(&lock);
		poll(NULL, 0, (int)ms);
		pthread_mutex_lock(&lock);
		return NULL;
	}
	return found;
}

static int refused(enum op op, const struct node *n, const char *name)
{
	const struct rule *r = met(op, n, name);

	return r && !strcmp(r->kind, "fail") ? (int)-r->value : 0;
}

/* ---- answers ---- */

static void answer(const struct fuse_in_header *h, int error, const void *p, size_t n)
{
	struct fuse_out_header o = { .unique = h->unique, .error = error, .len = sizeof(o) };
	struct iovec v[] = { { &o, sizeof(o) }, { (void *)p, error ? 0 : n } };

	o.len += (uint32_t)v[1].iov_len;
	if (writev(fuse_fd, v, 2) < 0 && errno != ENOENT && errno != ENODEV)
		perror("recfs: answer");
}

static void fill_attr(const struct stat *st, struct fuse_attr *a)
{
	*a = (struct fuse_attr){ .ino = st->st_ino,
		                 .size = (uint64_t)st->st_size,
		                 .blocks = (uint64_t)st->st_blocks,
		                 .atime = (uint64_t)st->st_atim.tv_sec,
		                 .mtime = (uint64_t)st->st_mtim.tv_sec,
		                 .ctime = (uint64_t)st->st_ctim.tv_sec,
		                 .atimensec = (uint32_t)st->st_atim.tv_nsec,
		                 .mtimensec = (uint32_t)st->st_mtim.tv_nsec,
		                 .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
		                 .mode = st->st_mode,
		                 .nlink = (uint32_t)st->st_nlink,
		                 .uid = st->st_uid,
		                 .gid = st->st_gid,
		                 .rdev = (uint32_t)st->st_rdev,
		                 .blksize = (uint32_t)st->st_blksize };
}

static int entry_of(struct node *dir, const char *name, bool fresh, struct fuse_entry_out *ret,
                    struct node **ret_node)
{
	int fd = openat(dir->path_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	struct node *n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	n = node_get(fd, &st, fresh);
	*ret = (struct fuse_entry_out){ .nodeid = n->id,
		                        .entry_valid = VALID_S,
		                        .attr_valid = VALID_S };
	fill_attr(&st, &ret->attr);
	*ret_node = n;
	return 0;
}

static void answer_attr(const struct fuse_in_header *h, const struct node *n)
{
	struct fuse_attr_out o = { .attr_valid = VALID_S };
	struct stat st;

	if (fstatat(n->path_fd, "", &st, AT_EMPTY_PATH) < 0) {
		answer(h, -errno, NULL, 0);
		return;
	}
	fill_attr(&st, &o.attr);
	answer(h, 0, &o, sizeof(o));
}

/* ---- changes ---- */

/* Makes a file of any kind and answers with it; opened as well for FUSE_CREATE. */
static void do_make(const struct fuse_in_header *h, struct node *dir, const char *name, mode_t mode,
                    dev_t rdev, const char *target, bool opened)
{
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out = { 0 };
	struct node *n;
	int r = refused(OP_CREATE, dir, name), fd = -1;

	if (r == 0 && target)
		r = symlinkat(target, dir->path_fd, name);
	else if (r == 0 && S_ISDIR(mode))
		r = mkdirat(dir->path_fd, name, mode & 07777);
	else if (r == 0 && S_ISREG(mode))
		r = fd = openat(dir->path_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		                mode & 07777);
	else if (r == 0)
		r = mknodat(dir->path_fd, name, mode, rdev);
	if (fd >= 0)
		close(fd);
	if (r == -1)
		r = -errno;
	if (r >= 0 && fchownat(dir->path_fd, name, h->uid, h->gid, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r >= 0)
		r = entry_of(dir, name, /* fresh= */ true, &out.e, &n);
	if (r < 0) {
		answer(h, r, NULL, 0);
		return;
	}
	note((struct record){ .op = OP_CREATE,
	                      .uid = h->uid,
	                      .gid = h->gid,
	                      .mode = target ? S_IFLNK | 0777 : mode,
	                      .node = dir->id,
	                      .a = n->id,
	                      .b = n->ino },
	     name, strlen(name), target ? target : "", target ? strlen(target) : 0);
	out.o.open_flags = FOPEN_KEEP_CACHE;
	answer(h, 0, &out, opened ? sizeof(out) : sizeof(out.e));
}

static void do_tmpfile(const struct fuse_in_header *h, struct node *dir, mode_t mode)
{
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out = { 0 };
	char buf[64];
	int r = refused(OP_CREATE, dir, ""), fd, path_fd;
	struct stat st;
	struct node *n;

	fd = r < 0 ? -1 : open(proc_path(dir, buf), O_TMPFILE | O_RDWR | O_CLOEXEC, mode & 07777);
	if (fd < 0 || fchown(fd, h->uid, h->gid) < 0 || fstat(fd, &st) < 0) {
		answer(h, r < 0 ? r : -errno, NULL, 0);
		if (fd >= 0)
			close(fd);
		return;
	}
	snprintf(buf, sizeof(buf), "/proc/self/fd/%d", fd);
	path_fd = open(buf, O_PATH | O_CLOEXEC);
	n = node_get(path_fd, &st, /* fresh= */ true);
	n->file_fd = fd;
	note((struct record){ .op = OP_CREATE,
	                      .uid = h->uid,
	                      .gid = h->gid,
	                      .mode = S_IFREG | mode,
	                      .node = dir->id,
	                      .a = n->id,
	                      .b = n->ino },
	     "", 0, "", 0);
	out.e = (struct fuse_entry_out){ .nodeid = n->id,
		                         .entry_valid = VALID_S,
		                         .attr_valid = VALID_S };
	fill_attr(&st, &out.e.attr);
	out.o.open_flags = FOPEN_KEEP_CACHE;
	answer(h, 0, &out, sizeof(out));
}

static int do_setattr(struct node *n, const struct fuse_setattr_in *in)
{
	char buf[64];
	const char *path = proc_path(n, buf);
	struct stat st;
	int r;

	if (in->valid & FATTR_SIZE) {
		r = refused(OP_TRUNCATE, n, NULL);
		if (r < 0)
			return r;
		if (file_of(n) < 0 || ftruncate(n->file_fd, (off_t)in->size) < 0)
			return -errno;
		note((struct record){ .op = OP_TRUNCATE, .node = n->id, .a = in->size }, "", 0, "",
		     0);
	}
	if (in->valid & (FATTR_UID | FATTR_GID) &&
	    fchownat(n->path_fd, "", in->valid & FATTR_UID ? in->uid : (uid_t)-1,
	             in->valid & FATTR_GID ? in->gid : (gid_t)-1,
	             AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (in->valid & FATTR_MODE && chmod(path, in->mode & 07777) < 0)
		return -errno;
	if (in->valid & (FATTR_ATIME | FATTR_MTIME)) {
		struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_OMIT } };

		if (in->valid & FATTR_ATIME)
			t[0] = (struct timespec){ (time_t)in->atime, in->valid & FATTR_ATIME_NOW
				                                             ? UTIME_NOW
				                                             : in->atimensec };
		if (in->valid & FATTR_MTIME)
			t[1] = (struct timespec){ (time_t)in->mtime, in->valid & FATTR_MTIME_NOW
				                                             ? UTIME_NOW
				                                             : in->mtimensec };
		if (utimensat(AT_FDCWD, path, t, 0) < 0)
			return -errno;
	}
	if (in->valid & (FATTR_UID | FATTR_GID | FATTR_MODE) &&
	    fstatat(n->path_fd, "", &st, AT_EMPTY_PATH) == 0)
		note((struct record){ .op = OP_ATTR,
		                      .uid = st.st_uid,
		                      .gid = st.st_gid,
		                      .mode = st.st_mode,
		                      .node = n->id },
		     "", 0, "", 0);
	return 0;
}

static int do_unlink(struct node *dir, const char *name, int flags)
{
	int r = refused(OP_UNLINK, dir, name);

	if (r == 0 && unlinkat(dir->path_fd, name, flags) < 0)
		r = -errno;
	if (r == 0)
		note((struct record){ .op = OP_UNLINK, .node = dir->id }, name, strlen(name), "",
		     0);
	return r;
}

static int do_rename(struct node *dir, const char *name, struct node *to, const char *to_name,
                     uint32_t flags)
{
	int r = refused(OP_RENAME, to, to_name);

	if (r == 0 && renameat2(dir->path_fd, name, to->path_fd, to_name, flags) < 0)
		r = -errno;
	if (r == 0)
		note((struct record){ .op = OP_RENAME, .node = dir->id, .a = to->id, .b = flags },
		     name, strlen(name), to_name, strlen(to_name));
	return r;
}

static void do_link(const struct fuse_in_header *h, struct node *n, struct node *dir,
                    const char *name)
{
	struct fuse_entry_out e;
	char buf[64];
	int r = refused(OP_LINK, dir, name);

	if (r == 0 &&
	    linkat(AT_FDCWD, proc_path(n, buf), dir->path_fd, name, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r == 0)
		r = entry_of(dir, name, /* fresh= */ true, &e, &n);
	if (r == 0)
		note((struct record){ .op = OP_LINK, .node = dir->id, .a = n->id }, name,
		     strlen(name), "", 0);
	answer(h, r, &e, sizeof(e));
}

static void do_write(const struct fuse_in_header *h, struct node *n, const struct fuse_write_in *in,
                     const void *data)
{
	const struct rule *r = met(OP_WRITE, n, NULL);
	struct fuse_write_out o = { 0 };
	size_t size = in->size;
	ssize_t k;

	if (r && !strcmp(r->kind, "fail")) {
		answer(h, (int)-r->value, NULL, 0);
		return;
	}
	if (r)
		size = (size + 1) / 2;
	k = file_of(n) < 0 ? -1 : pwrite(n->file_fd, data, size, (off_t)in->offset);
	if (k < 0) {
		answer(h, -errno, NULL, 0);
		return;
	}
	note((struct record){ .op = OP_WRITE, .node = n->id, .a = in->offset }, "", 0, data,
	     (size_t)k);
	o.size = (uint32_t)k;
	answer(h, 0, &o, sizeof(o));
}

static int do_sync(struct node *n, bool data_only)
{
	int r = refused(OP_SYNC, n, NULL);

	if (r == 0)
		note((struct record){ .op = OP_SYNC, .node = n->id, .b = data_only }, "", 0, "", 0);
	return r;
}

static int do_allocate(struct node *n, const struct fuse_fallocate_in *in)
{
	int r = refused(OP_ALLOCATE, n, NULL);

	if (r == 0 && (file_of(n) < 0 || fallocate(n->file_fd, (int)in->mode, (off_t)in->offset,
	                                           (off_t)in->length) < 0))
		r = -errno;
	if (r == 0)
		note((struct record){ .op = OP_ALLOCATE,
		                      .mode = in->mode,
		                      .node = n->id,
		                      .a = in->offset,
		                      .b = in->length },
		     "", 0, "", 0);
	return r;
}

/* ---- reading ---- */

static void do_read(const struct fuse_in_header *h, struct node *n, const struct fuse_read_in *in,
                    char *space)
{
	int r = refused(OP_READ, n, NULL);
	ssize_t k = r < 0 || file_of(n) < 0 ? -1 : 0;

	if (r < 0 || k < 0) {
		answer(h, r < 0 ? r : -errno, NULL, 0);
		return;
	}
	k = pread(n->file_fd, space, in->size, (off_t)in->offset);
	answer(h, k < 0 ? -errno : 0, space, k < 0 ? 0 : (size_t)k);
}

static void do_readdir(const struct fuse_in_header *h, const struct fuse_read_in *in, char *space)
{
	DIR *d = (DIR *)(uintptr_t)in->fh;
	struct dirent *e;
	size_t at = 0;

	seekdir(d, (long)in->offset);
	while ((e = readdir(d))) {
		size_t n = strlen(e->d_name), size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + n);
		struct fuse_dirent *out = (struct fuse_dirent *)(void *)(space + at);

		if (at + size > in->size)
			break;
		memset(out, 0, size);
		*out = (struct fuse_dirent){ .ino = e->d_ino,
			                     .off = (uint64_t)e->d_off,
			                     .namelen = (uint32_t)n,
			                     .type = e->d_type };
		memcpy(out->name, e->d_name, n);
		at += size;
	}
	answer(h, 0, space, at);
}

static void do_opendir(const struct fuse_in_header *h, struct node *n)
{
	struct fuse_open_out o = { 0 };
	char buf[64];
	DIR *d = opendir(proc_path(n, buf));

	o.fh = (uintptr_t)d;
	answer(h, d ? 0 : -errno, &o, sizeof(o));
}

static void do_statfs(const struct fuse_in_header *h)
{
	struct fuse_statfs_out o = { 0 };
	struct statvfs s;
	int r = fstatvfs(root.path_fd, &s);

	if (r == 0)
		o.st = (struct fuse_kstatfs){ .blocks = s.f_blocks,
			                      .bfree = s.f_bfree,
			                      .bavail = s.f_bavail,
			                      .files = s.f_files,
			                      .ffree = s.f_ffree,
			                      .bsize = (uint32_t)s.f_bsize,
			                      .namelen = 255,
			                      .frsize = (uint32_t)s.f_frsize };
	answer(h, r < 0 ? -errno : 0, &o, sizeof(o));
}

static void do_init(const struct fuse_in_header *h, const struct fuse_init_in *in)
{
	struct fuse_init_out o = { .major = FUSE_KERNEL_VERSION,
		                   .minor = FUSE_KERNEL_MINOR_VERSION,
		                   .max_readahead = in->max_readahead,
		                   .flags = in->flags &
		                            (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES |
		                             FUSE_PARALLEL_DIROPS | FUSE_ATOMIC_O_TRUNC),
		                   .max_background = 64,
		                   .congestion_threshold = 48,
		                   .max_write = WRITE_MAX,
		                   .time_gran = 1,
		                   .max_pages = WRITE_MAX / 4096 };

	o.flags &= ~(uint32_t)FUSE_ATOMIC_O_TRUNC; /* a truncation is one, in the log too */
	answer(h, 0, &o, sizeof(o));
}

/* Those that need no node, or whose node is gone; true if it was one. */
static bool without_node(const struct fuse_in_header *h, const char *in)
{
	switch (h->opcode) {
	case FUSE_INIT:
		do_init(h, (const void *)in);
		return true;
	case FUSE_FORGET:
		node_forget(h->nodeid, ((const struct fuse_forget_in *)(const void *)in)->nlookup);
		return true;
	case FUSE_BATCH_FORGET: {
		const struct fuse_batch_forget_in *b = (const void *)in;
		const struct fuse_forget_one *f = (const void *)(b + 1);

		for (uint32_t i = 0; i < b->count; i++)
			node_forget(f[i].nodeid, f[i].nlookup);
		return true;
	}
	case FUSE_INTERRUPT: /* nothing takes long, except on purpose */
		return true;
	case FUSE_STATFS:
		do_statfs(h);
		return true;
	case FUSE_RELEASEDIR:
		closedir((DIR *)(uintptr_t)((const struct fuse_release_in *)(const void *)in)->fh);
		answer(h, 0, NULL, 0);
		return true;
	case FUSE_DESTROY:
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		answer(h, 0, NULL, 0);
		return true;
	default:
		return false;
	}
}

static void names(const struct fuse_in_header *h, struct node *n, const char *in)
{
	const struct fuse_rename2_in *r2 = (const void *)in;
	const struct fuse_rename_in *r1 = (const void *)in;
	const char *name;
	struct fuse_entry_out e;
	struct node *found, *to;
	int r;

	switch (h->opcode) {
	case FUSE_LOOKUP:
		r = entry_of(n, in, /* fresh= */ false, &e, &found);
		answer(h, r, &e, sizeof(e));
		break;
	case FUSE_SYMLINK:
		do_make(h, n, in, 0, 0, in + strlen(in) + 1, false);
		break;
	case FUSE_MKNOD: {
		const struct fuse_mknod_in *m = (const void *)in;

		do_make(h, n, (const char *)(m + 1), m->mode & ~m->umask, m->rdev, NULL, false);
		break;
	}
	case FUSE_MKDIR: {
		const struct fuse_mkdir_in *m = (const void *)in;

		do_make(h, n, (const char *)(m + 1), S_IFDIR | (m->mode & ~m->umask), 0, NULL,
		        false);
		break;
	}
	case FUSE_CREATE: {
		const struct fuse_create_in *m = (const void *)in;

		do_make(h, n, (const char *)(m + 1), S_IFREG | (m->mode & ~m->umask & 07777), 0,
		        NULL, true);
		break;
	}
	case FUSE_TMPFILE: {
		const struct fuse_create_in *m = (const void *)in;

		do_tmpfile(h, n, m->mode & ~m->umask & 07777);
		break;
	}
	case FUSE_UNLINK:
		answer(h, do_unlink(n, in, 0), NULL, 0);
		break;
	case FUSE_RMDIR:
		answer(h, do_unlink(n, in, AT_REMOVEDIR), NULL, 0);
		break;
	case FUSE_LINK: {
		const struct fuse_link_in *l = (const void *)in;

		do_link(h, node_of(l->oldnodeid), n, (const char *)(l + 1));
		break;
	}
	default: /* FUSE_RENAME, FUSE_RENAME2 */
		name = h->opcode == FUSE_RENAME ? (const char *)(r1 + 1) : (const char *)(r2 + 1);
		to = node_of(r1->newdir);
		r = do_rename(n, name, to, name + strlen(name) + 1,
		              h->opcode == FUSE_RENAME ? 0 : r2->flags);
		answer(h, r, NULL, 0);
	}
}

static void handle(const struct fuse_in_header *h, const char *in, char *space)
{
	struct node *n;
	ssize_t k;
	int r;

	if (without_node(h, in))
		return;
	n = node_of(h->nodeid);
	if (!n) {
		answer(h, -ESTALE, NULL, 0);
		return;
	}
	switch (h->opcode) {
	case FUSE_LOOKUP:
	case FUSE_SYMLINK:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_CREATE:
	case FUSE_TMPFILE:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_LINK:
	case FUSE_RENAME:
	case FUSE_RENAME2:
		names(h, n, in);
		break;
	case FUSE_GETATTR:
		answer_attr(h, n);
		break;
	case FUSE_SETATTR:
		r = do_setattr(n, (const void *)in);
		if (r < 0)
			answer(h, r, NULL, 0);
		else
			answer_attr(h, n);
		break;
	case FUSE_READLINK:
		k = readlinkat(n->path_fd, "", space, 4096);
		answer(h, k < 0 ? -errno : 0, space, k < 0 ? 0 : (size_t)k);
		break;
	case FUSE_OPEN:
		answer(h, file_of(n) < 0 ? -errno : 0,
		       &(struct fuse_open_out){ .open_flags = FOPEN_KEEP_CACHE },
		       sizeof(struct fuse_open_out));
		break;
	case FUSE_READ:
		do_read(h, n, (const void *)in, space);
		break;
	case FUSE_WRITE:
		do_write(h, n, (const void *)in, in + sizeof(struct fuse_write_in));
		break;
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
		answer(h,
		       do_sync(n,
		               ((const struct fuse_fsync_in *)(const void *)in)->fsync_flags & 1),
		       NULL, 0);
		break;
	case FUSE_OPENDIR:
		do_opendir(h, n);
		break;
	case FUSE_READDIR:
		do_readdir(h, (const void *)in, space);
		break;
	case FUSE_FALLOCATE:
		answer(h, do_allocate(n, (const void *)in), NULL, 0);
		break;
	case FUSE_LSEEK: {
		const struct fuse_lseek_in *l = (const void *)in;
		struct fuse_lseek_out o = { 0 };
		off_t at =
		        file_of(n) < 0 ? -1 : lseek(n->file_fd, (off_t)l->offset, (int)l->whence);

		o.offset = (uint64_t)at;
		answer(h, at < 0 ? -errno : 0, &o, sizeof(o));
		break;
	}
	default:
		answer(h, -ENOSYS, NULL, 0);
	}
}

static void *serve(void *arg)
{
	const size_t size = WRITE_MAX + 65536;
	char *buf = aligned_alloc(4096, size), *space = aligned_alloc(4096, size);

	(void)arg;
	while (buf && space) {
		ssize_t k = read(fuse_fd, buf, size);

		if (k < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
			continue;
		if (k < (ssize_t)sizeof(struct fuse_in_header))
			break; /* unmounted */
		pthread_mutex_lock(&lock);
		handle((const void *)buf, buf + sizeof(struct fuse_in_header), space);
		pthread_mutex_unlock(&lock);
	}
	free(buf);
	free(space);
	return NULL;
}

/* ---- the socket ---- */

static void command(char *line, char *ret, size_t size)
{
	struct rule r = { 0 };

	snprintf(ret, size, "ok\n");
	if (!strncmp(line, "mark ", 5)) {
		note((struct record){ .op = OP_MARK }, line + 5, strlen(line + 5), "", 0);
	} else if (!strcmp(line, "clear")) {
		size_t at = 0;

		for (size_t i = 0; i < n_rules; i++)
			at += (size_t)snprintf(ret + at, size - at, "%ld/%ld ", rules[i].met,
			                       rules[i].calls);
		snprintf(ret + at, size - at, "\n");
		n_rules = 0;
	} else if (n_rules < RULES_MAX &&
	           sscanf(line, "%7s %15s %255s %ld %ld %ld", r.kind, r.ops, r.path, &r.nth,
	                  &r.count, &r.value) == 6 &&
	           (!strcmp(r.kind, "fail") || !strcmp(r.kind, "short") ||
	            !strcmp(r.kind, "slow") || !strcmp(r.kind, "calls"))) {
		rules[n_rules++] = r;
	} else {
		snprintf(ret, size, "bad command\n");
	}
}

static void *listen_to(void *arg)
{
	int s = *(int *)arg;

	for (;;) {
		int c = accept4(s, NULL, NULL, SOCK_CLOEXEC);
		char line[1024], ret[1024];
		FILE *f = c < 0 ? NULL : fdopen(c, "r+");

		while (f && fgets(line, sizeof(line), f)) {
			line[strcspn(line, "\n")] = '\0';
			pthread_mutex_lock(&lock);
			command(line, ret, sizeof(ret));
			pthread_mutex_unlock(&lock);
			fputs(ret, f);
			fflush(f);
		}
		if (f)
			fclose(f);
	}
	return NULL;
}

static int fail(const char *what)
{
	fprintf(stderr, "recfs: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 20, 1 << 20 };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	pthread_t threads[THREADS], listener;
	char options[128], buf[64];
	ssize_t k;
	int s;

	if (argc < 3) {
		fputs("usage: recfs DIRECTORY SOCKET [LOG]\n", stderr);
		return 2;
	}
	umask(0);
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	root.path_fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root.path_fd < 0)
		return fail(argv[1]);
	k = readlink(proc_path(&root, buf), top, sizeof(top) - 1);
	if (k < 0)
		return fail("readlink");
	if (argc > 3 && !(log_out = fopen(argv[3], "wb")))
		return fail(argv[3]);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", argv[2]);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(s, 4) < 0)
		return fail(argv[2]);
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse_fd < 0)
		return fail("/dev/fuse");
	snprintf(options, sizeof(options),
	         "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
	         fuse_fd);
	if (mount("recfs", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return fail("mount");
	pthread_create(&listener, NULL, listen_to, &s);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, serve, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_lock(&lock);
	if (log_out)
		fclose(log_out);
	return 0;
}
