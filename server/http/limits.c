/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.c - what requests hold, counted by account and in all; docs/LIMITS.md lists the numbers
 *
 * Whoever asks with a key is counted by account, everybody else by address. Each budget
 * (base/budget.h) leaves something for those who have nothing yet. A holder that has too much is
 * answered 429, one that finds nothing left 503; both say when to come again.
 *
 *   requests    that run, streams and terminals among them: each has a connection and its thread
 *   anonymous   the same without a key
 *   spool       bytes of bodies in files
 *   parse       bytes that JSON bodies take in memory; here a request waits a while for its turn
 *   output      bytes of output that is collected for replies, and of the replies
 */
#include "http/http_internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/rate.h"
#include "base/sock.h"

#define PARSE_WAIT_MS 10000 /* for bodies of others to be done with */
#define PARSE_PEAK 3        /* bytes of memory for a byte of text while it is parsed, */
#define PARSE_KEPT 2        /* and afterwards: the value, and what the handler makes of it */
#define PARSE_FREE KIB(16)  /* a body up to this size costs less than counting it */
#define LOG_BURST 100       /* failed requests of one account or address that are logged, */
#define LOG_PER_S 5         /* and then a second */
#define LOG_NAMES 4096      /* accounts and addresses remembered for that */
#define RETRY_S 5           /* what Retry-After says when nobody knows */

int limits_new(struct http *h, struct err *err)
{
	const struct http_limits *l = &h->conf.limits;
	const struct {
		struct budget **to;
		struct budget_conf conf;
	} v[] = {
		{ &h->requests, { .all = HTTP_REQUESTS_MAX } },
		{ &h->anonymous,
		  { .all = HTTP_ANONYMOUS_MAX, .each = HTTP_ANONYMOUS_EACH, .greedy = true } },
		{ &h->spool, { .all = SPOOL_MAX } },
		{ &h->parse, { .all = l->parse_bytes ? l->parse_bytes : HTTP_PARSE_DEFAULT } },
		{ &h->output, { .all = l->output_bytes ? l->output_bytes : HTTP_OUTPUT_DEFAULT } },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(v); i++)
		r = budget_new(&v[i].conf, v[i].to, err);
	if (r == 0)
		r = rate_new(&(struct rate_conf){ .per_s = LOG_PER_S,
		                                  .burst = LOG_BURST,
		                                  .slots = LOG_NAMES },
		             &h->failures, err);
	return r < 0 ? r : heavy_new(h, err);
}

void limits_free(struct http *h)
{
	budget_free(h->requests);
	budget_free(h->anonymous);
	budget_free(h->spool);
	budget_free(h->parse);
	budget_free(h->output);
	rate_free(h->failures);
	rate_free(h->cpu);
}

static void say_retry(struct err *err, unsigned s)
{
	err_fact(err, ERR_FACT_RETRY, s);
}

/* A budget said no. what: "bytes of JSON bodies" */
static int refused(const struct budget *b, int r, const struct request *req, const char *what,
                   struct err *err)
{
	const char *kind = *req->account ? "account" : "address";

	switch (r) {
	case 0:
		return 0;
	case -EDQUOT:
		err_tag(err, -EAGAIN, ERR_LIMIT_EXCEEDED,
		        "%s %s has too many %s at once (one %s may have up to %llu, less when "
		        "others need some): wait for one of its requests to end",
		        kind, req->holder, what, kind, (unsigned long long)budget_share(b));
		break;
	case -EAGAIN:
		err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		        "the server has too many %s at once: try again in a moment", what);
		break;
	case -E2BIG:
		return err_tag(err, -E2BIG, ERR_LIMIT_EXCEEDED,
		               "one request may have %llu %s on this server",
		               (unsigned long long)budget_share(b), what);
	default:
		return err_set(err, r, "out of memory");
	}
	say_retry(err, RETRY_S);
	return -EAGAIN;
}

void request_name_holder(struct request *req)
{
	char net[SOCK_NET_SIZE];

	snprintf(req->holder, sizeof(req->holder), "%s",
	         *req->account ? req->account : sock_net_text(request_remote(req), net));
	body_begin(req, &req->body);
}

static struct budget *running_of(const struct request *req)
{
	return *req->account ? req->http->requests : req->http->anonymous;
}

int limits_enter(struct request *req, struct err *err)
{
	struct budget *b = running_of(req);
	int r = budget_take(b, req->holder, 1);

	req->shared = r == 0;
	return refused(b, r, req, "requests (streams and terminals among them)", err);
}

void limits_leave(struct request *req)
{
	if (req->shared)
		budget_give(running_of(req), req->holder, 1);
	budget_give(req->http->parse, req->holder, req->parse_held);
	budget_give(req->http->output, req->holder, req->output_held);
	req->shared = false;
	req->parse_held = req->output_held = 0;
}

int limits_parse(struct request *req, uint64_t bytes, uint64_t values, struct err *err)
{
	uint64_t fixed = values * JSON_VALUE_COST, cost = PARSE_PEAK * bytes + fixed;
	struct budget *b = req->http->parse;
	int r;

	if (cost <= PARSE_FREE || req->parse_held)
		return 0;
	r = budget_wait(b, req->holder, cost, deadline_in(PARSE_WAIT_MS));
	if (r == 0)
		req->parse_held = cost;
	return refused(b, r, req, "bytes of JSON bodies being parsed", err);
}

void limits_parsed(struct request *req, uint64_t bytes)
{
	uint64_t back = (PARSE_PEAK - PARSE_KEPT) * bytes;

	if (!req->parse_held)
		return;
	req->parse_held -= back;
	budget_give(req->http->parse, req->holder, back);
}

bool limits_log(struct request *req, bool ours, uint64_t *ret_missed)
{
	char name[BUDGET_HOLDER_SIZE + 8];
	struct rate_answer a;
	bool may;

	/* A flood of the client's failures does not hide one of the server. */
	snprintf(name, sizeof(name), "%s%s", ours ? "5xx " : "", req->holder);
	may = rate_take(req->http->failures, name, &a);
	*ret_missed = a.missed;
	return may;
}

int limits_spool(const struct body *b, uint64_t n, struct err *err)
{
	int r = budget_take(b->http->spool, b->holder, n);

	if (r == 0)
		return 0;
	err_tag(err, -EAGAIN, r == -EDQUOT ? ERR_LIMIT_EXCEEDED : ERR_UNAVAILABLE,
	        r == -EDQUOT ? "too many large bodies of one account or address at once: try again "
	                       "when some are done"
	                     : "too many large uploads at once: try again later");
	say_retry(err, RETRY_S);
	return -EAGAIN;
}

int request_hold_output(struct request *req, uint64_t n, struct err *err)
{
	struct request *payer = req->outer ? req->outer : req;
	int r = budget_take(payer->http->output, payer->holder, n);

	if (r == 0)
		payer->output_held += n;
	else if (r == -E2BIG)
		r = -EDQUOT; /* what comes in pieces has no size yet */
	return refused(payer->http->output, r, payer, "bytes of output on their way", err);
}
