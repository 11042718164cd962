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
 * privileges, limits on processor time, memory, processes, files.
 *
 * Namespaces are made without privileges. Where the kernel does not allow that, Git is not served,
 * unless the operator says that children may run with the limits alone.
 *
 * After clone3() the child makes system calls only: other threads may have held any lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/securebits.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/sock.h"
#include "git/git_internal.h"

#define ENV_MAX 32
#define FD_SPARE 64                         /* descriptors are moved above this first */
#define CHILD_MEM_BYTES (UINT64_C(6) << 30) /* address space: packs are mapped */
#define CHILD_FILE_BYTES (UINT64_C(64) << 30)
#define CHILD_FILES 512
#define CHILD_PROCESSES 64   /* and threads, of all that one child starts */
#define PACK_THREADS_MAX 4L  /* of one child that checks or makes a pack */
#define POLITE_MS 3000       /* between SIGTERM, which removes Git's lock files, and SIGKILL */
#define PUSHED_REF_MAX "460" /* bytes: a mirror's own names for it fit into REPO_REF_SIZE, too */
#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

struct launch {
	const struct repos *g;
	const struct child_opts *o;
	const char *env[ENV_MAX + 1];
	int fds[4]; /* what become 0 to 3 */
	int report; /* close-on-exec: where it failed */
	int sock;   /* where the listening socket goes */
	const char *repo, *work;
};

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

static const char *make_root(const struct launch *l)
{
	const struct child_opts *o = l->o;

	if (write_text("/proc/self/setgroups", "deny") < 0 ||
	    write_text("/proc/self/uid_map", l->g->uid_map) < 0 ||
	    write_text("/proc/self/gid_map", l->g->gid_map) < 0)
		return "map the user";
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    bind_at(l->g->jail_dir, l->g->jail_dir, false) < 0 || chdir(l->g->jail_dir) < 0)
		return "mount the root";
	if (bind_at("/usr", "usr", true) < 0 || set_readonly("usr", true) < 0 ||
	    bind_at("/dev/null", "dev/null", false) < 0 ||
	    bind_at("/dev/urandom", "dev/urandom", false) < 0)
		return "mount /usr and /dev";
	if (o->network && bind_at("/etc/ssl", "etc/ssl", true) < 0)
		return "mount /etc/ssl";
	if (l->repo &&
	    (bind_at(l->repo, "repo", false) < 0 || (!o->write && set_readonly("repo", false) < 0)))
		return "mount the repository";
	if (l->work && bind_at(l->work, "work", false) < 0)
		return "mount the directory";
	if (set_readonly(".", false) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir(l->repo ? "/repo" : "/") < 0)
		return "change the root";
	return NULL;
}

/* A loopback with one listening socket, handed to the parent. */
static const char *make_loopback(const struct launch *l)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(8080),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 64) < 0)
		return "make a loopback";
	if (sock_send_fds(l->sock, "", 1, &fd, 1) < 0)
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

/* None is left, and none can come back; unjailed there were none. */
static int drop_caps(bool jailed)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (jailed) {
		if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) < 0)
			return -1;
		for (unsigned long c = 0; c < 64; c++)
			if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0 && errno != EINVAL)
				return -1;
	}
	return (int)syscall(SYS_capset, &head, none);
}

/* The number of processes is that of the child's own user namespace; without one it would be that
 * of all that the server's user runs. */
static const char *set_limits(const struct launch *l)
{
	const struct child_opts *o = l->o;

	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_CPU, o->cpu_s) < 0 ||
	    limit(RLIMIT_AS, CHILD_MEM_BYTES) < 0 ||
	    limit(RLIMIT_DATA, (uint64_t)(o->mem_mb ? o->mem_mb : CHILD_ASK_MB) << 20) < 0 ||
	    limit(RLIMIT_FSIZE, CHILD_FILE_BYTES) < 0 || limit(RLIMIT_NOFILE, CHILD_FILES) < 0 ||
	    (l->g->jailed && limit(RLIMIT_NPROC, CHILD_PROCESSES) < 0))
		return "set limits";
	if (drop_caps(l->g->jailed) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return "drop privileges";
	return NULL;
}

static const char *arrange_fds(struct launch *l)
{
	int last = l->o->extra >= 0 ? 3 : 2;

	for (int i = 0; i <= last; i++)
		if ((l->fds[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, FD_SPARE)) < 0)
			return "arrange descriptors";
	if ((l->report = fcntl(l->report, F_DUPFD_CLOEXEC, FD_SPARE)) < 0)
		return "arrange descriptors";
	for (int i = 0; i <= last; i++)
		if (dup2(l->fds[i], i) < 0)
			return "arrange descriptors";
	/* Everything of ours is close-on-exec; this is for what a library opened. */
	syscall(SYS_close_range, (unsigned)last + 1, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
	return NULL;
}

static const char *child_main(struct launch *l)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	const char *what;
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return "set process attributes";
	if (l->g->jailed && l->o->network && (what = make_loopback(l)))
		return what;
	if (l->g->jailed && (what = make_root(l)))
		return what;
	if (!l->g->jailed && ((l->repo && chdir(l->repo) < 0) || (!l->repo && chdir("/") < 0)))
		return "enter the repository";
	if ((what = arrange_fds(l)))
		return what;
	setsid();
	if ((what = set_limits(l)))
		return what;
	execve(l->o->argv[0], (char *const *)l->o->argv, (char *const *)l->env);
	return "run it";
}

/* ---- in the parent ---- */

struct report {
	int code;
	char what[60];
};

static void make_env(struct launch *l, char (*config)[PATH_MAX + 32])
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
		l->env[n++] = plain[i];
	snprintf(*config, sizeof(*config), "GIT_CONFIG_SYSTEM=%s/etc/gitconfig",
	         l->g->jailed ? "" : l->g->jail_dir);
	l->env[n++] = *config;
	if (l->o->network) {
		l->env[n++] = "http_proxy=http://127.0.0.1:8080";
		l->env[n++] = "https_proxy=http://127.0.0.1:8080";
	}
	for (size_t i = 0; l->o->env && l->o->env[i] && n < ENV_MAX; i++)
		l->env[n++] = l->o->env[i];
	l->env[n] = NULL;
}

static int reap(pid_t pid)
{
	int st = 0;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

/* Waits for the exec. */
static int read_report(int fd, const char *program, struct err *err)
{
	struct report rep = { 0 };
	ssize_t n;

	do
		n = read(fd, &rep, sizeof(rep));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(rep))
		return err_set(err, -EIO, "start '%s': no message from the child", program);
	return err_sys(err, rep.code, "start '%s': %s", program, rep.what);
}

#ifdef __SANITIZE_THREAD__
/*
 * ThreadSanitizer has to hear of it, as it does of a fork(): otherwise the child may wait for ever
 * for a lock of ThreadSanitizer's own, and what it closes looks like files that threads share.
 */
void __sanitizer_syscall_pre_impl_fork(void);
void __sanitizer_syscall_post_impl_fork(long r);

__attribute__((no_sanitize("thread"))) static pid_t sys_clone(struct clone_args *args)
{
	long r;

	__sanitizer_syscall_pre_impl_fork();
	r = syscall(SYS_clone3, args, sizeof(*args));
	__sanitizer_syscall_post_impl_fork(r);
	return (pid_t)r;
}
#else
static pid_t sys_clone(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}
#endif

static pid_t launch(struct launch *l, int *ret_pidfd)
{
	struct clone_args args = { .flags = CLONE_PIDFD | (l->g->jailed ? NAMESPACES : 0u),
		                   .pidfd = (uintptr_t)ret_pidfd,
		                   .exit_signal = SIGCHLD };
	pid_t pid = sys_clone(&args);

	if (pid == 0) {
		struct report rep = { 0 };
		const char *what = child_main(l);

		rep.code = errno ? -errno : -EIO;
		for (size_t i = 0; what[i] && i + 1 < sizeof(rep.what); i++)
			rep.what[i] = what[i];
		if (write(l->report, &rep, sizeof(rep)) < 0)
			_exit(126);
		_exit(127);
	}
	return pid < 0 ? -errno : pid;
}

/* Both ends of what the child tells us with, and, with network, of where its socket comes from. */
struct lines {
	int report[2], sock[2];
};

static void lines_done(struct lines *p)
{
	int all[] = { p->report[0], p->report[1], p->sock[0], p->sock[1] };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] >= 0)
			close(all[i]);
}

static int take_listener(int sock, int *ret, struct err *err)
{
	size_t n = 0;
	char c;

	if (sock_recv_fds(sock, &c, 1, ret, 1, &n) != 1 || n != 1)
		return err_set(err, -EIO, "the child did not pass a socket");
	return 0;
}

static int start_counted(struct repos *g, const struct child_opts *o, struct child *ret,
                         int *ret_listen, struct err *err)
{
	AUTO(lines_done) struct lines p = { { -1, -1 }, { -1, -1 } };
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct launch l = { .g = g, .o = o, .repo = o->repo, .work = o->work };
	char config[PATH_MAX + 32];
	int pidfd = -1, r;
	pid_t pid;

	if (o->network && !g->jailed)
		return err_tag(err, -ENOTSUP, ERR_GIT_SERVER_ERROR,
		               "this server cannot fetch from other servers: %s", g->jail_text);
	if (null < 0 || pipe2(p.report, O_CLOEXEC) < 0 ||
	    (o->network && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p.sock) < 0))
		return err_sys(err, -errno, "prepare for '%s'", o->argv[0]);
	l.fds[0] = o->in >= 0 ? o->in : null;
	l.fds[1] = o->out >= 0 ? o->out : null;
	l.fds[2] = o->err >= 0 ? o->err : null;
	l.fds[3] = o->extra;
	l.report = p.report[1];
	l.sock = p.sock[1];
	make_env(&l, &config);
	pid = launch(&l, &pidfd);
	if (pid < 0)
		return err_sys(err, pid, "start '%s'", o->argv[0]);
	close(TAKE_FD(p.report[1]));
	if (p.sock[1] >= 0)
		close(TAKE_FD(p.sock[1]));
	r = read_report(p.report[0], o->argv[0], err);
	if (r == 0 && o->network)
		r = take_listener(p.sock[0], ret_listen, err);
	if (r < 0) {
		kill(pid, SIGKILL); /* our child, not reaped yet: the pid is still its own */
		reap(pid);
		close(pidfd);
		return r;
	}
	ret->p = (struct proc){ .pid = pid, .pidfd = pidfd };
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

/* ---- the skeleton ---- */

/*
 * What receive-pack is about to do, on the disk before it does it; then what it has done: note.c.
 * Names were not looked at yet: one may be longer than we keep, or have lines of its own.
 */
static const char pre_hook[] =
        "#!/bin/sh\n"
        "while read -r old new ref; do\n"
        "\tif [ -z \"$ref\" ] || [ ${#ref} -gt " PUSHED_REF_MAX " ]; then\n"
        "\t\techo 'the name of a reference has at most " PUSHED_REF_MAX " bytes' >&2\n"
        "\t\texit 1\n"
        "\tfi\n"
        "\tprintf '%s %s %s\\n' \"$old\" \"$new\" \"$ref\" >&3\n"
        "done\n"
        "exec dd conv=fsync status=none </dev/null >&3\n";
/* No program is started for it: a line for each reference is soon read. */
static const char post_hook[] = "#!/bin/sh\n"
                                "echo done >&3\n"
                                "while read -r line; do printf '%s\\n' \"$line\" >&3; done\n";

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
	char target[32];
	int r;

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
	    (r = io_write_file(dir, "hooks/pre-receive", pre_hook, strlen(pre_hook), 0700, err)) <
	            0 ||
	    (r = io_write_file(dir, "hooks/post-receive", post_hook, strlen(post_hook), 0700,
	                       err)) < 0)
		return r;
	return write_config(g, dir, err);
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
