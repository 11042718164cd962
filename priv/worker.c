/* SPDX-License-Identifier: Apache-2.0 */
#include "priv/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"

#define ROLLUP_MAX 16384 /* bytes of smaps_rollup */

struct worker {
	const struct cgroups *cg; /* borrowed */
	int event;                /* owned */
	pthread_t thread;
	struct mutex lock;
	struct cond work;
	bool stop GUARDED_BY(lock);
	struct job *todo GUARDED_BY(lock), **todo_end GUARDED_BY(lock);
	struct job *done GUARDED_BY(lock), **done_end GUARDED_BY(lock);
};

static uint64_t rollup_kb(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, 10) : 0;
}

/* The pid is still the VM's: its process is not reaped while it has a job. */
static int read_stats(pid_t pid, uint64_t ret[3])
{
	autofree char *text = NULL;
	struct timespec ts;
	clockid_t clk;
	char path[64];
	int r;

	if (clock_getcpuclockid(pid, &clk) != 0 || clock_gettime(clk, &ts) < 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	r = io_read_file(AT_FDCWD, path, ROLLUP_MAX, &text, NULL);
	if (r < 0)
		return r;
	ret[0] = (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
	ret[1] = rollup_kb(text, "\nRss:") << 10;
	ret[2] = rollup_kb(text, "\nAnonymous:") << 10;
	return 0;
}

static void job_run(struct worker *w, struct job *j)
{
	switch (j->kind) {
	case JOB_ATTACH:
		cgroup_attach(w->cg, j->group, &j->limits, j->pid);
		break;
	case JOB_DROP:
		cgroup_drop(w->cg, j->group);
		break;
	case JOB_STATS:
		j->result = read_stats(j->pid, j->stats);
		break;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	LOCK_SCOPE(&w->lock);
	for (;;) {
		struct job *j = w->todo;

		if (!j && w->stop)
			return NULL;
		if (!j) {
			cond_wait(&w->work, &w->lock);
			continue;
		}
		w->todo = j->next;
		if (!w->todo)
			w->todo_end = &w->todo;
		mutex_unlock(&w->lock);
		job_run(w, j);
		mutex_lock(&w->lock);
		j->next = NULL;
		*w->done_end = j;
		w->done_end = &j->next;
		eventfd_write(w->event, 1);
	}
}

int worker_start(const struct cgroups *cg, struct worker **ret, struct err *err)
{
	struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "worker: out of memory");
	w->cg = cg;
	mutex_unshared(&w->lock);
	w->todo_end = &w->todo;
	w->done_end = &w->done;
	mutex_init(&w->lock, "priv worker");
	cond_init(&w->work);
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->event < 0 ? -errno : -pthread_create(&w->thread, NULL, worker_main, w);
	if (r < 0) {
		if (w->event >= 0)
			close(w->event);
		free(w);
		return err_sys(err, r, "start the worker");
	}
	*ret = w;
	return 0;
}

struct worker *worker_stop(struct worker *w)
{
	struct job *j;

	if (!w)
		return NULL;
	mutex_lock(&w->lock);
	w->stop = true;
	cond_signal(&w->work);
	mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	while ((j = worker_done(w)))
		free(j);
	close(w->event);
	mutex_destroy(&w->lock);
	cond_destroy(&w->work);
	free(w);
	return NULL;
}

void worker_submit(struct worker *w, struct job *j_consume)
{
	if (!j_consume)
		return;
	LOCK_SCOPE(&w->lock);
	j_consume->next = NULL;
	*w->todo_end = j_consume;
	w->todo_end = &j_consume->next;
	cond_signal(&w->work);
}

int worker_fd(const struct worker *w)
{
	return w->event;
}

struct job *worker_done(struct worker *w)
{
	struct job *j;
	eventfd_t n;

	LOCK_SCOPE(&w->lock);
	j = w->done;
	if (!j) {
		eventfd_read(w->event, &n);
		return NULL;
	}
	w->done = j->next;
	if (!w->done)
		w->done_end = &w->done;
	return j;
}
