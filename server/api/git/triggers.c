/* SPDX-License-Identifier: Apache-2.0 */
/* triggers.c - triggers of repositories, their deliveries, the keys that sign them */
#include "api/git/shared.h"
#include "git/trigger.h"
#include "hook/hook.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

#define LIST_LIMIT 50
#define LIST_LIMIT_MAX 200
#define SHA_LEN 40
#define FILTER_MAX 250 /* bytes of one branch or glob */
#define TAG ERR_GIT_INVALID_REQUEST

/* The repository of the path; all of this is for its owner, not for those who may read it. */
static int own_repo(struct request *req, struct store_repo *ret, struct err *err)
{
	if (!deps_of(req)->triggers)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "triggers are not available on this server");
	return request_repo(req, REPO_OWN, ret, err);
}

static int own_trigger(struct request *req, struct store_repo *repo, struct store_trigger *ret,
                       struct err *err)
{
	int r = own_repo(req, repo, err);

	return r < 0 ? r
	             : store_trigger_get(deps_of(req)->store, repo->id,
	                                 request_arg(req, "{trigger}"), ret, err);
}

static json_t *filters_json(const char *text)
{
	json_t *j = *text ? json_loads(text, 0, NULL) : NULL;

	return j ? j : json_null();
}

static json_t *trigger_json(const struct store_trigger *t)
{
	json_t *action =
	        t->action == TRIGGER_WEBHOOK
	                ? json_pack("{s:s, s:s}", "action", "webhook", "endpoint", t->endpoint)
	                : json_pack("{s:s, s:o, s:s}", "action", "vm", "snapshotId",
	                            shape_text(t->snapshot), "command", t->command);

	return json_pack("{s:s, s:s, s:{s:s, s:o, s:o}, s:o, s:b, s:o}", "id", t->id,
	                 "repositoryId", t->repo, "trigger", "event", trigger_event_words[t->event],
	                 trigger_is_tag(t->event) ? "tags" : "branches", filters_json(t->branches),
	                 "globs", filters_json(t->globs), "action", action, "managed", 0,
	                 "createdAt", shape_time(t->created_ms));
}

/* For a command: how it went, in one word. */
static const char *outcome(const struct store_delivery *d)
{
	switch (d->state) {
	case DELIVERY_PENDING:
		return "pending";
	case DELIVERY_ACTIVE:
		return "running";
	case DELIVERY_DONE:
		return d->status == 0 ? "success" : "failure";
	default:
		return "error";
	}
}

static json_t *delivery_json(const struct store_delivery *d)
{
	bool hook = d->action == TRIGGER_WEBHOOK;
	bool tag = trigger_is_tag(d->event);
	const char *commit = trigger_is_delete(d->event) ? d->old_sha : d->new_sha;
	json_t *j = json_pack(
	        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:I, s:o, s:o, s:o, s:o}", "id",
	        d->id, "triggerId", d->trigger, "repositoryId", d->repo, "action",
	        trigger_action_words[d->action], "event", trigger_event_words[d->event], "branch",
	        tag ? json_null() : shape_text(d->branch), "tag",
	        tag ? shape_text(d->branch) : json_null(), "commit", shape_sha(commit), "state",
	        delivery_state_words[d->state], "attempts", (json_int_t)d->attempts, "createdAt",
	        shape_time(d->created_ms), "updatedAt", shape_time(d->updated_ms), "nextAttemptAt",
	        d->state == DELIVERY_PENDING ? shape_time(d->next_ms) : json_null(), "error",
	        shape_text(d->note));

	json_object_set_new(j, hook ? "statusCode" : "exitCode",
	                    d->status >= 0 ? json_integer(d->status) : json_null());
	if (!hook) {
		json_object_set_new(j, "status", json_string(outcome(d)));
		json_object_set_new(j, "vmId", shape_text(d->vm));
	}
	return j;
}

static json_t *deliveries_json(const struct store_delivery *d, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, delivery_json(&d[i]));
	return list;
}

int api_trigger_list(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *v = NULL;
	struct store_repo repo;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = own_repo(req, &repo, err)) < 0 ||
	    (r = store_trigger_list(deps_of(req)->store, repo.id, &v, &n, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, trigger_json(&v[i]));
	return reply_json(res, json_pack("{s:o}", "triggers", list), err);
}

struct trigger_body {
	json_t *trigger, *action;
};
static const struct json_field body_fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, trigger_body, trigger, "trigger", JSON_REQUIRED, 0, 0,
	           "TriggerWhen"),
	JSON_FIELD(JSON_WANT_OBJECT, trigger_body, action, "action", JSON_REQUIRED, 0, 0,
	           "TriggerDo"),
};
JSON_TABLE(TriggerNew, body_fields);
struct when {
	const char *event;
	json_t *branches, *tags, *globs;
};
static const struct json_field when_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, when, event, "event", JSON_REQUIRED, 0, 32,
	           "'push' | 'branchCreate' | 'branchDelete' | 'tag' | 'tagDelete'"),
	JSON_FIELD(JSON_WANT_ARRAY, when, branches, "branches", JSON_NULLABLE, 0, 0, "string[]",
	           "names; * is any text"),
	JSON_FIELD(JSON_WANT_ARRAY, when, tags, "tags", JSON_NULLABLE, 0, 0, "string[]",
	           "names; * is any text. For the events of tags"),
	JSON_FIELD(JSON_WANT_ARRAY, when, globs, "globs", JSON_NULLABLE, 0, 0, "string[]",
	           "paths, one of which must have changed; not for deletions"),
};
JSON_TABLE(TriggerWhen, when_fields);
struct what {
	const char *action, *endpoint, *snapshot, *command;
};
static const struct json_field what_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, what, action, "action", JSON_REQUIRED, 0, 32,
	           "'webhook' | 'vm'"),
	JSON_FIELD(JSON_WANT_STRREF, what, endpoint, "endpoint", JSON_NULLABLE, 0,
	           TRIGGER_ENDPOINT_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, what, snapshot, "snapshotId", JSON_NULLABLE, 0, ID_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, what, command, "command", JSON_NULLABLE, 0,
	           TRIGGER_COMMAND_SIZE - 1),
};
JSON_TABLE(TriggerDo, what_fields);

static int read_filters(const json_t *list, const char *name, struct trigger_filters *ret,
                        struct err *err)
{
	const json_t *item;
	size_t i;

	if (json_array_size(list) > TRIGGER_FILTERS_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "'trigger.%s' must be a list of at most %d strings", name,
		               TRIGGER_FILTERS_MAX);
	json_array_foreach(list, i, item)
	{
		const char *s = json_string_value(item);

		if (!s || !*s || strlen(s) > FILTER_MAX)
			return err_tag(err, -EINVAL, TAG,
			               "'trigger.%s[%zu]' must be a string of 1 to %d bytes", name,
			               i, FILTER_MAX);
		ret->v[ret->n++] = s;
	}
	return 0;
}

static int read_when(const json_t *j, struct trigger_new *ret, struct err *err)
{
	struct when w = { 0 };
	bool tag;
	int r = json_fields_read(j, "trigger.", when_fields, ARRAY_SIZE(when_fields), &w, err);

	if (r < 0)
		return r;
	while (ret->event < TRIGGER_EVENT_MAX &&
	       strcmp(w.event, trigger_event_words[ret->event]) != 0)
		ret->event++;
	if (ret->event == TRIGGER_EVENT_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "'trigger.event' must be \"push\", \"branchCreate\", "
		               "\"branchDelete\", \"tag\" or \"tagDelete\"");
	tag = trigger_is_tag(ret->event);
	if (json_array_size(tag ? w.branches : w.tags))
		return err_tag(err, -EINVAL, TAG,
		               "'trigger.%s' must be left out with \"%s\": use '%s'",
		               tag ? "branches" : "tags", w.event, tag ? "tags" : "branches");
	r = read_filters(tag ? w.tags : w.branches, tag ? "tags" : "branches", &ret->names, err);
	return r < 0 ? r : read_filters(w.globs, "globs", &ret->globs, err);
}

static int read_what(const json_t *j, struct trigger_new *ret, struct err *err)
{
	struct what w = { 0 };
	int r = json_fields_read(j, "action.", what_fields, ARRAY_SIZE(what_fields), &w, err);

	if (r < 0)
		return r;
	if (strcmp(w.action, "webhook") == 0)
		ret->action = TRIGGER_WEBHOOK;
	else if (strcmp(w.action, "vm") == 0)
		ret->action = TRIGGER_VM;
	else
		return err_tag(err, -EINVAL, TAG, "'action.action' must be \"webhook\" or \"vm\"");
	ret->endpoint = w.endpoint;
	ret->snapshot = w.snapshot;
	ret->command = w.command;
	return 0;
}

static int read_trigger(struct request *req, struct trigger_new *ret, struct err *err)
{
	struct trigger_body b = { 0 };
	int r;

	if ((r = request_fields(req, TAG, body_fields, ARRAY_SIZE(body_fields), &b, err)) < 0 ||
	    (r = read_when(b.trigger, ret, err)) < 0 || (r = read_what(b.action, ret, err)) < 0) {
		if (r == -EINVAL && !err->tag)
			err->tag = TAG;
		return r;
	}
	return 0;
}

int api_trigger_create(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *t = malloc(sizeof(*t));
	struct trigger_new n = { 0 };
	struct store_repo repo;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = own_repo(req, &repo, err)) < 0 || (r = read_trigger(req, &n, err)) < 0 ||
	    (r = trigger_create(deps_of(req)->triggers, &repo, &n, t, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "triggerId", t->id), err);
}

int api_trigger_get(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *t = malloc(sizeof(*t));
	struct store_repo repo;
	int r = t ? own_trigger(req, &repo, t, err) : err_set(err, -ENOMEM, "out of memory");

	return r < 0 ? r : reply_json(res, trigger_json(t), err);
}

int api_trigger_delete(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r;

	if ((r = own_repo(req, &repo, err)) < 0 ||
	    (r = store_trigger_delete(deps_of(req)->store, repo.id, request_arg(req, "{trigger}"),
	                              err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_delivery_list(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *t = malloc(sizeof(*t));
	autofree struct store_delivery *v = NULL;
	uint32_t limit = LIST_LIMIT, offset = 0;
	struct store_repo repo;
	size_t n = 0;
	int r = t ? own_trigger(req, &repo, t, err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0 || (r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = store_delivery_list(deps_of(req)->store, t->id,
	                             MIN(limit, (uint32_t)LIST_LIMIT_MAX), offset, &v, &n, err)) <
	            0)
		return r;
	return reply_json(res, json_pack("{s:o}", "deliveries", deliveries_json(v, n)), err);
}

int api_delivery_get(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *t = malloc(sizeof(*t));
	autofree char *output = NULL;
	struct store_delivery d;
	struct store_repo repo;
	json_t *j;
	int r = t ? own_trigger(req, &repo, t, err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0 || (r = store_delivery_get(deps_of(req)->store, t->id,
	                                     request_arg(req, "{delivery}"), &d, &output, err)) < 0)
		return r;
	j = delivery_json(&d);
	if (d.action == TRIGGER_VM)
		json_object_set_new(j, "output", json_string(output));
	return reply_json(res, j, err);
}

int api_delivery_again(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_trigger *t = malloc(sizeof(*t));
	struct store_delivery d;
	struct store_repo repo;
	int r = t ? own_trigger(req, &repo, t, err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0 || (r = trigger_redeliver(deps_of(req)->triggers, t->id,
	                                    request_arg(req, "{delivery}"), &d, err)) < 0)
		return r;
	return reply_json(res, delivery_json(&d), err);
}

/* How commands in VMs judged a commit: the worst state stands for all. */
int api_commit_status(struct request *req, struct reply *res, struct err *err)
{
	static const char *const worst[] = { "error", "failure", "running", "pending", "success" };
	const char *state = NULL, *sha = request_arg(req, "{hash}");
	autofree struct store_delivery *v = NULL;
	struct store_repo repo;
	size_t n = 0;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0)
		return r;
	if (strlen(sha) != SHA_LEN || strspn(sha, "0123456789abcdefABCDEF") != SHA_LEN)
		return err_tag(err, -EINVAL, ERR_INVALID_OBJECT_ID,
		               "a commit's hash has %d hex digits", SHA_LEN);
	if ((r = store_delivery_of_commit(deps_of(req)->store, repo.id, sha, TRIGGER_VM, &v, &n,
	                                  err)) < 0)
		return r;
	for (size_t k = 0; k < ARRAY_SIZE(worst) && !state; k++)
		for (size_t i = 0; i < n && !state; i++)
			if (strcmp(outcome(&v[i]), worst[k]) == 0)
				state = worst[k];
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:o}", "commit", sha, "state",
	                            state ? json_string(state) : json_null(), "runs",
	                            deliveries_json(v, n)),
	                  err);
}

/* RFC 7517: a set of public keys. */
int api_jwks(struct request *req, struct reply *res, struct err *err)
{
	autofree struct signing_public *v = NULL;
	json_t *list;
	size_t n = 0;
	int r;

	if (!deps_of(req)->triggers)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "triggers are not available on this server");
	if ((r = signer_keys(triggers_signer(deps_of(req)->triggers), &v, &n, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "kty",
		                                      "OKP", "crv", "Ed25519", "x", v[i].x, "kid",
		                                      v[i].kid, "alg", "EdDSA", "use", "sig"));
	return reply_json(res, json_pack("{s:o}", "keys", list), err);
}

int api_signing_rotate(struct request *req, struct reply *res, struct err *err)
{
	char kid[ID_SIZE];
	int r;

	if (!deps_of(req)->triggers)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "triggers are not available on this server");
	r = signer_rotate(triggers_signer(deps_of(req)->triggers), kid, err);
	return r < 0 ? r : reply_json(res, json_pack("{s:s}", "kid", kid), err);
}
