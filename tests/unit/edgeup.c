/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edgeup.c - the edge by itself, in front of a plain address: edgeup DIR TLS-LISTEN HTTP-LISTEN
 * UPSTREAM [SECONDS [MS]]
 *
 * For bench/ (the proxy is measured, not an emulated guest) and tests/unit/test_edge.py. Every name
 * leads to UPSTREAM but "nowhere.edge.test" (not mapped) and "vm.edge.test", which stands for a VM
 * that is asleep: its socket comes after a moment, from the opener. "port-8000.edge.test" is a VM
 * that was just booted, whose port 8000 is this host's; "stuck.edge.test" one that never comes up.
 * The certificate of "slow*.own.test" is not made before "sign" is read, that of "stuck*.own.test"
 * not before the end, that of "never.own.test" not at all. Prints "ready", a line of figures for
 * each line that it reads, and ends when its standard input ends. "fork" makes a child that has
 * copies of all descriptors until "reap", as one of pandod's has before its exec. In the
 * environment, EDGEUP_FIELD is a field for UPSTREAM and EDGEUP_CONF has limits: "addr_conns=20
 * idle_ms=500".
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sock.h"
#include "cert/cert.h"
#include "edge/edge.h"

#define FRESH_MS 60000

struct stand {
	struct certs *certs;
	struct edge_target up;
	struct edge *edge;
	_Atomic int awake, opened, looks;
	_Atomic int machine; /* the number of the one that runs */
	_Atomic int vanished;
	_Atomic int making, made; /* certificates for *.own.test */
	struct mutex lock;
	struct cond cond;
	unsigned signs; /* lock, both */
	bool over;
};

static void route(void *ctx, const char *host, struct edge_target *ret)
{
	struct stand *s = ctx;

	*ret = s->up;
	if (strcmp(host, "nowhere.edge.test") == 0)
		ret->kind = EDGE_NOWHERE;
	if (strcmp(host, "vm.edge.test") == 0) {
		ret->kind = EDGE_VM;
		snprintf(ret->vm, sizeof(ret->vm), "vm");
	}
	if (strcmp(host, "silent.edge.test") == 0) { /* a port where nothing listens */
		ret->kind = EDGE_VM;
		snprintf(ret->vm, sizeof(ret->vm), "silent");
	}
	if (strncmp(host, "port-", 5) == 0) { /* its program may still be starting */
		ret->kind = EDGE_VM;
		ret->port = (uint16_t)strtoul(host + 5, NULL, 10);
		snprintf(ret->vm, sizeof(ret->vm), "fresh");
	}
	if (strcmp(host, "vanish.edge.test") == 0) {
		ret->kind = EDGE_VM;
		snprintf(ret->vm, sizeof(ret->vm), "vanish");
	}
	if (strcmp(host, "stuck.edge.test") == 0) { /* its socket does not come */
		ret->kind = EDGE_VM;
		snprintf(ret->vm, sizeof(ret->vm), "stuck");
	}
	if (strcmp(host, "broken.edge.test") == 0) { /* cannot be started */
		ret->kind = EDGE_VM;
		snprintf(ret->vm, sizeof(ret->vm), "broken");
	}
}

static enum edge_look look(void *ctx, struct edge_target *t)
{
	struct stand *s = ctx;

	s->looks++;
	snprintf(t->instance, sizeof(t->instance), "m%d", s->machine);
	return s->awake || strcmp(t->vm, "fresh") == 0 ? EDGE_RUNNING : EDGE_ASLEEP;
}

static void end_machine(struct stand *s)
{
	char instance[ID_SIZE];

	snprintf(instance, sizeof(instance), "m%d", s->machine++);
	edge_ended(s->edge, instance);
}

static void wait_over(struct stand *s)
{
	mutex_lock(&s->lock);
	while (!s->over)
		cond_wait(&s->cond, &s->lock);
	mutex_unlock(&s->lock);
}

static int open_way(void *ctx, struct edge_target *t, int *ret_fd, struct err *err)
{
	struct stand *s = ctx;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(err, -errno, "socket");
	if (strcmp(t->vm, "stuck") == 0) {
		close(fd);
		wait_over(s);
		return err_set(err, -ETIMEDOUT, "stuck");
	}
	if (strcmp(t->vm, "broken") == 0) {
		close(fd);
		return err_tag(err, -EIO, ERR_CORRUPT_VM_RECORD, "broken");
	}
	if (strcmp(t->vm, "silent") == 0) {
		struct sockaddr_storage sa;

		sock_parse("127.0.0.1:1", &sa, &t->addr_len, NULL);
		t->addr = sa;
		t->port = 1;
	}
	if (strcmp(t->vm, "fresh") == 0) {
		((struct sockaddr_in *)&t->addr)->sin_port = htons(t->port);
		t->fresh_ms = FRESH_MS;
	} else if (!s->awake) {
		usleep(300000); /* what a thaw takes */
		s->awake = 1;
		printf("woken\n");
		fflush(stdout);
	}
	s->opened++;
	snprintf(t->instance, sizeof(t->instance), "m%d", s->machine);
	*ret_fd = fd;
	if (strcmp(t->vm, "vanish") == 0 && !s->vanished++)
		end_machine(s);
	return 0;
}

static bool own(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && strcmp(dot, ".own.test") == 0;
}

static int slow_sign(struct stand *s, const char *name)
{
	bool stuck = strncmp(name, "stuck", 5) == 0, slow = strncmp(name, "slow", 4) == 0;

	mutex_lock(&s->lock);
	s->making++;
	for (unsigned n = s->signs; !s->over && (stuck || (slow && s->signs == n));)
		cond_wait(&s->cond, &s->lock);
	mutex_unlock(&s->lock);
	s->making--;
	s->made++;
	return strcmp(name, "never.own.test") == 0 ? -EIO : 0;
}

static int cert(void *ctx, const char *name, SSL *ssl)
{
	struct stand *s = ctx;

	return certs_use(s->certs, name, own(name), ssl, NULL);
}

static int cert_make(void *ctx, const char *name, struct err *err)
{
	struct stand *s = ctx;

	if (own(name) && slow_sign(s, name) < 0)
		return err_set(err, -EIO, "never");
	return certs_make(s->certs, name, own(name), err);
}

static int challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	if (strcmp(token, "token-of-the-test") != 0)
		return -ENOENT;
	snprintf(ret, EDGE_ACME_TEXT_MAX, "the answer");
	return 0;
}

static void release(struct stand *s, bool over)
{
	mutex_lock(&s->lock);
	s->signs++;
	s->over = over;
	cond_broadcast(&s->cond);
	mutex_unlock(&s->lock);
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void end_child(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
}

/* "name=number ..." */
static void read_conf(struct edge_conf *c, char *text)
{
	const struct {
		const char *name;
		unsigned *value;
	} names[] = { { "answer_ms", &c->answer_ms },
		      { "idle_ms", &c->idle_ms },
		      { "keep_ms", &c->keep_ms },
		      { "addr_conns", &c->addr_conns },
		      { "addr_requests", &c->addr_requests },
		      { "fd_reserve", &c->fd_reserve } };
	char *at = NULL;

	for (char *w = strtok_r(text, " ", &at); w; w = strtok_r(NULL, " ", &at))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strncmp(w, names[i].name, strcspn(w, "=")) == 0 && strchr(w, '='))
				*names[i].value = (unsigned)strtoul(strchr(w, '=') + 1, NULL, 10);
}

int main(int argc, char **argv)
{
	static const char *const suffixes[] = { "edge.test" };
	struct stand s = { .lock = MUTEX_INIT("edgeup"), .cond = COND_INIT };
	struct edge_ops ops = { route, look, open_way, cert, cert_make, challenge, &s };
	struct edge_conf conf = { .wait_ms = 10000 };
	struct err err = { 0 };
	pid_t child = 0;
	char line[8];

	signal(SIGPIPE, SIG_IGN);
	if (argc < 5) {
		fprintf(stderr,
		        "edgeup DIR TLS-LISTEN HTTP-LISTEN UPSTREAM [HEAD-MS [STALL-MS]]\n");
		return 2;
	}
	log_init("edgeup", LOG_LV_WARN);
	s.up.kind = EDGE_ADDR;
	s.up.port = 80;
	s.up.field = getenv("EDGEUP_FIELD");
	if (argc > 5)
		conf.head_ms = (unsigned)strtoul(argv[5], NULL, 10);
	if (argc > 6)
		conf.stall_ms = (unsigned)strtoul(argv[6], NULL, 10);
	if (getenv("EDGEUP_CONF"))
		read_conf(&conf, getenv("EDGEUP_CONF"));
	if (certs_open(argv[1], suffixes, 1, &s.certs, &err) < 0 ||
	    (conf.tls_fd = sock_tcp_listen(argv[2], &err)) < 0 ||
	    (conf.http_fd = sock_tcp_listen(argv[3], &err)) < 0 ||
	    sock_parse(argv[4], &s.up.addr, &s.up.addr_len, &err) < 0 ||
	    edge_start(&conf, &ops, &s.edge, &err) < 0) {
		fprintf(stderr, "edgeup: %s\n", err.msg);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		struct edge_stats st;

		edge_stats(s.edge, &st);
		if (strcmp(line, "sign\n") == 0)
			release(&s, /* over= */ false);
		if (strcmp(line, "end\n") == 0)
			end_machine(&s);
		if (strcmp(line, "fork\n") == 0 && !child)
			child = start_child();
		if (strcmp(line, "reap\n") == 0)
			end_child(&child);
		printf("%u open, %d sockets opened, %u to %u per worker, %d signing, %d signed, "
		       "%d looks\n",
		       st.open, s.opened, st.fewest, st.most, s.making, s.made, s.looks);
		fflush(stdout);
	}
	end_child(&child);
	release(&s, /* over= */ true);
	s.edge = edge_free(s.edge);
	certs_free(s.certs);
	return 0;
}
