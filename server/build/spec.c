/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c - `spec`, `template` and the top level of a request become one list of layers
 *
 * The chain is walked from the outside (depth 0) to the innermost layer, then reversed. A layer
 * starts from one thing only: the layer inside it, a snapshot or an image. Sizes, snapshots and
 * images belong to the innermost layer; the SDK itself moves the snapshotId of a request to the
 * outermost layer of a chain, so it is accepted there too. Empty layers are dropped.
 * Unknown members are ignored; known but unsupported ones are rejected by name unless empty,
 * because a VM that silently lacks something is worse than none.
 */
#include "build/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/spec_internal.h"

#define IDLE_MAX (INT64_C(365) * 24 * 3600)
#define READY_MAX INT64_C(86400)
#define READY_DEFAULT 120 /* seconds */

/* Members that are known, but not read with a table. */
static const struct json_field more_fields[] = { JSON_NAME("baseImage"), JSON_NAME("name") };
static const struct json_field unsupported[] = {
	JSON_NAME("ports"),    JSON_NAME("nics"),    JSON_NAME("udpHolePunchPorts"),
	JSON_NAME("recreate"), JSON_NAME("domains"), JSON_NAME("dockerCredentials"),
};

static void layer_done(struct spec_layer *l)
{
	json_decref(l->groups);
	json_decref(l->users);
	json_decref(l->files);
	json_decref(l->apt);
	json_decref(l->git_config);
	json_decref(l->repos);
	json_decref(l->services);
	json_decref(l->patched);
	json_decref(l->runtimes);
	free(l->discriminator);
	*l = (struct spec_layer){ 0 };
}

void spec_done(struct spec *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->layers); i++)
		layer_done(&s->layers[i]);
	s->n = 0;
	json_decref(s->ports);
	s->ports = NULL;
}

void spec_running(const struct spec *s, const char *ret[SPEC_RUNNING_MAX + 1])
{
	size_t n = 0, k;
	json_t *v;

	for (size_t i = 0; i < s->n; i++)
		json_array_foreach(s->layers[i].services, k, v)
		{
			struct service x;

			service_read(v, &x);
			if (!x.oneshot && n < SPEC_RUNNING_MAX)
				ret[n++] = x.name;
		}
	ret[n] = NULL;
}

/* Is it empty: null, false, "", [], {} or an object of such values? */
static bool is_empty(const json_t *j)
{
	const char *key;
	json_t *v;

	switch (json_typeof(j)) {
	case JSON_NULL:
	case JSON_FALSE:
		return true;
	case JSON_STRING:
		return json_string_length(j) == 0;
	case JSON_ARRAY:
		return json_array_size(j) == 0; /* an array of empty values still has entries */
	case JSON_OBJECT:
		json_object_foreach((json_t *)(uintptr_t)j, key, v) if (!is_empty(v)) return false;
		return true;
	default:
		return false;
	}
}

static bool has_content(const struct spec_layer *l)
{
	return l->groups || l->users || l->files || l->apt || l->git_config || l->repos ||
	       l->services || l->patched || l->workdir[0];
}

static int refuse_unsupported(const json_t *layer, const char *where, struct spec_ctx *c,
                              struct err *err)
{
	const json_t *image = json_object_get(layer, "baseImage");

	json_fields_know(layer, where, more_fields, ARRAY_SIZE(more_fields));
	json_fields_know(layer, where, unsupported, ARRAY_SIZE(unsupported));
	for (size_t i = 0; i < ARRAY_SIZE(unsupported); i++) {
		const json_t *v = json_object_get(layer, unsupported[i].name);

		/* These belong to the VM, not to a layer: the API reads them at the top level. */
		bool top = strcmp(unsupported[i].name, "ports") == 0 ||
		           (!*where && (strcmp(unsupported[i].name, "nics") == 0 ||
		                        strcmp(unsupported[i].name, "domains") == 0 ||
		                        strcmp(unsupported[i].name, "recreate") == 0));

		if (v && !is_empty(v) && strcmp(unsupported[i].name, "udpHolePunchPorts") == 0)
			return spec_bad(
			        c, ERR_NONE, err,
			        "'%sudpHolePunchPorts': this server punches no holes for UDP; map "
			        "a port "
			        "with 'ports' and protocol \"udp\", or use a VPC with WireGuard",
			        where);
		if (v && !is_empty(v) && !top)
			return spec_bad(c, ERR_NONE, err,
			                "'%s%s' is not supported by this server yet", where,
			                unsupported[i].name);
	}
	if (image && !is_empty(image))
		return spec_bad(c, ERR_NONE, err,
		                "'%sbaseImage' is not supported by this server yet: layers start "
		                "from its own base image or from a snapshot",
		                where);
	return 0;
}

struct body {
	json_t *groups, *users, *files, *apt, *git, *repos, *systemd, *runtimes;
	const char *workdir, *discriminator, *snapshot_id;
	enum json_presence workdir_seen, idle_seen;
	json_t *snapshot;
	bool skip_cache, wait;
	int64_t idle, wait_s;
};
#define PART(member, name, as) JSON_FIELD(JSON_WANT_ANY, body, member, name, 0, 0, 0, as)
static const struct json_field body_fields[] = {
	PART(groups, "groups", "SpecGroup[] | null"),
	PART(users, "users", "SpecUser[] | null"),
	PART(files, "additionalFiles", "{*: SpecFile} | null"),
	PART(apt, "aptDeps", "string[] | null"),
	PART(git, "git", "SpecGit | null"),
	PART(repos, "gitRepos", "SpecRepo[] | null"),
	PART(systemd, "systemd", "SpecSystemd | null"),
	PART(runtimes, "runtimes", "string[] | null"),
	JSON_FIELD_P(JSON_WANT_STRREF, body, workdir, workdir_seen, "workdir", JSON_NULLABLE, 0,
	             SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, body, discriminator, "discriminator", JSON_NULLABLE, 0,
	           SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, body, snapshot_id, "snapshotId", JSON_NULLABLE, 0, 128),
	JSON_FIELD(JSON_WANT_OBJECT, body, snapshot, "snapshot", JSON_NULLABLE, 0, 0, "Spec"),
	JSON_FIELD(JSON_WANT_BOOL, body, skip_cache, "skipCache", JSON_NULLABLE, 0, 0),
	JSON_FIELD_P(JSON_WANT_I64, body, idle, idle_seen, "idleTimeoutSeconds", JSON_NULLABLE, 1,
	             IDLE_MAX),
	/* A layer is only done when its services are up, whatever this says. */
	JSON_FIELD(JSON_WANT_BOOL, body, wait, "waitForReadySignal", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, body, wait_s, "readySignalTimeoutSeconds", JSON_NULLABLE, 0,
	           READY_MAX),
};
JSON_TABLE(SpecLayer, body_fields);

#define GIVEN(j) ((j) && !json_is_null(j))

static int read_parts(const struct body *b, const char *where, struct spec_ctx *c,
                      struct spec_layer *l, struct err *err)
{
	int r;

	if ((GIVEN(b->groups) && (r = spec_groups(b->groups, where, c, &l->groups, err)) < 0) ||
	    (GIVEN(b->users) && (r = spec_users(b->users, where, c, &l->users, err)) < 0) ||
	    (GIVEN(b->files) && (r = spec_files(b->files, where, c, &l->files, err)) < 0) ||
	    (GIVEN(b->runtimes) &&
	     (r = spec_runtimes(b->runtimes, where, c, &l->runtimes, err)) < 0) ||
	    (GIVEN(b->apt) && (r = spec_apt(b->apt, where, c, &l->apt, err)) < 0) ||
	    (r = spec_git(GIVEN(b->git) ? b->git : NULL, GIVEN(b->repos) ? b->repos : NULL, where,
	                  c, &l->git_config, &l->repos, err)) < 0 ||
	    (GIVEN(b->systemd) &&
	     (r = spec_systemd(b->systemd, where, c, &l->services, &l->patched, err)) < 0) ||
	    (b->workdir_seen == JSON_IS_GIVEN &&
	     (r = spec_workdir(b->workdir, where, c, l->workdir, err)) < 0))
		return r;
	l->skip_cache = b->skip_cache;
	if (b->discriminator && *b->discriminator) {
		l->discriminator = strdup(b->discriminator);
		if (!l->discriminator)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int take_snapshot_id(const char *id, const char *where, int depth, struct spec_ctx *c,
                            struct spec *s, struct err *err)
{
	if (!id || !*id)
		return 0;
	if (!id_valid("sc-", id))
		return err_tag(err, -EINVAL, ERR_INVALID_SNAPSHOT_ID,
		               "'%ssnapshotId' must be sc- and %d characters of a-z and 0-9", where,
		               ID_LEN);
	if (*s->snapshot_id && strcmp(s->snapshot_id, id) != 0) {
		spec_extra(c, "depth", json_integer(depth));
		spec_extra(c, "fieldA", json_string("snapshotId"));
		spec_extra(c, "fieldB", json_string("snapshotId"));
		return spec_bad(c, ERR_CONFLICTING_SPEC_SOURCES_ERROR, err,
		                "'%ssnapshotId' differs from that of an outer layer", where);
	}
	snprintf(s->snapshot_id, sizeof(s->snapshot_id), "%s", id);
	return 0;
}

static int non_leaf(const char *where, const char *field, int depth, struct spec_ctx *c,
                    struct err *err)
{
	spec_extra(c, "depth", json_integer(depth));
	spec_extra(c, "field", json_string(field));
	return spec_bad(c, ERR_NON_LEAF_LAYER_FIELD_ERROR, err,
	                "'%s%s' is only allowed in the innermost layer", where, field);
}

/* What a layer starts from, and its size. */
static int read_source(const json_t *layer, const struct body *b, const char *where, int depth,
                       struct spec_ctx *c, struct spec *s, struct spec_layer *size, struct err *err)
{
	const json_t *image = json_object_get(layer, "baseImage");
	bool has_image = image && !is_empty(image);
	bool has_id = b->snapshot_id && *b->snapshot_id;

	if (has_image && has_id) {
		spec_extra(c, "depth", json_integer(depth));
		spec_extra(c, "fieldA", json_string("snapshotId"));
		spec_extra(c, "fieldB", json_string("baseImage"));
		return spec_bad(c, ERR_CONFLICTING_SPEC_SOURCES_ERROR, err,
		                "'%ssnapshotId' and '%sbaseImage' cannot be used together", where,
		                where);
	}
	if (b->snapshot) {
		if (spec_has_size(layer))
			return non_leaf(where, spec_has_size(layer), depth, c, err);
		if (has_image)
			return non_leaf(where, "baseImage", depth, c, err);
		if (has_id && depth > 0) /* depth 0: the SDK puts the request's there */
			return non_leaf(where, "snapshotId", depth, c, err);
	} else {
		int r = spec_size(layer, where, c, size, err);

		if (r < 0)
			return r;
	}
	return take_snapshot_id(b->snapshot_id, where, depth, c, s, err);
}

/* Stores the layers in l[], outermost first; returns how many. */
static int read_chain(const json_t *layer, const char *name, struct spec_ctx *c, struct spec *s,
                      struct spec_layer *l, struct spec_layer *size, struct err *err)
{
	char where[SPEC_LAYERS_MAX * 9 + 16];
	size_t n = (size_t)snprintf(where, sizeof(where), "%s.", name);
	int depth = 0;

	for (; layer; depth++) {
		struct body b = { .wait_s = READY_DEFAULT };
		int r;

		if (depth == SPEC_LAYERS_MAX)
			return spec_bad(c, ERR_NONE, err, "'%s' has more than %d layers", name,
			                SPEC_LAYERS_MAX);
		if ((r = spec_fields(layer, where, body_fields, ARRAY_SIZE(body_fields), &b, c,
		                     err)) < 0 ||
		    (r = read_source(layer, &b, where, depth, c, s, size, err)) < 0 ||
		    (r = refuse_unsupported(layer, where, c, err)) < 0 ||
		    (r = read_parts(&b, where, c, &l[depth], err)) < 0)
			return r;
		if (!s->ports && GIVEN(json_object_get(layer, "ports")))
			s->ports = json_incref(json_object_get(layer, "ports"));
		if (depth == 0 && s->idle_seen == JSON_IS_ABSENT) {
			s->idle_seen = b.idle_seen;
			s->idle_timeout_s = b.idle;
		}
		if (depth == 0) {
			s->wait = b.wait;
			s->wait_s = b.wait_s;
		}
		n += (size_t)snprintf(where + n, sizeof(where) - n, "snapshot.");
		layer = b.snapshot;
	}
	return depth;
}

struct sources {
	json_t *spec, *template;
};
static const struct json_field source_fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, sources, spec, "spec", JSON_NULLABLE, 0, 0, "Spec"),
	JSON_FIELD(JSON_WANT_OBJECT, sources, template, "template", JSON_NULLABLE, 0, 0, "Spec"),
};
JSON_TABLE(SpecSource, source_fields);

static int pick_chain(const struct sources *in, struct spec_ctx *c, json_t **ret,
                      const char **ret_name, struct err *err)
{
	bool spec = in->spec && !is_empty(in->spec);

	if (spec && in->template && !is_empty(in->template)) {
		spec_extra(c, "depth", json_integer(0));
		spec_extra(c, "fieldA", json_string("spec"));
		spec_extra(c, "fieldB", json_string("template"));
		return spec_bad(c, ERR_CONFLICTING_SPEC_SOURCES_ERROR, err,
		                "'spec' and 'template' cannot be used together");
	}
	*ret = spec || !in->template ? in->spec : in->template;
	*ret_name = *ret == in->spec ? "spec" : "template";
	return 0;
}

/* Those of a layer join the others: each once, sorted, so that specs share their layers. */
static int gather(json_t *all, const json_t *some, struct spec_ctx *c, struct err *err)
{
	json_t *v;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)some, i, v)
	{
		size_t at = 0;

		while (at < json_array_size(all) &&
		       strcmp(json_string_value(json_array_get(all, at)), json_string_value(v)) < 0)
			at++;
		if (json_equal(json_array_get(all, at), v))
			continue;
		if (json_array_size(all) == SPEC_RUNTIMES_MAX)
			return spec_bad(c, ERR_NONE, err, "'runtimes': more than %d",
			                SPEC_RUNTIMES_MAX);
		if (json_array_insert(all, at, v) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* A layer for each; they come before what may use them. */
static int put_runtimes(struct spec *s, struct spec_layer *chain, int n, struct spec_layer *top,
                        struct spec_ctx *c, struct err *err)
{
	autojson json_t *all = json_array();
	int r = all ? 0 : err_set(err, -ENOMEM, "out of memory");
	json_t *v;
	size_t i;

	for (int k = 0; r == 0 && k <= n; k++)
		r = gather(all, k < n ? chain[k].runtimes : top->runtimes, c, err);
	if (r < 0)
		return r;
	for (int k = 0; k <= n; k++) {
		struct spec_layer *l = k < n ? &chain[k] : top;

		json_decref(l->runtimes);
		l->runtimes = NULL;
	}
	json_array_foreach(all, i, v)
	{
		s->layers[s->n].runtimes = json_pack("[O]", v);
		if (!s->layers[s->n++].runtimes)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/*
 * The size as the first layer, the chain from the inside out, the top level last. Without a
 * snapshot there is a template of every number of vCPUs and amount of memory to start from: only
 * the disk is a layer.
 */
static int put_in_order(struct spec *s, struct spec_ctx *c, struct spec_layer *size,
                        struct spec_layer *chain, int n, struct spec_layer *top, struct err *err)
{
	const struct spec_limits *d = c->limits;
	int r;

	if (!*s->snapshot_id) {
		s->vcpus = size->vcpus == d->vcpus ? 0 : size->vcpus;
		s->mem_mb = size->mem_mb == d->mem_mb ? 0 : size->mem_mb;
		size->vcpus = size->mem_mb = 0;
		size->disk_mb = size->disk_mb == d->disk_mb ? 0 : size->disk_mb;
	}
	if (size->vcpus || size->mem_mb || size->disk_mb)
		s->layers[s->n++] = *size;
	if ((r = put_runtimes(s, chain, n, top, c, err)) < 0)
		return r;
	for (int i = n; i-- > 0;) {
		if (has_content(&chain[i]))
			s->layers[s->n++] = chain[i];
		else
			layer_done(&chain[i]);
	}
	if (has_content(top))
		s->layers[s->n++] = *top;
	else
		layer_done(top);
	return 0;
}

int spec_parse(const json_t *body, struct spec_ctx *c, struct spec *ret, struct err *err)
{
	struct spec_layer chain[SPEC_LAYERS_MAX] = { 0 }, size = { 0 }, top = { 0 };
	struct sources in = { 0 };
	struct body b = { 0 };
	const char *name = "spec";
	json_t *layer = NULL;
	int r, n = 0;

	*ret = (struct spec){ .idle_seen = JSON_IS_ABSENT };
	if ((r = spec_fields(body, "", source_fields, ARRAY_SIZE(source_fields), &in, c, err)) <
	            0 ||
	    (r = spec_fields(body, "", body_fields, ARRAY_SIZE(body_fields), &b, c, err)) < 0 ||
	    (r = refuse_unsupported(body, "", c, err)) < 0 ||
	    (r = spec_size(body, "", c, &size, err)) < 0 ||
	    (r = take_snapshot_id(b.snapshot_id, "", 0, c, ret, err)) < 0 ||
	    (r = read_parts(&b, "", c, &top, err)) < 0 ||
	    (r = pick_chain(&in, c, &layer, &name, err)) < 0 ||
	    (r = n = read_chain(layer, name, c, ret, chain, &size, err)) < 0)
		goto fail;
	if (json_is_string(json_object_get(layer, "name")))
		snprintf(ret->name, sizeof(ret->name), "%s",
		         json_string_value(json_object_get(layer, "name")));
	if ((r = put_in_order(ret, c, &size, chain, n, &top, err)) < 0)
		goto fail;
	return 0;
fail:
	for (size_t i = 0; i < ARRAY_SIZE(chain); i++)
		layer_done(&chain[i]);
	layer_done(&top);
	return r;
}
