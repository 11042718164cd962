/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_outbox.c - events, written in the transaction of the change they tell of
 *
 * What happened is told by comparing the row that is there with the one that replaces it, so no
 * verb can forget it, and a crash leaves both or neither. An event is what the account sees of the
 * VM at that moment, as JSON; there is one row for those who follow the account (store_feed.h) and
 * one per webhook that wants it (store_hook.h). Some events are not for webhooks: `quiet`.
 * docs/WEBHOOKS.md and docs/EVENTS.md have the tables of events.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "store/store_hook.h"
#include "store/store_internal.h"

static const char *const names[] = {
	"vm.created",       "vm.started",    "vm.resumed",       "vm.suspended",
	"vm.stopped",       "vm.crashed",    "vm.lost",          "vm.deleted",
	"vm.forked",        "vm.rewound",    "snapshot.created", "snapshot.failed",
	"snapshot.deleted", "snapshot.lost", "build.succeeded",  "build.failed",
};

const char *hook_event_name(size_t i)
{
	return i < ARRAY_SIZE(names) ? names[i] : NULL;
}

/* For those who follow the account, and not for webhooks. */
static const char *const quiet_names[] = {
	"vm.state",      "vm.changed",    "snapshot.started", "snapshot.changed",
	"build.started", "build.phase",   "git.push",         "git.delivery",
	"git.sync",      "domain.mapped", "domain.unmapped",  "vpc.changed",
	"quota.refused", "run.started",   "run.finished",     "cron.execution",
};

bool event_covers(const char *pattern, const char *type)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*' && (n == 1 || pattern[n - 2] == '.'))
		return strncmp(pattern, type, n - 1) == 0;
	return strcmp(pattern, type) == 0;
}

bool hook_event_known(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (event_covers(pattern, names[i]))
			return true;
	return false;
}

bool event_known(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_SIZE(quiet_names); i++)
		if (event_covers(pattern, quiet_names[i]))
			return true;
	return hook_event_known(pattern);
}

/* ---- who wants it ---- */

struct event {
	const char *type, *account, *subject;
	const char *vm;          /* it concerns, or "" */
	json_t *tags, *metadata; /* of that VM; owned; NULL: there is none */
	json_t *about;           /* owned: the member "vm", "snapshot" or "build" */
	const char *member;
	bool quiet; /* not for webhooks */
};

static void event_done(struct event *e)
{
	json_decref(e->tags);
	json_decref(e->metadata);
	json_decref(e->about);
}

static bool wants_type(const struct store_hook *h, const char *type)
{
	autojson json_t *list = *h->events ? json_loads(h->events, 0, NULL) : NULL;
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (event_covers(json_string_value(item), type))
			return true;
	}
	return !*h->events;
}

static bool has_all_tags(const struct store_hook *h, const json_t *tags)
{
	autojson json_t *want = *h->tags ? json_loads(h->tags, 0, NULL) : NULL;
	const json_t *item, *t;
	size_t i, k;

	json_array_foreach(want, i, item)
	{
		bool found = false;

		json_array_foreach(tags, k, t) found |= json_equal(item, t);
		if (!found)
			return false;
	}
	return true;
}

static bool has_all_metadata(const struct store_hook *h, const json_t *metadata)
{
	autojson json_t *want = *h->metadata ? json_loads(h->metadata, 0, NULL) : NULL;
	const char *name;
	json_t *v;

	json_object_foreach(want, name, v)
	{
		if (!json_equal(v, json_object_get(metadata, name)))
			return false;
	}
	return true;
}

static bool wants(const struct store_hook *h, const struct event *e)
{
	return h->enabled && (!*h->vm || strcmp(h->vm, e->vm) == 0) && wants_type(h, e->type) &&
	       has_all_tags(h, e->tags) && has_all_metadata(h, e->metadata);
}

/* ---- writing it down ---- */

static int drop_event(struct store *s, const char *hook, struct err *err)
{
	return MIN(
	        run_text(s, "UPDATE hooks SET dropped = dropped + 1 WHERE id = $1", &hook, 1, err),
	        0);
}

static int deliver(struct store *s, const struct store_hook *h, const struct event *e,
                   const char *event_id, const char *body, struct store_hook_delivery *ret,
                   struct err *err)
{
	struct store_hook_delivery d = { .state = DELIVERY_PENDING, .status = -1 };
	int n = query_count(s,
	                    "SELECT COUNT(*) FROM hook_deliveries WHERE account = $1 AND "
	                    "state IN ('pending', 'active')",
	                    h->account, err);
	int r;

	if (n < 0)
		return n;
	if (n >= HOOK_WAITING_MAX && !ret)
		return drop_event(s, h->id, err);
	if (n >= HOOK_WAITING_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "%d deliveries of this account are already waiting",
		               HOOK_WAITING_MAX);
	id_make("dlv-", d.id);
	snprintf(d.hook, sizeof(d.hook), "%s", h->id);
	snprintf(d.account, sizeof(d.account), "%s", h->account);
	snprintf(d.event, sizeof(d.event), "%s", event_id);
	snprintf(d.type, sizeof(d.type), "%s", e->type);
	snprintf(d.subject, sizeof(d.subject), "%s", e->subject);
	d.next_ms = d.created_ms = d.updated_ms = clock_wall_ms();
	if ((r = hook_delivery_add_locked(s, &d, body, err)) < 0)
		return r;
	if (ret)
		*ret = d;
	if (s->hook_fn)
		s->hook_fn(s->hook_ctx);
	return 0;
}

static char *body_of(const struct event *e, const char *id)
{
	char now[CLOCK_RFC3339_LEN];
	autojson json_t *j =
	        json_pack("{s:s, s:s, s:s, s:s}", "id", id, "type", e->type, "createdAt",
	                  clock_rfc3339(clock_wall_ms(), now), "accountId", e->account);

	if (e->about)
		json_object_set(j, e->member, e->about);
	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

static int publish(struct store *s, const struct event *e, struct err *err)
{
	autowipe struct store_hook *hooks = NULL;
	autofree char *body = NULL;
	char id[ID_SIZE];
	size_t n = 0;
	int r = feed_put_locked(s, e->account, e->type, e->vm, e->member, e->about, err);

	if (r < 0 || e->quiet || (r = hooks_any_locked(s, err)) <= 0 ||
	    (r = hooks_of_locked(s, e->account, &hooks, &n, err)) < 0)
		return r;
	id_make("evt-", id);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!wants(&hooks[i], e))
			continue;
		if (!body && !(body = body_of(e, id)))
			return err_set(err, -ENOMEM, "out of memory");
		r = deliver(s, &hooks[i], e, id, body, NULL, err);
	}
	return MIN(r, 0);
}

int store_hook_ping(struct store *s, const struct store_hook *h, struct store_hook_delivery *ret,
                    struct err *err)
{
	struct event e = { .type = "test", .account = h->account, .vm = "" };
	autofree char *body = NULL;
	autotx struct tx t = { 0 };
	char id[ID_SIZE];
	int r;

	id_make("evt-", id);
	e.subject = id; /* waits for no other */
	body = body_of(&e, id);
	if (!body)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = tx_begin(&t, s, err)) < 0 || (r = deliver(s, h, &e, id, body, ret, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- VMs ---- */

/* Reasons may quote what a guest wrote, in any bytes. */
static json_t *text_or_null(const char *s)
{
	return *s ? json_text(s, strlen(s)) : json_null();
}

static json_t *time_of(int64_t wall_ms)
{
	char text[CLOCK_RFC3339_LEN];

	return json_string(clock_rfc3339(wall_ms, text));
}

static json_t *parsed(const char *text, json_t *none_consume)
{
	json_t *j = text && *text ? json_loads(text, 0, NULL) : NULL;

	if (!j)
		return none_consume;
	json_decref(none_consume);
	return j;
}

static int event_notes(struct store *s, struct event *e, struct err *err)
{
	autofree char *tags = NULL, *metadata = NULL;
	int r = *e->vm ? note_words_locked(s, e->vm, &tags, &metadata, err) : 0;

	e->tags = parsed(tags, json_array());
	e->metadata = parsed(metadata, json_object());
	return MIN(r, 0);
}

static int publish_vm_as(struct store *s, const char *type, bool quiet, const struct vm_info *v,
                         const char *reason, json_t *forks, struct err *err)
{
	AUTO(event_done)
	struct event e = { .type = type,
		           .account = v->account,
		           .subject = v->id,
		           .vm = v->id,
		           .member = "vm",
		           .quiet = quiet };
	bool gone = strcmp(type, "vm.deleted") == 0;
	int r = event_notes(s, &e, err);

	if (r < 0)
		return r;
	e.about = json_pack("{s:s, s:o, s:s, s:o, s:O, s:O, s:o, s:o, s:o}", "id", v->id, "name",
	                    text_or_null(v->name), "state",
	                    gone ? "deleted" : vm_state_words[v->state], "reason",
	                    text_or_null(reason), "tags", e.tags, "metadata", e.metadata,
	                    "snapshotId", text_or_null(v->snapshot_id), "parentVmId",
	                    text_or_null(v->parent_id), "createdAt", time_of(v->created_ms));
	if (!e.about)
		return err_set(err, -ENOMEM, "out of memory");
	if (forks)
		json_object_set(e.about, "forks", forks);
	return publish(s, &e, err);
}

static int publish_vm(struct store *s, const char *type, const struct vm_info *v,
                      const char *reason, json_t *forks, struct err *err)
{
	return publish_vm_as(s, type, /* quiet= */ false, v, reason, forks, err);
}

static int publish_fork(struct store *s, const struct store_vm *v, size_t n, struct err *err)
{
	autojson json_t *forks = json_array();
	struct store_vm *parent = malloc(sizeof(*parent));
	int r = parent ? row_get(s, &vm_table, v->info.parent_id, parent, err)
	               : err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; r == 0 && i < n; i++)
		json_array_append_new(forks, json_string(v[i].info.id));
	if (r == 0)
		r = publish_vm(s, "vm.forked", &parent->info, "", forks, err);
	else if (r == -ENOENT) /* deleted meanwhile */
		r = 0;
	free(parent);
	return r;
}

int outbox_added_locked(struct store *s, const struct store_vm *v, size_t n, struct err *err)
{
	bool forked = n && *v->info.parent_id && *v->info.account;
	int r = forked ? publish_fork(s, v, n, err) : 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (*v[i].info.account && v[i].info.state == VM_BUILDING)
			r = publish_vm_as(s, "vm.state", /* quiet= */ true, &v[i].info, "", NULL,
			                  err);
		else if (*v[i].info.account && v[i].info.state == VM_RUNNING)
			r = publish_vm(s, "vm.created", &v[i].info,
			               *v[i].info.parent_id ? "forked" : "created", NULL, err);
	return r;
}

/* NULL: nothing that anyone waits for. */
static const char *type_of(enum vm_state old, enum vm_state now, const char *why)
{
	if (now == VM_BUILDING)
		return NULL;
	if (old == VM_BUILDING)
		return "vm.created";
	if (strcmp(why, "rewound") == 0)
		return "vm.rewound";
	if (old == now)
		return NULL;
	switch (now) {
	case VM_RUNNING:
		return old == VM_SUSPENDED ? "vm.resumed" : "vm.started";
	case VM_SUSPENDED:
		return "vm.suspended";
	case VM_STOPPED:
		return strcmp(why, "crashed") == 0 ? "vm.crashed" : "vm.stopped";
	case VM_LOST:
		return "vm.lost";
	default:
		return NULL;
	}
}

/* Something that its owner has set. */
static bool has_changed(const struct vm_info *a, const struct vm_info *b)
{
	return strcmp(a->name, b->name) != 0 || a->idle_timeout_s != b->idle_timeout_s ||
	       a->activity_threshold != b->activity_threshold || a->vcpus != b->vcpus ||
	       a->mem_mb != b->mem_mb || a->disk_mb != b->disk_mb ||
	       a->count_exec != b->count_exec || a->recreate != b->recreate || a->self != b->self ||
	       a->delete_at_ms != b->delete_at_ms ||
	       a->checkpoint_every_s != b->checkpoint_every_s ||
	       a->persistence.type != b->persistence.type ||
	       a->persistence.priority != b->persistence.priority ||
	       a->persistence.delete_event != b->persistence.delete_event;
}

int outbox_update_locked(struct store *s, const struct store_vm *v, struct err *err)
{
	autofree struct store_vm *old = NULL;
	const char *type;
	int r;

	if (!*v->info.account)
		return 0;
	old = malloc(sizeof(*old));
	if (!old)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = row_get(s, &vm_table, v->info.id, old, err)) < 0)
		return r;
	type = type_of(old->info.state, v->info.state, v->why);
	if (!type)
		return has_changed(&old->info, &v->info)
		               ? publish_vm_as(s, "vm.changed", /* quiet= */ true, &v->info, "",
		                               NULL, err)
		               : 0;
	return publish_vm(s, type, &v->info, old->info.state == VM_BUILDING ? "built" : v->why,
	                  NULL, err);
}

int outbox_bury_locked(struct store *s, const struct store_vm *v, const char *reason,
                       struct err *err)
{
	/* To webhooks, one that is being built was never announced. */
	return *v->info.account ? publish_vm_as(s, "vm.deleted", v->info.state == VM_BUILDING,
	                                        &v->info, reason ? reason : "failed", NULL, err)
	                        : 0;
}

int outbox_noted_locked(struct store *s, const char *vm_id, struct err *err)
{
	autofree struct store_vm *v = malloc(sizeof(*v));
	int r = v ? row_get(s, &vm_table, vm_id, v, err) : err_set(err, -ENOMEM, "out of memory");

	if (r == -ENOENT || (r == 0 && !*v->info.account))
		return 0;
	return r < 0 ? r
	             : publish_vm_as(s, "vm.changed", /* quiet= */ true, &v->info, "", NULL, err);
}

/* ---- snapshots and builds ---- */

static const char *const snapshot_words[] = { "ready", "building", "failed", "lost" };

static const char *snapshot_type(const struct store_snapshot *old, const struct store_snapshot *now)
{
	if (now->info.deleted)
		return "snapshot.deleted";
	if (old && old->info.state == now->info.state)
		return strcmp(old->info.name, now->info.name) != 0 ? "snapshot.changed" : NULL;
	switch (now->info.state) {
	case SNAPSHOT_READY:
		return "snapshot.created";
	case SNAPSHOT_FAILED:
		return "snapshot.failed";
	case SNAPSHOT_LOST:
		return "snapshot.lost";
	case SNAPSHOT_BUILDING:
		return "snapshot.started";
	default:
		return NULL;
	}
}

int outbox_snapshot_locked(struct store *s, const struct store_snapshot *old,
                           const struct store_snapshot *now, struct err *err)
{
	const struct snapshot_info *i = &now->info;
	AUTO(event_done)
	struct event e = { .type = snapshot_type(old, now),
		           .account = i->account,
		           .subject = *i->source_vm ? i->source_vm : i->id,
		           .vm = i->source_vm,
		           .member = "snapshot" };
	int r = 0;

	if (!e.type || !*i->account || (r = event_notes(s, &e, err)) < 0)
		return r;
	e.quiet =
	        strcmp(e.type, "snapshot.started") == 0 || strcmp(e.type, "snapshot.changed") == 0;
	e.about = json_pack(
	        "{s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "id", i->id, "name", text_or_null(i->name),
	        "state", i->deleted ? "deleted" : snapshot_words[i->state], "reason",
	        text_or_null(i->failure), "sourceVmId", text_or_null(i->source_vm), "buildId",
	        text_or_null(i->build_id), "createdAt", time_of(i->created_ms));
	return e.about ? publish(s, &e, err) : err_set(err, -ENOMEM, "out of memory");
}

static int publish_build(struct store *s, const struct store_build *b, enum build_state state,
                         const char *failure, struct err *err)
{
	AUTO(event_done)
	struct event e = { .type = state == BUILD_FAILED      ? "build.failed"
		                   : state == BUILD_SUCCEEDED ? "build.succeeded"
		                                              : "build.started",
		           .quiet = state != BUILD_FAILED && state != BUILD_SUCCEEDED,
		           .account = b->account,
		           .subject = b->id,
		           .vm = "",
		           .member = "build" };

	e.about = json_pack("{s:s, s:s, s:o, s:o}", "id", b->id, "state", build_state_name(state),
	                    "reason", text_or_null(failure), "startedAt", time_of(b->started_ms));
	return e.about ? publish(s, &e, err) : err_set(err, -ENOMEM, "out of memory");
}

int outbox_build_locked(struct store *s, const struct store_build *now, struct err *err)
{
	bool over = now->state == BUILD_SUCCEEDED || now->state == BUILD_FAILED;
	autofree struct store_build *old = NULL;
	int r;

	if (!over || !*now->account)
		return 0;
	if (!(old = malloc(sizeof(*old))))
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = row_get(s, &build_table, now->id, old, err)) < 0 || old->state == now->state)
		return r;
	return publish_build(s, now, now->state, now->failure, err);
}

int outbox_started_locked(struct store *s, const struct store_build *b, struct err *err)
{
	return *b->account ? publish_build(s, b, b->state, "", err) : 0;
}

int outbox_phase_locked(struct store *s, const struct store_phase *p, struct err *err)
{
	autofree struct store_build *b = malloc(sizeof(*b));
	int r = b ? row_get(s, &build_table, p->build_id, b, err)
	          : err_set(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return feed_tell_locked(s, b->account, "build.phase", "", "build",
	                        json_pack("{s:s, s:s, s:s}", "id", b->id, "state",
	                                  build_state_name(b->state), "phase", p->name),
	                        err);
}

int outbox_unfinished_locked(struct store *s, const char *node, const char *why, struct err *err)
{
	autofree void *builds = NULL, *snapshots = NULL;
	size_t n_builds = 0, n_snapshots = 0;
	int r;

	if ((r = row_list(s, &build_table, "WHERE state IN ('pending', 'running') AND node = $1",
	                  &node, 1, &builds, &n_builds, err)) < 0 ||
	    (r = row_list(s, &snapshot_table, "WHERE state = 'building' AND node = $1", &node, 1,
	                  &snapshots, &n_snapshots, err)) < 0)
		return MIN(r, 0);
	for (size_t i = 0; r >= 0 && i < n_builds; i++)
		r = publish_build(s, (struct store_build *)builds + i, BUILD_FAILED, why, err);
	for (size_t i = 0; r >= 0 && i < n_snapshots; i++) {
		struct store_snapshot *old = (struct store_snapshot *)snapshots + i, now = *old;

		now.info.state = SNAPSHOT_FAILED;
		snprintf(now.info.failure, sizeof(now.info.failure), "%s", why);
		if (!now.info.deleted)
			r = outbox_snapshot_locked(s, old, &now, err);
	}
	return MIN(r, 0);
}
