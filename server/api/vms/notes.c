/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c - tags and metadata of VMs: checked, written, shown, filtered by */
#include "api/vms/notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "store/store_note.h"
#include "vm/notes.h"

void notes_done(struct notes *n)
{
	free(n->tags);
	free(n->metadata);
	if (n->env)
		explicit_bzero(n->env, strlen(n->env));
	free(n->env);
	*n = (struct notes){ 0 };
}

/* A line that a filter can name: no control characters and no commas. */
static bool is_word(const char *s, size_t n, size_t max)
{
	if (!n || n > max || strlen(s) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == ',')
			return false;
	return true;
}

static int check_tags(const json_t *tags, enum err_code tag, struct err *err)
{
	if (!json_is_array(tags) || json_array_size(tags) > TAGS_MAX)
		return err_tag(err, -EINVAL, tag, "'tags' must be a list of up to %d strings",
		               TAGS_MAX);
	for (size_t i = 0; i < json_array_size(tags); i++) {
		const json_t *t = json_array_get(tags, i);

		if (!json_is_string(t) ||
		    !is_word(json_string_value(t), json_string_length(t), TAG_MAX))
			return err_tag(err, -EINVAL, tag,
			               "'tags[%zu]' must be a string of 1 to %d bytes without "
			               "commas and control characters",
			               i, TAG_MAX);
	}
	return 0;
}

static int check_metadata(const json_t *metadata, enum err_code tag, struct err *err)
{
	const char *name;
	json_t *v;

	if (!json_is_object(metadata) || json_object_size(metadata) > METADATA_MAX)
		return err_tag(err, -EINVAL, tag,
		               "'metadata' must be an object of up to %d strings", METADATA_MAX);
	json_object_foreach((json_t *)(uintptr_t)metadata, name, v)
	{
		if (!is_word(name, strlen(name), METADATA_NAME_MAX) || strchr(name, '='))
			return err_tag(err, -EINVAL, tag,
			               "names in 'metadata' must be 1 to %d bytes without commas, "
			               "'=' and control characters",
			               METADATA_NAME_MAX);
		if (!json_is_string(v) || json_string_length(v) > METADATA_VALUE_MAX ||
		    strlen(json_string_value(v)) != json_string_length(v))
			return err_tag(err, -EINVAL, tag,
			               "'metadata.%s' must be a string of at most %d bytes", name,
			               METADATA_VALUE_MAX);
	}
	return 0;
}

static int take(const json_t *j, bool empty, char **ret, struct err *err)
{
	*ret = empty ? strdup("") : json_dumps(j, JSON_COMPACT);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int parse_notes(const json_t *tags, const json_t *metadata, enum err_code tag, struct notes *ret,
                struct err *err)
{
	bool no_tags = json_is_null(tags) || json_array_size(tags) == 0;
	bool no_metadata = json_is_null(metadata) || json_object_size(metadata) == 0;
	int r;

	if ((tags && !json_is_null(tags) && (r = check_tags(tags, tag, err)) < 0) ||
	    (metadata && !json_is_null(metadata) && (r = check_metadata(metadata, tag, err)) < 0) ||
	    (tags && (r = take(tags, no_tags, &ret->tags, err)) < 0) ||
	    (metadata && (r = take(metadata, no_metadata, &ret->metadata, err)) < 0))
		return r;
	return 0;
}

static bool is_variable(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return n && !s[n] && n <= VM_ENV_NAME_MAX && !(s[0] >= '0' && s[0] <= '9');
}

int parse_vm_env(const json_t *env, enum err_code tag, struct notes *ret, struct err *err)
{
	const char *name;
	size_t bytes = 0;
	json_t *v;

	if (!env || json_is_null(env) || (json_is_object(env) && json_object_size(env) == 0))
		return 0;
	if (!json_is_object(env) || json_object_size(env) > VM_ENV_MAX)
		return err_tag(err, -EINVAL, tag, "'env' must be an object of up to %d strings",
		               VM_ENV_MAX);
	json_object_foreach((json_t *)(uintptr_t)env, name, v)
	{
		if (!is_variable(name))
			return err_tag(err, -EINVAL, tag,
			               "a name in 'env' must be 1 to %d of a-z A-Z 0-9 _, and not "
			               "begin with a digit",
			               VM_ENV_NAME_MAX);
		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
			return err_tag(err, -EINVAL, tag, "'env.%s' must be a string without NUL",
			               name);
		bytes += strlen(name) + json_string_length(v) + 2;
	}
	if (bytes > VM_ENV_BYTES)
		return err_tag(err, -EINVAL, tag,
		               "'env' has %zu bytes, more than the maximum of %u", bytes,
		               VM_ENV_BYTES);
	return take(env, false, &ret->env, err);
}

int notes_write(struct request *req, const char *vm_id, const struct notes *n,
                const char *const *restart, struct err *err)
{
	const struct vm_notes notes = {
		.tags = n->tags, .metadata = n->metadata, .env = n->env, .restart = restart
	};

	return n->tags || n->metadata || n->env
	               ? vmm_notes_set(deps_of(req)->vmm, who_of(req)->account, vm_id, &notes, err)
	               : 0;
}

static json_t *text_json(const char *text, json_t *none_consume)
{
	json_t *j = text && *text ? json_loads(text, 0, NULL) : NULL;

	if (!j)
		return none_consume;
	json_decref(none_consume);
	return j;
}

static json_t *note_json(const struct store_note *n)
{
	return json_pack("{s:o, s:o}", "tags", text_json(n ? n->tags : NULL, json_array()),
	                 "metadata", text_json(n ? n->metadata : NULL, json_object()));
}

json_t *notes_shape_one(struct request *req, const char *vm_id, json_t *j_consume)
{
	AUTO(store_note_done) struct store_note n = { 0 };
	int r = store_note_get(deps_of(req)->store, vm_id, &n, NULL);
	autojson json_t *notes = note_json(r > 0 ? &n : NULL);

	json_object_update(j_consume, notes);
	return j_consume;
}

/* ---- lists ---- */

void notes_filter_done(struct notes_filter *f)
{
	free(f->tags);
	free(f->metadata);
	json_decref(f->all);
}

int notes_filter_read(struct request *req, struct notes_filter *f, struct err *err)
{
	int r;

	if ((r = request_query(req, "tags", &f->tags, err)) < 0 ||
	    (r = request_query(req, "metadata", &f->metadata, err)) < 0)
		return r;
	for (const char *p = f->metadata; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (!memchr(p, '=', strcspn(p, ",")))
			return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
			               "'metadata' must be name=value,name=value");
	f->filters = (f->tags && *f->tags) || (f->metadata && *f->metadata);
	return 0;
}

int notes_filter_load(struct request *req, struct notes_filter *f, struct err *err)
{
	struct store_note *n = NULL;
	size_t count = 0;
	int r;

	if ((r = store_note_list(deps_of(req)->store, who_of(req)->account, &n, &count, err)) < 0)
		return r;
	f->all = json_object();
	for (size_t i = 0; i < count; i++)
		json_object_set_new(f->all, n[i].vm_id, note_json(&n[i]));
	store_notes_free(n, count);
	return f->all ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static bool has_tag(const json_t *tags, const char *s, size_t n)
{
	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *t = json_string_value(json_array_get(tags, i));

		if (t && strlen(t) == n && !memcmp(t, s, n))
			return true;
	}
	return false;
}

static bool has_value(json_t *metadata, const char *s, size_t n)
{
	const char *eq = memchr(s, '=', n), *name, *text;
	json_t *v;

	json_object_foreach(metadata, name, v)
	{
		text = json_string_value(v);
		if (strlen(name) == (size_t)(eq - s) && !memcmp(name, s, (size_t)(eq - s)) &&
		    strlen(text) == n - (size_t)(eq - s) - 1 && !memcmp(text, eq + 1, strlen(text)))
			return true;
	}
	return false;
}

bool notes_match(const struct notes_filter *f, const char *vm_id)
{
	json_t *note = json_object_get(f->all, vm_id);
	size_t n;

	for (const char *p = f->tags; p && *p; p += n, p += *p == ',') {
		n = strcspn(p, ",");
		if (n && !has_tag(json_object_get(note, "tags"), p, n))
			return false;
	}
	for (const char *p = f->metadata; p && *p; p += n, p += *p == ',') {
		n = strcspn(p, ",");
		if (n && !has_value(json_object_get(note, "metadata"), p, n))
			return false;
	}
	return true;
}

json_t *notes_shape(const struct notes_filter *f, const char *vm_id, json_t *j_consume)
{
	json_t *note = json_object_get(f->all, vm_id);
	autojson json_t *none = note ? NULL : note_json(NULL);

	json_object_update(j_consume, note ? note : none);
	return j_consume;
}
