/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail_child.c - the jail, from the inside: what the starter checks, and what its child does
 *
 * A child is born into its own namespaces and makes system calls only, until it executes a program
 * of Git's: root, descriptors, limits, a filter of system calls. The filter is a list of what git,
 * its helpers, the hooks' shell and bsdtar use; anything else fails with EPERM. It is compiled
 * before the starter is forked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "git/jail_internal.h"
#include "walls/walls.h"

#define CHILD_MEM_BYTES (UINT64_C(6) << 30) /* address space: packs are mapped */
#define CHILD_FILE_BYTES (UINT64_C(64) << 30)
#define CHILD_FILES 512
#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static struct {
	char root[300]; /* "": anywhere */
	bool unjailed;
	struct sysfilter filter; /* empty: none */
} rules = { .unjailed = true };

static bool flag(const struct starter_job *j, enum jail_flag f)
{
	return j->numbers[JAIL_FLAGS] & f;
}

/* ---- in the child: system calls only; NULL, or what failed ---- */

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	int r = fd < 0 || write(fd, text, n) != (ssize_t)n ? -1 : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

static int set_readonly(const char *path, bool recursive)
{
	struct mount_attr a = { .attr_set =
		                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, recursive ? AT_RECURSIVE : 0, &a,
	                    sizeof(a));
}

static int bind_at(const char *from, const char *to, bool rec)
{
	return mount(from, to, NULL, MS_BIND | (rec ? MS_REC : 0), NULL);
}

static const char *make_root(const struct starter_job *j)
{
	const char *repo = j->texts[JAIL_REPO], *work = j->texts[JAIL_WORK];
	const char *dir = j->texts[JAIL_DIR];

	if (write_text("/proc/self/setgroups", "deny") < 0 ||
	    write_text("/proc/self/uid_map", j->texts[JAIL_UID_MAP]) < 0 ||
	    write_text("/proc/self/gid_map", j->texts[JAIL_GID_MAP]) < 0)
		return "map the user";
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || bind_at(dir, dir, false) < 0 ||
	    chdir(dir) < 0)
		return "mount the root";
	if (bind_at("/usr", "usr", true) < 0 || set_readonly("usr", true) < 0 ||
	    bind_at("/dev/null", "dev/null", false) < 0 ||
	    bind_at("/dev/urandom", "dev/urandom", false) < 0)
		return "mount /usr and /dev";
	if (flag(j, JAIL_NETWORK) && bind_at("/etc/ssl", "etc/ssl", true) < 0)
		return "mount /etc/ssl";
	if (*repo && (bind_at(repo, "repo", false) < 0 ||
	              (!flag(j, JAIL_WRITE) && set_readonly("repo", false) < 0)))
		return "mount the repository";
	if (*work && bind_at(work, "work", false) < 0)
		return "mount the directory";
	if (set_readonly(".", false) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir(*repo ? "/repo" : "/") < 0)
		return "change the root";
	return NULL;
}

/* A loopback with one listening socket, handed to the parent. */
static const char *make_loopback(const struct starter_job *j)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(8080),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 64) < 0)
		return "make a loopback";
	if (starter_hand_over(j, fd) < 0)
		return "hand over the socket";
	close(fd);
	return NULL;
}

static int limit(int what, uint64_t n)
{
	struct rlimit r = { n, n }, now;

	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < n)
		r.rlim_cur = r.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &r);
}

static const char *set_limits(const struct starter_job *j)
{
	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_CPU, j->numbers[JAIL_CPU_S]) < 0 ||
	    limit(RLIMIT_AS, CHILD_MEM_BYTES) < 0 || limit(RLIMIT_FSIZE, CHILD_FILE_BYTES) < 0 ||
	    limit(RLIMIT_NOFILE, CHILD_FILES) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return "set limits";
	return NULL;
}

static const char *child_main(struct starter_job *j)
{
	const char *repo = j->texts[JAIL_REPO];
	const char *what;
	int r;

	starter_reset_signals();
	starter_oom_score("500"); /* before pandod, and before its VMs */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return "set process attributes";
	if (flag(j, JAIL_JAILED) && flag(j, JAIL_NETWORK) && (what = make_loopback(j)))
		return what;
	if (flag(j, JAIL_JAILED) && (what = make_root(j)))
		return what;
	if (!flag(j, JAIL_JAILED) && chdir(*repo ? repo : "/") < 0)
		return "enter the repository";
	if (starter_arrange_fds(j) < 0)
		return "arrange descriptors";
	setsid();
	if ((what = set_limits(j)))
		return what;
	if (rules.filter.prog.len && (r = sysfilter_install(&rules.filter, false)) < 0) {
		errno = -r;
		return "filter its system calls";
	}
	execve(j->argv[0], (char *const *)j->argv, (char *const *)j->env);
	return "run it";
}

/* ---- in the starter ---- */

/* Below the root, and by a plain path. */
static bool inside(const char *path)
{
	size_t n = strlen(rules.root);

	if (!*path || !n)
		return true;
	return strncmp(path, rules.root, n) == 0 && path[n] == '/' && !strstr(path, "/../") &&
	       (strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
}

static bool known_variable(const char *v)
{
	static const char *const known[] = { "PATH=/usr/bin",
		                             "HOME=/nonexistent",
		                             "LC_ALL=",
		                             "GIT_",
		                             "http_proxy=http://127.0.0.1:",
		                             "https_proxy=http://127.0.0.1:" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strncmp(v, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

static const char *check(const struct starter_job *j, uint64_t *ret_flags)
{
	if (strcmp(j->argv[0], GIT_PROGRAM) != 0 && strcmp(j->argv[0], BSDTAR) != 0)
		return "not a program of Git's";
	if (j->n_fds < 3)
		return "descriptors are missing";
	if (!inside(j->texts[JAIL_DIR]) || !inside(j->texts[JAIL_REPO]) ||
	    !inside(j->texts[JAIL_WORK]))
		return "a path outside the data directory";
	for (size_t i = 0; j->env[i]; i++)
		if (!known_variable(j->env[i]))
			return "an unknown variable";
	if (!flag(j, JAIL_JAILED) && !rules.unjailed)
		return "children without a jail are not allowed";
	*ret_flags = flag(j, JAIL_JAILED) ? NAMESPACES : 0;
	return NULL;
}

const struct starter_kind jail_kind = { JAIL_KIND, NULL, check, child_main };

/* ---- before there is a starter ---- */

int jail_kind_init(const struct jail_rules *r, struct err *err)
{
	snprintf(rules.root, sizeof(rules.root), "%s", r->root ? r->root : "");
	rules.unjailed = r->unjailed;
	sysfilter_free(&rules.filter);
	return r->filter ? sysfilter_build(walls_program_calls, walls_program_n, r->otherwise,
	                                   &rules.filter, err)
	                 : 0;
}
