/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c - connections of the client into the guest's network: -L, -D, -W, -J
 *
 * They are made by the guest, so its loopback, its name resolution and its rules apply: a numeric
 * address is dialled by the agent, a name is resolved in the guest first (getent) and its addresses
 * are tried in turn. The client is answered when the connection is established or has failed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ssh/ssh_internal.h"

#define ANSWER_MAX 4096 /* bytes of getent's output */

/* fd: its stream; -1: there is no connection. */
static void tell(struct chan *x, int fd)
{
	struct sshw_msg m = { .kind = SSHW_DIALED, .id = x->id, .ok = fd >= 0 };

	link_send(x->c, &m, fd);
}

static void refuse(struct chan *x, const char *why)
{
	conn_log(x->c, LOG_LV_DEBUG, "no connection to %s port %u: %s", x->host, x->port, why);
	tell(x, /* fd= */ -1);
	chan_over(x);
}

static void dial(struct chan *x, const char *addr)
{
	struct err err = { 0 };

	x->state = CHAN_DIALING;
	x->deadline = deadline_in(SSHD_OPEN_MS);
	if (guest_dial(x->c->g, addr, x->port, &x->f, &err) < 0)
		refuse(x, err.msg);
}

static bool is_numeric(const char *host)
{
	struct in6_addr a;

	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

static bool is_loopback(const char *host)
{
	return strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
	       strcmp(host, "::1") == 0;
}

/* Letters, digits, dot, hyphen, underscore: a host name that neither a shell nor getent could
 * misinterpret. */
static bool is_name(const char *host)
{
	size_t n =
	        strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && !host[n] && host[0] != '-';
}

static void look_up(struct chan *x)
{
	char name[SSHD_HOST_MAX + 16];
	const char *const env[] = { name, NULL };
	struct guest_login_req q = { .command = "exec getent ahosts \"$PANDO_NAME\"", .env = env };
	struct err err = { 0 };

	snprintf(name, sizeof(name), "PANDO_NAME=%s", x->host);
	x->state = CHAN_RESOLVING;
	x->deadline = deadline_in(SSHD_OPEN_MS);
	if (guest_login(x->c->g, &q, &x->f, &err) < 0)
		refuse(x, err.msg);
	else
		guest_flow_feed_eof(x->f, NULL);
}

void direct_open(struct conn *c, const struct sshw_msg *m)
{
	struct sshw_msg no = { .kind = SSHW_DIALED, .id = m->id };
	const char *host = m->host;
	struct chan *x = chan_new(c, m->id);

	if (!x) {
		link_send(c, &no, -1);
		return;
	}
	snprintf(x->host, sizeof(x->host), "%s", host);
	x->port = m->port;
	if (!x->port)
		refuse(x, "not a port");
	else if (is_loopback(host))
		dial(x, NULL);
	else if (is_numeric(host))
		dial(x, x->host);
	else if (is_name(host))
		look_up(x);
	else
		refuse(x, "not a valid host name");
}

static void add_address(struct chan *x, const char *addr)
{
	if (!is_numeric(addr) || strlen(addr) >= GUEST_ADDR_SIZE || x->n_addrs == SSHD_ADDRS_MAX)
		return;
	for (size_t i = 0; i < x->n_addrs; i++)
		if (strcmp(x->addr[i], addr) == 0)
			return;
	snprintf(x->addr[x->n_addrs++], GUEST_ADDR_SIZE, "%s", addr);
}

/* Lines begin with an address; each address occurs once per socket type. */
static void read_answer(struct chan *x)
{
	autofree char *text = buf_take_str(&x->answer);
	char *save = NULL;

	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		line[strcspn(line, " \t")] = '\0';
		add_address(x, line);
	}
}

static void next_address(struct chan *x)
{
	guest_flow_close(TAKE_PTR(x->f));
	if (x->next_addr == x->n_addrs)
		refuse(x, x->n_addrs ? "no address answers" : "the guest cannot resolve the name");
	else
		dial(x, x->addr[x->next_addr++]);
}

static void resolving(struct chan *x)
{
	struct err err = { 0 };
	ssize_t n;
	int from;

	while ((n = guest_flow_read(x->f, &from, x->c->chunk, SSHD_CHUNK, &err)) > 0) {
		if (from == 1 && x->answer.len + (size_t)n <= ANSWER_MAX)
			buf_put(&x->answer, x->c->chunk, (size_t)n);
	}
	if (n == -ENODATA) {
		read_answer(x);
		next_address(x);
	} else if (n < 0) {
		refuse(x, err.msg);
	}
}

static void dialing(struct chan *x)
{
	struct err err = { 0 };
	int r = guest_flow_opened(x->f, &err);
	autofd int fd = -1;

	if (r == 0)
		return;
	if (r < 0) {
		if (x->next_addr < x->n_addrs)
			next_address(x);
		else
			refuse(x, err.msg);
		return;
	}
	fd = chan_stream(x);
	if (fd < 0) {
		refuse(x, err_name(fd));
		return;
	}
	tell(x, fd);
	x->state = CHAN_OPEN;
}

void direct_turn(struct chan *x)
{
	if (x->state == CHAN_RESOLVING)
		resolving(x);
	else
		dialing(x);
	if ((x->state == CHAN_RESOLVING || x->state == CHAN_DIALING) && clock_ms() >= x->deadline)
		refuse(x, "no answer in time");
}
