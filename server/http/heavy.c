/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heavy.c - whoever uses much processor time comes second
 *
 * Theory of operation: the processor time that the thread of a connection spends on a request is
 * charged to its account, or address without one. Whoever has spent more than its share is not
 * refused, because there may be nobody else: its threads become nicer while they work for it, and
 * the kernel lets others go first. What git's programs and machines spend is not counted here; they
 * are processes of their own, with their own limits.
 */
#include "http/http_internal.h"

#include <sys/resource.h>
#include <time.h>

#include "base/rate.h"

#define SHARE_MS 250   /* of processor time a second, */
#define AT_ONCE_MS 500 /* and as much before that counts */
#define HOLDERS 4096   /* accounts and addresses remembered */
#define NICE 10        /* more than others: a tenth of their weight */

int heavy_new(struct http *h, struct err *err)
{
	h->nice = getpriority(PRIO_PROCESS, 0);
	return rate_new(
	        &(struct rate_conf){ .per_s = SHARE_MS, .burst = AT_ONCE_MS, .slots = HOLDERS },
	        &h->cpu, err);
}

static uint64_t thread_us(void)
{
	struct timespec ts = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* On Linux this is the calling thread. If it may not become less nice again, it stays as it is. */
static void be_nice(struct request *req, int nice)
{
	if (*req->nice != nice && setpriority(PRIO_PROCESS, 0, req->http->nice + nice) == 0)
		*req->nice = nice;
}

void heavy_begin(struct request *req)
{
	req->cpu_us = thread_us();
	be_nice(req, rate_spend(req->http->cpu, req->holder, 0) < 0 ? NICE : 0);
}

void heavy_end(struct request *req)
{
	uint64_t now = thread_us();

	/* At the end of the server it may be another thread that ends it. */
	if (req->cpu_us && now > req->cpu_us)
		rate_spend(req->http->cpu, req->holder, (double)(now - req->cpu_us) / 1000);
	req->cpu_us = 0;
}
