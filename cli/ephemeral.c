/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ephemeral.c - a temporary VM for one command
 *
 * The VM is ephemeral with a short idle time: if this program is killed, the VM becomes idle and is
 * deleted. Meanwhile a thread keeps it awake once a minute, because work without network traffic
 * would count as idle.
 */
#include "cli/ephemeral.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "cli/resolve.h"
#include "cli/stream.h"

#define IDLE_S 300
#define BEAT_MS 60000

struct ephemeral {
	struct cli *c, *own; /* own: for the thread */
	char *id;
	int signals;
	pthread_t thread;
	bool has_thread, stop;
	struct mutex lock;
	struct cond wake;
};

static void *beat(void *ctx)
{
	struct ephemeral *e = ctx;
	autofree char *path = cli_path(e->own, "/v1/vms/%s/start", e->id);

	mutex_lock(&e->lock);
	while (!e->stop) {
		uint64_t t = deadline_in(BEAT_MS);
		autojson json_t *reply = NULL;

		if (cond_wait_until(&e->wake, &e->lock, t))
			continue;
		mutex_unlock(&e->lock);
		cli_try(e->own, NULL, "POST", path, json_object(), &reply, NULL);
		mutex_lock(&e->lock);
	}
	mutex_unlock(&e->lock);
	return NULL;
}

static void start_beat(struct ephemeral *e)
{
	mutex_init(&e->lock, "ephemeral");
	cond_init(&e->wake);
	e->own = cli_clone(e->c);
	e->has_thread = pthread_create(&e->thread, NULL, beat, e) == 0;
}

int ephemeral_new(struct cli *c, const char *snapshot, struct ephemeral **ret)
{
	autofree char *from = snapshot ? cli_snapshot_id(c, snapshot) : NULL;
	autojson json_t *reply = NULL;
	struct ephemeral *e;
	json_t *body;
	int r;

	if (snapshot && !from)
		return CLI_REFUSED;
	body = json_pack("{s:{s:s, s:s}, s:i, s:s}", "persistence", "type", "ephemeral",
	                 "deleteEvent", "OnSuspend", "idleTimeoutSeconds", IDLE_S, "name",
	                 "pando run");
	if (from)
		json_object_set_new(body, "snapshotId", json_string(from));
	if ((r = cli_call(c, "POST", "/v1/vms", body, &reply)) != CLI_OK)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e || !(e->id = strdup(cli_str(reply, "id"))))
		cli_oom();
	e->c = c;
	e->signals = signals_open();
	start_beat(e);
	*ret = e;
	return CLI_OK;
}

const char *ephemeral_id(const struct ephemeral *e)
{
	return e->id;
}

void ephemeral_free(struct ephemeral *e)
{
	autojson json_t *reply = NULL;
	autofree char *path = NULL;
	struct err err = { 0 };
	int status;

	if (!e)
		return;
	mutex_lock(&e->lock);
	e->stop = true;
	cond_signal(&e->wake);
	mutex_unlock(&e->lock);
	if (e->has_thread)
		pthread_join(e->thread, NULL);
	path = cli_path(e->c, "/v1/vms/%s", e->id);
	status = cli_try(e->c, NULL, "DELETE", path, NULL, &reply, &err);
	if (status != 200 && status != 404)
		cli_fail(
		        0,
		        "the VM %s could not be deleted now; the server deletes it when it is idle",
		        e->id);
	signals_close(e->signals);
	cond_destroy(&e->wake);
	mutex_destroy(&e->lock);
	cli_free(e->own);
	free(e->id);
	free(e);
}
