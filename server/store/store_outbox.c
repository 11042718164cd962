/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_outbox.c - events for webhooks, written in the transaction of the change they tell of
 *
 * What happened is told by comparing the row that is there with the one that replaces it, so no
 * verb can forget it, and a crash leaves both or neither. An event is what the account sees of the
 * VM at that moment, as JSON; there is one row per webhook that wants it (store_hook.h).
 * docs/WEBHOOKS.md has the table of events.
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

/* "vm.suspended", "vm.*", "*" */
static bool covers(const char *pattern, const char *type)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*' && (n == 1 || pattern[n - 2] == '.'))
		return strncmp(pattern, type, n - 1) == 0;
	return strcmp(pattern, type) == 0;
}

bool hook_event_known(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (covers(pattern, names[i]))
			return true;
	return false;
}

/* ---- who wants it ---- */

struct event {
	const char *type, *account, *subject;
	const char *vm;          /* it concerns, or "" */
	json_t *tags, *metadata; /* of that VM; owned; NULL: there is none */
	json_t *about;           /* owned: the member "vm", "snapshot" or "build" */
	const char *member;
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
		if (covers(json_string_value(item), type))
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
	int r = hooks_of_locked(s, e->account, &hooks, &n, err);

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

static json_t *text_or_null(const char *s)
{
	return *s ? json_string(s) : json_null();
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

static int publish_vm(struct store *s, const char *type, const struct vm_info *v,
                      const char *reason, json_t *forks, struct err *err)
{
	AUTO(event_done)
	struct event e = {
		.type = type, .account = v->account, .subject = v->id, .vm = v->id, .member = "vm"
	};
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
	int r = hooks_any_locked(s, err);

	if (r <= 0)
		return r;
	r = n && *v->info.parent_id ? publish_fork(s, v, n, err) : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (*v[i].info.account && v[i].info.state == VM_RUNNING)
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

int outbox_update_locked(struct store *s, const struct store_vm *v, struct err *err)
{
	autofree struct store_vm *old = NULL;
	const char *type;
	int r = *v->info.account ? hooks_any_locked(s, err) : 0;

	if (r <= 0)
		return r;
	old = malloc(sizeof(*old));
	if (!old)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = row_get(s, &vm_table, v->info.id, old, err)) < 0)
		return r;
	type = type_of(old->info.state, v->info.state, v->why);
	if (!type)
		return 0;
	return publish_vm(s, type, &v->info, old->info.state == VM_BUILDING ? "built" : v->why,
	                  NULL, err);
}

int outbox_bury_locked(struct store *s, const struct store_vm *v, const char *reason,
                       struct err *err)
{
	/* One that is being built was never announced. */
	int r = *v->info.account && v->info.state != VM_BUILDING ? hooks_any_locked(s, err) : 0;

	return r <= 0 ? r
	              : publish_vm(s, "vm.deleted", &v->info, reason ? reason : "failed", NULL,
	                           err);
}

/* ---- snapshots and builds ---- */

static const char *const snapshot_words[] = { "ready", "building", "failed", "lost" };

static const char *snapshot_type(const struct store_snapshot *old, const struct store_snapshot *now)
{
	if (now->info.deleted)
		return "snapshot.deleted";
	if (old && old->info.state == now->info.state)
		return NULL;
	switch (now->info.state) {
	case SNAPSHOT_READY:
		return "snapshot.created";
	case SNAPSHOT_FAILED:
		return "snapshot.failed";
	case SNAPSHOT_LOST:
		return "snapshot.lost";
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
	int r = e.type && *i->account ? hooks_any_locked(s, err) : 0;

	if (r <= 0 || (r = event_notes(s, &e, err)) < 0)
		return r;
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
	struct event e = { .type = state == BUILD_FAILED ? "build.failed" : "build.succeeded",
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
	int r = over && *now->account ? hooks_any_locked(s, err) : 0;

	if (r <= 0)
		return r;
	if (!(old = malloc(sizeof(*old))))
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = row_get(s, &build_table, now->id, old, err)) < 0 || old->state == now->state)
		return r;
	return publish_build(s, now, now->state, now->failure, err);
}

int outbox_unfinished_locked(struct store *s, const char *why, struct err *err)
{
	autofree void *builds = NULL, *snapshots = NULL;
	size_t n_builds = 0, n_snapshots = 0;
	int r = hooks_any_locked(s, err);

	if (r <= 0 ||
	    (r = row_list(s, &build_table, "WHERE state IN ('pending', 'running')", NULL, 0,
	                  &builds, &n_builds, err)) < 0 ||
	    (r = row_list(s, &snapshot_table, "WHERE state = 'building'", NULL, 0, &snapshots,
	                  &n_snapshots, err)) < 0)
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
