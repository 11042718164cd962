/* SPDX-License-Identifier: Apache-2.0 */
/* recfs_change.c - answers to the kernel, and every request of recfs.c that changes something:
 * done, then recorded */
#include "recfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- answers ---- */

void answer(const struct fuse_in_header *h, int error, const void *p, size_t n)
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

int entry_of(struct node *dir, const char *name, bool fresh, struct fuse_entry_out *ret,
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

void answer_attr(const struct fuse_in_header *h, const struct node *n)
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
void do_make(const struct fuse_in_header *h, struct node *dir, const char *name, mode_t mode,
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

void do_tmpfile(const struct fuse_in_header *h, struct node *dir, mode_t mode)
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

int do_setattr(struct node *n, const struct fuse_setattr_in *in)
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

int do_unlink(struct node *dir, const char *name, int flags)
{
	int r = refused(OP_UNLINK, dir, name);

	if (r == 0 && unlinkat(dir->path_fd, name, flags) < 0)
		r = -errno;
	if (r == 0)
		note((struct record){ .op = OP_UNLINK, .node = dir->id }, name, strlen(name), "",
		     0);
	return r;
}

int do_rename(struct node *dir, const char *name, struct node *to, const char *to_name,
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

void do_link(const struct fuse_in_header *h, struct node *n, struct node *dir, const char *name)
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

void do_write(const struct fuse_in_header *h, struct node *n, const struct fuse_write_in *in,
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

int do_sync(struct node *n, bool data_only)
{
	int r = refused(OP_SYNC, n, NULL);

	if (r == 0)
		note((struct record){ .op = OP_SYNC, .node = n->id, .b = data_only }, "", 0, "", 0);
	return r;
}

int do_allocate(struct node *n, const struct fuse_fallocate_in *in)
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
