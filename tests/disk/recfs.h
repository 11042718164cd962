/* SPDX-License-Identifier: Apache-2.0 */
/* recfs.h - between the parts of recfs.c, which says what it is; all with the lock held */
#ifndef PANDO_TESTS_RECFS_H
#define PANDO_TESTS_RECFS_H

#include <linux/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/lock.h"

#define WRITE_MAX (1u << 20)
#define RULES_MAX 64
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

extern struct mutex lock;
extern struct node root;
extern int fuse_fd;
extern FILE *log_out;
extern char top[4096]; /* of what is below, as the kernel names it */

/* recfs_node.c: the log, nodes, rules */
void note(struct record r, const char *name, size_t name_len, const void *data, size_t n);
struct node *node_of(uint64_t id);
struct node *node_get(int fd_consume, const struct stat *st, bool fresh);
void node_forget(uint64_t id, uint64_t times);
const char *proc_path(const struct node *n, char buf[64]);
int file_of(struct node *n);
const struct rule *met(enum op op, const struct node *n, const char *name);
int refused(enum op op, const struct node *n, const char *name);
void command(char *line, char *ret, size_t size);

/* recfs_change.c: answers, and what changes something */
void answer(const struct fuse_in_header *h, int error, const void *p, size_t n);
int entry_of(struct node *dir, const char *name, bool fresh, struct fuse_entry_out *ret,
             struct node **ret_node);
void answer_attr(const struct fuse_in_header *h, const struct node *n);
void do_make(const struct fuse_in_header *h, struct node *dir, const char *name, mode_t mode,
             dev_t rdev, const char *target, bool opened);
void do_tmpfile(const struct fuse_in_header *h, struct node *dir, mode_t mode);
int do_setattr(struct node *n, const struct fuse_setattr_in *in);
int do_unlink(struct node *dir, const char *name, int flags);
int do_rename(struct node *dir, const char *name, struct node *to, const char *to_name,
              uint32_t flags);
void do_link(const struct fuse_in_header *h, struct node *n, struct node *dir, const char *name);
void do_write(const struct fuse_in_header *h, struct node *n, const struct fuse_write_in *in,
              const void *data);
int do_sync(struct node *n, bool data_only);
int do_allocate(struct node *n, const struct fuse_fallocate_in *in);

#endif
