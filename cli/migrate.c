/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate.c - pando migrate: a server's rows to PostgreSQL, and back
 *
 * The work is pandod's, which has the SQL and reads the settings: this finds the program and the
 * settings, becomes the user that owns the data directory, and turns into `pandod migrate`.
 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/config.h"

enum { OPT_TO, OPT_CHECK, OPT_SERVER, OPT_CONF };

/* Beside this program as it is installed, or as it is built. */
static int find_server(char ret[PATH_MAX], struct err *err)
{
	static const char *const places[] = { "/../sbin/pandod", "/../server/pandod" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return err_sys(err, -errno, "find this program");
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (snprintf(ret, PATH_MAX, "%s%s", self, places[i]) < PATH_MAX &&
		    access(ret, X_OK) == 0)
			return 0;
	}
	return err_set(err, -ENOENT, "pandod is not where it is installed: name it with --server");
}

/* Root becomes who owns the data directory; anybody else must be that. */
static int become_owner(const char *dir, struct err *err)
{
	const struct passwd *pw;
	struct stat st;

	if (stat(dir, &st) < 0)
		return err_sys(err, -errno, "data directory '%s': name it with --data-dir", dir);
	if (geteuid() != 0)
		return geteuid() == st.st_uid ? 0
		                              : err_set(err, -EPERM,
		                                        "'%s' belongs to another user: run this "
		                                        "as root",
		                                        dir);
	pw = getpwuid(st.st_uid);
	if (st.st_uid == 0)
		return err_set(err, -EINVAL, "'%s' belongs to root: that is no data directory",
		               dir);
	if ((pw ? initgroups(pw->pw_name, st.st_gid) : setgroups(0, NULL)) < 0 ||
	    setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
	    setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)
		return err_sys(err, -errno, "become the user that owns '%s'", dir);
	return 0;
}

static int migrate(struct cli *c, const struct cli_args *a)
{
	const char *url, *dir, *conf = a->opt[OPT_CONF];
	const char *words[12];
	char server[PATH_MAX];
	struct err err = { 0 };
	size_t n = 0;

	cli_asked(c, &url, &dir);
	if (!a->opt[OPT_TO])
		return cli_fail(CLI_USAGE, "name the place with --to: database, file, or "
		                           "postgresql://...");
	if (!dir)
		dir = getenv("PANDO_DATA_DIR");
	if (!dir || !*dir)
		dir = CONFIG_DATA_DIR;
	if (!conf && !getenv("PANDO_CONF") && strcmp(dir, CONFIG_DATA_DIR) == 0 &&
	    access(CONFIG_ETC_CONF, F_OK) == 0)
		conf = CONFIG_ETC_CONF;
	if ((!a->opt[OPT_SERVER] && find_server(server, &err) < 0) || become_owner(dir, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	words[n++] = a->opt[OPT_SERVER] ? a->opt[OPT_SERVER] : server;
	words[n++] = "migrate";
	words[n++] = "--to";
	words[n++] = a->opt[OPT_TO];
	words[n++] = "--data-dir";
	words[n++] = dir;
	if (a->opt[OPT_CHECK])
		words[n++] = "--check";
	if (conf) {
		words[n++] = "--conf";
		words[n++] = conf;
	}
	words[n] = NULL;
	execv(words[0], (char *const *)words);
	return cli_fail(CLI_REFUSED, "start '%s': %s", words[0], err_name(errno));
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "",
	  "move a server's rows to PostgreSQL, or back to its data directory",
	  migrate,
	  { [OPT_TO] = { "to", "WHERE",
	                 "database: the one that PANDO_DATABASE names; file: back to pando.db; or "
	                 "postgresql://..." },
	    [OPT_CHECK] = { "dry-run", NULL, "only say whether something is in the way" },
	    [OPT_SERVER] = { "server", "PROGRAM", "pandod; default: the one installed with this" },
	    [OPT_CONF] = { "conf", "FILE", "the server's settings" } },
	  .flags = CLI_LOCAL,
	  .about =
	          "For a server that is stopped, on its machine, as root. Accounts, VMs, snapshots "
	          "and all other rows move; layers, repositories and keys are files and stay where "
	          "they are, so VMs resume with their memory afterwards. Each table is read again "
	          "on the other side and compared.\n"
	          "\n"
	          "Interrupted, it leaves everything as it was, or is to be run again: then the "
	          "start of the server is refused, and says so. Back to the files is possible for "
	          "the last node of a cluster: remove the others first.",
	  .examples = "systemctl stop pando\n"
	              "pando migrate --to database --dry-run # is something in the way?\n"
	              "pando migrate --to database\n"
	              "pando migrate --to file # and back" },
};
const struct cli_noun cli_migrate = { "migrate", "move a server's rows to PostgreSQL, or back",
	                              verbs, ARRAY_SIZE(verbs) };
