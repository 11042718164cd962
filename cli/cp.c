/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.c - pando cp: files and directories into a VM and out of it
 *
 * As cp -r: into an existing directory, files keep their names; otherwise the target is the new
 * name. "VM:/path" is a path in a VM; a local path with a colon needs a slash before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"
#include "cli/transfer.h"

/* The path after "VM:", or NULL: a local path. */
static const char *remote_path(const char *s)
{
	size_t n = strcspn(s, ":/");

	return n && s[n] == ':' ? s + n + 1 : NULL;
}

/* "" is not a directory at all. */
static char *join(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *s;

	if (asprintf(&s, "%s%s%s", dir, !n || dir[n - 1] == '/' ? "" : "/", name) < 0)
		cli_oom();
	return s;
}

/* The last part of a path; "/" and "." have none. */
static char *last_part(const char *path)
{
	size_t end = strlen(path), start;
	char *s;

	while (end && path[end - 1] == '/')
		end--;
	for (start = end; start && path[start - 1] != '/';)
		start--;
	if (start == end || (end - start <= 2 && strspn(path + start, ".") >= end - start))
		start = end;
	s = strndup(path + start, end - start);
	if (!s)
		cli_oom();
	return s;
}

static bool ends_in_slash(const char *s)
{
	return *s && s[strlen(s) - 1] == '/';
}

static int put_one(const struct transfer *t, const char *local, const char *to, bool into)
{
	autofree char *name = last_part(local);
	autofree char *path = join(into ? to : "", into ? name : to);
	autofd int fd = -1;
	struct stat st;

	if (strcmp(local, "-") == 0) {
		if (into)
			return cli_fail(CLI_USAGE, "stdin needs the name of a file in the VM");
		return transfer_put(t, STDIN_FILENO, "stdin", -1, path);
	}
	fd = open(local, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cli_fail(CLI_REFUSED, "%s: %s", local, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return transfer_put_dir(t, local, path);
	return transfer_put(t, fd, local, (int)(st.st_mode & 0777), path);
}

static int get_one(const struct transfer *t, const char *path, const char *to, bool into)
{
	autofree char *name = last_part(path);
	autofree char *local = join(into ? to : "", into ? name : to);

	switch (transfer_look(t, path)) {
	case REMOTE_DIR:
		if (strcmp(to, "-") == 0)
			return cli_fail(CLI_USAGE,
			                "'%s' is a directory and cannot be written to stdout",
			                path);
		return transfer_get_dir(t, path, local);
	case REMOTE_FILE:
		return transfer_get(t, path, local);
	case REMOTE_NONE:
		return cli_fail(CLI_REFUSED, "the VM has no file '%s'", path);
	default:
		return CLI_REFUSED;
	}
}

/* Into the VM: all sources are local. */
static int copy_in(struct transfer *t, const struct cli_args *a, const char *to)
{
	size_t n = a->n_rest - 1;
	bool into = ends_in_slash(to) || !*to || n > 1;
	int status = CLI_OK;

	if (!*to)
		to = "/";
	if (!into) {
		enum remote_kind k = transfer_look(t, to);

		if (k == REMOTE_ERROR)
			return CLI_REFUSED;
		into = k == REMOTE_DIR;
	}
	for (size_t i = 0; i < n; i++) {
		int r = remote_path(a->rest[i])
		                ? cli_fail(CLI_USAGE,
		                           "cannot copy from VM to VM: copy to this machine first")
		                : put_one(t, a->rest[i], to, into);

		status = status == CLI_OK ? r : status;
	}
	return status;
}

static int copy_out(struct transfer *t, const struct cli_args *a, const char *to)
{
	size_t n = a->n_rest - 1;
	bool into = ends_in_slash(to) || n > 1;
	int status = CLI_OK;
	struct stat st;

	if (strcmp(to, "-") != 0 && stat(to, &st) == 0)
		into = S_ISDIR(st.st_mode);
	for (size_t i = 0; i < n; i++) {
		const char *path = remote_path(a->rest[i]);
		size_t prefix = strcspn(a->rest[i], ":");
		int r;

		if (!path || prefix != strcspn(a->rest[0], ":") ||
		    strncmp(a->rest[i], a->rest[0], prefix) != 0)
			return cli_fail(CLI_USAGE, "all sources must be in the same VM");
		r = get_one(t, *path ? path : "/", to, into);
		status = status == CLI_OK ? r : status;
	}
	return status;
}

static int cp(struct cli *c, const struct cli_args *a)
{
	const char *to, *side, *inside;
	autofree char *name = NULL, *id = NULL;
	struct transfer t = { .c = c, .user = a->opt[0] };

	if (a->n_rest < 2)
		return cli_fail(CLI_USAGE, "source and target are missing: pando cp FROM... TO");
	to = a->rest[a->n_rest - 1];
	inside = remote_path(to);
	side = inside ? to : a->rest[0];
	if (!remote_path(side))
		return cli_fail(CLI_USAGE,
		                "neither path is in a VM: write one of them as VM:/path");
	name = strndup(side, strcspn(side, ":"));
	if (!name)
		cli_oom();
	id = cli_vm_id(c, name);
	if (!id)
		return CLI_REFUSED;
	t.vm = id;
	t.progress = isatty(STDERR_FILENO) && !a->opt[1] && !cli_json(c);
	return inside ? copy_in(&t, a, inside) : copy_out(&t, a, to);
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "FROM...", "copy files and directories into a VM or out of it: FROM... TO", cp,
	  { { "user", "USER", "as this Linux user of the VM (root)", 'u' },
	    { "quiet", NULL, "no progress", 'q' } },
	  .about = "The last argument is the target. VM:/path is a path in a VM, relative ones start at "
	           "/; '-' is stdin or stdout. Directories are copied recursively. If the target is a "
	           "directory or ends with a slash, or there are several sources, files keep their "
	           "names inside it; otherwise the target is the new name. Files keep their mode and "
	           "belong to the user; each file is replaced atomically.",
	  .examples = "pando cp report.csv web:/tmp/ # a file into a VM\n"
	              "pando cp web:/var/log logs # a directory out of it\n"
	              "pg_dump db | pando cp - web:/tmp/dump.sql # stdin" },
};
/* clang-format on */
const struct cli_noun cli_cp = { "cp", "copy files into a VM and out of it", verbs,
	                         ARRAY_SIZE(verbs) };
