/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_conf.c - what a script is run with, from the protocol's JSON
 *
 * The network policy of the protocol becomes one of ours. What cannot be said with ours is rejected
 * by name: a rule that is silently left out would let out what it forbids.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "serverless/serverless_internal.h"

#define TAG ERR_BAD_REQUEST
#define ENV_NAME_MAX 256
#define ENV_VALUE_MAX (32u << 10)
#define TEXT_MAX 1024

void run_conf_done(struct run_conf *c)
{
	json_decref(c->env);
	json_decref(c->modules);
	json_decref(c->headers);
	json_decref(c->tags);
	json_decref(c->egress);
	*c = (struct run_conf){ 0 };
}

struct body {
	json_t *env, *env_vars, *modules, *tags, *permissions, *headers, *egress;
	const char *proxy;
	bool infer, peers, zero;
	int64_t timeout;
};
static const struct json_field fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, body, env_vars, "envVars", JSON_NULLABLE, 0, 0, "{*: string}"),
	JSON_FIELD(JSON_WANT_OBJECT, body, env, "env", JSON_NULLABLE, 0, 0, "{*: string}",
	           "the same as envVars"),
	JSON_FIELD(JSON_WANT_OBJECT, body, modules, "nodeModules", JSON_NULLABLE, 0, 0,
	           "{*: string}", "packages of npm with their versions"),
	JSON_FIELD(JSON_WANT_BOOL, body, infer, "inferNodeModules", JSON_NULLABLE, 0, 0, NULL,
	           "also those that the script imports"),
	JSON_FIELD(JSON_WANT_ARRAY, body, tags, "tags", JSON_NULLABLE, 0, 0, "string[]"),
	JSON_FIELD(JSON_WANT_I64, body, timeout, "timeout", JSON_NULLABLE, 1, RUN_TIMEOUT_MAX_S,
	           NULL, "seconds"),
	JSON_FIELD(JSON_WANT_BOOL, body, peers, "peerDependencyResolution", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_ARRAY, body, permissions, "networkPermissions", JSON_NULLABLE, 0, 0,
	           "{action: 'allow' | 'deny', query: string, behavior?: 'exact' | 'regex'}[]"),
	JSON_FIELD(JSON_WANT_OBJECT, body, headers, "customHeaders", JSON_NULLABLE, 0, 0,
	           "{*: string}", "of every fetch() of the script"),
	JSON_FIELD(JSON_WANT_STRREF, body, proxy, "proxy", JSON_NULLABLE, 0, TEXT_MAX, NULL,
	           "not supported"),
	JSON_FIELD(JSON_WANT_OBJECT, body, egress, "egress", JSON_NULLABLE, 0, 0,
	           "{allow?: {domains?: {*: {transform?: {headers?: {*: string}}[]}[]} | null, "
	           "ips?: {*: {}[]} | null} | null, deny?: {ips?: {*: {}[]} | null} | null}"),
	JSON_FIELD(JSON_WANT_BOOL, body, zero, "zeroRetention", JSON_NULLABLE, 0, 0, NULL,
	           "keep neither script nor variables, logs and result"),
};
JSON_TABLE(RunConfig, fields);

static int bad(struct err *err, const char *where, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static int bad(struct err *err, const char *where, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_tag(err, -EINVAL, TAG, "'%s%s", where, text);
}

static bool plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return true;
}

/* Names that npm takes: "name" or "@scope/name". */
static bool module_ok(const char *s)
{
	const char *slash = strchr(s, '/');

	if (!*s || strlen(s) > 214 || (*s == '@') != (slash != NULL) || (slash && slash == s + 1))
		return false;
	if (slash && (!slash[1] || strchr(slash + 1, '/')))
		return false;
	for (const char *p = *s == '@' ? s + 1 : s; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.~/", *p))
			return false;
	return s[0] != '.' && s[0] != '-';
}

static int check_strings(const json_t *o, const char *where, const char *name, size_t max,
                         bool (*key_ok)(const char *), size_t value_max, bool one_line,
                         struct err *err)
{
	const char *key;
	json_t *v;

	if (json_object_size(o) > max)
		return bad(err, where, "%s' has more than %zu members", name, max);
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		const char *s = json_string_value(v);

		if (!key_ok(key))
			return bad(err, where, "%s': the name '%.60s' is not allowed", name, key);
		if (!s || strlen(s) != json_string_length(v) || strlen(s) > value_max ||
		    (one_line && !plain(s, strlen(s))))
			return bad(err, where, "%s.%.60s' must be a string of at most %zu bytes",
			           name, key, value_max);
	}
	return 0;
}

static bool env_ok(const char *s)
{
	return *s && strlen(s) <= ENV_NAME_MAX && !strchr(s, '=') && plain(s, strlen(s));
}

static bool header_ok(const char *s)
{
	return *s && strlen(s) <= 128 &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                   "!#$%&'*+-.^_`|~")] == '\0';
}

static int check_tags(const json_t *tags, const char *where, struct err *err)
{
	json_t *v;
	size_t i;

	if (json_array_size(tags) > RUN_TAGS_MAX)
		return bad(err, where, "tags' has more than %d members", RUN_TAGS_MAX);
	json_array_foreach((json_t *)(uintptr_t)tags, i, v)
	{
		if (!json_is_string(v) || json_string_length(v) > 128)
			return bad(err, where, "tags[%zu]' must be a string of at most 128 bytes",
			           i);
	}
	return 0;
}

int run_conf_parse(const json_t *config, const char *where, struct run_conf *ret, struct err *err)
{
	struct body b = { .peers = true, .timeout = RUN_TIMEOUT_S };
	int r;

	*ret = (struct run_conf){ .timeout_s = RUN_TIMEOUT_S };
	if (!config || json_is_null(config))
		return 0;
	if (!json_is_object(config))
		return err_tag(err, -EINVAL, TAG, "'%.*s' must be an object",
		               (int)strcspn(where, "."), where);
	if ((r = json_fields_read(config, where, fields, ARRAY_SIZE(fields), &b, err)) < 0) {
		err->tag = TAG;
		return r;
	}
	if (b.proxy && *b.proxy)
		return bad(err, where,
		           "proxy' is not supported: requests leave through the VM's own gateway; "
		           "add headers with 'egress' or 'customHeaders'");
	ret->timeout_s = (uint32_t)b.timeout;
	ret->infer = b.infer;
	ret->no_peers = !b.peers;
	ret->keep_nothing = b.zero;
	if ((r = check_strings(b.modules, where, "nodeModules", RUN_MODULES_MAX, module_ok, 256,
	                       true, err)) < 0 ||
	    (r = check_strings(b.headers, where, "customHeaders", 64, header_ok, 8192, true, err)) <
	            0 ||
	    (r = check_tags(b.tags, where, err)) < 0)
		return r;
	ret->modules = json_object_size(b.modules) ? json_incref(b.modules) : NULL;
	ret->headers = json_object_size(b.headers) ? json_incref(b.headers) : NULL;
	ret->tags = json_array_size(b.tags) ? json_incref(b.tags) : NULL;
	if (b.env || b.env_vars) {
		ret->env = json_object();
		if (!ret->env || (b.env && json_object_update(ret->env, b.env) < 0) ||
		    (b.env_vars && json_object_update(ret->env, b.env_vars) < 0))
			return err_set(err, -ENOMEM, "out of memory");
		if ((r = check_strings(ret->env, where, "envVars", RUN_ENV_MAX, env_ok,
		                       ENV_VALUE_MAX, false, err)) < 0)
			return r;
	}
	return run_egress(b.permissions, b.egress, where, &ret->egress, err);
}

/* ---- the network ---- */

/* A literal name, ".*", or one of the usual ways to say "and everything below it". */
static int domain_of_regex(const char *s, char ret[256])
{
	static const char *const below[] = { ".*\\.", "^.*\\.", "(.*\\.)?", "^(.*\\.)?",
		                             "^([^.]+\\.)*" };
	const char *p = s;
	char *o = ret;
	bool wild = false;

	if (!strcmp(s, ".*") || !strcmp(s, "^.*$") || !strcmp(s, ".+")) {
		snprintf(ret, 256, "*");
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(below); i++)
		if (!strncmp(s, below[i], strlen(below[i])) && strlen(below[i]) > (size_t)(p - s)) {
			p = s + strlen(below[i]);
			wild = true;
		}
	if (wild)
		o += snprintf(o, 3, "*.");
	else if (*p == '^')
		p++;
	for (; *p; p++) {
		if (*p == '$' && !p[1])
			break;
		if (*p == '\\' && p[1] == '.')
			p++;
		else if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
			return -EINVAL;
		if (o - ret >= 254)
			return -EINVAL;
		*o++ = *p;
	}
	*o = '\0';
	return *ret ? 0 : -EINVAL;
}

static json_t *rule_of(const char *action, const char *domain)
{
	if (!strcmp(domain, "*"))
		return json_pack("{s:s, s:s}", "action", action, "cidr", "0.0.0.0/0");
	return json_pack("{s:s, s:s}", "action", action, "domain", domain);
}

/* A name and, in our policies, those below it are two rules; regular expressions may mean both. */
static int add_permission(json_t *rules, const json_t *p, size_t i, const char *where,
                          bool *ret_allows, struct err *err)
{
	const char *action = json_string_value(json_object_get(p, "action"));
	const char *query = json_string_value(json_object_get(p, "query"));
	const json_t *b = json_object_get(p, "behavior");
	const char *behavior = b && !json_is_null(b) ? json_string_value(b) : "exact";
	char domain[256];

	if (!action || (strcmp(action, "allow") != 0 && strcmp(action, "deny") != 0))
		return bad(err, where, "networkPermissions[%zu].action' must be allow or deny", i);
	if (!query || !*query || strlen(query) > 253)
		return bad(err, where, "networkPermissions[%zu].query' must be a host name", i);
	if (!behavior || (strcmp(behavior, "exact") != 0 && strcmp(behavior, "regex") != 0))
		return bad(err, where, "networkPermissions[%zu].behavior' must be exact or regex",
		           i);
	if (!strcmp(behavior, "exact"))
		snprintf(domain, sizeof(domain), "%s", query);
	else if (domain_of_regex(query, domain) < 0)
		return bad(err, where,
		           "networkPermissions[%zu].query': of regular expressions this server "
		           "knows .*, a name with its dots escaped, and .*\\. or (.*\\.)? before "
		           "one",
		           i);
	*ret_allows |= !strcmp(action, "allow");
	if (strstr(query, "(.*\\.)?") || strstr(query, "*\\.)*"))
		json_array_append_new(rules, rule_of(action, domain + 2));
	if (json_array_append_new(rules, rule_of(action, domain)) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int add_ips(json_t *rules, const json_t *ips, const char *action, const char *where,
                   struct err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)ips, key, v)
	{
		json_t *one;
		size_t i;

		json_array_foreach(v, i, one) if (json_object_size(one) > 0) return bad(
		        err, where,
		        "egress.%s.ips.%.60s': headers can only be added by the name of a host",
		        action, key);
		if (json_array_append_new(
		            rules, json_pack("{s:s, s:s}", "action", action, "cidr", key)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* [{transform: [{headers: {name: value}}]}] */
static int add_headers(json_t *inject, const char *domain, const json_t *list, const char *where,
                       struct err *err)
{
	autojson json_t *headers = json_object();
	json_t *one, *change;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)list, i, one)
	        json_array_foreach(json_object_get(one, "transform"), k, change)
	                json_object_update(headers, json_object_get(change, "headers"));
	if (!json_object_size(headers))
		return 0;
	if (!strcmp(domain, "*"))
		return bad(err, where,
		           "egress.allow.domains.*': headers are added for the hosts that are "
		           "named");
	return json_array_append_new(
	               inject, json_pack("{s:s, s:O}", "domain", domain, "headers", headers)) < 0
	               ? err_set(err, -ENOMEM, "out of memory")
	               : 0;
}

static int add_egress(json_t *rules, json_t *inject, const json_t *egress, const char *where,
                      bool *ret_closed, struct err *err)
{
	const json_t *allow = json_object_get(egress, "allow"),
	             *deny = json_object_get(egress, "deny");
	const json_t *domains = json_object_get(allow, "domains"),
	             *ips = json_object_get(allow, "ips");
	const char *key;
	json_t *v;
	int r;

	if ((allow && !json_is_null(allow) && !json_is_object(allow)) ||
	    (deny && !json_is_null(deny) && !json_is_object(deny)) ||
	    (domains && !json_is_null(domains) && !json_is_object(domains)) ||
	    (ips && !json_is_null(ips) && !json_is_object(ips)))
		return bad(err, where, "egress' must have objects in allow, deny, domains and ips");
	if ((r = add_ips(rules, json_object_get(deny, "ips"), "deny", where, err)) < 0)
		return r;
	json_object_foreach((json_t *)(uintptr_t)domains, key, v)
	{
		if (json_array_append_new(rules, rule_of("allow", key)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
		if ((r = add_headers(inject, key, v, where, err)) < 0)
			return r;
	}
	*ret_closed = json_is_object(domains) || json_is_object(ips);
	return add_ips(rules, ips, "allow", where, err);
}

int run_egress(const json_t *permissions, const json_t *egress, const char *where, json_t **ret,
               struct err *err)
{
	autojson json_t *rules = json_array(), *inject = json_array();
	bool closed = false, allows = false;
	json_t *p;
	size_t i;
	int r;

	*ret = NULL;
	if (!rules || !inject)
		return err_set(err, -ENOMEM, "out of memory");
	json_array_foreach((json_t *)(uintptr_t)permissions, i, p)
	{
		if ((r = add_permission(rules, p, i, where, &allows, err)) < 0)
			return r;
	}
	if ((r = add_egress(rules, inject, egress, where, &closed, err)) < 0)
		return r;
	if (!json_array_size(rules) && !closed)
		return 0;
	/* What no rule names is open, unless something was allowed by name. */
	if (!closed && !allows)
		json_array_append_new(rules, rule_of("allow", "*"));
	*ret = json_pack("{s:s, s:O, s:O}", "mode", "rules", "rules", rules, "inject", inject);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
