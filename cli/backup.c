/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup.c - pando backup: everything of a server that runs, into a directory
 *
 * The server puts the backup together in its data directory, mostly as links (server/backup/). Here
 * it is copied to DIR/<time>.part; files that the newest backup in DIR has already are linked to
 * that one's. Then the manifest is written and the directory gets its name. Whatever ends this
 * before, the directory without a manifest is not a backup, and the next run removes it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cli.h"
#include "cli/manifest.h"

struct job {
	char stage[PATH_MAX];  /* data directory that the server put together */
	char to[PATH_MAX];     /* DIR/<time>.part */
	char before[PATH_MAX]; /* the newest backup in DIR; "": none */
	json_t *known;         /* owned: its files by path; or NULL */
	json_t *files;         /* owned: those of the new one */
	struct progress progress;
	uint64_t bytes, reused;
	size_t n_files;
};

/* Never written to again once they have their name: a link is as good as a copy. */
static bool immutable(const char *path)
{
	return !strncmp(path, "layers/", 7) || !strncmp(path, "points/", 7) ||
	       !strncmp(path, "git/lfs/", 8) ||
	       (!strncmp(path, "git/repos/", 10) && strstr(path, ".git/objects/"));
}

static int64_t ns_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int count(void *ctx, const char *path, struct err *err)
{
	struct job *j = ctx;
	char from[PATH_MAX];
	struct stat st;

	snprintf(from, sizeof(from), "%.2000s/%.2000s", j->stage, path);
	if (stat(from, &st) < 0)
		return err_sys(err, -errno, "read '%s'", from);
	if (S_ISREG(st.st_mode))
		j->progress.all += (uint64_t)st.st_size;
	return 0;
}

/* The checksum that the earlier backup has for the same file, which is linked; NULL: it has none.
 */
static const char *reuse(struct job *j, const char *path, const struct stat *st, const char *to)
{
	const json_t *f = j->known && immutable(path) ? json_object_get(j->known, path) : NULL;
	const char *hash = f ? json_string_value(json_object_get(f, "sha256")) : NULL;
	char from[PATH_MAX];
	struct stat there;

	if (!hash || json_integer_value(json_object_get(f, "size")) != st->st_size ||
	    json_integer_value(json_object_get(f, "mtimeNs")) != ns_of(st))
		return NULL;
	snprintf(from, sizeof(from), "%.2000s/data/%.2000s", j->before, path);
	if (stat(from, &there) < 0 || there.st_size != st->st_size || link(from, to) < 0)
		return NULL;
	return hash;
}

static int take(void *ctx, const char *path, struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX], hash[HASH_SIZE] = "";
	struct job *j = ctx;
	const char *known;
	struct stat st;
	json_t *f;
	int r = backup_stopped(err);

	if (r < 0)
		return r;
	snprintf(from, sizeof(from), "%.2000s/%.2000s", j->stage, path);
	snprintf(to, sizeof(to), "%.2000s/data/%.2000s", j->to, path);
	if (stat(from, &st) < 0)
		return err_sys(err, -errno, "read '%s'", from);
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(to, 0700) < 0)
			return err_sys(err, -errno, "create '%s'", to);
		f = json_pack("{s:s}", "path", path);
	} else {
		known = reuse(j, path, &st, to);
		if (known) {
			snprintf(hash, sizeof(hash), "%s", known);
			j->reused += (uint64_t)st.st_size;
		} else if ((r = immutable(path) ? io_link_or_copy(from, to, err)
		                                : io_copy_file(from, to, err)) < 0 ||
		           (r = manifest_hash(to, hash, err)) < 0) {
			return r;
		}
		j->n_files++;
		j->bytes += (uint64_t)st.st_size;
		progress_add(&j->progress, (uint64_t)st.st_size);
		f = json_pack("{s:s, s:I, s:i, s:I, s:s}", "path", path, "size",
		              (json_int_t)st.st_size, "mode", (int)(st.st_mode & 0777), "mtimeNs",
		              (json_int_t)ns_of(&st), "sha256", hash);
	}
	return json_array_append_new(j->files, f) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* What the newest earlier backup has; none is fine. */
static void know_earlier(struct job *j, const char *dir)
{
	autojson json_t *m = NULL;
	const json_t *files;

	if (manifest_find(dir, j->before, sizeof(j->before), NULL) < 0 ||
	    manifest_load(j->before, &m, NULL) < 0)
		return;
	files = json_object_get(m, "files");
	j->known = json_object();
	for (size_t i = 0; i < json_array_size(files); i++) {
		json_t *f = json_array_get(files, i);

		json_object_set(j->known, json_string_value(json_object_get(f, "path")), f);
	}
}

/* What earlier runs did not finish. The lock on DIR is ours, so nobody else is at it. */
static int drop_parts(const char *dir, struct err *err)
{
	autodir DIR *d = opendir(dir);
	struct dirent *e;
	int r = d ? 0 : err_sys(err, -errno, "open '%s'", dir);

	while (r >= 0 && (e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n == 21 && strcmp(e->d_name + n - 5, ".part") == 0)
			r = io_remove_tree(dirfd(d), e->d_name, err);
	}
	return r;
}

/* Everything is on the disk before the manifest is, and that before the name. */
static int finish(struct job *j, const char *dir, json_t *manifest, char *name, struct err *err)
{
	autofree char *text = json_dumps(manifest, JSON_INDENT(1));
	char path[PATH_MAX], final[PATH_MAX];
	autofd int fd = open(j->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd int up = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	if (fd < 0 || up < 0 || syncfs(fd) < 0)
		return err_sys(err, -errno, "write '%s'", j->to);
	snprintf(path, sizeof(path), "%.4000s/%s", j->to, MANIFEST);
	if ((r = io_write_file(AT_FDCWD, path, text, strlen(text), 0600, err)) < 0)
		return r;
	snprintf(final, sizeof(final), "%.4000s/%s", dir, name);
	if (rename(j->to, final) < 0 || fsync(up) < 0)
		return err_sys(err, -errno, "rename '%s'", j->to);
	return 0;
}

static int copy_key(struct job *j, const char *key_file, struct err *err)
{
	char to[PATH_MAX], hash[HASH_SIZE];
	struct stat st;
	int r;

	if (*key_file != '/')
		return err_set(err, -EINVAL,
		               "the key of this server is %s: keep a copy of it yourself, without "
		               "--with-key",
		               key_file);
	snprintf(to, sizeof(to), "%.4000s/data/secret.key", j->to);
	if ((r = io_copy_file(key_file, to, err)) < 0 || (r = manifest_hash(to, hash, err)) < 0)
		return r;
	if (stat(to, &st) < 0)
		return err_sys(err, -errno, "read '%s'", to);
	return json_array_append_new(
	               j->files, json_pack("{s:s, s:I, s:i, s:I, s:s}", "path", "secret.key",
	                                   "size", (json_int_t)st.st_size, "mode", 0600, "mtimeNs",
	                                   (json_int_t)ns_of(&st), "sha256", hash)) < 0
	               ? err_set(err, -ENOMEM, "out of memory")
	               : 0;
}

static int copy_all(struct job *j, const char *dir, const json_t *reply, bool with_key, char *name,
                    struct err *err)
{
	char path[PATH_MAX];
	autojson json_t *manifest = NULL;
	autofd int lock = -1;
	int r;

	snprintf(path, sizeof(path), "%.4000s/lock", cli_str(reply, "path"));
	snprintf(j->stage, sizeof(j->stage), "%.4000s/data", cli_str(reply, "path"));
	lock = open(path, O_RDWR | O_CLOEXEC);
	if (lock < 0)
		return err_sys(err, -errno,
		               "open '%s': run this on the server's machine, as root or as the "
		               "user of pandod",
		               path);
	if (flock(lock, LOCK_SH | LOCK_NB) < 0)
		return err_sys(err, -errno, "lock '%s'", path);
	snprintf(path, sizeof(path), "%.4000s/data", j->to);
	if ((r = io_mkdirs(path, 0700, err)) < 0 ||
	    (r = manifest_walk(j->stage, count, j, err)) < 0 ||
	    (r = manifest_walk(j->stage, take, j, err)) < 0 ||
	    (with_key && (r = copy_key(j, cli_str(reply, "keyFile"), err)) < 0))
		return r;
	progress_end(&j->progress);
	manifest = json_pack("{s:i, s:s, s:s, s:b, s:O, s:O, s:O}", "format", MANIFEST_FORMAT,
	                     "version", PANDO_VERSION, "createdAt", name, "withKey", (int)with_key,
	                     "frozen", json_object_get(reply, "frozen"), "notes",
	                     json_object_get(reply, "notes"), "files", j->files);
	if (!manifest)
		return err_set(err, -ENOMEM, "out of memory");
	return finish(j, dir, manifest, name, err);
}

static int run(struct cli *c, const char *dir, const json_t *reply, bool with_key, struct err *err)
{
	struct job j = { .files = json_array(), .progress.verb = "copied" };
	const json_t *notes = json_object_get(reply, "notes");
	char name[32];
	time_t now = time(NULL);
	struct tm tm;
	int r;

	strftime(name, sizeof(name), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	snprintf(j.to, sizeof(j.to), "%.4000s/%s.part", dir, name);
	know_earlier(&j, dir);
	r = copy_all(&j, dir, reply, with_key, name, err);
	json_decref(j.files);
	json_decref(j.known);
	if (r < 0) {
		io_remove_tree(AT_FDCWD, j.to, NULL);
		return r;
	}
	for (size_t i = 0; i < json_array_size(notes); i++)
		fprintf(stderr, "pando: %s %s\n", cli_str(json_array_get(notes, i), "id"),
		        cli_str(json_array_get(notes, i), "text"));
	cli_say(c, reply,
	        "%s/%s: %zu files, %" PRIu64 " MiB (%" PRIu64
	        " MiB as in the backup before), %d running VMs with their memory%s",
	        dir, name, j.n_files, j.bytes >> 20, j.reused >> 20,
	        (int)json_integer_value(json_object_get(reply, "frozen")),
	        with_key ? ""
	                 : "; without the key of its secrets, which must be kept apart "
	                   "(pando backup --help)");
	return 0;
}

static int backup(struct cli *c, const struct cli_args *a)
{
	const char *dir = a->arg[0];
	autojson json_t *reply = NULL;
	autofree char *path = NULL;
	autofd int lock = -1;
	struct err err = { 0 };
	int r, status;

	if (io_mkdirs(dir, 0700, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return cli_fail(CLI_REFUSED, "'%s': %s", dir,
		                errno == EWOULDBLOCK ? "another backup is being written to it"
		                                     : err_name(errno));
	if (drop_parts(dir, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	backup_signals();
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "freezing running VMs, which go on\n");
	status = cli_call(c, "POST", "/v1/backups", NULL, &reply);
	if (status != CLI_OK)
		return status;
	r = run(c, dir, reply, a->opt[0] != NULL, &err);
	path = cli_path(c, "/v1/backups/%s", cli_str(reply, "id"));
	status = cli_call(c, "DELETE", path, NULL, NULL);
	if (r == -EINTR)
		return cli_fail(CLI_INTERRUPTED, "no backup was made: %s", err.msg);
	if (r < 0)
		return cli_fail(CLI_REFUSED, "no backup was made: %s", err.msg);
	return status;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "DIR",
	  "back up the whole server while it runs (operator's key)",
	  backup,
	  { { "with-key", NULL, "with the key of the server's secrets: keep such a backup safe" } },
	  .about =
	          "Writes DIR/TIME, which has everything: VMs, snapshots, repositories, accounts, "
	          "certificates. Running VMs are frozen with their memory and go on. Run it on the "
	          "server's machine, as root. Files that the newest backup in DIR has already are "
	          "linked, not copied; each backup stays whole when others are deleted.\n"
	          "\n"
	          "Secrets (passwords of mirrors, injected headers, private keys) are encrypted in "
	          "a backup with the server's key, which is not in it unless --with-key is given: "
	          "keep a copy of secret.key in another place. The contents of VMs and "
	          "repositories, SSH host keys, ACME's keys and the operator's API key are not "
	          "encrypted.\n"
	          "\n"
	          "Interrupted, it removes what it has written. `pando restore` brings it back.",
	  .examples = "pando --data-dir /var/lib/pando backup /mnt/backup\n"
	              "pando restore --check /mnt/backup # is the newest one good?" },
};
const struct cli_noun cli_backup = { "backup", "back up the server while it runs", verbs,
	                             ARRAY_SIZE(verbs) };
