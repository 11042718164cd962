/* SPDX-License-Identifier: Apache-2.0 */
/* webhooks.c - webhooks of an account: create, change, test; the log of deliveries */
#include "hook/webhooks.h"
#include "api/call.h"
#include "api/vms/notes.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/auto.h"
#include "base/clock.h"

#define TAG ERR_BAD_REQUEST
#define LIST_LIMIT 50
#define LIST_LIMIT_MAX 200
#define SECRET_MIN 16
#define SECRET_BYTES 24 /* of one that is made here, in hex */
#define EVENTS_MAX 32

struct hook_body {
	const char *url, *vm;
	json_t *events, *tags, *metadata, *secret;
	enum json_presence url_seen, vm_seen, enabled_seen;
	bool enabled;
};
static const struct json_field fields[] = {
	JSON_FIELD_P(JSON_WANT_STRREF, hook_body, url, url_seen, "url", 0, 1,
	             TRIGGER_ENDPOINT_SIZE - 1),
	JSON_FIELD_P(JSON_WANT_STRREF, hook_body, vm, vm_seen, "vmId", JSON_NULLABLE, 1,
	             ID_SIZE - 1),
	JSON_FIELD(JSON_WANT_ANY, hook_body, events, "events", 0, 0, 0, "string[] | null",
	           "names or vm.*; none: all"),
	JSON_FIELD(JSON_WANT_ANY, hook_body, tags, "tags", 0, 0, 0, "Tags | null"),
	JSON_FIELD(JSON_WANT_ANY, hook_body, metadata, "metadata", 0, 0, 0, "Metadata | null"),
	JSON_FIELD(JSON_WANT_ANY, hook_body, secret, "secret", 0, 0, 0, "string | bool | null",
	           "true: one is made and shown once"),
	JSON_FIELD_P(JSON_WANT_BOOL, hook_body, enabled, enabled_seen, "enabled", 0, 0, 0),
};
JSON_TABLE(WebhookNew, fields);

static int hooks_of(struct request *req, struct webhooks **ret, struct err *err)
{
	*ret = deps_of(req)->webhooks;
	return *ret ? 0
	            : err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
	                      "webhooks are not available on this server");
}

static json_t *parsed(const char *text)
{
	json_t *j = *text ? json_loads(text, 0, NULL) : NULL;

	return j ? j : json_null();
}

static json_t *shape_hook(const struct store_hook *h)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:I, s:o, s:o}", "id", h->id,
	                 "url", h->url, "events", parsed(h->events), "vmId", shape_text(h->vm),
	                 "tags", parsed(h->tags), "metadata", parsed(h->metadata), "enabled",
	                 h->enabled, "hasSecret", *h->secret != '\0', "droppedEvents",
	                 (json_int_t)h->dropped, "createdAt", shape_time(h->created_ms),
	                 "updatedAt", shape_time(h->updated_ms));
}

static json_t *shape_delivery(const struct store_hook_delivery *d)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "id", d->id,
	                 "webhookId", d->hook, "eventId", d->event, "type", d->type, "state",
	                 delivery_state_words[d->state], "attempts", (json_int_t)d->attempts,
	                 "statusCode", d->status >= 0 ? json_integer(d->status) : json_null(),
	                 "error", shape_text(d->note), "createdAt", shape_time(d->created_ms),
	                 "updatedAt", shape_time(d->updated_ms), "nextAttemptAt",
	                 d->state == DELIVERY_PENDING ? shape_time(d->next_ms) : json_null());
}

static int put_json(const json_t *j, const char *name, char *dst, size_t size, struct err *err)
{
	size_t n = json_dumpb(j, dst, size - 1, JSON_COMPACT);

	if (n == 0 || n >= size)
		return err_tag(err, -EINVAL, TAG, "'%s' is too long", name);
	dst[n] = '\0';
	return 0;
}

static int say_events(const char *what, size_t i, struct err *err)
{
	char all[512];
	size_t n = 0;

	for (size_t k = 0; hook_event_name(k) && n < sizeof(all); k++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", k ? ", " : "",
		                      hook_event_name(k));
	return err_tag(err, -EINVAL, TAG, "'events[%zu]' is '%.40s': there are %s, and vm.*", i,
	               what ? what : "", all);
}

static int read_events(const json_t *events, struct store_hook *h, struct err *err)
{
	const json_t *item;
	size_t i;

	if (!events)
		return 0;
	h->events[0] = '\0';
	if (json_is_null(events) || (json_is_array(events) && !json_array_size(events)))
		return 0;
	if (!json_is_array(events) || json_array_size(events) > EVENTS_MAX)
		return err_tag(err, -EINVAL, TAG, "'events' must be a list of up to %d names",
		               EVENTS_MAX);
	json_array_foreach(events, i, item)
	{
		const char *s = json_string_value(item);

		if (!s || !hook_event_known(s))
			return say_events(s, i, err);
	}
	return put_json(events, "events", h->events, sizeof(h->events), err);
}

static int read_notes(const struct hook_body *b, struct store_hook *h, struct err *err)
{
	AUTO(notes_done) struct notes n = { 0 };
	int r = parse_notes(b->tags, b->metadata, TAG, &n, err);

	if (r < 0)
		return r;
	if ((n.tags && strlen(n.tags) >= sizeof(h->tags)) ||
	    (n.metadata && strlen(n.metadata) >= sizeof(h->metadata)))
		return err_tag(err, -EINVAL, TAG,
		               "'tags' and 'metadata' of a webhook have at most %d bytes each",
		               HOOK_FILTER_SIZE - 1);
	if (n.tags)
		snprintf(h->tags, sizeof(h->tags), "%s", n.tags);
	if (n.metadata)
		snprintf(h->metadata, sizeof(h->metadata), "%s", n.metadata);
	return 0;
}

/* A text, true: one is made and shown once, null: none. */
static int read_secret(const json_t *v, struct store_hook *h, bool *ret_made, struct err *err)
{
	const char *s = json_string_value(v);
	unsigned char raw[SECRET_BYTES];

	*ret_made = json_is_true(v);
	if (!v)
		return 0;
	if (json_is_null(v) || json_is_false(v)) {
		h->secret[0] = '\0';
	} else if (*ret_made) {
		random_bytes(raw, sizeof(raw));
		hex_encode(raw, sizeof(raw), h->secret);
		OPENSSL_cleanse(raw, sizeof(raw));
	} else if (s && strlen(s) == json_string_length(v) && strlen(s) >= SECRET_MIN &&
	           strlen(s) < sizeof(h->secret)) {
		snprintf(h->secret, sizeof(h->secret), "%s", s);
	} else {
		return err_tag(err, -EINVAL, TAG,
		               "'secret' must be a text of %d to %zu bytes, or true: then one is "
		               "made and shown once",
		               SECRET_MIN, sizeof(h->secret) - 1);
	}
	return 0;
}

static int read_hook(struct request *req, struct store_hook *h, bool *ret_made, struct err *err)
{
	struct hook_body b = { 0 };
	struct webhooks *w;
	int r;

	if ((r = hooks_of(req, &w, err)) < 0 ||
	    (r = request_fields(req, TAG, fields, ARRAY_SIZE(fields), &b, err)) < 0)
		return r;
	if (b.url_seen == JSON_IS_GIVEN) {
		if ((r = webhooks_check_url(w, b.url, err)) < 0)
			return r;
		snprintf(h->url, sizeof(h->url), "%s", b.url);
	}
	if (!*h->url)
		return err_tag(err, -EINVAL, TAG, "'url' is missing");
	if (b.vm_seen != JSON_IS_ABSENT)
		snprintf(h->vm, sizeof(h->vm), "%s", b.vm ? b.vm : "");
	if (b.enabled_seen == JSON_IS_GIVEN)
		h->enabled = b.enabled;
	if ((r = read_events(b.events, h, err)) < 0 || (r = read_notes(&b, h, err)) < 0)
		return r;
	return read_secret(b.secret, h, ret_made, err);
}

static int reply_hook(struct reply *res, const struct store_hook *h, bool made, struct err *err)
{
	json_t *j = shape_hook(h);

	if (made)
		json_object_set_new(j, "secret", json_string(h->secret));
	return reply_json(res, j, err);
}

static int own_hook(struct request *req, struct store_hook *ret, struct err *err)
{
	return ret ? store_hook_get(deps_of(req)->store, who_of(req)->account,
	                            request_arg(req, "{webhook}"), ret, err)
	           : err_set(err, -ENOMEM, "out of memory");
}

int api_webhook_create(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = calloc(1, sizeof(*h));
	bool made = false;
	int r;

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	h->enabled = true;
	if ((r = read_hook(req, h, &made, err)) < 0)
		return r;
	id_make("whk-", h->id);
	snprintf(h->account, sizeof(h->account), "%s", who_of(req)->account);
	h->created_ms = h->updated_ms = clock_wall_ms();
	if ((r = store_hook_add(deps_of(req)->store, h, err)) < 0)
		return r;
	return reply_hook(res, h, made, err);
}

int api_webhook_list(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *v = NULL;
	json_t *list;
	size_t n = 0;
	int r = store_hook_list(deps_of(req)->store, who_of(req)->account, &v, &n, err);

	if (r < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shape_hook(&v[i]));
	return reply_json(res, json_pack("{s:o}", "webhooks", list), err);
}

int api_webhook_get(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	int r = own_hook(req, h, err);

	return r < 0 ? r : reply_json(res, shape_hook(h), err);
}

int api_webhook_change(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	bool made = false;
	int r;

	if ((r = own_hook(req, h, err)) < 0 || (r = read_hook(req, h, &made, err)) < 0 ||
	    (r = store_hook_update(deps_of(req)->store, h, err)) < 0)
		return r;
	h->updated_ms = clock_wall_ms();
	return reply_hook(res, h, made, err);
}

int api_webhook_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *id = request_arg(req, "{webhook}");
	int r = store_hook_delete(deps_of(req)->store, who_of(req)->account, id, err);

	return r < 0 ? r : reply_json(res, json_pack("{s:s}", "id", id), err);
}

int api_webhook_test(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	struct store_hook_delivery d;
	struct webhooks *w;
	int r;

	if ((r = hooks_of(req, &w, err)) < 0 || (r = own_hook(req, h, err)) < 0 ||
	    (r = store_hook_ping(deps_of(req)->store, h, &d, err)) < 0)
		return r;
	return reply_json(res, shape_delivery(&d), err);
}

int api_webhook_deliveries(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	autofree struct store_hook_delivery *v = NULL;
	uint32_t limit = LIST_LIMIT, offset = 0;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = own_hook(req, h, err)) < 0 ||
	    (r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = store_hook_log(deps_of(req)->store, h->id, MIN(limit, (uint32_t)LIST_LIMIT_MAX),
	                        offset, &v, &n, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shape_delivery(&v[i]));
	return reply_json(res, json_pack("{s:o}", "deliveries", list), err);
}

int api_webhook_delivery(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	struct store_hook_delivery d;
	autofree char *body = NULL;
	json_t *j;
	int r;

	if ((r = own_hook(req, h, err)) < 0 ||
	    (r = store_hook_delivery(deps_of(req)->store, h->id, request_arg(req, "{delivery}"), &d,
	                             &body, err)) < 0)
		return r;
	j = shape_delivery(&d);
	json_object_set_new(j, "event", parsed(body));
	return reply_json(res, j, err);
}

int api_webhook_redeliver(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	struct store_hook_delivery d;
	struct webhooks *w;
	int r;

	if ((r = hooks_of(req, &w, err)) < 0 || (r = own_hook(req, h, err)) < 0 ||
	    (r = webhooks_redeliver(w, h->id, request_arg(req, "{delivery}"), &d, err)) < 0)
		return r;
	return reply_json(res, shape_delivery(&d), err);
}
