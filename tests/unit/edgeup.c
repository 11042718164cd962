/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edgeup.c - the edge with its process, in front of a plain address: edgeup DIR TLS-LISTEN
 * HTTP-LISTEN UPSTREAM [SECONDS [MS]]
 *
 * For bench/ (the proxy is measured, not an emulated guest) and tests/unit/test_edge.py. Every name
 * leads to UPSTREAM but "nowhere.edge.test" (not mapped) and "vm.edge.test", which stands for a VM
 * that is asleep: its socket comes after a moment, from the opener. "port-8000.edge.test" is a VM
 * that was just booted, whose port 8000 is this host's ("h2c-8000.edge.test": and speaks HTTP/2);
 * "raw-" before any of these: TLS is passed on as it is;
 * "stuck.edge.test" one that never comes up. The certificate of "slow*.own.test" is not made before
 * "sign" is read, that of "stuck*.own.test" not before the end, that of "never.own.test" not at
 * all. Prints "ready", a line of figures for each line that it reads, and ends when its standard
 * input ends. "keep" keeps a copy of each upstream socket that it opens from then on, until "drop",
 * as pandod has one for a moment after it has passed a socket on. "lines" prints the lines of the
 * access log since the last time. In the environment, EDGEUP_FIELD is a field for UPSTREAM and
 * EDGEUP_CONF has limits: "addr_conns=20 idle_ms=500"; EDGEUP_PROGRAM is run instead of pando-edge.
 * It fails if that process ended by itself, unless EDGEUP_ENDS is set.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/starter.h"
#include "cert/cert.h"
#include "edgehost/edgehost.h"

#define FRESH_MS 60000
#define MANY_MAX 4
#define MANY_MS 500 /* then who waits for one of those places is refused */

struct stand {
	struct certs *certs;
	struct sockaddr_storage up;
	socklen_t up_len;
	struct edgehost *_Atomic edge;
	_Atomic int awake, opened, looks;
	_Atomic int machine; /* the number of the one that runs */
	_Atomic int vanished;
	_Atomic int making, made; /* certificates for *.own.test */
	struct mutex lock;
	struct cond cond;
	unsigned signs; /* lock, both */
	bool over;
	int kept[8]; /* lock, these three */
	size_t n_kept;
	bool keep;
	char said[64][1024]; /* lock: the last lines of the access log, and how many there were */
	unsigned n_said;
	/* lock, all: of "many" */
	uint64_t next_ticket;
	unsigned places, most_places, most_waiting, foreign;
};

static bool raw(const char *host)
{
	return strncmp(host, "raw-", 4) == 0;
}

/* "silent": a port where nothing listens; "fresh": its program may still be starting; "stuck": its
 * socket does not come; "broken": it cannot be started; "many": one of several, MANY_MAX requests
 * at a time. */
static const char *vm_of(const char *host)
{
	static const char *const names[] = { "vm", "silent", "vanish", "stuck", "broken", "many" };

	host += raw(host) ? 4 : 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(host, names[i], n) == 0 && strcmp(host + n, ".edge.test") == 0)
			return names[i];
	}
	return strncmp(host, "port-", 5) == 0 || strncmp(host, "h2c-", 4) == 0 ? "fresh" : NULL;
}

static bool own(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && strcmp(dot, ".own.test") == 0;
}

static void way(void *ctx, const char *host, struct edgehost_way *ret)
{
	struct stand *s = ctx;
	const char *vm = vm_of(host);

	*ret = (struct edgehost_way){ .kind = EDGE_ADDR,
		                      .port = 80,
		                      .cert = certs_number(s->certs, host, own(host)) };
	if (strcmp(host, "nowhere.edge.test") == 0)
		ret->kind = EDGE_NOWHERE;
	if (!vm)
		return;
	ret->kind = EDGE_VM;
	ret->many = strcmp(vm, "many") == 0;
	snprintf(ret->vm, sizeof(ret->vm), "%s", vm);
	if (strcmp(vm, "fresh") == 0)
		ret->port = (uint16_t)strtoul(strrchr(host, '-') + 1, NULL, 10);
	ret->speaks = raw(host) ? EDGE_TLS : strncmp(host, "h2c-", 4) == 0 ? EDGE_H2C : EDGE_HTTP1;
}

static void look(void *ctx, struct edgehost_way *w)
{
	struct stand *s = ctx;

	s->looks++;
	snprintf(w->instance, sizeof(w->instance), "m%d", s->machine);
	w->look = s->awake || strcmp(w->vm, "fresh") == 0 ? EDGE_RUNNING : EDGE_ASLEEP;
}

/* All VMs have the same machine. */
static void changed(struct stand *s)
{
	edgehost_changed(s->edge, NULL);
}

static void end_machine(struct stand *s)
{
	char instance[ID_SIZE];

	snprintf(instance, sizeof(instance), "m%d", s->machine++);
	changed(s);
	edgehost_ended(s->edge, instance);
}

static void wait_over(struct stand *s)
{
	mutex_lock(&s->lock);
	while (!s->over)
		cond_wait(&s->cond, &s->lock);
	mutex_unlock(&s->lock);
}

static int take_place(struct stand *s, struct edgehost_way *w, unsigned waiting, struct err *err)
{
	uint64_t deadline = deadline_in(MANY_MS);

	w->mark = edgehost_mark(s->edge, "many");
	snprintf(w->machine, sizeof(w->machine), "many");
	LOCK_SCOPE(&s->lock);
	s->most_waiting = MAX(s->most_waiting, waiting);
	while (s->places == MANY_MAX && !s->over)
		if (!cond_wait_until(&s->cond, &s->lock, deadline))
			return err_tag(err, -ETIMEDOUT, ERR_DEPLOYMENT_BUSY, "full");
	w->ticket = ++s->next_ticket;
	s->places++;
	s->most_places = MAX(s->most_places, s->places);
	return 0;
}

static void done(void *ctx, uint64_t ticket)
{
	struct stand *s = ctx;

	LOCK_SCOPE(&s->lock);
	if (!ticket || ticket > s->next_ticket || !s->places)
		s->foreign++;
	else
		s->places--;
	cond_broadcast(&s->cond);
}

static int open_vm(struct stand *s, struct edgehost_way *w, struct sockaddr_storage *sa,
                   struct err *err)
{
	struct sockaddr_in *in = (struct sockaddr_in *)sa;

	if (strcmp(w->vm, "stuck") == 0) {
		wait_over(s);
		return err_set(err, -ETIMEDOUT, "stuck");
	}
	if (strcmp(w->vm, "broken") == 0)
		return err_tag(err, -EIO, ERR_CORRUPT_VM_RECORD, "broken");
	if (strcmp(w->vm, "silent") == 0) {
		w->port = 1;
		in->sin_port = htons(w->port);
	}
	if (strcmp(w->vm, "fresh") == 0) {
		in->sin_port = htons(w->port);
		w->fresh_ms = FRESH_MS;
	} else if (!s->awake) {
		usleep(300000); /* what a thaw takes */
		s->awake = 1;
		changed(s);
		printf("woken\n");
		fflush(stdout);
	}
	s->opened++;
	snprintf(w->instance, sizeof(w->instance), "m%d", s->machine);
	if (strcmp(w->vm, "vanish") == 0 && !s->vanished++)
		end_machine(s);
	return 0;
}

static int open_way(void *ctx, const char *host, struct edgehost_way *ret, int *ret_fd,
                    struct err *err)
{
	struct stand *s = ctx;
	struct sockaddr_storage sa = s->up;
	autofd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned waiting = ret->waiting;
	int r = 0;

	way(s, host, ret);
	if (fd < 0)
		return err_sys(err, -errno, "socket");
	if (ret->kind == EDGE_NOWHERE)
		return err_set(err, -ENOENT, "nowhere");
	if (ret->kind == EDGE_VM)
		r = open_vm(s, ret, &sa, err);
	if (r == 0 && ret->many)
		r = take_place(s, ret, waiting, err);
	if (r < 0)
		return r;
	r = sock_connect_soon(fd, (struct sockaddr *)&sa, s->up_len, 20);
	if (r < 0 && ret->ticket)
		done(s, ret->ticket);
	if (r < 0)
		ret->ticket = 0;
	if (r < 0)
		return err_sys(err, r, "connect");
	mutex_lock(&s->lock);
	if (s->keep && s->n_kept < ARRAY_SIZE(s->kept))
		s->kept[s->n_kept++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	mutex_unlock(&s->lock);
	*ret_fd = TAKE_FD(fd);
	return 0;
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

static int cert(void *ctx, const char *name, struct buf *ret, uint64_t *ret_number, struct err *err)
{
	struct stand *s = ctx;

	if (own(name) && slow_sign(s, name) < 0)
		return err_set(err, -EIO, "never");
	return certs_get(s->certs, name, own(name), ret, ret_number, err);
}

static int challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	if (strcmp(token, "token-of-the-test") != 0)
		return -ENOENT;
	snprintf(ret, EDGE_ACME_TEXT_MAX, "the answer");
	return 0;
}

static void line(void *ctx, const char *vm, const struct edge_line *l)
{
	struct stand *s = ctx;

	mutex_lock(&s->lock);
	snprintf(s->said[s->n_said++ % ARRAY_SIZE(s->said)], sizeof(s->said[0]),
	         "%s %s %s %s %s %u %u %llu %llu%s%s%s%s%s %s", vm, l->host, l->client, l->method,
	         *l->path ? l->path : "-", l->proto, l->status, (unsigned long long)l->in,
	         (unsigned long long)l->out, l->tls ? " tls" : "", l->woke ? " woke" : "",
	         l->guest ? " guest" : "", l->left ? " left" : "", l->cut ? " cut" : "",
	         l->code ? err_code_name((enum err_code)l->code) : "");
	mutex_unlock(&s->lock);
}

static void print_lines(struct stand *s)
{
	mutex_lock(&s->lock);
	for (unsigned i = s->n_said > ARRAY_SIZE(s->said) ? s->n_said - ARRAY_SIZE(s->said) : 0;
	     i < s->n_said; i++)
		printf("line %s\n", s->said[i % ARRAY_SIZE(s->said)]);
	s->n_said = 0;
	mutex_unlock(&s->lock);
}

static void release(struct stand *s, bool over)
{
	mutex_lock(&s->lock);
	s->signs++;
	s->over = over;
	cond_broadcast(&s->cond);
	mutex_unlock(&s->lock);
}

static void keep(struct stand *s, bool on)
{
	mutex_lock(&s->lock);
	s->keep = on;
	while (!on && s->n_kept > 0)
		close(s->kept[--s->n_kept]);
	mutex_unlock(&s->lock);
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

static void figures(struct stand *s)
{
	struct edgehost_status st;

	edgehost_status(s->edge, &st);
	LOCK_SCOPE(&s->lock);
	printf("%u open, %d sockets opened, %u to %u per worker, %d signing, %d signed, %d looks, "
	       "process %d, %u starts, %llu requests, %u places, %u at most, %u waited, %u "
	       "foreign\n",
	       st.stats.open, s->opened, st.stats.fewest, st.stats.most, s->making, s->made,
	       s->looks, st.pid, st.starts, (unsigned long long)st.stats.requests, s->places,
	       s->most_places, s->most_waiting, s->foreign);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char *const suffixes[] = { "edge.test" };
	static struct stand s = { .lock = MUTEX_INIT("edgeup"), .cond = COND_INIT };
	struct edgehost_ops ops = { way, look, open_way, done, cert, challenge, line, &s };
	static const struct starter_kind *const kinds[] = { &edgehost_kind };
	const char *program = getenv("EDGEUP_PROGRAM");
	struct edgehost_conf conf = { .field = getenv("EDGEUP_FIELD"),
		                      .edge = { .wait_ms = 10000 },
		                      .log = LOG_LV_WARN };
	struct edgehost_status st;
	struct edgehost *edge = NULL;
	struct err err = { 0 };
	char line_in[8];

	signal(SIGPIPE, SIG_IGN);
	if (argc < 5) {
		fprintf(stderr,
		        "edgeup DIR TLS-LISTEN HTTP-LISTEN UPSTREAM [HEAD-MS [STALL-MS]]\n");
		return 2;
	}
	log_init("edgeup", LOG_LV_WARN);
	if (argc > 5)
		conf.edge.head_ms = (unsigned)strtoul(argv[5], NULL, 10);
	if (argc > 6)
		conf.edge.stall_ms = (unsigned)strtoul(argv[6], NULL, 10);
	if (getenv("EDGEUP_CONF"))
		read_conf(&conf.edge, getenv("EDGEUP_CONF"));
	if (edgehost_kind_init(program ? program : EDGE_PROGRAM, &err) < 0 ||
	    starter_open(kinds, ARRAY_SIZE(kinds), &err) < 0 ||
	    certs_open(argv[1], suffixes, 1, &s.certs, &err) < 0 ||
	    (conf.edge.tls_fd = sock_tcp_listen(argv[2], &err)) < 0 ||
	    (conf.edge.http_fd = sock_tcp_listen(argv[3], &err)) < 0 ||
	    sock_parse(argv[4], &s.up, &s.up_len, &err) < 0 ||
	    edgehost_start(&conf, &ops, &edge, &err) < 0) {
		fprintf(stderr, "edgeup: %s\n", err.msg);
		return 1;
	}
	s.edge = edge;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line_in, sizeof(line_in), stdin)) {
		if (strcmp(line_in, "sign\n") == 0)
			release(&s, /* over= */ false);
		if (strcmp(line_in, "end\n") == 0)
			end_machine(&s);
		if (strcmp(line_in, "keep\n") == 0)
			keep(&s, true);
		if (strcmp(line_in, "drop\n") == 0)
			keep(&s, false);
		if (strcmp(line_in, "lines\n") == 0)
			print_lines(&s);
		figures(&s);
	}
	keep(&s, false);
	release(&s, /* over= */ true);
	edgehost_stop(edge);
	edgehost_status(edge, &st);
	edgehost_free(edge);
	certs_free(s.certs);
	starter_close();
	/* One that a test ended is the test's business. */
	return st.ended_badly && !getenv("EDGEUP_ENDS") ? 3 : 0;
}
