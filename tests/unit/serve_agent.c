/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_agent.c - the real API and manager over machines that are the real agent: for Python tests
 *
 * usage: serve_agent [--ssh] KERNELS. Prints "PORT KEY DIRECTORY" (with --ssh before it the port of
 * an SSH front) and serves until its stdin ends. Machines are those of tests/vm/rig.h, so commands
 * of a guest run on this host; DIRECTORY is one for tests to work in. A word on stdin is done and
 * answered with "ok": "suspend" suspends every VM, "warm" starts the kernels that a template has in
 * every VM, "agent" prints the process id of the last VM's agent, "data" the server's data
 * directory, "status" how many use the SSH front and how many of its processes ended badly. With
 * SERVE_NODE it is a node (tests/vm/rig.c), with SERVE_DATA on the data directory of one that was
 * killed; with SERVE_SSH_PROGRAM, these are of that program
 * instead of pando-ssh; with SERVE_LOG, the log is as of a server.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/starter.h"
#include "git/jail.h"
#include "guest/guest.h"
#include "guest/guest_code.h"
#include "peer/peer.h"
#include "ssh/ssh.h"
#include "tests/unit/api_fx.h"
#include "vm/vm.h"

#define WARM_MS 120000
#define SSH_GRACE_MS 10000 /* short: a test waits for it */

static void suspend(struct fx *f, const struct vm_info *v)
{
	struct vm_info now;

	if (v->state == VM_RUNNING && vmm_suspend(f->vmm, v->account, v->id, &now, &err) < 0)
		fprintf(stderr, "suspend: %s\n", err.msg);
}

/* What a template has: kernels with their libraries loaded. */
static void warm(struct fx *f, const struct vm_info *v)
{
	static const struct guest_code_req cells[] = {
		{ .language = AGENT_LANG_PYTHON, .code = "", .warm = true },
		{ .language = AGENT_LANG_JAVASCRIPT, .code = "", .warm = true, .spare = true },
	};
	AUTO(guest_unrefp) struct guest *g = NULL;
	int r = vmm_guest(f->vmm, v->account, v->id, &g, &err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cells); i++)
		r = guest_code_warm(g, &cells[i], WARM_MS, &err);
	if (r < 0)
		fprintf(stderr, "warm: %s\n", err.msg);
}

static void print_agent(struct fx *f, const struct vm_info *v)
{
	struct fake_machine m;

	if (fake_find(f->rig->fake, v->instance, &m))
		printf("%d\n", m.agent);
}

/* The newest comes last. */
static void each_vm(struct fx *f, void (*fn)(struct fx *f, const struct vm_info *v), bool last_only)
{
	autofree struct vm_info *v = NULL;
	char account[ACCOUNT_SIZE];
	size_t n = 0;

	if (store_account_first(f->store, account, &err) < 0 ||
	    vmm_list(f->vmm, account, &v, &n, &err) < 0)
		return;
	for (size_t i = n; i-- > 0;)
		if (!last_only || i == 0)
			fn(f, &v[i]);
}

static struct sshd *ssh_front(struct fx *f)
{
	struct sshd_deps deps = { .auth = f->auth,
		                  .vmm = f->vmm,
		                  .repos = f->repos,
		                  .store = f->rig->node ? f->store : NULL,
		                  .peers = f->peers,
		                  .data_dir = f->dir.path,
		                  .listen_fd = sshd_listen("127.0.0.1:0", &err),
		                  .grace_ms = SSH_GRACE_MS };
	struct sshd *d = NULL;

	if (deps.listen_fd < 0 || sshd_start(&deps, &d, &err) < 0)
		fprintf(stderr, "SSH: %s\n", err.msg);
	return d;
}

static void command(struct fx *f, struct sshd *sshd, const char *word)
{
	struct sshd_status ssh = { 0 };

	if (strcmp(word, "suspend\n") == 0)
		each_vm(f, suspend, /* last_only= */ false);
	if (strcmp(word, "warm\n") == 0)
		each_vm(f, warm, /* last_only= */ false);
	if (strcmp(word, "agent\n") == 0)
		each_vm(f, print_agent, /* last_only= */ true);
	if (strcmp(word, "data\n") == 0)
		puts(f->dir.path);
	if (strcmp(word, "status\n") == 0 && sshd) {
		sshd_status(sshd, &ssh);
		printf("%u %u %u\n", ssh.connections, ssh.channels, ssh.ended_badly);
	}
	puts("ok");
	fflush(stdout);
}

/* 0 when everything ended as it should. */
static int serve(struct fx *f, bool with_ssh)
{
	struct sshd_status ssh = { 0 };
	struct sshd *sshd = NULL;
	struct tmpdir work;
	char line[64];
	int r;

	if (tmpdir_make(&work) < 0 || chmod(work.path, 0755) < 0) /* others than root act in it */
		return -1;
	if (with_ssh) {
		if (!(sshd = ssh_front(f)))
			return -1;
		sshd_status(sshd, &ssh);
		printf("%s ", strrchr(ssh.address, ':') + 1);
	}
	printf("%u %s %s\n", f->port, f->key, work.path);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		command(f, sshd, line);
	r = sshd_stop(sshd, FX_DRAIN_MS, &err);
	fx_stop(f);
	f->api = NULL;
	if (r < 0) { /* connections end with their guests */
		vmm_suspend_all(f->vmm);
		r = sshd_stop(sshd, FX_DRAIN_MS, &err);
	}
	if (r < 0) {
		fprintf(stderr, "the SSH server cannot be ended: %s\n", err.msg);
		_exit(1);
	}
	peers_end(f->peers);
	sshd_free(sshd);
	return tmpdir_remove(&work);
}

/*
 * A template needs a kernel of every language, and this host may lack what they import. So it is
 * made where all of them are Bash, kept by the rig, and used where they are the real ones.
 */
static int use_kernels(const char *dir)
{
	void *state = NULL;

	if (fx_setup(&state) < 0 || fx_teardown(&state) < 0)
		return -1;
	fake_end();
	return setenv("PANDO_KERNEL", dir, /* overwrite= */ 1) < 0 ? -1 : fake_begin(&err);
}

/* Only now: the one that made the template was none. */
static int be_node(void)
{
	const char *node = getenv("SERVE_NODE"), *data = getenv("SERVE_DATA");

	if (data && setenv("FX_DATA", data, /* overwrite= */ 1) < 0)
		return -1;
	return node ? setenv("RIG_NODE", node, /* overwrite= */ 1) : 0;
}

/* Programs are started for the SSH front and for Git. */
static int start_starter(void)
{
	static const struct starter_kind *const kinds[] = { &jail_kind, &sshd_kind };
	struct jail_rules any = { .filter = true, .otherwise = SYSFILTER_EPERM };
	const char *program = getenv("SERVE_SSH_PROGRAM");

	if (jail_kind_init(&any, &err) < 0 ||
	    sshd_kind_init(program ? program : SSH_PROGRAM, &err) < 0)
		return -1;
	return starter_open(kinds, ARRAY_SIZE(kinds), &err);
}

int main(int argc, char **argv)
{
	bool with_ssh = argc > 1 && strcmp(argv[1], "--ssh") == 0;
	void *state = NULL;
	int r;

	if (argc != 2 + with_ssh)
		return 2;
	if (start_starter() < 0) {
		fprintf(stderr, "serve_agent: %s\n", err.msg);
		return 1;
	}
	r = rig_main_begin();
	if (r)
		return r;
	if (use_kernels(argv[argc - 1]) < 0 || be_node() < 0 || fx_setup(&state) < 0) {
		fprintf(stderr, "serve_agent: %s\n", err.msg);
		rig_main_end();
		return 1;
	}
	if (getenv("SERVE_LOG"))
		log_init("serve_agent", LOG_LV_INFO);
	r = serve(state, with_ssh);
	if (fx_teardown(&state) < 0)
		r = -1;
	rig_main_end();
	starter_close();
	return r < 0;
}
