/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.c - pando restore: a data directory from a backup
 *
 * Nothing is written before all of the backup was compared with its manifest. It is copied to
 * DATADIR.part and gets its name when everything is on the disk: a data directory is there whole or
 * not at all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cli.h"
#include "cli/manifest.h"

enum { OPT_TO, OPT_CHECK, OPT_KEY, OPT_USER };

static bool is_dir(const char *path)
{
	return path[strlen(path) - 1] == '/';
}

/* Is it there, with its size? Quick, so that it is asked of all files first. */
static int check_size(const char *dir, const json_t *f, struct err *err)
{
	const char *path = cli_str(f, "path");
	char full[PATH_MAX];
	struct stat st;

	snprintf(full, sizeof(full), "%.2000s/data/%s", dir, path);
	if (lstat(full, &st) < 0)
		return err_set(err, -ENOENT,
		               "'%s' is missing: the backup is damaged, use another one", full);
	if (!is_dir(path) && st.st_size != json_integer_value(json_object_get(f, "size")))
		return err_set(err, -EBADMSG,
		               "'%s' has %lld bytes, not %lld: the backup is damaged, use another "
		               "one",
		               full, (long long)st.st_size,
		               (long long)json_integer_value(json_object_get(f, "size")));
	return 0;
}

static int check_hash(const char *dir, const json_t *f, struct err *err)
{
	const char *path = cli_str(f, "path");
	char full[PATH_MAX], hash[HASH_SIZE];
	int r;

	if (is_dir(path))
		return 0;
	snprintf(full, sizeof(full), "%.2000s/data/%s", dir, path);
	if ((r = manifest_hash(full, hash, err)) < 0)
		return r;
	if (strcmp(hash, cli_str(f, "sha256")) != 0)
		return err_set(err, -EBADMSG,
		               "'%s' is not what was backed up (its checksum differs): the backup "
		               "is damaged, use another one",
		               full);
	return 0;
}

static int for_each(const json_t *files, const char *verb,
                    int (*fn)(const json_t *f, void *ctx, struct err *err), void *ctx,
                    struct err *err)
{
	struct progress p = { .verb = verb };
	int r = 0;

	for (size_t i = 0; i < json_array_size(files); i++)
		p.all += (uint64_t)json_integer_value(
		        json_object_get(json_array_get(files, i), "size"));
	for (size_t i = 0; r >= 0 && i < json_array_size(files); i++) {
		const json_t *f = json_array_get(files, i);

		r = fn(f, ctx, err);
		progress_add(&p, (uint64_t)json_integer_value(json_object_get(f, "size")));
	}
	progress_end(&p);
	return r;
}

struct job {
	const char *from;
	char to[PATH_MAX];
	bool own; /* files are given to: */
	uid_t uid;
	gid_t gid;
};

static int check_one(const json_t *f, void *ctx, struct err *err)
{
	int r = backup_stopped(err);

	return r < 0 ? r : check_hash(((struct job *)ctx)->from, f, err);
}

static int give(const struct job *j, const char *path, mode_t mode, struct err *err)
{
	if (chmod(path, mode) < 0 || (j->own && chown(path, j->uid, j->gid) < 0))
		return err_sys(err, -errno, "set owner and mode of '%s'", path);
	return 0;
}

static int copy_one(const json_t *f, void *ctx, struct err *err)
{
	const char *path = cli_str(f, "path");
	char from[PATH_MAX], to[PATH_MAX];
	struct job *j = ctx;
	int r = backup_stopped(err);

	if (r < 0)
		return r;
	snprintf(from, sizeof(from), "%.2000s/data/%s", j->from, path);
	snprintf(to, sizeof(to), "%.2000s/%s", j->to, path);
	if (is_dir(path)) {
		if (mkdir(to, 0700) < 0)
			return err_sys(err, -errno, "create '%s'", to);
		return give(j, to, 0700, err);
	}
	if ((r = io_copy_file(from, to, err)) < 0)
		return r;
	return give(j, to, (mode_t)json_integer_value(json_object_get(f, "mode")) & 0777, err);
}

/* Missing or empty; the copy takes its place. */
static int check_target(const char *to, struct err *err)
{
	autodir DIR *d = opendir(to);
	struct dirent *e;

	if (!d)
		return errno == ENOENT ? 0 : err_sys(err, -errno, "open '%s'", to);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return err_set(err, -ENOTEMPTY,
			               "'%s' is not empty: restore to a new directory, or move "
			               "that one away",
			               to);
	return 0;
}

static int take_key(const struct job *j, const char *key, struct err *err)
{
	char to[PATH_MAX];
	int r;

	snprintf(to, sizeof(to), "%.4000s/secret.key", j->to);
	unlink(to);
	if ((r = io_copy_file(key, to, err)) < 0)
		return r;
	return give(j, to, 0600, err);
}

static int put(struct job *j, const char *target, const json_t *files, const char *key,
               struct err *err)
{
	autofd int fd = -1;
	int r;

	snprintf(j->to, sizeof(j->to), "%.4000s.part", target);
	if ((r = io_remove_tree(AT_FDCWD, j->to, err)) < 0 ||
	    (r = io_mkdirs(j->to, 0700, err)) < 0 || (r = give(j, j->to, 0700, err)) < 0 ||
	    (r = for_each(files, "copied", copy_one, j, err)) < 0 ||
	    (key && (r = take_key(j, key, err)) < 0))
		return r;
	fd = open(j->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0 || rename(j->to, target) < 0 || syncfs(fd) < 0)
		return err_sys(err, -errno, "make '%s'", target);
	return 0;
}

static int find_user(struct job *j, const char *user, struct err *err)
{
	const struct passwd *pw;

	if (geteuid() != 0)
		return 0; /* then it is ours */
	pw = getpwnam(user ? user : "pando");
	if (!pw)
		return err_set(
		        err, -ENOENT,
		        "there is no user '%s' to give the files to: name pandod's user with "
		        "--user",
		        user ? user : "pando");
	j->own = true;
	j->uid = pw->pw_uid;
	j->gid = pw->pw_gid;
	return 0;
}

static int restore(struct cli *c, const struct cli_args *a)
{
	const char *target = a->opt[OPT_TO], *key = a->opt[OPT_KEY];
	autojson json_t *m = NULL;
	char from[PATH_MAX];
	struct job j = { .from = from };
	struct err err = { 0 };
	const json_t *files;
	int r;

	if (!target && !a->opt[OPT_CHECK])
		return cli_fail(CLI_USAGE, "name the new data directory with --to, or use --check");
	backup_signals();
	if ((r = manifest_find(a->arg[0], from, sizeof(from), &err)) < 0 ||
	    (r = manifest_load(from, &m, &err)) < 0 ||
	    (target && (r = check_target(target, &err)) < 0) ||
	    (target && (r = find_user(&j, a->opt[OPT_USER], &err)) < 0))
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	files = json_object_get(m, "files");
	for (size_t i = 0; i < json_array_size(files); i++)
		if (check_size(from, json_array_get(files, i), &err) < 0)
			return cli_fail(CLI_REFUSED, "%s", err.msg);
	if ((r = for_each(files, "checked", check_one, &j, &err)) < 0)
		return cli_fail(r == -EINTR ? CLI_INTERRUPTED : CLI_REFUSED, "%s", err.msg);
	if (a->opt[OPT_CHECK]) {
		cli_say(c, m, "%s is whole: %zu files, as they were backed up", from,
		        json_array_size(files));
		return CLI_OK;
	}
	if ((r = put(&j, target, files, key, &err)) < 0) {
		io_remove_tree(AT_FDCWD, j.to, NULL);
		return cli_fail(r == -EINTR ? CLI_INTERRUPTED : CLI_REFUSED,
		                "nothing was restored: %s", err.msg);
	}
	cli_say(c, m, "restored %s to %s; start the server with this data directory", from, target);
	if (!key && !json_is_true(json_object_get(m, "withKey")))
		fprintf(stderr,
		        "pando: the key of its secrets is not in the backup: put the old server's "
		        "secret.key into %s (mode 0600, owned by pandod's user) before it starts\n",
		        target);
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "DIR",
	  "make a data directory from a backup",
	  restore,
	  { [OPT_TO] = { "to", "DATADIR",
	                 "the new data directory; it must not exist, or be empty" },
	    [OPT_CHECK] = { "check", NULL, "only compare the backup with its checksums" },
	    [OPT_KEY] = { "key", "FILE", "the key of the secrets, if the backup was made without" },
	    [OPT_USER] = { "user", "NAME", "owner of the files, pandod's user; default: pando" } },
	  .flags = CLI_LOCAL,
	  .about =
	          "DIR is a backup, or has several: then the newest is used. No server is needed. "
	          "All "
	          "files are compared with the manifest first. Then start the server with that "
	          "data "
	          "directory: VMs that ran when the backup was made are suspended, and resume with "
	          "their memory at their next use, on the same CPU model and version of QEMU.\n"
	          "\n"
	          "Do not let both the old and the restored server run: they would renew the same "
	          "certificates and poll the same mirrors, and two VMs would have the same "
	          "addresses in a private network.",
	  .examples = "pando restore --check /mnt/backup\n"
	              "pando restore /mnt/backup --to /var/lib/pando --key /root/secret.key" },
};
const struct cli_noun cli_restore = { "restore", "make a data directory from a backup", verbs,
	                              ARRAY_SIZE(verbs) };
