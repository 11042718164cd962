/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - live copies of a VM, here or spread over the nodes of a cluster
 *
 * Copies that are meant for other nodes are VMs at rest when vmm_fork() returns (vm/spread.c). They
 * are started like any VM by a call to their node, with the client's own credentials, several at a
 * time. One whose node does not start it, whatever the reason, is started here, and if that fails,
 * too, stays suspended: it exists, and its next use wakes it where there is room.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/log.h"
#include "node/node.h"
#include "ports/ports.h"
#include "store/store_node.h"
#include "vm/vmm.h"

#define START_THREADS 8 /* calls to other nodes at once */

struct fork_body {
	int64_t count, delete_after;
	enum json_presence delete_seen;
	char vpc[24];
	json_t *persistence;
	bool spread;
};
static const struct json_field fork_fields[] = {
	JSON_FIELD(JSON_WANT_I64, fork_body, count, "count", JSON_NULLABLE, 1, VM_FORK_MAX),
	JSON_FIELD(JSON_WANT_ANY, fork_body, persistence, "persistence", 0, 0, 0,
	           "Persistence | null"),
	JSON_FIELD_STR(fork_body, vpc, "vpc", JSON_NULLABLE),
	JSON_FIELD_P(JSON_WANT_I64, fork_body, delete_after, delete_seen, "deleteAfterSeconds",
	             JSON_NULLABLE, 1, IDLE_MAX),
	JSON_FIELD(JSON_WANT_BOOL, fork_body, spread, "spread", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(VmFork, fork_fields);

/* ---- starting those that are elsewhere ---- */

struct starts {
	struct request *req;
	struct vm_spread *spread;
	const struct vm_info *forks;
	const char *credentials;
	unsigned count;
	struct mutex lock;
	unsigned next GUARDED_BY(lock);
};

static void start_one(struct starts *s, unsigned i)
{
	struct vmm *m = deps_of(s->req)->vmm;
	const char *account = who_of(s->req)->account, *vm = s->forks[i].id;
	struct vm_start_opts o = { VM_LEAVE, VM_LEAVE, -1 };
	struct err err = { 0 };
	struct vm_info now;

	if (cross_start(s->req, s->credentials, s->spread->node[i], vm, &err) < 0) {
		log_obj(LOG_LV_WARN, "vm", vm, "not started on its node, starting it here: %s",
		        err.msg);
		err = (struct err){ 0 };
		if (vmm_start(m, account, vm, &o, &now, &err) < 0)
			log_obj(LOG_LV_WARN, "vm", vm, "it stays suspended: %s", err.msg);
	}
}

static void *start_worker(void *arg)
{
	struct starts *s = arg;

	for (;;) {
		unsigned i;

		mutex_lock(&s->lock);
		while (s->next < s->count && !*s->spread->node[s->next])
			s->next++;
		i = s->next++;
		mutex_unlock(&s->lock);
		if (i >= s->count)
			return NULL;
		start_one(s, i);
	}
}

static int start_all(struct request *req, struct vm_spread *spread, struct vm_info *forks,
                     unsigned count, struct err *err)
{
	struct starts s = { .req = req, .spread = spread, .forks = forks, .count = count };
	autobuf struct buf credentials = { 0 };
	pthread_t t[START_THREADS];
	unsigned n = 0;

	cross_credentials(req, &credentials);
	if (credentials.failed)
		return err_set(err, -ENOMEM, "out of memory");
	s.credentials = (const char *)credentials.p;
	mutex_init(&s.lock, "api starts");
	while (n + 1 < MIN(spread->elsewhere, START_THREADS) &&
	       pthread_create(&t[n], NULL, start_worker, &s) == 0)
		n++;
	start_worker(&s);
	while (n)
		pthread_join(t[--n], NULL);
	mutex_destroy(&s.lock);
	return 0;
}

/* Names of nodes, in the order of the copies; null: nobody's, at rest. */
static json_t *shape_spread(struct request *req, const struct vm_spread *spread,
                            const struct vm_info *forks, unsigned count)
{
	struct store *store = deps_of(req)->store;
	json_t *nodes = json_array();

	for (unsigned i = 0; i < count; i++) {
		struct store_owner o = { 0 };
		struct store_node n;
		bool known = deps_of(req)->node &&
		             store_vm_owner(store, forks[i].id, &o, NULL) == 0 && *o.node &&
		             store_node_find(store, o.node, &n, NULL) == 0;

		json_array_append_new(nodes, known ? json_string(n.name) : json_null());
	}
	return json_pack("{s:o, s:o}", "nodes", nodes, "note", shape_text(spread->note));
}

/* ---- the call ---- */

static int fork_vm(struct request *req, struct reply *res, const char *id, unsigned count,
                   struct vm_fork_opts *o, struct err *err)
{
	autofree struct vm_info *v = NULL;
	autojson json_t *forks = json_array(), *body = NULL;
	int r = vmm_fork(deps_of(req)->vmm, who_of(req)->account, id, count, o, &v, err);

	if (r < 0)
		return r;
	if (deps_of(req)->ports)
		ports_refresh(deps_of(req)->ports);
	if (o->spread && o->spread->elsewhere && (r = start_all(req, o->spread, v, count, err)) < 0)
		return r;
	for (unsigned i = 0; i < count; i++)
		if (json_array_append_new(forks, shape_made(req, &v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	body = json_pack("{s:s, s:O}", "vmId", id, "forks", forks);
	if (body && o->spread)
		json_object_set_new(body, "spread", shape_spread(req, o->spread, v, count));
	return reply_json(res, json_incref(body), err);
}

int api_vm_fork(struct request *req, struct reply *res, struct err *err)
{
	struct fork_body b = { .count = 1 };
	autofree struct vm_spread *spread = NULL;
	struct vm_persistence p;
	struct vm_fork_opts o = { 0 };
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, fork_fields, ARRAY_SIZE(fork_fields), &b,
	                        err)) < 0 ||
	    (r = parse_persistence(b.persistence, ERR_BAD_REQUEST, &p, err)) < 0)
		return r;
	if (*b.vpc && strcmp(b.vpc, "fresh-address") != 0)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'vpc' must be \"fresh-address\"");
	if (b.spread && !(spread = calloc(1, sizeof(*spread))))
		return err_set(err, -ENOMEM, "out of memory");
	o.spread = spread;
	o.persistence = b.persistence && !json_is_null(b.persistence) ? &p : NULL;
	o.fresh_address = *b.vpc != '\0';
	o.delete_after_s = idle_of(b.delete_seen, b.delete_after, 0);
	return fork_vm(req, res, id, (unsigned)b.count, &o, err);
}
