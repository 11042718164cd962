/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pando-priv - the small part of Pando that is root
 *
 * Theory of operation: check the host, take the instance's lock, build its parts in
 * order (addresses and host rules, running VMs of an earlier start, the jail's
 * root, cgroups, slots, worker), then supervise pandod until it is over. Parts
 * are freed in reverse order. Whether things on the host are removed is decided once,
 * at the end: only after a clean end of pandod, or if nothing is running.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/confine.h"
#include "priv/priv.h"
#include "priv/seedns.h"
#include "priv/slot.h"
#include "priv/vms.h"
#include "priv/worker.h"

#define SLOTS_READY_DEFAULT 4
#define UID_BASE_DEFAULT                                                                           \
	1900000000        /* above what distributions, systemd and containers assign; each address \
	                     block has PRIV_SLOTS_LIMIT of them from here */
#define UID_BASE_MIN 1000 /* below are the system's own users */
#define KILL_DEADLINE_MS 20000 /* for VMs that are left at the end */
#define EXIT_USAGE 2
#define PANDOD_MB_LEAST 2048u /* of the default for --pandod-mem */

static const char usage[] =
        "Usage: pando-priv --data DIR [options] -- /path/to/pandod [arguments]\n"
        "       pando-priv --data DIR --clean\n"
        "\n"
        "Runs as root: starts pandod as an unprivileged user, and does for it the few\n"
        "things that need root: network slots and jailed QEMU processes.\n\n"
        "  --data DIR        data directory; one pando-priv per directory\n"
        "  --user NAME       user that pandod runs as (pando)\n"
        "  --qemu PATH       QEMU (/usr/bin/qemu-system-x86_64)\n"
        "  --layers PATH     memory layer library to load into QEMU\n"
        "  --net ADDRESS     /16 that slots take their addresses from (" NET_POOL_DEFAULT ")\n"
        "  --slots-ready N   slots to build ahead of need (4)\n"
        "  --slots-max N     maximum number of slots (1024)\n"
        "  --uid-base N      first user id of VMs (1900000000)\n"
        "  --pandod-mem MB   memory of pandod and the programs it starts; 0: no limit\n"
        "                    (half of the host's, at least 2048)\n"
        "  --no-cpu-limit    share CPUs by weight only, without a hard limit per VM\n"
        "  --no-restart      exit when pandod ends unexpectedly\n"
        "  --clean           remove what a server left on this host, and end its VMs\n"
        "  --log-level L     debug, info, warn, error (info)\n";

static int number(const char *name, const char *s, unsigned long min, unsigned long max,
                  unsigned long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoul(s, &end, 10);
	if (errno || !*s || *end || *s == '-' || *ret < min || *ret > max) {
		fprintf(stderr, "pando-priv: --%s %s: must be %lu to %lu\n", name, s, min, max);
		return -EINVAL;
	}
	return 0;
}

enum { O_DATA = 1, O_USER, O_QEMU, O_LAYERS, O_NET, O_READY, O_MAX, O_UIDS, O_NOCPU, O_NORESTART };
enum { O_CLEAN = 20, O_LOG, O_HELP, O_MEM };

static const struct option options[] = {
	{ "data", required_argument, NULL, O_DATA },
	{ "user", required_argument, NULL, O_USER },
	{ "qemu", required_argument, NULL, O_QEMU },
	{ "layers", required_argument, NULL, O_LAYERS },
	{ "net", required_argument, NULL, O_NET },
	{ "slots-ready", required_argument, NULL, O_READY },
	{ "slots-max", required_argument, NULL, O_MAX },
	{ "uid-base", required_argument, NULL, O_UIDS },
	{ "pandod-mem", required_argument, NULL, O_MEM },
	{ "no-cpu-limit", no_argument, NULL, O_NOCPU },
	{ "no-restart", no_argument, NULL, O_NORESTART },
	{ "clean", no_argument, NULL, O_CLEAN },
	{ "log-level", required_argument, NULL, O_LOG },
	{ "help", no_argument, NULL, O_HELP },
	{ 0 },
};

static int set_option(struct conf *c, int opt, const char *arg)
{
	unsigned long n = 0;
	int r = 0;

	switch (opt) {
	case O_DATA:
		c->data = arg;
		break;
	case O_USER:
		c->user = arg;
		break;
	case O_QEMU:
		c->qemu = arg;
		break;
	case O_LAYERS:
		c->layers = arg;
		break;
	case O_NET:
		c->net_pool = arg;
		break;
	case O_READY:
		r = number("slots-ready", arg, 0, 64, &n);
		c->slots_ready = (uint32_t)n;
		break;
	case O_MAX:
		r = number("slots-max", arg, 1, PRIV_SLOTS_LIMIT, &n);
		c->slots_max = (uint32_t)n;
		break;
	case O_UIDS:
		r = number("uid-base", arg, UID_BASE_MIN, 0x7fff0000, &n);
		c->uid_base = (uid_t)n;
		break;
	case O_MEM:
		r = number("pandod-mem", arg, 0, 1u << 24, &n);
		c->pandod_mb = (uint32_t)n;
		break;
	case O_NOCPU:
		c->cpu_quota = false;
		break;
	case O_NORESTART:
		c->restart = false;
		break;
	case O_CLEAN:
		c->clean = true;
		break;
	case O_LOG:
		r = log_level_parse(arg);
		if (r >= 0)
			log_init("pando-priv", (enum log_level)r);
		else
			fprintf(stderr, "pando-priv: unknown log level '%s'\n", arg);
		break;
	default:
		return -EINVAL;
	}
	return r;
}

static uint32_t pandod_mb_default(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0
	               ? MAX((uint32_t)(((uint64_t)pages * (uint64_t)size) >> 21), PANDOD_MB_LEAST)
	               : 0;
}

/* 0, 1 (help was shown) or -EINVAL. */
static int parse(int argc, char **argv, struct conf *c)
{
	int opt;

	*c = (struct conf){ .user = "pando",
		            .qemu = "/usr/bin/qemu-system-x86_64",
		            .net_pool = NET_POOL_DEFAULT,
		            .slots_max = PRIV_SLOTS_LIMIT,
		            .slots_ready = SLOTS_READY_DEFAULT,
		            .uid_base = UID_BASE_DEFAULT,
		            .pandod_mb = pandod_mb_default(),
		            .restart = true,
		            .cpu_quota = true };
	while ((opt = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (opt == O_HELP || opt == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (set_option(c, opt, optarg) < 0)
			return -EINVAL;
	}
	c->argv = argv + optind;
	if (!c->data || (!c->clean && !c->argv[0]) || (c->clean && c->argv[0])) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	return 0;
}

/* ---- the host ---- */

static int check_user(struct conf *c, struct err *err)
{
	struct passwd *pw = getpwnam(c->user);

	if (!pw)
		return err_set(err, -ENOENT,
		               "there is no user '%s': create it with 'useradd --system --home-dir "
		               "/var/lib/pando --no-create-home --shell /usr/sbin/nologin %s'",
		               c->user, c->user);
	if (pw->pw_uid == 0)
		return err_set(err, -EINVAL, "pandod must not run as root: choose another --user");
	c->uid = pw->pw_uid;
	c->gid = pw->pw_gid;
	return 0;
}

static int check_data(const struct conf *c, struct err *err)
{
	struct stat st;
	int r;

	if (stat(c->data, &st) == 0)
		return S_ISDIR(st.st_mode)
		               ? 0
		               : err_set(err, -ENOTDIR, "'%s' is not a directory", c->data);
	if ((r = io_mkdirs(c->data, 0700, err)) < 0)
		return r;
	if (chown(c->data, c->uid, c->gid) < 0)
		return err_sys(err, -errno, "give '%s' to %s", c->data, c->user);
	return 0;
}

static int check_host(struct conf *c, struct err *err)
{
	autofd int tun = -1;
	int r;

	if (geteuid() != 0)
		return err_set(err, -EPERM,
		               "pando-priv must be started by root, for example with sudo");
	tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (tun < 0)
		return err_sys(
		        err, -errno,
		        "open /dev/net/tun (load it with 'modprobe tun'; a container must be "
		        "given the device)");
	if (!c->clean && access(c->qemu, X_OK) < 0)
		return err_sys(err, -errno,
		               "QEMU '%s' (install it with 'apt-get install qemu-system-x86', or "
		               "give its path with --qemu)",
		               c->qemu);
	if (c->layers && access(c->layers, R_OK) < 0)
		return err_sys(err, -errno, "layer library '%s'", c->layers);
	if ((r = check_user(c, err)) < 0)
		return r;
	return check_data(c, err);
}

static int prepare_process(struct priv *p, struct err *err)
{
	struct rlimit rl;
	sigset_t stop;
	int fd;

	do { /* 0, 1 and 2 must not become anything else */
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= 2);
	if (fd >= 0)
		close(fd);
	umask(022);
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max; /* a few descriptors per slot and VM */
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	/* pandod's threads may become as little nice again as they were (http/heavy.c), not less.
	 */
	rl.rlim_cur = rl.rlim_max = (rlim_t)(20 - getpriority(PRIO_PROCESS, 0));
	setrlimit(RLIMIT_NICE, &rl);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGHUP);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	p->signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->signals < 0 || p->epoll < 0)
		return err_sys(err, -errno, "signalfd or epoll");
	return 0;
}

/* ---- start and end ---- */

static int poll_adopted(struct priv *p, bool keep[PRIV_SLOTS_LIMIT], struct err *err)
{
	for (uint32_t i = 0; i < p->vms->top; i++) {
		const struct vm *vm = &p->vms->vm[i];
		int r;

		if (!vm->used)
			continue;
		if (vm->slot >= 0)
			keep[vm->slot] = true;
		r = poll_add(p, vm->proc.pidfd, POLL_VM, i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int priv_open(struct priv *p, struct err *err)
{
	autofree bool *keep = calloc(PRIV_SLOTS_LIMIT, sizeof(*keep));
	struct slots_conf sc = { .in = &p->in, .max = p->conf.slots_max };
	int r;

	if (!keep)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = instance_open(p->conf.data, &p->in, err)) < 0 ||
	    (r = hostnet_open(&p->in, p->conf.net_pool, &p->net, err)) < 0)
		return r;
	p->vms = vms_new(&p->in, p->conf.uid_base + p->net.block_n * PRIV_SLOTS_LIMIT);
	if (!p->vms)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = vms_take_up(p->vms, err)) < 0 || (r = poll_adopted(p, keep, err)) < 0)
		return r;
	if (!p->conf.clean &&
	    (r = jail_open(&p->in, p->conf.qemu, p->conf.layers, &p->jail, err)) < 0)
		return r;
	if (!p->conf.clean) {
		struct err why = { 0 };

		if (seedns_users(p->vms->uid_base, PRIV_SLOTS_LIMIT, &p->jail.users, &why) < 0)
			log_info("VMs are not forked from a seed: %s", why.msg);
	}
	cgroups_open(&p->cg, &p->in, p->conf.cpu_quota);
	cgroups_sweep(&p->cg, vms_has_group, p->vms);
	sc.block = p->net.block;
	sc.mtu = p->net.mtu;
	sc.ready = p->conf.clean ? 0 : p->conf.slots_ready;
	if ((r = slots_open(&sc, keep, &p->slots, err)) < 0)
		return r;
	return worker_start(&p->cg, &p->worker, err);
}

static bool anything_runs(const struct priv *p)
{
	for (uint32_t i = 0; p->vms && i < p->vms->top; i++)
		if (p->vms->vm[i].used)
			return true;
	return false;
}

static void end_vms(struct priv *p)
{
	uint64_t deadline = deadline_in(KILL_DEADLINE_MS);

	for (uint32_t i = 0; i < p->vms->top; i++)
		if (p->vms->vm[i].used) {
			log_obj(LOG_LV_WARN, "vm", p->vms->vm[i].id, "still runs, ending it");
			proc_kill(&p->vms->vm[i].proc, SIGKILL);
		}
	for (uint32_t i = 0; i < p->vms->top; i++) {
		struct vm *vm = &p->vms->vm[i];

		if (!vm->used)
			continue;
		if (proc_wait_end(&vm->proc, deadline) != 1)
			log_obj(LOG_LV_ERROR, "vm", vm->id, "does not end");
		vms_finish(p->vms, vm);
	}
}

static void priv_close(struct priv *p, bool remove)
{
	p->worker = worker_stop(p->worker);
	if (remove && p->vms)
		end_vms(p);
	p->slots = slots_close(p->slots, remove);
	if (remove && p->cg.mode != CGROUP_NONE)
		cgroups_remove(&p->cg);
	jail_close(&p->jail);
	p->vms = vms_free(p->vms);
	hostnet_close(&p->net, remove && p->net.nl >= 0);
	instance_close(&p->in, remove);
	if (p->super.exe_fd >= 0)
		close(p->super.exe_fd);
	if (p->super.conn >= 0)
		close(p->super.conn);
	proc_close(&p->super.pandod);
	if (p->signals >= 0)
		close(p->signals);
	if (p->fence.timer >= 0)
		close(p->fence.timer);
	if (p->epoll >= 0)
		close(p->epoll);
}

static int run(struct priv *p, struct err *err)
{
	int r;

	oom_score(OOM_PRIV, NULL); /* lowering it needs a capability that is then dropped */
	if ((r = check_host(&p->conf, err)) < 0 || (r = confine(err)) < 0 ||
	    (r = prepare_process(p, err)) < 0)
		return r;
	if (!p->conf.clean) {
		p->super.exe_fd = open(p->conf.argv[0], O_PATH | O_CLOEXEC);
		if (p->super.exe_fd < 0)
			return err_sys(err, -errno, "pandod '%s'", p->conf.argv[0]);
	}
	if ((r = priv_open(p, err)) < 0)
		return r;
	if (p->conf.clean) {
		p->super.clean = true;
		return 0;
	}
	log_info("instance %s on '%s': addresses %u.%u.%u.%u/%u, limits: %s", p->in.tag, p->in.data,
	         p->net.block >> 24, p->net.block >> 16 & 255, p->net.block >> 8 & 255,
	         p->net.block & 255, NET_BLOCK_PREFIX, p->cg.limits);
	return supervise(p, err);
}

int main(int argc, char **argv)
{
	static struct priv p; /* large, and mostly initialised with zero */
	struct err err = { 0 };
	int r;

	log_init("pando-priv", LOG_LV_INFO);
	p.in = INSTANCE_NONE;
	p.net = HOSTNET_NONE;
	p.jail = JAIL_NONE;
	p.super = (struct super){ .exe_fd = -1, .conn = -1, .pandod = PROC_NONE };
	p.epoll = p.signals = p.fence.timer = -1;
	p.pace = (struct pace)PACE_FULL;
	r = parse(argc, argv, &p.conf);
	if (r != 0)
		return r > 0 ? 0 : EXIT_USAGE;
	r = run(&p, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		p.super.exit_code = p.super.exit_code ? p.super.exit_code : 1;
	}
	/* A failed start leaves everything as it was; a failure never ends running VMs. */
	priv_close(&p, p.in.lock_fd >= 0 && (p.super.clean || !anything_runs(&p)));
	return p.super.exit_code;
}
