/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c - what POST /v1/vms asks for beyond a plain VM
 *
 * Layers are not built yet. A spec without content (the CLI always sends one) is
 * fine and may name the snapshot to start from; one with content is refused
 * with the name of the member, because a VM that silently lacks what was asked
 * for is worse than none. Members that nobody knows are tolerated.
 */
#include "api/api_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG "CREATE_VM_BAD_REQUEST"
#define LAYERS_MAX 16 /* nested `snapshot` members */
#define IDLE_MAX (INT64_C(365) * 24 * 3600)

/* Known members that need a build, a network feature or a size of their own. */
static const char *const unsupported[] = {
	"aptDeps",
	"additionalFiles",
	"systemd",
	"users",
	"groups",
	"gitRepos",
	"git",
	"ports",
	"baseImage",
	"workdir",
	"nics",
	"domains",
	"recreate",
	"dockerCredentials",
	"udpHolePunchPorts",
};

/* Nothing asked for: null, false, "", [], {} and objects and arrays of such. */
static bool is_empty(const json_t *j)
{
	const char *key;
	json_t *v;
	size_t i;

	switch (json_typeof(j)) {
	case JSON_NULL:
	case JSON_FALSE:
		return true;
	case JSON_STRING:
		return json_string_length(j) == 0;
	case JSON_ARRAY:
		json_array_foreach((json_t *)(uintptr_t)j, i,
		                   v) return false; /* even an array of empty things has entries */
		return true;
	case JSON_OBJECT:
		json_object_foreach((json_t *)(uintptr_t)j, key, v) if (!is_empty(v)) return false;
		return true;
	default:
		return false;
	}
}

static int refuse_content(const json_t *layer, const char *where, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(unsupported); i++) {
		const json_t *v = json_object_get(layer, unsupported[i]);

		if (v && !is_empty(v))
			return err_tag(err, -EINVAL, TAG,
			               "'%s%s' is not supported by this server yet", where,
			               unsupported[i]);
	}
	return 0;
}

struct sizing {
	json_t *vcpus, *mem_gb, *disk_gb;
};
static const struct json_field sizing_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, sizing, vcpus, "vcpuCount", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, sizing, mem_gb, "memSizeGb", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, sizing, disk_gb, "rootfsSizeGb", 0, 0, 0),
};

static int check_size(const json_t *v, const char *where, const char *name, double have,
                      const char *unit, struct err *err)
{
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v))
		return err_tag(err, -EINVAL, TAG, "'%s%s' must be a number or null", where, name);
	if (json_number_value(v) == have)
		return 0;
	return err_tag(err, -EINVAL, TAG,
	               "'%s%s' cannot be chosen on this server yet: its VMs have %g%s", where, name,
	               have, unit);
}

/* The size that VMs have anyway may be asked for. */
static int check_sizing(const json_t *layer, const char *where, const struct vmm_status *host,
                        struct err *err)
{
	struct sizing s = { 0 };
	int r = json_fields_read(layer, where, sizing_fields, ARRAY_SIZE(sizing_fields), &s, err);

	if (r < 0 ||
	    (r = check_size(s.vcpus, where, "vcpuCount", host->vcpus, " vCPUs", err)) < 0 ||
	    (r = check_size(s.mem_gb, where, "memSizeGb", host->mem_mb / 1024.0, " GiB", err)) < 0)
		return r;
	return check_size(s.disk_gb, where, "rootfsSizeGb", host->disk_mb / 1024.0, " GiB", err);
}

struct layer {
	const char *snapshot_id;
	json_t *snapshot;
	int64_t idle;
	enum json_presence idle_seen;
	json_t *discriminator, *name;
};
static const struct json_field layer_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, layer, snapshot_id, "snapshotId", JSON_NULLABLE, 0, 128),
	JSON_FIELD(JSON_WANT_OBJECT, layer, snapshot, "snapshot", JSON_NULLABLE, 0, 0),
	JSON_FIELD_P(JSON_WANT_I64, layer, idle, idle_seen, "idleTimeoutSeconds", JSON_NULLABLE, 1,
	             IDLE_MAX),
};

static int take_snapshot_id(const char *id, const char *where, struct spec_result *ret,
                            struct err *err)
{
	if (!id || !*id)
		return 0;
	if (!id_valid("sc-", id))
		return err_tag(err, -EINVAL, "INVALID_SNAPSHOT_ID",
		               "'%ssnapshotId' is not a snapshot id: 'sc-' and 20 letters and "
		               "digits",
		               where);
	if (ret->snapshot_id[0] && strcmp(ret->snapshot_id, id) != 0)
		return err_tag(err, -EINVAL, "CONFLICTING_SPEC_SOURCES_ERROR",
		               "'%ssnapshotId' names another snapshot than a layer around it",
		               where);
	snprintf(ret->snapshot_id, sizeof(ret->snapshot_id), "%s", id);
	return 0;
}

static int check_layers(json_t *layer, const char *name, const struct vmm_status *host,
                        struct spec_result *ret, struct err *err)
{
	char where[LAYERS_MAX * 9 + 16];
	size_t n = (size_t)snprintf(where, sizeof(where), "%s.", name);

	for (int depth = 0; layer; depth++) {
		struct layer l = { 0 };
		int r;

		if (depth == LAYERS_MAX)
			return err_tag(err, -EINVAL, TAG, "'%s' has more than %d layers", name,
			               LAYERS_MAX);
		if ((r = json_fields_read(layer, where, layer_fields, ARRAY_SIZE(layer_fields), &l,
		                          err)) < 0) {
			err->tag = TAG;
			return r;
		}
		if ((r = refuse_content(layer, where, err)) < 0 ||
		    (r = check_sizing(layer, where, host, err)) < 0 ||
		    (r = take_snapshot_id(l.snapshot_id, where, ret, err)) < 0)
			return r;
		if (depth == 0 && ret->idle_seen == JSON_IS_ABSENT) {
			ret->idle_seen = l.idle_seen;
			ret->idle_timeout_s = l.idle;
		}
		n += (size_t)snprintf(where + n, sizeof(where) - n, "snapshot.");
		layer = l.snapshot;
	}
	return 0;
}

struct sources {
	const char *snapshot_id;
	json_t *spec, *template;
};
static const struct json_field source_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, sources, snapshot_id, "snapshotId", JSON_NULLABLE, 0, 128),
	JSON_FIELD(JSON_WANT_OBJECT, sources, spec, "spec", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_OBJECT, sources, template, "template", JSON_NULLABLE, 0, 0),
};

int spec_check(json_t *body, const struct vmm_status *host, struct spec_result *ret,
               struct err *err)
{
	struct sources s = { 0 };
	int r = json_fields_read(body, "", source_fields, ARRAY_SIZE(source_fields), &s, err);

	if (r < 0) {
		err->tag = TAG;
		return r;
	}
	*ret = (struct spec_result){ .idle_seen = JSON_IS_ABSENT };
	if ((r = refuse_content(body, "", err)) < 0 ||
	    (r = check_sizing(body, "", host, err)) < 0 ||
	    (r = take_snapshot_id(s.snapshot_id, "", ret, err)) < 0 ||
	    (r = check_layers(s.spec, "spec", host, ret, err)) < 0)
		return r;
	return check_layers(s.template, "template", host, ret, err);
}
