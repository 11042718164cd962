/* SPDX-License-Identifier: Apache-2.0 */
/* edgehost.c - starts and stops what looks after pando-edge */
#include "edgehost/edgehost.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "edgehost/host_internal.h"

#ifdef LOCK_CHECK /* a build with a sanitizer */
#define READY_MS 60000
#else
#define READY_MS 15000 /* for the first process to start */
#endif
#define FDS_SPARE 64 /* of the process's descriptors: for those that come in messages */
#define FDS_MIN 128

void edgehost_changed(struct edgehost *h, const char *vm)
{
	atomic_fetch_add_explicit(&h->tallies->tally[vm ? tally_of(h, vm) : 0], 1,
	                          memory_order_acq_rel);
}

void edgehost_status(struct edgehost *h, struct edgehost_status *ret)
{
	LOCK_SCOPE(&h->lock);
	*ret = (struct edgehost_status){ .stats = h->now,
		                         .pid = h->pid,
		                         .starts = h->starts,
		                         .ended_badly = h->ended_badly,
		                         .lines_lost = h->lines_lost };
	ret->stats.connections += h->past.connections;
	ret->stats.requests += h->past.requests;
	ret->stats.refused += h->past.refused;
	ret->stats.woken += h->past.woken;
}

static int make_tallies(struct edgehost *h, struct err *err)
{
	void *p;

	h->tallies_fd = memfd_create("pando-edge", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (h->tallies_fd < 0 || ftruncate(h->tallies_fd, sizeof(*h->tallies)) < 0)
		return err_sys(err, -errno, "edge: make a page of counters");
	p = mmap(NULL, sizeof(*h->tallies), PROT_READ | PROT_WRITE, MAP_SHARED, h->tallies_fd, 0);
	if (p == MAP_FAILED)
		return err_sys(err, -errno, "edge: map a page of counters");
	h->tallies = p;
	/* From here on this mapping is the only one that can write. */
	if (fcntl(h->tallies_fd, F_ADD_SEALS,
	          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return err_sys(err, -errno, "edge: seal a page of counters");
	return 0;
}

/* The process gets what the reserve leaves; of that it keeps some free for descriptors in
 * messages. */
static void share_fds(struct edgehost *h)
{
	struct rlimit rl = { .rlim_cur = 1024 };
	rlim_t limit, reserve;

	getrlimit(RLIMIT_NOFILE, &rl);
	limit = MIN(rl.rlim_cur, (rlim_t)1 << 20);
	reserve = h->conf.fd_reserve ? h->conf.fd_reserve : limit / 4;
	if (reserve + FDS_MIN > limit) {
		log_warn("edge: the limit of descriptors (%llu) is hardly above the reserve "
		         "(%llu); the edge gets half of them",
		         (unsigned long long)limit, (unsigned long long)reserve);
		reserve = limit / 2;
	}
	h->nofile = (unsigned)(limit - reserve);
	h->conf.fd_reserve = MIN(FDS_SPARE, h->nofile / 4);
}

static void edgehost_freep(struct edgehost **h)
{
	edgehost_free(*h);
}

static int wait_ready(struct edgehost *h, struct err *err)
{
	uint64_t deadline = deadline_in(READY_MS);

	LOCK_SCOPE(&h->lock);
	while (!h->ready && !h->ended_badly && cond_wait_until(&h->cond, &h->lock, deadline))
		;
	if (h->ready)
		return 0;
	return err_set(err, -EIO, "edge: pando-edge %s; the log says why",
	               h->ended_badly ? "ended at once" : "does not start");
}

int edgehost_start(const struct edgehost_conf *c, const struct edgehost_ops *ops,
                   struct edgehost **ret, struct err *err)
{
	AUTO(edgehost_freep) struct edgehost *h = calloc(1, sizeof(*h));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	if (!h) {
		if (c->edge.tls_fd >= 0)
			close(c->edge.tls_fd);
		if (c->edge.http_fd >= 0)
			close(c->edge.http_fd);
		return err_set(err, -ENOMEM, "edge: out of memory");
	}
	h->conf = c->edge;
	h->ops = *ops;
	h->mem_mb = c->mem_mb;
	h->log = c->log;
	mutex_init(&h->lock, "edge host");
	mutex_unshared(&h->lock);
	h->control = h->err_fd = h->log_fd = h->tallies_fd = h->wake = h->pid = -1;
	h->proc = PROC_NONE;
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++)
		h->lanes[i] = -1;
	cond_init(&h->cond);
	cond_init(&h->jobs);
	if (!h->conf.workers)
		h->conf.workers = (unsigned)MAX(cpus, 1);
	h->conf.workers = MIN(h->conf.workers, EDGEW_LANES_MAX);
	random_bytes(&h->place_seed, sizeof(h->place_seed));
	random_bytes(&h->tally_seed, sizeof(h->tally_seed));
	snprintf(h->field, sizeof(h->field), "%s", c->field ? c->field : "");
	share_fds(h);
	h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->wake < 0)
		return err_sys(err, -errno, "edge: eventfd");
	if ((r = make_tallies(h, err)) < 0)
		return r;
	if (pthread_create(&h->thread, NULL, host_main, h) != 0)
		return err_set(err, -EAGAIN, "edge: cannot start a thread");
	h->threaded = true;
	if ((r = wait_ready(h, err)) < 0)
		return r;
	*ret = TAKE_PTR(h);
	return 0;
}

uint32_t edgehost_mark(const struct edgehost *h, const char *vm)
{
	return tally(h, tally_of(h, vm));
}

void edgehost_stop(struct edgehost *h)
{
	if (!h || !h->threaded)
		return;
	jobs_stop(h);
	(void)eventfd_write(h->wake, 1);
	pthread_join(h->thread, NULL);
	h->threaded = false;
}

struct edgehost *edgehost_free(struct edgehost *h)
{
	if (!h)
		return NULL;
	edgehost_stop(h);
	jobs_wait(h);
	if (h->tallies)
		munmap(h->tallies, sizeof(*h->tallies));
	int fds[] = { h->tallies_fd, h->wake, h->conf.tls_fd, h->conf.http_fd };
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	cond_destroy(&h->jobs);
	cond_destroy(&h->cond);
	mutex_destroy(&h->lock);
	free(h);
	return NULL;
}
