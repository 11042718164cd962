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
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "recfs.h"

#define THREADS 8

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
		mutex_lock(&lock);
		handle((const void *)buf, buf + sizeof(struct fuse_in_header), space);
		mutex_unlock(&lock);
	}
	free(buf);
	free(space);
	return NULL;
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
			mutex_lock(&lock);
			command(line, ret, sizeof(ret));
			mutex_unlock(&lock);
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
	mutex_lock(&lock);
	if (log_out)
		fclose(log_out);
	return 0;
}