/* SPDX-License-Identifier: Apache-2.0 */
/* spec_users.c - users and groups of a layer: checked against the rules of useradd and groupadd */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/spec_internal.h"

#define ID_NUM_MAX 4294967293 /* 2^32 - 1 and -2 have special meanings */
#define SYSTEM_ID_MAX 999     /* login.defs: regular users are above */

/* [a-z_][a-z0-9_-]*, without the final $ that useradd allows */
static bool name_ok(const char *s)
{
	if (!((*s >= 'a' && *s <= 'z') || *s == '_'))
		return false;
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

static bool has_name(const json_t *array, const char *name)
{
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)(uintptr_t)array, i, v)
	{
		const char *s = json_string_value(json_object_get(v, "name"));

		if (s && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

struct group {
	const char *name;
	int64_t gid;
	bool is_system;
};
static const struct json_field group_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, group, name, "name", JSON_REQUIRED, 0, 256),
	JSON_FIELD(JSON_WANT_I64, group, gid, "gid", JSON_NULLABLE, 0, ID_NUM_MAX),
	JSON_FIELD(JSON_WANT_BOOL, group, is_system, "system", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(SpecGroup, group_fields);

static int check_group_name(const char *name, struct spec_ctx *c, struct err *err)
{
	if (!*name)
		return spec_bad(c, ERR_GROUP_NAME_EMPTY, err, "a group needs a name");
	if (strlen(name) > SPEC_NAME_MAX)
		return spec_bad(c, ERR_GROUP_NAME_TOO_LONG, err,
		                "group name '%.40s...' is longer than %d bytes", name,
		                SPEC_NAME_MAX);
	if (!name_ok(name))
		return spec_bad(c, ERR_GROUP_NAME_INVALID_CHARS, err,
		                "group name '%.40s' must be lower-case letters, digits, '_' and "
		                "'-', and begin with a letter or '_'",
		                name);
	if (strcmp(name, "root") == 0)
		return spec_bad(c, ERR_GROUP_NAME_RESERVED, err, "the group 'root' already exists");
	return 0;
}

int spec_groups(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
                struct err *err)
{
	autojson json_t *out = json_array();
	json_t *v;
	size_t i;
	int r = spec_array(j, where, "groups", c, err);

	if (r < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		struct group g = { .gid = -1 };
		char at[128];
		json_t *o;

		snprintf(at, sizeof(at), "%.90sgroups[%zu].", where, i);
		if ((r = spec_fields(v, at, group_fields, ARRAY_SIZE(group_fields), &g, c, err)) <
		            0 ||
		    (r = check_group_name(g.name, c, err)) < 0)
			return r;
		if (has_name(out, g.name))
			return spec_bad(c, ERR_DUPLICATE_GROUP_NAME, err,
			                "group '%s' is listed twice", g.name);
		o = json_pack("{s:s, s:b}", "name", g.name, "system", g.is_system);
		if (g.gid >= 0)
			json_object_set_new(o, "gid", json_integer(g.gid));
		json_array_append_new(out, o);
	}
	if (json_array_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}

struct user {
	const char *name, *gecos, *home, *shell;
	int64_t uid;
	json_t *groups;
	bool is_system;
};
static const struct json_field user_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, user, name, "name", JSON_REQUIRED, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, user, gecos, "gecos", JSON_NULLABLE, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, user, home, "home", JSON_NULLABLE, 0, SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, user, shell, "shell", JSON_NULLABLE, 0, SPEC_TEXT_MAX),
	/* wide, so that values out of range get their own code */
	JSON_FIELD(JSON_WANT_I64, user, uid, "uid", JSON_NULLABLE, INT64_MIN, INT64_MAX),
	JSON_FIELD(JSON_WANT_ARRAY, user, groups, "groups", JSON_NULLABLE, 0, 0, "string[]"),
	JSON_FIELD(JSON_WANT_BOOL, user, is_system, "system", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(SpecUser, user_fields);

static int check_uid(const struct user *u, struct spec_ctx *c, struct err *err)
{
	if (u->uid == INT64_MIN)
		return 0;
	if (u->uid < 1 || u->uid > ID_NUM_MAX)
		return spec_bad(c, ERR_USER_UID_OUT_OF_RANGE, err,
		                "uid %lld of user '%s' must be from 1 to %lld", (long long)u->uid,
		                u->name, (long long)ID_NUM_MAX);
	if (u->is_system != (u->uid <= SYSTEM_ID_MAX))
		return spec_bad(
		        c, ERR_USER_SYSTEM_FLAG_MISMATCH, err,
		        "uid %lld of user '%s': system users must have 1 to %d, others more",
		        (long long)u->uid, u->name, SYSTEM_ID_MAX);
	return 0;
}

static int check_user(const struct user *u, struct spec_ctx *c, struct err *err)
{
	size_t i;
	json_t *g;

	if (strlen(u->name) > SPEC_NAME_MAX || !name_ok(u->name))
		return spec_bad(c, ERR_VALIDATION_ERROR, err,
		                "user name '%.40s' must be up to %d lower-case letters, digits, "
		                "'_' and '-', and begin with a letter or '_'",
		                u->name, SPEC_NAME_MAX);
	if (u->home && !spec_path_ok(u->home))
		return spec_bad(c, ERR_USER_HOME_INVALID, err,
		                "home of user '%s' must be an absolute path", u->name);
	if (u->home && strchr(u->home, ':'))
		return spec_bad(c, ERR_USER_HOME_INVALID, err, "home of user '%s' contains ':'",
		                u->name);
	if (u->shell && (!spec_path_ok(u->shell) || strchr(u->shell, ':')))
		return spec_bad(c, ERR_USER_SHELL_INVALID, err,
		                "shell of user '%s' must be an absolute path", u->name);
	if (u->gecos && (!spec_text_ok(u->gecos) || strpbrk(u->gecos, ":\n")))
		return spec_bad(c, ERR_VALIDATION_ERROR, err,
		                "gecos of user '%s' must be one line without ':'", u->name);
	json_array_foreach(u->groups, i, g)
	{
		const char *s = json_string_value(g);

		if (!s)
			return spec_bad(c, ERR_NONE, err, "groups of user '%s' must be strings",
			                u->name);
		if (!*s)
			return spec_bad(c, ERR_USER_GROUP_EMPTY, err,
			                "user '%s' has a group without a name", u->name);
		if (strlen(s) > SPEC_NAME_MAX || !name_ok(s))
			return spec_bad(c, ERR_GROUP_NAME_INVALID_CHARS, err,
			                "'%.40s' is not a group name", s);
	}
	return check_uid(u, c, err);
}

int spec_users(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
               struct err *err)
{
	autojson json_t *out = json_array();
	json_t *v;
	size_t i;
	int r = spec_array(j, where, "users", c, err);

	if (r < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		struct user u = { .uid = INT64_MIN };
		char at[128], home[SPEC_NAME_MAX + 8];
		json_t *o;

		snprintf(at, sizeof(at), "%.90susers[%zu].", where, i);
		if ((r = spec_fields(v, at, user_fields, ARRAY_SIZE(user_fields), &u, c, err)) <
		            0 ||
		    (r = check_user(&u, c, err)) < 0)
			return r;
		if (has_name(out, u.name))
			return spec_bad(c, ERR_DUPLICATE_USER_NAME, err,
			                "user '%s' is listed twice", u.name);
		snprintf(home, sizeof(home), "/home/%.*s", SPEC_NAME_MAX, u.name);
		o = json_pack("{s:s, s:b, s:s, s:s}", "name", u.name, "system", u.is_system, "home",
		              u.home        ? u.home
		              : u.is_system ? "/"
		                            : home,
		              "shell",
		              u.shell       ? u.shell
		              : u.is_system ? "/usr/sbin/nologin"
		                            : "/bin/bash");
		if (u.uid != INT64_MIN)
			json_object_set_new(o, "uid", json_integer(u.uid));
		if (u.gecos && *u.gecos)
			json_object_set_new(o, "gecos", json_string(u.gecos));
		if (json_array_size(u.groups))
			json_object_set(o, "groups", u.groups);
		json_array_append_new(out, o);
	}
	if (json_array_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}
