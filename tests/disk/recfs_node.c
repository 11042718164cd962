/* SPDX-License-Identifier: Apache-2.0 */
/* recfs_node.c - what recfs.c knows: the log, its nodes by inode and by id, the rules by which it
 * fails */
#include "recfs.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 65536

struct mutex lock = MUTEX_INIT("recfs");
struct node root = { .id = FUSE_ROOT_ID, .file_fd = -1 };
int fuse_fd = -1;
FILE *log_out;
char top[4096];
static struct node *by_inode[BUCKETS], *by_id[BUCKETS * 16];
static uint64_t next_id = 2;
static struct rule rules[RULES_MAX];
static size_t n_rules;

void note(struct record r, const char *name, size_t name_len, const void *data, size_t n)
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

struct node *node_of(uint64_t id)
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
struct node *node_get(int fd_consume, const struct stat *st, bool fresh)
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

void node_forget(uint64_t id, uint64_t times)
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

const char *proc_path(const struct node *n, char buf[64])
{
	snprintf(buf, 64, "/proc/self/fd/%d", n->path_fd);
	return buf;
}

int file_of(struct node *n)
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
const struct rule *met(enum op op, const struct node *n, const char *name)
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

		mutex_unlock(&lock);
		poll(NULL, 0, (int)ms);
		mutex_lock(&lock);
		return NULL;
	}
	return found;
}

int refused(enum op op, const struct node *n, const char *name)
{
	const struct rule *r = met(op, n, name);

	return r && !strcmp(r->kind, "fail") ? (int)-r->value : 0;
}

void command(char *line, char *ret, size_t size)
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
