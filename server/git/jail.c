/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.c - git's own programs, each in a jail
 *
 * What a client pushes is read by Git's C code, so that code is given as little as it needs. A
 * child is born into its own user, mount, process, network, IPC and host name namespaces. Its root
 * is a skeleton (<data>/git/jail) with /usr, two devices and one repository in it, the latter
 * read-only unless it is written to; everything else of the host, the database and other
 * repositories included, is not there. It has no network; a child that fetches has a loopback of
 * its own on which only a proxy of ours listens (proxy.c). Then: no capabilities, no new
 * privileges, limits on processor time, memory, processes, files, a filter of system calls.
 *
 * Namespaces are made without privileges. Where the kernel does not allow that, Git is not served,
 * unless the operator says that children may run with the limits and the filter alone.
 *
 * The starter clones the children (base/starter.h); what they do until they run Git is in
 * jail_child.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "git/git_internal.h"
#include "metrics/metrics.h"

#define ENV_MAX 32
#define PACK_THREADS_MAX 4L     /* of one child that checks or makes a pack */
#define POLITE_MS 3000          /* between SIGTERM, which removes Git's lock files, and SIGKILL */
#define PUSHED_REFS_MAX "20000" /* references of one push */
#define PUSHED_REFS_PAST "20001"
#define REPO_REFS_MAX "100000" /* of a repository before one that adds some */
#define PUSHED_REF_MAX "460"   /* bytes: a mirror's own names for it fit into REPO_REF_SIZE, too */

static void make_env(const struct repos *g, const struct child_opts *o, struct starter_job *j,
                     char (*config)[PATH_MAX + 32])
{
	static const char *const plain[] = { "PATH=/usr/bin",
		                             "HOME=/nonexistent",
		                             "LC_ALL=C.UTF-8",
		                             "GIT_CONFIG_GLOBAL=/dev/null",
		                             "GIT_TERMINAL_PROMPT=0",
		                             "GIT_OPTIONAL_LOCKS=0",
		                             "GIT_NO_REPLACE_OBJECTS=1",
		                             "GIT_ATTR_NOSYSTEM=1",
		                             "GIT_DIR=." };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		j->env[n++] = plain[i];
	snprintf(*config, sizeof(*config), "GIT_CONFIG_SYSTEM=%s/etc/gitconfig",
	         g->jailed ? "" : g->jail_dir);
	j->env[n++] = *config;
	if (o->network) {
		j->env[n++] = "http_proxy=http://127.0.0.1:8080";
		j->env[n++] = "https_proxy=http://127.0.0.1:8080";
	}
	for (size_t i = 0; o->env && o->env[i] && n < ENV_MAX; i++)
		j->env[n++] = o->env[i];
	j->env[n] = NULL;
}

static int reap(pid_t pid)
{
	int st = 0;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static int start_counted(struct repos *g, const struct child_opts *o, struct child *ret,
                         int *ret_listen, struct err *err)
{
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct starter_job j = { .n_fds = o->extra < 0 ? 3 : o->talk > 0 ? 5 : 4 };
	char config[PATH_MAX + 32];
	int kind = starter_kind(JAIL_KIND);
	struct proc p;
	int r;

	if (o->network && !g->jailed)
		return err_tag(err, -ENOTSUP, ERR_GIT_SERVER_ERROR,
		               "this server cannot fetch from other servers: %s", g->jail_text);
	if (null < 0)
		return err_sys(err, -errno, "prepare for '%s'", o->argv[0]);
	if (kind < 0)
		return err_set(err, kind, "start '%s': there is no starter", o->argv[0]);
	j.kind = (uint32_t)kind;
	j.numbers[JAIL_FLAGS] = (g->jailed ? JAIL_JAILED : 0u) | (o->write ? JAIL_WRITE : 0u) |
	                        (o->network ? JAIL_NETWORK : 0u);
	j.numbers[JAIL_CPU_S] = o->cpu_s;
	j.numbers[JAIL_MEM_MB] = o->mem_mb ? o->mem_mb : CHILD_ASK_MB;
	j.texts[JAIL_DIR] = g->jail_dir;
	j.texts[JAIL_UID_MAP] = g->uid_map;
	j.texts[JAIL_GID_MAP] = g->gid_map;
	j.texts[JAIL_REPO] = o->repo;
	j.texts[JAIL_WORK] = o->work;
	for (size_t i = 0; o->argv[i]; i++) {
		if (i == STARTER_ARGS)
			return err_set(err, -E2BIG, "start '%s': too many arguments", o->argv[0]);
		j.argv[i] = o->argv[i];
	}
	make_env(g, o, &j, &config);
	j.fds[0] = o->in >= 0 ? o->in : null;
	j.fds[1] = o->out >= 0 ? o->out : null;
	j.fds[2] = o->err >= 0 ? o->err : null;
	j.fds[3] = o->extra;
	j.fds[4] = o->talk;
	r = starter_run(&j, &p, o->network ? ret_listen : NULL, err);
	if (r < 0)
		return r;
	ret->p = p;
	ret->g = g;
	return 0;
}

int child_start(struct repos *g, const struct child_opts *o, struct child *ret, int *ret_listen,
                struct err *err)
{
	int r;

	if ((r = repos_ready(g, err)) < 0 || (r = room_take(g, o->client, ret, err)) < 0)
		return r;
	r = start_counted(g, o, ret, ret_listen, err);
	if (r < 0)
		room_give(ret);
	else
		metrics_add(METRIC_GIT_CHILDREN, 0, 1);
	return r;
}

static int child_reap(struct child *c)
{
	int st = reap(c->p.pid);

	proc_close(&c->p);
	room_give(c);
	*c = CHILD_NONE;
	return st;
}

int child_wait(struct child *c, uint64_t deadline_ms)
{
	if (proc_wait_end(&c->p, deadline_ms) == 1)
		return child_reap(c);
	child_end(c);
	return -ETIMEDOUT;
}

void child_end(struct child *c)
{
	if (!c->g)
		return;
	proc_kill(&c->p, SIGTERM);
	if (proc_wait_end(&c->p, deadline_in(POLITE_MS)) != 1)
		proc_kill(&c->p, SIGKILL);
	child_reap(c);
}

void jail_close(struct repos *g)
{
	if (g->own_starter)
		starter_close();
}

/* ---- the skeleton ---- */

/*
 * What receive-pack is about to do, on the disk before it does it; then what it has done: note.c.
 * Names were not looked at yet: one may be longer than we keep, or have lines of its own.
 */
static const char pre_hook[] =
        "#!/bin/sh\n"
        "LC_ALL=C sed -nE '\n"
        "/^[0-9a-f]{40} [0-9a-f]{40} .{1," PUSHED_REF_MAX "}$/!Q3\n" PUSHED_REFS_PAST "Q4\n"
        "p\n"
        "/^0{40} /h\n"
        "${ x; /./Q5 }' >&3\n"
        "r=$?\n"
        "if [ $r = 5 ]; then\n"
        "\tr=0\n"
        "\t[ \"$(git for-each-ref --count=" REPO_REFS_MAX
        " --format=x | wc -l)\" -lt " REPO_REFS_MAX " ] || r=6\n"
        "fi\n"
        "case $r in\n"
        "0) dd conv=fsync status=none </dev/null >&3 || exit 1\n"
        "%s"
        "\texit 0 ;;\n"
        "3) echo 'the name of a reference has at most " PUSHED_REF_MAX " bytes' >&2 ;;\n"
        "4) echo 'a push moves at most " PUSHED_REFS_MAX " references: push them in parts' >&2 ;;\n"
        "6) echo 'the repository has " REPO_REFS_MAX
        " references already: delete some first' >&2 ;;\n"
        "*) echo 'the push cannot be checked' >&2 ;;\n"
        "esac\n"
        "exit 1\n";
/* Where repositories are shared it is stored before references move: shared_hook.c. */
static const char pre_shared[] = "\tprintf '%s\\n' \"${GIT_QUARANTINE_PATH##*/}\" >&4 || exit 1\n"
                                 "\tread -r answer <&4 || exit 1\n"
                                 "\t[ \"$answer\" = ok ] && exit 0\n"
                                 "\tprintf '%s\\n' \"$answer\" >&2\n"
                                 "\texit 1\n";
/* No program is started for it: a line for each reference is soon read. */
static const char post_hook[] = "#!/bin/sh\n"
                                "echo done >&3\n"
                                "while read -r line; do printf '%s\\n' \"$line\" >&3; done\n";
static const char post_shared[] = "echo moved >&4\n";

static int write_config(struct repos *g, int dir, struct err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char text[4096];
	int n = snprintf(
	        text, sizeof(text),
	        "[safe]\n\tdirectory = *\n"
	        "[core]\n\tfsync = loose-object,pack,pack-metadata,reference\n\tfsyncMethod = "
	        "fsync\n"
	        "\thooksPath = %s/hooks\n\tbigFileThreshold = 16m\n\tpackedGitLimit = 512m\n"
	        "\tpackedGitWindowSize = 64m\n\tdeltaBaseCacheLimit = 64m\n\tlogAllRefUpdates = "
	        "false\n"
	        "\tquotePath = false\n\tuseReplaceRefs = false\n"
	        "[transfer]\n\thideRefs = refs/pando-sync\n\tfsckObjects = true\n\tadvertiseSID = "
	        "false\n"
	        "[receive]\n\tautogc = false\n\tunpackLimit = 20\n\tadvertisePushOptions = false\n"
	        "\tdenyDeletes = false\n\tdenyNonFastForwards = false\n\tmaxInputSize = 0\n"
	        "[fetch]\n\tunpackLimit = 1\n\tfsckObjects = true\n"
	        "[fetch \"fsck\"]\n\tzeroPaddedFilemode = ignore\n\tbadTimezone = ignore\n"
	        "\tmissingSpaceBeforeDate = ignore\n\tmissingNameBeforeEmail = ignore\n"
	        "\tmissingSpaceBeforeEmail = ignore\n\tbadFilemode = ignore\n"
	        "[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n\tkeepAlive = 5\n"
	        "[pack]\n\tthreads = %ld\n\twindowMemory = 128m\n\tdeltaCacheSize = 64m\n"
	        "\twriteBitmapHashCache = true\n"
	        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[grep]\n\tthreads = 2\n"
	        "[index]\n\tthreads = 1\n[credential]\n\thelper =\n[http]\n\tfollowRedirects = "
	        "initial\n"
	        "\tlowSpeedLimit = 100\n\tlowSpeedTime = 60\n"
	        "[protocol]\n\tallow = never\n[protocol \"http\"]\n\tallow = always\n"
	        "[protocol \"https\"]\n\tallow = always\n"
	        "[init]\n\tdefaultBranch = main\n\ttemplateDir =\n[advice]\n\tdetachedHead = "
	        "false\n",
	        g->jailed ? "" : g->jail_dir, MAX(1L, MIN(cpus, PACK_THREADS_MAX)));

	if (n < 0 || (size_t)n >= sizeof(text))
		return err_set(err, -ENOBUFS, "Git's configuration is too long");
	return io_write_file(dir, "etc/gitconfig", text, (size_t)n, 0600, err);
}

int jail_prepare(struct repos *g, struct err *err)
{
	static const char *const dirs[] = { "usr",  "dev",  "etc",   "etc/ssl",
		                            "repo", "work", "hooks", "tmp" };
	static const char *const links[] = { "bin", "sbin", "lib", "lib64", "lib32" };
	autofd int dir = -1;
	char target[32], pre[sizeof(pre_hook) + sizeof(pre_shared)],
	        post[sizeof(post_hook) + sizeof(post_shared)];
	int r;

	snprintf(pre, sizeof(pre), pre_hook, g->conf.objects ? pre_shared : "");
	snprintf(post, sizeof(post), "%s%s", post_hook, g->conf.objects ? post_shared : "");
	if ((r = io_mkdirs(g->jail_dir, 0700, err)) < 0)
		return r;
	dir = open(g->jail_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, -errno, "open '%s'", g->jail_dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(dir, dirs[i], 0700) < 0 && errno != EEXIST)
			return err_sys(err, -errno, "make '%s/%s'", g->jail_dir, dirs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		snprintf(target, sizeof(target), "usr/%s", links[i]);
		if (symlinkat(target, dir, links[i]) < 0 && errno != EEXIST)
			return err_sys(err, -errno, "make '%s/%s'", g->jail_dir, links[i]);
	}
	if ((r = io_write_file(dir, "dev/null", "", 0, 0600, err)) < 0 ||
	    (r = io_write_file(dir, "dev/urandom", "", 0, 0600, err)) < 0 ||
	    (r = io_write_file(dir, "hooks/pre-receive", pre, strlen(pre), 0700, err)) < 0 ||
	    (r = io_write_file(dir, "hooks/post-receive", post, strlen(post), 0700, err)) < 0)
		return r;
	return write_config(g, dir, err);
}

/* A server has made one before anything else; programs of the tests haven't. */
static int need_starter(struct repos *g, struct err *err)
{
	static const struct starter_kind *const kinds[] = { &jail_kind };
	struct jail_rules any = { .unjailed = g->conf.unjailed,
		                  .filter = true,
		                  .otherwise = SYSFILTER_EPERM };
	int r;

	if (starter_kind(JAIL_KIND) >= 0)
		return 0;
	if ((r = jail_kind_init(&any, err)) < 0 || (r = starter_open(kinds, 1, err)) < 0)
		return r;
	g->own_starter = true;
	return 0;
}

int jail_probe(struct repos *g, struct err *err)
{
	static const char *const argv[] = { GIT_PROGRAM, "version", NULL };
	struct child_opts o = {
		.argv = argv, .in = -1, .out = -1, .err = -1, .extra = -1, .cpu_s = 60
	};
	struct child c = CHILD_NONE;
	struct err why = { 0 };
	int r;

	if ((r = need_starter(g, err)) < 0)
		return r;
	snprintf(g->uid_map, sizeof(g->uid_map), "%u %u 1", geteuid(), geteuid());
	snprintf(g->gid_map, sizeof(g->gid_map), "%u %u 1", getegid(), getegid());
	for (g->jailed = true;; g->jailed = false) {
		if ((r = jail_prepare(g, err)) < 0)
			return r;
		r = child_start(g, &o, &c, NULL, &why);
		if (r == 0)
			r = child_wait(&c, deadline_in(CHILD_WAIT_MS)) == 0 ? 0 : -EIO;
		if (r == 0 || !g->jailed)
			break;
		snprintf(g->jail_text, sizeof(g->jail_text), "no namespaces (%.100s)",
		         *why.msg ? why.msg : "git did not run in a jail");
		if (!g->conf.unjailed) {
			g->jailed = false;
			g->closed = true;
			log_error("Git is not served: its programs cannot be jailed: %s. "
			          "PANDO_GIT_UNJAILED=1 serves it without a jail",
			          g->jail_text);
			return 0;
		}
		log_warn("Git's programs run without a jail: %s", g->jail_text);
	}
	if (r < 0)
		return err_set(err, -ENOENT, "git does not run: %s",
		               *why.msg ? why.msg : "it failed");
	if (g->jailed)
		snprintf(g->jail_text, sizeof(g->jail_text), "namespaces");
	return 0;
}
