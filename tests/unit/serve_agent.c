/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_agent.c - the real API over the real agent, without a machine: for test_api_streams.py
 *
 * usage: serve_agent AGENT [KERNELS]. Prints "PORT KEY DIRECTORY" (with --ssh before AGENT also the
 * port of an SSH front) and serves until its stdin ends.
 * VMs are rows of the fake vmm; every one of them is the same agent, a child of this process that
 * has the directory as its test root. "suspend" on stdin ends the agent's channel as a
 * suspend would; the next use makes a new one, as a resume does. "warm" starts the kernels a
 * template has.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "guest/guest.h"
#include "guest/guest_code.h"
#include "ssh/ssh.h"
#include "tests/unit/api_fx.h"

#define HELLO_MS 30000
#define WARM_MS 120000
#define SSH_GRACE_MS 10000 /* short: a test waits for it */

static struct {
	const char *exe, *kernels;
	char root[300];
	struct mutex lock;
	struct guest *g; /* owned; NULL: none now */
	pid_t pid;
} agent = { .lock = MUTEX_INIT("serve agent") };

static int agent_spawn(struct err *e)
{
	struct guest_identity id = { .reason = GUEST_BOOT,
		                     .generation = 1,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "pando-test" };
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "socketpair");
	agent.pid = fork();
	if (agent.pid < 0)
		return err_sys(e, -errno, "fork");
	if (agent.pid == 0) {
		if (dup2(pair[1], 3) < 0)
			_exit(1);
		close_range(4, ~0u, 0);
		execl(agent.exe, "pando-agent", "--fd", "3", "--test-root", agent.root, "--kernels",
		      agent.kernels, NULL);
		_exit(127);
	}
	close(pair[1]);
	r = guest_new("test", pair[0], &agent.g, e);
	return r < 0 ? r : guest_hello(agent.g, &id, deadline_in(HELLO_MS), NULL, e);
}

static void agent_end(void)
{
	if (agent.g) {
		guest_close(agent.g);
		guest_unref(TAKE_PTR(agent.g));
	}
	if (agent.pid > 0)
		while (waitpid(agent.pid, NULL, 0) < 0 && errno == EINTR)
			;
	agent.pid = 0;
}

int fake_guest(struct guest **ret, struct err *e)
{
	LOCK_SCOPE(&agent.lock);

	if (!agent.g) {
		int r = agent_spawn(e);

		if (r < 0)
			return r;
	}
	*ret = guest_ref(agent.g);
	return 0;
}

/* What a template has: kernels with their libraries loaded. */
static void warm(void)
{
	static const struct guest_code_req cells[] = {
		{ .language = AGENT_LANG_PYTHON, .code = "", .warm = true },
		{ .language = AGENT_LANG_JAVASCRIPT, .code = "", .warm = true, .spare = true },
	};
	struct guest *g = NULL;
	struct err e = { 0 };
	int r = fake_guest(&g, &e);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cells); i++)
		r = guest_code_warm(g, &cells[i], WARM_MS, &e);
	if (r < 0)
		fprintf(stderr, "warm: %s\n", e.msg);
	guest_unref(g);
}

static struct sshd *ssh_front(struct fx *f)
{
	struct sshd_deps deps = { .auth = f->auth,
		                  .vmm = f->vmm,
		                  .repos = f->repos,
		                  .data_dir = f->dir.path,
		                  .listen_fd = sshd_listen("127.0.0.1:0", &err),
		                  .grace_ms = SSH_GRACE_MS };
	struct sshd *d = NULL;

	if (deps.listen_fd < 0 || sshd_start(&deps, &d, &err) < 0)
		fprintf(stderr, "SSH: %s\n", err.msg);
	return d;
}

int main(int argc, char **argv)
{
	const char *const dirs[] = { "etc", "run", "var", "var/lib", "var/lib/dbus", "work" };
	struct sshd_status ssh = { 0 };
	struct sshd *sshd = NULL;
	bool with_ssh = argc > 1 && strcmp(argv[1], "--ssh") == 0;
	void *state = NULL;
	char line[64];
	struct fx *f;
	int r;

	argc -= with_ssh;
	argv += with_ssh;
	if (argc != 2 && argc != 3)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	agent.exe = argv[1];
	agent.kernels = argc > 2 ? argv[2] : "/nowhere";
	if (fx_setup(&state) < 0)
		return 1;
	f = state;
	snprintf(agent.root, sizeof(agent.root), "%s/agent", f->dir.path);
	chmod(f->dir.path, 0755); /* others than root act in it too */
	if (mkdir(agent.root, 0755) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char sub[512];

		snprintf(sub, sizeof(sub), "%s/%s", agent.root, dirs[i]);
		if (mkdir(sub, 0755) < 0)
			return 1;
	}
	if (with_ssh) {
		if (!(sshd = ssh_front(f)))
			return 1;
		sshd_status(sshd, &ssh);
		printf("%s ", strrchr(ssh.address, ':') + 1);
	}
	printf("%u %s %s/work\n", f->port, f->key, agent.root);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "suspend\n") == 0) {
			LOCK_SCOPE(&agent.lock);
			agent_end();
		}
		if (strcmp(line, "warm\n") == 0)
			warm();
		if (strcmp(line, "status\n") == 0 && sshd) {
			sshd_status(sshd, &ssh);
			printf("%u %u\n", ssh.connections, ssh.channels);
		}
		puts("ok");
		fflush(stdout);
	}
	r = sshd_stop(sshd, 10000, &err);
	sshd_free(sshd);
	if (r == 0)
		r = api_stop(f->api, 10000, &err);
	f->api = NULL;
	agent_end();
	if (r < 0)
		fprintf(stderr, "stop: %s\n", err.msg);
	return fx_teardown(&state) < 0 || r < 0;
}
