/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - pandod: build everything in order, serve, free in reverse
 *
 * Started by pando-priv, never as root. Exit status: 0 clean shutdown, 2 a
 * configuration the operator must change (not restarted), 1 anything else.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "auth/auth.h"
#include "backup/backup.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/notify.h"
#include "build/build.h"
#include "conf.h"
#include "engine/engine.h"
#include "events/events.h"
#include "events/logs.h"
#include "front/front.h"
#include "git/git.h"
#include "git/sync.h"
#include "git/trigger.h"
#include "hook/webhooks.h"
#include "mcp/mcp.h"
#include "migrate.h"
#include "net/dns.h"
#include "net/gate.h"
#include "node/node.h"
#include "nodes.h"
#include "objects/objects.h"
#include "peer/peer.h"
#include "ports/ports.h"
#include "privc/privc.h"
#include "runs/runs.h"
#include "secret/secret.h"
#include "selfcheck.h"
#include "serverless/serverless.h"
#include "setup.h"
#include "site.h"
#include "ssh/ssh.h"
#include "store/store.h"
#include "vm/vm.h"
#include "vm/vmm.h"
#include "walled.h"
#include "walls/walls.h"
#include "web/web.h"

#define API_DRAIN_MS 2000 /* for requests that are about to finish */
#define SSH_DRAIN_MS 2000 /* for connections to close properly */

enum { EXIT_CONFIG = 2 };

struct app {
	struct conf conf;
	struct privc *priv;
	struct priv_info priv_info;
	struct store *store;
	struct secrets *secrets;
	struct node *node;   /* NULL, these two: the database is not shared */
	struct peers *peers; /* connections to other nodes */
	struct auth *auth;
	struct events *events;
	struct logs *logs;
	struct engine *engine;
	struct dns *dns;
	struct gates *gates;
	struct objects *objects; /* NULL: none */
	struct vmm *vmm;
	struct builder *builder;
	struct repos *repos;
	struct runs runs;
	struct triggers *triggers;
	struct webhooks *webhooks;
	struct syncs *syncs;
	struct serverless *serverless;
	struct front *front;
	struct ports *ports;
	struct mcp *mcp;
	struct api *api;
	struct sshd *sshd; /* NULL: none is wanted */
	char account[ACCOUNT_SIZE];
	struct walls_state walls;
	int signals;   /* signalfd */
	int listen_fd; /* for the API, which takes it over */
	int ssh_fd;    /* for the SSH server, likewise; -1: none */
};

static int priv_connect(struct app *a, struct err *err)
{
	const char *s = getenv("PANDO_PRIV_FD");
	char *end;
	long fd;

	if (!s)
		return err_set(err, -EINVAL,
		               "pandod must be started by pando-priv; see 'make run' or README.md");
	fd = strtol(s, &end, 10);
	if (*end || fd < 3 || fd > 65535)
		return err_set(err, -EINVAL, "PANDO_PRIV_FD is '%s'", s);
	unsetenv("PANDO_PRIV_FD");
	return privc_open((int)fd, &a->priv, &a->priv_info, err);
}

/* A machine that is no node yet is refused before the others hear of it. One that is joins first:
 * its VMs end with its lease, and the object store may take longer than that. */
static int join_with_objects(struct app *a, const struct nodes_self *self,
                             const struct vm_quota *quota, struct err *err)
{
	const struct conf *c = &a->conf;
	bool known = nodes_known(self, a->store);
	int r;

	if (!known && (r = setup_objects(c, a->store, &a->objects, err)) < 0)
		return r;
	r = nodes_join(c, self, a->store, a->priv, quota, &a->node, err);
	return r < 0 || !known ? r : setup_objects(c, a->store, &a->objects, err);
}

/* The keys of secrets: a file, or systemd's credential, which pando-priv opened for us. */
static int secrets_start(struct app *a, struct err *err)
{
	const char *s = getenv("PANDO_SECRET_FD");
	struct secrets_conf sc = { .data_dir = a->conf.data_dir,
		                   .file = a->conf.secret_key,
		                   .fd = s ? (int)strtol(s, NULL, 10) : -1,
		                   .create = !store_is_sealed(a->store) };
	int r;

	unsetenv("PANDO_SECRET_FD");
	r = secrets_open(&sc, &a->secrets, err);
	if (sc.fd >= 0)
		close(sc.fd);
	return r < 0 ? r : store_unlock(a->store, a->secrets, err);
}

static int repos_start(struct app *a, struct err *err)
{
	const struct conf *c = &a->conf;
	struct repos_conf rc = { .allow_private = c->git_private,
		                 .quota_repos = c->quota_git_repos,
		                 .quota_mb = c->quota_git_mb,
		                 .search_s = c->git_search_s,
		                 .search_mb = c->git_search_mb,
		                 .slow_s = c->git_slow_s,
		                 .unjailed = c->git_unjailed,
		                 .events = a->events,
		                 .objects = a->objects };

	snprintf(rc.data_dir, sizeof(rc.data_dir), "%s", c->data_dir);
	snprintf(rc.domain, sizeof(rc.domain), "%s", c->domain);
	return repos_open(&rc, a->store, &a->repos, err);
}

static int triggers_start(struct app *a, struct err *err)
{
	const struct conf *c = &a->conf;
	struct triggers_conf tc = { .allow_private = c->webhook_private,
		                    .retry_s = c->webhook_retry_s,
		                    .vm = runs_of(&a->runs) };

	a->runs = (struct runs){ a->vmm, a->repos, a->store, c->trigger_timeout_s };
	snprintf(tc.issuer, sizeof(tc.issuer), "https://git.%s", c->domain);
	return triggers_open(&tc, a->repos, a->store, &a->triggers, err);
}

static int webhooks_start(struct app *a, struct err *err)
{
	const struct conf *c = &a->conf;
	struct webhooks_conf wc = { .signer = triggers_signer(a->triggers),
		                    .allow_private = c->webhook_private,
		                    .retry_s = c->webhook_retry_s };

	snprintf(wc.issuer, sizeof(wc.issuer), "https://git.%s", c->domain);
	return webhooks_open(&wc, a->store, &a->webhooks, err);
}

static int serverless_start(struct app *a, struct err *err)
{
	const struct conf *c = &a->conf;
	struct serverless_conf sc = { .store = a->store,
		                      .vmm = a->vmm,
		                      .builder = a->builder,
		                      .logs = a->logs,
		                      .deploy = setup_deployments(c) };

	return serverless_new(&sc, &a->serverless, err);
}

static int ports_start(struct app *a, struct err *err)
{
	struct ports_conf pc = { .range = a->conf.port_range,
		                 .peers = a->peers,
		                 .listen = a->conf.port_listen,
		                 .wait_ms = a->conf.edge_wait_s * 1000,
		                 .idle_ms = a->conf.port_idle_s * 1000 };
	int r = ports_open(&pc, a->store, a->vmm, &a->ports, err);

	if (r == 0)
		front_ports(a->front, a->ports);
	front_serverless(a->front, a->serverless);
	return r;
}

static int ssh_start(struct app *a, struct err *err)
{
	struct sshd_deps deps = { .auth = a->auth,
		                  .vmm = a->vmm,
		                  .repos = a->repos,
		                  .store = a->node ? a->store : NULL,
		                  .peers = a->peers,
		                  .data_dir = a->conf.data_dir,
		                  .listen_fd = TAKE_FD(a->ssh_fd) };

	return sshd_start(&deps, &a->sshd, err);
}

static int syncs_start(struct app *a, struct err *err)
{
	struct syncs_conf sc = { .poll_s = a->conf.sync_poll_s };

	snprintf(sc.base_url, sizeof(sc.base_url), "%s", a->conf.github_url);
	return syncs_open(&sc, a->repos, a->store, &a->syncs, err);
}

static void take_sizes(const struct conf *c, struct vmm_conf *vc)
{
	struct conf_size z[CONF_SIZES_MAX];

	static_assert(CONF_SIZES_MAX <= SIZES_AHEAD_MAX && CONF_VCPUS_MAX == ENGINE_VCPUS_MAX &&
	                      CONF_MEM_MIN_MB == ENGINE_MEM_MIN_MB &&
	                      CONF_MEM_MAX_MB == ENGINE_MEM_MAX_MB,
	              "settings allow what the engine does");
	vc->n_sizes = (size_t)conf_sizes(c, z);
	for (size_t i = 0; i < vc->n_sizes; i++) {
		vc->sizes[i].vcpus = z[i].vcpus;
		vc->sizes[i].mem_mb = z[i].mem_mb;
	}
}

/* Neither a missing access log nor one that cannot be kept is a reason not to start or stop. */
static void access_log(struct app *a, const char *failed,
                       int (*load_or_save)(struct access *, const char *, struct err *))
{
	struct err err = { 0 };
	char path[512];

	snprintf(path, sizeof(path), "%s/access", a->conf.data_dir);
	if (a->logs && load_or_save(logs_access(a->logs), path, &err) < 0)
		log_warn("%s: %s", failed, err.msg);
}

static int app_start(struct app *a, struct err *err)
{
	const struct conf *c = &a->conf;
	char probe[512];
	struct nodes_self self;
	struct builder_conf bc;
	struct vmm_conf vc = { .vcpus = c->vcpus,
		               .mem_mb = c->mem_mb,
		               .disk_mb = c->disk_gb << 10,
		               .ahead_mem_mb = c->ahead_mem_mb,
		               .pool = c->pool,
		               .pool_mem_mb = c->pool_mem_mb,
		               .blanks = c->blanks,
		               .seeds = c->seeds,
		               .ca_follows = true,
		               .sizes_disk_mb = c->sizes_disk_mb,
		               .quota = setup_quota(c),
		               .boot_s = c->boot_s,
		               .busy_wait_s = c->busy_wait_s,
		               .disk_budget_mb = c->disk_budget_mb,
		               .disk_free_mb = c->disk_free_mb,
		               .vm_reserve_mb = c->vm_reserve_mb };
	struct engine_conf ec = { .data_dir = c->data_dir,
		                  .image_dir = c->image_dir,
		                  .qemu = c->qemu,
		                  .accel = c->accel,
		                  .probe_s = c->kvm_probe_s,
		                  .probe_file = probe };
	int r;

	if ((r = setup_image(&a->conf, err)) < 0)
		return r;
	a->listen_fd = api_listen(c, err);
	if (a->listen_fd < 0)
		return a->listen_fd;
	a->ssh_fd = strcmp(c->ssh_listen, "none") == 0 ? -1 : sshd_listen(c->ssh_listen, err);
	if (a->ssh_fd < 0 && strcmp(c->ssh_listen, "none") != 0)
		return a->ssh_fd;
	snprintf(probe, sizeof(probe), "%s/templates/accel-probe", c->cache_dir);
	snprintf(vc.data_dir, sizeof(vc.data_dir), "%s", c->data_dir);
	snprintf(vc.image_dir, sizeof(vc.image_dir), "%s", c->image_dir);
	snprintf(vc.template_dir, sizeof(vc.template_dir), "%s/templates", c->cache_dir);
	take_sizes(c, &vc);
	a->events = vc.events = events_new();
	if (!a->events)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = priv_connect(a, err)) < 0 || (r = nodes_store(c, &self, &a->store, err)) < 0 ||
	    (r = secrets_start(a, err)) < 0 ||
	    (r = join_with_objects(a, &self, &vc.quota, err)) < 0 ||
	    (r = auth_open(a->store, c->data_dir, &a->auth, NULL, err)) < 0 ||
	    (r = store_account_first(a->store, a->account, err)) < 0 ||
	    (r = logs_new(a->store, a->events, &a->logs, err)) < 0 ||
	    (r = engine_new(&ec, a->priv, &a->engine, err)) < 0 ||
	    (r = dns_start(&a->dns, *c->resolver ? c->resolver : NULL, err)) < 0 ||
	    (r = gates_new(a->priv, a->dns, *c->egress_ca ? c->egress_ca : NULL, &a->gates, err)) <
	            0)
		return r;
	vc.gates = a->gates;
	vc.objects = a->objects;
	vc.objects_cache_mb = c->objects_cache_mb;
	vc.objects_keep_s = c->objects_keep_s;
	snprintf(vc.wg_host, sizeof(vc.wg_host), "%s",
	         *c->wg_host ? c->wg_host : c->public_address);
	vc.wg_host[strcspn(vc.wg_host, " ")] = '\0'; /* of two addresses the first */
	vc.wg_port = c->wg_port;
	vc.wg_session_s = c->wg_session_s;
	if ((r = vmm_new(&vc, a->store, a->engine, a->priv, &a->priv_info, a->dns, &a->vmm, err)) <
	            0 ||
	    (r = nodes_begin(a->node, a->vmm, a->auth, err)) < 0 ||
	    (r = nodes_peers(c, a->node, a->store, a->vmm, &a->peers, err)) < 0 ||
	    (r = site_start(c, a->gates, a->vmm, err)) < 0 || (r = repos_start(a, err)) < 0 ||
	    (r = triggers_start(a, err)) < 0 || (r = webhooks_start(a, err)) < 0 ||
	    (r = syncs_start(a, err)) < 0)
		return r;
	repos_tell_unheard(a->repos);
	access_log(a, "the access log is not read", access_load);
	bc = setup_builder(c, a->repos);
	if ((r = builder_new(&bc, a->store, a->vmm, &a->builder, err)) < 0 ||
	    (r = serverless_start(a, err)) < 0 ||
	    (r = front_new(c, a->store, a->vmm, a->gates, logs_access(a->logs), a->peers, &a->front,
	                   err)) < 0 ||
	    (r = ports_start(a, err)) < 0 || (r = secrets_settle(a->secrets, err)) < 0 ||
	    (r = mcp_new(&a->mcp, err)) < 0)
		return r;
	backup_sweep(c->data_dir);
	auth_audit_keep(a->auth, c->audit_days);
	if (a->ssh_fd >= 0 && (r = ssh_start(a, err)) < 0)
		return r;
	struct api_deps deps = { .conf = c,
		                 .store = a->store,
		                 .node = a->node,
		                 .peers = a->peers,
		                 .vmm = a->vmm,
		                 .builder = a->builder,
		                 .auth = a->auth,
		                 .events = a->events,
		                 .logs = a->logs,
		                 .repos = a->repos,
		                 .triggers = a->triggers,
		                 .webhooks = a->webhooks,
		                 .ports = a->ports,
		                 .syncs = a->syncs,
		                 .serverless = a->serverless,
		                 .sshd = a->sshd,
		                 .walls = a->walls.text,
		                 .web = &web_site,
		                 .listen_fd = TAKE_FD(a->listen_fd) };
	front_deps(a->front, &deps);
	mcp_deps(a->mcp, &deps);
	if ((r = api_start(&deps, &a->api, err)) < 0 ||
	    (r = peers_begin(a->peers, &(struct peers_hooks){ a->api, api_take_node }, err)) < 0)
		return r;
	if (a->node)
		nodes_front(a->front);
	return front_start(a->front, a->api, err);
}

/*
 * First everything that starts work ends, then what works is waited for; only then modules are
 * freed, users before what they use. Each of them joins its own threads. What nobody can wait for
 * is the end of requests and SSH connections: while one is left nothing may be freed under it, so
 * the process just exits. tests/unit/api_fx.h ends its server likewise.
 */
static void app_stop(struct app *a)
{
	struct err err = { 0 };
	bool busy, ssh_busy;

	if (a->node)
		nodes_front(NULL);
	objects_end(a->objects); /* nobody waits for layers any more */
	front_stop(a->front);
	if (a->front)
		access_log(a, "the access log is lost", access_save);
	ports_stop(a->ports);
	builder_stop(a->builder);
	serverless_end(a->serverless);
	triggers_end(a->triggers);
	webhooks_end(a->webhooks);
	syncs_end(a->syncs);
	ssh_busy = sshd_stop(a->sshd, SSH_DRAIN_MS, &err) == -EBUSY;
	busy = a->api && api_stop(a->api, API_DRAIN_MS, &err) == -EBUSY;

	peers_end(a->peers); /* requests to other nodes, and of them */
	/* Suspending ends the agent connections, and with them the requests that still wait for
	 * one. */
	if (a->vmm)
		vmm_suspend_all(a->vmm);
	if ((ssh_busy && sshd_stop(a->sshd, SSH_DRAIN_MS, &err) < 0) ||
	    (busy && api_stop(a->api, API_DRAIN_MS, &err) < 0)) {
		log_warn("%s; exiting anyway", err.msg);
		_exit(0); /* everything is in the store; there are only threads to wait for */
	}
	mcp_free(a->mcp);
	syncs_close(a->syncs);
	webhooks_close(a->webhooks);
	triggers_close(a->triggers);
	repos_close(a->repos);
	sshd_free(a->sshd);
	ports_close(a->ports);
	front_free(a->front); /* no thread wakes VMs for requests any more */
	serverless_free(a->serverless);
	builder_free(a->builder);
	peers_free(a->peers);
	a->node = node_close(a->node); /* its threads ask the manager */
	vmm_free(a->vmm);
	objects_close(a->objects);
	dns_stop(a->dns);
	gates_free(a->gates);
	engine_free(a->engine);
	logs_free(a->logs);
	events_free(a->events);
	auth_close(a->auth);
	store_close(a->store);
	secrets_close(a->secrets);
	privc_free(a->priv);
}

static void say_ready(struct app *a)
{
	struct vmm_status s;
	char url[128];

	vmm_status(a->vmm, &s);
	api_url(a->api, url, sizeof(url));
	printf("\nPando %s is ready.\n", PANDO_VERSION);
	printf("  accelerator  %s (%s)\n", s.accel, s.accel_why);
	if (!strcmp(s.accel, "tcg"))
		printf("               Emulated guests are NOT a security boundary: run only code "
		       "you would\n"
		       "               run on this host. Hosts with KVM give real isolation.\n");
	printf("  QEMU         %s\n", s.qemu_version);
	printf("  image        %s\n", a->conf.image_dir);
	printf("  walls        %s\n", a->walls.text);
	printf("  default VM   %u vCPU, %u MB memory, %u GB disk; limits: %s\n", s.vcpus, s.mem_mb,
	       s.disk_mb >> 10, s.limits);
	fflush(stdout);
}

static void say_how(struct app *a)
{
	struct sshd_status ssh;
	char url[128];

	api_url(a->api, url, sizeof(url));
	printf("  API          %s\n", url);
	if (a->sshd) {
		sshd_status(a->sshd, &ssh);
		printf("  SSH          %s (ssh -p PORT VM@HOST; the password is an API key or "
		       "token)\n",
		       ssh.address);
	}
	printf("  API key      %s/api-key\n", a->conf.data_dir);
	front_say(a->front);
	printf("\n  curl -X POST -H \"Authorization: Bearer $(cat %s/api-key)\" -d '{}' "
	       "%s/v1/vms\n",
	       a->conf.data_dir, url);
	printf("  FREESTYLE_API_URL=%s FREESTYLE_API_KEY=$(cat %s/api-key) node -e \\\n"
	       "    'import(\"freestyle\").then(async ({freestyle}) => { const {vm} = await "
	       "freestyle.vms.create(); console.log(await vm.exec(\"uname -a\")) })'\n\n"
	       "On shutdown running VMs are suspended; they resume with their memory.\n",
	       url, a->conf.data_dir);
	fflush(stdout);
}

/* Reports the status that `systemctl status` shows, and readiness. */
static void tell_manager(const char *state)
{
	int r = notify_send(state);

	if (r < 0)
		log_warn("notify the service manager: %s, ignoring", err_name(r));
}

/* Waits for the template, printing a line every few seconds, then runs the self-check once. */
static int first_job(struct app *a, struct err *err)
{
	uint64_t t0 = clock_ms();

	for (;;) {
		struct vmm_status s;
		struct signalfd_siginfo si;

		vmm_status(a->vmm, &s);
		if (!strcmp(s.template_state, "ready"))
			break;
		if (!strcmp(s.template_state, "failed"))
			return err_set(err, -EIO, "%s", s.template_note);
		if (walled_wait(a->signals, 1000) > 0)
			return read(a->signals, &si, sizeof(si)) > 0 ? 1 : -EINTR;
		if ((clock_ms() - t0) / 1000 % 5 == 0) {
			char status[256];

			printf("template: %s (%llu s)\n", s.template_note,
			       (unsigned long long)(clock_ms() - t0) / 1000);
			fflush(stdout);
			snprintf(status, sizeof(status), "STATUS=template: %s", s.template_note);
			tell_manager(status);
		}
	}
	say_ready(a);
	return a->conf.self_check ? selfcheck_run(a->vmm, a->account, err) : 0;
}

static int config_error(int r)
{
	return r == -EINVAL || r == -EADDRINUSE || r == -ENODEV || r == -EACCES;
}

int main(int argc, char **argv)
{
	static struct app a = { .signals = -1, .listen_fd = -1, .ssh_fd = -1 };
	struct signalfd_siginfo si;
	struct err err = { 0 };
	sigset_t set;
	int r;

	if (argc > 1 && strcmp(argv[1], "migrate") == 0)
		return migrate_main(argc - 1, argv + 1);
	heap_give_back();
	signal(SIGPIPE, SIG_IGN);
	umask(0077);
	log_init("pandod", LOG_LV_INFO);
	r = conf_load(&a.conf, argc, argv, &err);
	if (r == 1)
		return 0;
	if (r < 0) {
		log_error("%s", err.msg);
		return EXIT_CONFIG;
	}
	log_init("pandod", (enum log_level)MAX(0, log_level_parse(a.conf.log_level)));
	if (*a.conf.log_file &&
	    log_file_open(a.conf.log_file, (uint64_t)a.conf.log_file_mb << 20, &err) < 0) {
		log_error("PANDO_LOG_FILE: %s", err.msg);
		return EXIT_CONFIG;
	}
	if (geteuid() == 0) {
		log_error("pandod must not run as root: pando-priv starts it as another user");
		return EXIT_CONFIG;
	}
	r = walled_start(&a.conf, &a.walls, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		return r == -ENOTSUP ? EXIT_CONFIG : 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	a.signals = signalfd(-1, &set, SFD_CLOEXEC);
	r = app_start(&a, &err);
	if (r == 0)
		r = first_job(&a, &err);
	if (r == 0) {
		say_how(&a);
		tell_manager("READY=1\nSTATUS=serving");
		while (walled_wait(a.signals, 0) == 0 || read(a.signals, &si, sizeof(si)) < 0)
			;
	}
	if (r < 0)
		log_error("%s", err.msg);
	else
		log_info("shutting down: running VMs are suspended");
	tell_manager("STOPPING=1\nSTATUS=suspending running VMs");
	app_stop(&a);
	close(a.signals);
	if (r >= 0)
		return 0;
	return config_error(r) ? EXIT_CONFIG : 1;
}
