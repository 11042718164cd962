/* SPDX-License-Identifier: MIT */
/*
 * test_seed.c - a real QEMU is forked into others
 *
 *	test_seed LIBRARY QEMU
 *
 * The guest counts in memory (qemu.h), so a child that runs can be told from its seed and from its
 * siblings by what is in it. The gate is served by the test, in the place of pando-priv.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "qemu.h"

#define MEM (UINT64_C(64) << 20)
#define CHILDREN 3

static const char *so_path, *qemu_path;

struct seed {
	struct qemu q;
	char dir[32];
	int console, log, disk; /* owned */
	int agent_fd;           /* owned: the connected channel */
	int layer;              /* owned: what its memory was frozen to */
	int listening[3];       /* owned */
	uint8_t *mem;           /* owned: its memory when it became a seed */
};

struct child {
	struct qemu q;
	pid_t pid;
	int gate, agent_fd; /* owned */
};

static int listen_at(const char *dir, const char *name, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", dir, name);
	unlink(a.sun_path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static int connect_at(const char *dir, const char *name, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", dir, name);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static int append_file(void)
{
	char path[64];
	int file = rig_file(), fd;

	rig_path(file, path);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC); /* an fdset goes by the mode */
	assert_true(fd >= 0);
	close(file);
	return fd;
}

/* As pando-priv does: descriptors at their places, then exec. */
static pid_t start(const struct seed *s, char *const argv[], const int *fds, size_t n)
{
	char env_fd[48], env_mem[48], preload[512];
	char seed_env[] = LAYERS_ENV_SEED "=1";
	char *env[] = { env_fd, env_mem, preload, seed_env, NULL };
	pid_t pid;

	snprintf(env_fd, sizeof(env_fd), LAYERS_ENV_FD "=%d", 12);
	snprintf(env_mem, sizeof(env_mem), LAYERS_ENV_MEM "=%llu", (unsigned long long)MEM);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", so_path);
	pid = fork();
	if (pid == 0) {
		int high[8], null_fd = open("/dev/null", O_RDONLY);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < n; i++)
			high[i] = fcntl(fds[i], F_DUPFD, 200);
		dup2(null_fd, 0);
		dup2(s->log, 1);
		dup2(s->log, 2);
		for (size_t i = 0; i < n; i++)
			dup2(high[i], 10 + (int)i);
		close_range(10 + (unsigned)n, ~0u, 0);
		execve(argv[0], argv, env);
		_exit(127);
	}
	return pid;
}

static void seed_open(struct seed *s)
{
	static char object[160];
	char bios[64];
	int bios_fd;

	*s = (struct seed){ .dir = "/tmp/test-seed-XXXXXX" };
	assert_non_null(mkdtemp(s->dir));
	s->listening[0] = listen_at(s->dir, "qmp", SOCK_STREAM);
	s->listening[1] = listen_at(s->dir, "agent", SOCK_STREAM);
	s->listening[2] = listen_at(s->dir, "layers", SOCK_SEQPACKET);
	s->console = append_file();
	s->log = append_file();
	s->disk = rig_memfile();
	bios_fd = qemu_bios();
	rig_path(bios_fd, bios);
	snprintf(object, sizeof(object),
	         "memory-backend-file,id=ram,size=%llu,align=2M,mem-path=" LAYERS_RAM_PATH
	         ",share=off",
	         (unsigned long long)MEM);
	const char *const argv[] = {
		qemu_path,
		"-machine",
		"q35,usb=off,vmport=off,graphics=off,suppress-vmdesc=on,memory-backend=ram",
		"-nodefaults",
		"-no-user-config",
		"-display",
		"none",
		"-accel",
		"tcg,thread=multi",
		"-smp",
		"2",
		"-sandbox",
		"on,obsolete=deny,elevateprivileges=allow,spawn=allow,resourcecontrol=deny",
		"-object",
		object,
		"-bios",
		bios,
		"-chardev",
		"socket,id=qmp,fd=10,server=on,wait=off",
		"-mon",
		"chardev=qmp,mode=control",
		"-add-fd",
		"fd=13,set=1",
		"-chardev",
		"file,id=console,path=/dev/fdset/1,append=on",
		"-serial",
		"chardev:console",
		"-chardev",
		"socket,id=agent,fd=11,server=on,wait=off",
		"-device",
		"virtio-serial-pci,id=serial",
		"-device",
		"virtserialport,bus=serial.0,nr=1,chardev=agent,name=agent",
		"-S",
		NULL,
	};
	int fds[] = { s->listening[0], s->listening[1], s->listening[2], s->console };

	s->q.rig = (struct rig){
		.pidfd = -1, .control_fd = -1, .command_fd = -1, .shared_fd = -1, .mem_bytes = MEM
	};
	s->q.rig.pid = start(s, (char *const *)(uintptr_t)argv, fds, 4);
	s->q.bios_fd = bios_fd;
	s->q.dump_fd = rig_memfile();
	s->q.qmp_fd = connect_at(s->dir, "qmp", SOCK_STREAM);
	qemu_greet(&s->q);
	s->q.rig.control_fd = connect_at(s->dir, "layers", SOCK_SEQPACKET);
	s->agent_fd = connect_at(s->dir, "agent", SOCK_STREAM);
}

static void wait_for_change(struct qemu *q, const uint8_t *before)
{
	uint64_t deadline = rig_now_us() + RIG_DEADLINE_US;
	bool changed = false;

	while (!changed) {
		uint8_t *now = qemu_memory(q);

		assert_true(rig_now_us() < deadline);
		changed = memcmp(before + GUEST_FROM, now + GUEST_FROM, GUEST_TO - GUEST_FROM) != 0;
		free(now);
	}
}

/* The guest has run, was stopped and frozen; the process is a seed. */
static void seed_ripen(struct seed *s)
{
	struct layers_req req = { .type = LAYERS_SEED, .n_layers = 1 };
	int empty = rig_file();
	struct layers_reply r;
	uint8_t *then;

	/* MAP of an empty stack first, as a thaw: a layer of nothing */
	r = rig_freeze(&s->q.rig, 1, 0, empty);
	assert_int_equal(rig_wait_done(&s->q.rig, 1).status, 0);
	r = rig_map(&s->q.rig, &empty, 1);
	assert_int_equal(r.status, 0);
	close(empty);
	then = qemu_memory(&s->q);
	qemu_qmp(&s->q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&s->q, then);
	free(then);
	qemu_qmp(&s->q, "{\"execute\":\"stop\"}\n", -1);
	s->layer = rig_file();
	rig_freeze(&s->q.rig, 2, 0, s->layer);
	assert_int_equal(rig_wait_done(&s->q.rig, 2).status, 0);
	s->mem = qemu_memory(&s->q);
	int stack[] = { s->layer };
	r = rig_call(&s->q.rig, &req, stack, 1);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(rig_stat(&s->q.rig).pages, 0);
	then = qemu_memory(&s->q);
	assert_true(rig_same(then, s->mem, MEM));
	free(then);
}

static void seed_close(struct seed *s)
{
	char path[64];

	kill(s->q.rig.pid, SIGKILL);
	waitpid(s->q.rig.pid, NULL, 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "qmp", "agent", "layers" };

		snprintf(path, sizeof(path), "%s/%s", s->dir, names[i]);
		unlink(path);
		close(s->listening[i]);
	}
	rmdir(s->dir);
	int fds[] = { s->console,   s->log,       s->disk,     s->agent_fd,        s->layer,
		      s->q.bios_fd, s->q.dump_fd, s->q.qmp_fd, s->q.rig.control_fd };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
	free(s->mem);
}

/* The reply to FORK, with the child's pidfd. */
static int take_pidfd(int fd, struct layers_reply *ret)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof(*ret) };
	struct msghdr mh = { .msg_iov = &iov,
		             .msg_iovlen = 1,
		             .msg_control = u.buf,
		             .msg_controllen = sizeof(u.buf) };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int pidfd = -1;

	assert_int_equal(poll(&p, 1, RIG_DEADLINE_MS), 1);
	assert_int_equal(recvmsg(fd, &mh, MSG_CMSG_CLOEXEC), sizeof(*ret));
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm; cm = CMSG_NXTHDR(&mh, cm))
		memcpy(&pidfd, CMSG_DATA(cm), sizeof(int));
	return pidfd;
}

static pid_t pid_of(int pidfd)
{
	char path[64], buf[512] = "";
	int fd;
	char *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0);
	close(fd);
	at = strstr(buf, "Pid:");
	assert_non_null(at);
	return (pid_t)strtol(at + 4, NULL, 10);
}

/* Up to the gate. */
static void child_fork(struct seed *s, struct child *c)
{
	struct layers_req req = { .type = LAYERS_FORK, .n_layers = LAYERS_FORK_FDS };
	int gate[2], qmp[2], agent[2], layers[2], pidfd, fds[LAYERS_FORK_FDS];
	char dir[] = "/tmp/test-seed-XXXXXX", path[64], disk[64];
	struct layers_reply r;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gate), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, qmp), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, layers), 0);
	rig_path(s->disk, disk);
	fds[LAYERS_FORK_GATE] = gate[1];
	fds[LAYERS_FORK_LOG] = append_file();
	fds[LAYERS_FORK_CONSOLE] = append_file();
	fds[LAYERS_FORK_DISK] = open(disk, O_RDONLY | O_CLOEXEC);
	fds[LAYERS_FORK_STATE] = open(disk, O_RDONLY | O_CLOEXEC);
	fds[LAYERS_FORK_QMP] = qmp[1];
	fds[LAYERS_FORK_QMP_LISTEN] = listen_at(dir, "qmp", SOCK_STREAM);
	fds[LAYERS_FORK_AGENT] = agent[1];
	fds[LAYERS_FORK_AGENT_LISTEN] = listen_at(dir, "agent", SOCK_STREAM);
	fds[LAYERS_FORK_LAYERS] = layers[1];
	fds[LAYERS_FORK_LAYERS_LISTEN] = listen_at(dir, "layers", SOCK_SEQPACKET);
	rig_send(&s->q.rig, &req, fds, LAYERS_FORK_FDS);
	pidfd = take_pidfd(s->q.rig.control_fd, &r);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_true(pidfd >= 0);
	print_message("park and fork: %llu us\n", (unsigned long long)r.us);
	for (size_t i = 0; i < LAYERS_FORK_FDS; i++)
		close(fds[i]);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "qmp", "agent", "layers" };

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
	*c = (struct child){ .pid = pid_of(pidfd), .gate = gate[0], .agent_fd = agent[0] };
	close(pidfd);
	c->q.rig = (struct rig){ .pid = c->pid,
		                 .pidfd = -1,
		                 .control_fd = layers[0],
		                 .command_fd = -1,
		                 .shared_fd = -1,
		                 .mem_bytes = MEM };
	c->q.qmp_fd = qmp[0];
	snprintf(c->q.dump_path, sizeof(c->q.dump_path), "/tmp/test-seed-XXXXXX");
	c->q.dump_fd = mkostemp(c->q.dump_path, O_CLOEXEC);
	assert_true(c->q.dump_fd >= 0);
	c->q.bios_fd = -1;
}

static void child_go(struct child *c)
{
	struct layers_go go = { 0 };
	struct layers_reply r;

	assert_int_equal(send(c->gate, &go, sizeof(go), MSG_NOSIGNAL), sizeof(go));
	assert_true(rig_recv(&c->q.rig, &r));
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(r.type, LAYERS_FORK);
}

static void child_leave(struct child *c)
{
	unlink(c->q.dump_path);
	close(c->agent_fd);
	close(c->q.qmp_fd);
	close(c->q.dump_fd);
	close(c->q.rig.control_fd);
}

static void child_close(struct child *c)
{
	int status;

	kill(c->pid, SIGKILL);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid); /* CLONE_PARENT: it is ours */
	close(c->gate);
	child_leave(c);
}

static bool can_write(pid_t pid, int fd)
{
	char path[64], buf[256] = "", *at;
	int in;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
	in = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(in >= 0 && read(in, buf, sizeof(buf) - 1) > 0);
	close(in);
	at = strstr(buf, "flags:");
	assert_non_null(at);
	return (strtol(at + 6, NULL, 8) & O_ACCMODE) != O_RDONLY;
}

static size_t fds_of(pid_t pid, int *ret, size_t max)
{
	char path[64];
	size_t n = 0;
	struct dirent *de;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while ((de = readdir(d)) && n < max)
		if (de->d_name[0] != '.')
			ret[n++] = (int)strtol(de->d_name, NULL, 10);
	closedir(d);
	return n;
}

/* No open file that either can write to is both's. kcmp(2) tells whether two are the same. */
static void assert_nothing_shared(pid_t a, pid_t b)
{
	int fa[256], fb[256];
	size_t na = fds_of(a, fa, 256), nb = fds_of(b, fb, 256);

	assert_true(na > 10 && nb > 10);
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++) {
			if (syscall(SYS_kcmp, a, b, 0 /* KCMP_FILE */, fa[i], fb[k]) != 0)
				continue;
			if (can_write(a, fa[i]))
				fail_msg("descriptor %d of %d is %d of %d", fa[i], (int)a, fb[k],
				         (int)b);
		}
}

/* Nor memory: every shared mapping has an inode of its own. */
static void assert_no_shared_memory(pid_t a, pid_t b)
{
	char pa[64], pb[64], *la = NULL, *lb = NULL;
	size_t ca = 0, cb = 0;
	FILE *f, *g;

	snprintf(pa, sizeof(pa), "/proc/%d/maps", (int)a);
	snprintf(pb, sizeof(pb), "/proc/%d/maps", (int)b);
	f = fopen(pa, "r");
	assert_non_null(f);
	while (getline(&la, &ca, f) > 0) {
		char perms[8], inode[32], dev[16];

		if (sscanf(la, "%*s %7s %*s %15s %31s", perms, dev, inode) != 3 ||
		    perms[3] != 's' || perms[1] != 'w')
			continue;
		g = fopen(pb, "r");
		assert_non_null(g);
		while (getline(&lb, &cb, g) > 0) {
			char other[8], oi[32], od[16];

			if (sscanf(lb, "%*s %7s %*s %15s %31s", other, od, oi) == 3 &&
			    other[3] == 's' && !strcmp(oi, inode) && !strcmp(od, dev))
				fail_msg("shared: %s and %s", la, lb);
		}
		fclose(g);
	}
	fclose(f);
	free(la);
	free(lb);
}

/* Frozen: the seed's layer and this one are its memory, and this one has only what it wrote. */
static void check_freeze(struct seed *s, struct child *c)
{
	uint8_t *mem = calloc(1, MEM), *now;
	int layer = rig_file();
	struct layers_reply r;

	assert_non_null(mem);
	qemu_qmp(&c->q, "{\"execute\":\"stop\"}\n", -1);
	now = qemu_memory(&c->q);
	rig_freeze(&c->q.rig, 7, 0, layer);
	r = rig_wait_done(&c->q.rig, 7);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	/* what the guest counts in, its code and the gaps between: not all that the seed has */
	assert_in_range(r.pages, 1, (GUEST_TO - GUEST_FROM) / LAYER_PAGE + 64);
	rig_apply(s->layer, mem, MEM);
	rig_apply(layer, mem, MEM);
	assert_true(rig_same(mem, now, 0xa0000) &&
	            rig_same(mem + 0x100000, now + 0x100000, MEM - 0x100000));
	close(layer);
	free(mem);
	free(now);
	qemu_qmp(&c->q, "{\"execute\":\"cont\"}\n", -1);
}

static void test_children(void **state)
{
	static struct child c[CHILDREN];
	struct seed s;
	uint8_t *now;

	seed_open(&s);
	seed_ripen(&s);
	for (size_t i = 0; i < CHILDREN; i++) {
		child_fork(&s, &c[i]);
		child_go(&c[i]);
		assert_non_null(strstr(qemu_qmp(&c[i].q, "{\"execute\":\"query-status\"}\n", -1),
		                       "paused"));
		now = qemu_memory(&c[i].q);
		assert_true(rig_same(now, s.mem, MEM));
		free(now);
	}
	for (size_t i = 0; i < CHILDREN; i++) {
		assert_nothing_shared(s.q.rig.pid, c[i].pid);
		assert_nothing_shared(c[i].pid, c[(i + 1) % CHILDREN].pid);
		assert_no_shared_memory(s.q.rig.pid, c[i].pid);
		assert_no_shared_memory(c[i].pid, c[(i + 1) % CHILDREN].pid);
	}
	/* one goes on: it changes, the others and the seed do not */
	qemu_qmp(&c[0].q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&c[0].q, s.mem);
	now = qemu_memory(&c[1].q);
	assert_true(rig_same(now, s.mem, MEM));
	free(now);
	now = qemu_memory(&s.q);
	assert_true(rig_same(now, s.mem, MEM));
	free(now);
	qemu_qmp(&c[1].q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&c[1].q, s.mem);
	check_freeze(&s, &c[0]);
	check_freeze(&s, &c[1]);
	/* a child is no seed; its seed's end is not its own */
	kill(s.q.rig.pid, SIGKILL);
	assert_int_equal(waitpid(s.q.rig.pid, NULL, 0), s.q.rig.pid);
	check_freeze(&s, &c[0]);
	now = qemu_memory(&c[2].q);
	assert_true(rig_same(now, s.mem, MEM));
	free(now);
	qemu_qmp(&c[2].q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&c[2].q, s.mem);
	for (size_t i = 0; i < CHILDREN; i++)
		child_close(&c[i]);
	seed_close(&s);
}

/* Nobody lets it in: it ends by itself, and the seed can be forked again. */
static void test_gate_closed(void **state)
{
	static struct child c;
	struct seed s;
	int status = 0;

	seed_open(&s);
	seed_ripen(&s);
	child_fork(&s, &c);
	close(c.gate);
	assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 124);
	child_leave(&c);
	child_fork(&s, &c);
	child_go(&c);
	qemu_qmp(&c.q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&c.q, s.mem);
	child_close(&c);
	seed_close(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_gate_closed),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: test_seed LIBRARY QEMU\n");
		return 2;
	}
	so_path = argv[1];
	qemu_path = argv[2];
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
