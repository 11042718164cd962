/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_json.c - policies from JSON and back
 *
 * {mode, rules: [{action, domain | cidr, ports}], inject: [{domain, headers}],
 *  bandwidth: {upMbps, downMbps}}
 */
#include "net/egress_json.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json_field.h"
#include "net/egress.h"

#define LABEL_MAX 63u
#define CIDR_TEXT_MAX 19u

static const char *const mode_words[] = {
	[PRIV_EGRESS_OPEN] = "open", [PRIV_EGRESS_CLOSED] = "closed", [PRIV_EGRESS_RULES] = "rules"
};

/* Headers that affect framing or routing: these cannot be injected. */
static const char *const framing[] = { "host",      "connection", "content-length",
	                               "upgrade",   "te",         "transfer-encoding",
	                               "trailer",   "expect",     "proxy-connection",
	                               "keep-alive" };

/* ---- members ---- */

static int parse_domain(const char *s, const char *where, char ret[EGRESS_DOMAIN_MAX],
                        struct err *err)
{
	const char *p = strncmp(s, "*.", 2) ? s : s + 2;
	size_t n = strlen(s), label = 0;

	if (n && s[n - 1] == '.')
		n--; /* a final dot is allowed */
	if (n >= EGRESS_DOMAIN_MAX || !*p)
		goto bad;
	for (; p < s + n; p++) {
		if (*p == '.' ? !label : !(isalnum((unsigned char)*p) || *p == '-' || *p == '_'))
			goto bad;
		label = *p == '.' ? 0 : label + 1;
		if (label > LABEL_MAX)
			goto bad;
	}
	if (!label)
		goto bad;
	for (size_t i = 0; i < n; i++)
		ret[i] = (char)tolower((unsigned char)s[i]);
	ret[n] = '\0';
	return 0;
bad:
	return err_set(err, -EINVAL,
	               "'%s.domain' must be a host name, or one that begins with \"*.\"", where);
}

static int parse_cidr(const char *s, const char *where, struct egress_rule *r, struct err *err)
{
	char text[CIDR_TEXT_MAX + 1];
	struct in_addr a;
	char *slash;
	unsigned long prefix = 32;

	if (strlen(s) > CIDR_TEXT_MAX)
		goto bad;
	snprintf(text, sizeof(text), "%s", s);
	slash = strchr(text, '/');
	if (slash) {
		char *end;

		*slash++ = '\0';
		if (!isdigit((unsigned char)*slash))
			goto bad;
		prefix = strtoul(slash, &end, 10);
		if (*end || prefix > 32)
			goto bad;
	}
	if (inet_pton(AF_INET, text, &a) != 1)
		goto bad;
	r->has_cidr = true;
	r->prefix = (uint8_t)prefix;
	r->addr = ntohl(a.s_addr) & priv_mask(r->prefix);
	return 0;
bad:
	return err_set(err, -EINVAL, "'%s.cidr' must be an IPv4 range such as \"203.0.113.0/24\"",
	               where);
}

/* 443, "443" or "8000-8080" */
static bool parse_port(const json_t *j, uint16_t *lo, uint16_t *hi)
{
	const char *s = json_string_value(j);
	unsigned a, b;
	int n = 0;

	if (json_is_integer(j)) {
		json_int_t v = json_integer_value(j);

		if (v < 1 || v > UINT16_MAX)
			return false;
		*lo = *hi = (uint16_t)v;
		return true;
	}
	if (!s || strlen(s) > 11)
		return false;
	if (sscanf(s, "%5u-%5u%n", &a, &b, &n) != 2 || s[n]) {
		n = 0;
		if (sscanf(s, "%5u%n", &a, &n) != 1 || s[n])
			return false;
		b = a;
	}
	if (a < 1 || a > b || b > UINT16_MAX)
		return false;
	*lo = (uint16_t)a;
	*hi = (uint16_t)b;
	return true;
}

static int parse_ports(const json_t *j, const char *where, struct egress_rule *r, struct err *err)
{
	if (!j || json_is_null(j))
		return 0;
	if (!json_is_array(j) || !json_array_size(j) || json_array_size(j) > PRIV_PORTS_MAX)
		goto bad;
	for (size_t i = 0; i < json_array_size(j); i++)
		if (!parse_port(json_array_get(j, i), &r->ports[i].lo, &r->ports[i].hi))
			goto bad;
	r->n_ports = (uint8_t)json_array_size(j);
	return 0;
bad:
	return err_set(err, -EINVAL,
	               "'%s.ports' must be a list of 1 to %u ports or ranges such as \"8000-8080\"",
	               where, PRIV_PORTS_MAX);
}

struct rule_body {
	char action[8];
	const char *domain, *cidr;
	json_t *ports;
};
static const struct json_field rule_fields[] = {
	JSON_FIELD_STR(rule_body, action, "action", JSON_REQUIRED, "'allow' | 'deny'"),
	JSON_FIELD(JSON_WANT_STRREF, rule_body, domain, "domain", JSON_NULLABLE, 1,
	           EGRESS_DOMAIN_MAX),
	JSON_FIELD(JSON_WANT_STRREF, rule_body, cidr, "cidr", JSON_NULLABLE, 1, 64),
	JSON_FIELD(JSON_WANT_ANY, rule_body, ports, "ports", 0, 0, 0, "(int | string)[] | null",
	           "ports, and ranges such as 8000-8080"),
};
JSON_TABLE(EgressRule, rule_fields);

static int parse_rule(const json_t *j, size_t n, struct egress_rule *r, struct err *err)
{
	struct rule_body b = { 0 };
	char where[40], prefix[48];
	int k;

	snprintf(where, sizeof(where), "egress.rules[%zu]", n);
	snprintf(prefix, sizeof(prefix), "%s.", where);
	if (!json_is_object(j))
		return err_set(err, -EINVAL, "'%s' must be an object", where);
	k = json_fields_read(j, prefix, rule_fields, ARRAY_SIZE(rule_fields), &b, err);
	if (k < 0)
		return k;
	r->allow = !strcmp(b.action, "allow");
	if (!r->allow && strcmp(b.action, "deny") != 0)
		return err_set(err, -EINVAL, "'%s.action' must be \"allow\" or \"deny\"", where);
	if (b.domain && b.cidr)
		return err_set(err, -EINVAL, "'%s' has a domain and a cidr: only one is possible",
		               where);
	if ((b.domain && (k = parse_domain(b.domain, where, r->domain, err)) < 0) ||
	    (b.cidr && (k = parse_cidr(b.cidr, where, r, err)) < 0))
		return k;
	return parse_ports(b.ports, where, r, err);
}

/* ---- headers ---- */

static bool header_name_ok(const char *s)
{
	size_t n = strlen(s);

	if (!n || n > EGRESS_NAME_MAX ||
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != n)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(framing); i++)
		if (!strcasecmp(s, framing[i]))
			return false;
	return true;
}

static bool header_value_ok(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	return n <= EGRESS_VALUE_MAX;
}

static int parse_header(const char *name, const json_t *value, const char *where,
                        struct egress_inject *in, struct err *err)
{
	const char *v = json_string_value(value);
	bool whole = v && strlen(v) == json_string_length(value); /* no NUL inside */
	struct egress_header *h = &in->headers[in->n];

	if (!header_name_ok(name))
		return err_set(err, -EINVAL, "'%s.headers' has a name that cannot be injected",
		               where);
	if (!v || !whole || !header_value_ok(v))
		return err_set(err, -EINVAL,
		               "'%s.headers' must have values of up to %u printable characters",
		               where, EGRESS_VALUE_MAX);
	h->keep = !strcmp(v, EGRESS_MASK);
	h->name = strdup(name);
	h->value = strdup(h->keep ? "" : v);
	in->n++; /* even if one of them is missing: freed with the rest */
	return h->name && h->value ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int parse_inject(json_t *j, size_t n, struct egress_inject *in, struct err *err)
{
	json_t *headers = json_object_get(j, "headers");
	const char *domain = json_string_value(json_object_get(j, "domain"));
	const char *name;
	char where[40];
	json_t *value;
	int r;

	snprintf(where, sizeof(where), "egress.inject[%zu]", n);
	if (!domain)
		return err_set(err, -EINVAL, "'%s.domain' must be a string", where);
	r = parse_domain(domain, where, in->domain, err);
	if (r < 0)
		return r;
	if (!json_is_object(headers) || !json_object_size(headers) ||
	    json_object_size(headers) > EGRESS_HEADERS_MAX)
		return err_set(err, -EINVAL, "'%s.headers' must be an object of 1 to %u headers",
		               where, EGRESS_HEADERS_MAX);
	json_object_foreach(headers, name, value) if ((r = parse_header(name, value, where, in,
	                                                                err)) < 0) return r;
	return 0;
}

/* ---- the whole ---- */

static int parse_rate(json_t *j, const char *name, uint32_t *ret_kbit, struct err *err)
{
	json_t *v = json_object_get(j, name);
	double mbit = json_number_value(v);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v) || mbit < 0.064 || mbit > EGRESS_MBIT_MAX)
		return err_set(err, -EINVAL,
		               "'egress.bandwidth.%s' must be a number from 0.064 to %u", name,
		               EGRESS_MBIT_MAX);
	*ret_kbit = (uint32_t)(mbit * 1000);
	return 0;
}

static int parse_mode(const json_t *j, enum priv_egress_mode *ret, struct err *err)
{
	const char *s = json_string_value(j);

	for (size_t i = 0; s && i < ARRAY_SIZE(mode_words); i++)
		if (!strcmp(s, mode_words[i])) {
			*ret = (enum priv_egress_mode)i;
			return 0;
		}
	return err_set(err, -EINVAL, "'egress.mode' must be \"open\", \"closed\" or \"rules\"");
}

static int list_of(json_t *j, const char *name, size_t max, json_t **ret, struct err *err)
{
	*ret = json_object_get(j, name);
	if (json_is_null(*ret))
		*ret = NULL;
	if (*ret && (!json_is_array(*ret) || json_array_size(*ret) > max))
		return err_set(err, -EINVAL, "'egress.%s' must be a list of up to %zu entries",
		               name, max);
	return 0;
}

int egress_parse(const json_t *j, struct egress **ret, struct err *err)
{
	AUTO(egress_unrefp) struct egress *e = calloc(1, sizeof(*e));
	json_t *rules, *inject, *rate;
	int r;

	static_assert(ARRAY_SIZE(mode_words) == PRIV_EGRESS_RULES + 1,
	              "a mode is missing in mode_words");
	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	e->refs = 1;
	if (!json_is_object(j))
		return err_set(err, -EINVAL, "'egress' must be an object");
	if ((r = parse_mode(json_object_get(j, "mode"), &e->mode, err)) < 0 ||
	    (r = list_of((json_t *)j, "rules", EGRESS_RULES_MAX, &rules, err)) < 0 ||
	    (r = list_of((json_t *)j, "inject", EGRESS_INJECT_MAX, &inject, err)) < 0)
		return r;
	for (size_t i = 0; i < json_array_size(rules); i++) {
		if ((r = parse_rule(json_array_get(rules, i), i, &e->rules[i], err)) < 0)
			return r;
		e->n_rules++;
	}
	for (size_t i = 0; i < json_array_size(inject); i++) {
		e->n_inject++; /* first, so that a partly filled entry is freed too */
		if ((r = parse_inject(json_array_get(inject, i), i, &e->inject[i], err)) < 0)
			return r;
	}
	rate = json_object_get(j, "bandwidth");
	if (rate && !json_is_null(rate) && !json_is_object(rate))
		return err_set(err, -EINVAL, "'egress.bandwidth' must be an object");
	if ((r = parse_rate(rate, "upMbps", &e->up_kbit, err)) < 0 ||
	    (r = parse_rate(rate, "downMbps", &e->down_kbit, err)) < 0)
		return r;
	*ret = TAKE_PTR(e);
	return 0;
}

static json_t *rule_json(const struct egress_rule *r)
{
	json_t *j = json_pack("{s:s}", "action", r->allow ? "allow" : "deny");
	json_t *ports = r->n_ports ? json_array() : NULL;
	char text[48];
	struct in_addr a = { .s_addr = htonl(r->addr) };

	if (*r->domain)
		json_object_set_new(j, "domain", json_string(r->domain));
	if (r->has_cidr) {
		inet_ntop(AF_INET, &a, text, INET_ADDRSTRLEN);
		snprintf(text + strlen(text), 8, "/%u", r->prefix);
		json_object_set_new(j, "cidr", json_string(text));
	}
	for (unsigned i = 0; i < r->n_ports; i++) {
		snprintf(text, sizeof(text), "%u-%u", r->ports[i].lo, r->ports[i].hi);
		json_array_append_new(ports, r->ports[i].lo == r->ports[i].hi
		                                     ? json_integer(r->ports[i].lo)
		                                     : json_string(text));
	}
	if (ports)
		json_object_set_new(j, "ports", ports);
	return j;
}

static json_t *inject_json(const struct egress_inject *in, bool secrets)
{
	json_t *headers = json_object();

	for (size_t i = 0; i < in->n; i++)
		json_object_set_new(headers, in->headers[i].name,
		                    json_string(secrets ? in->headers[i].value : EGRESS_MASK));
	return json_pack("{s:s, s:o}", "domain", in->domain, "headers", headers);
}

json_t *egress_json(const struct egress *e, bool secrets)
{
	json_t *rules = json_array(), *inject = json_array(), *rate, *j;

	for (size_t i = 0; e && i < e->n_rules; i++)
		json_array_append_new(rules, rule_json(&e->rules[i]));
	for (size_t i = 0; e && i < e->n_inject; i++)
		json_array_append_new(inject, inject_json(&e->inject[i], secrets));
	j = json_pack("{s:s, s:o, s:o}", "mode", mode_words[e ? e->mode : PRIV_EGRESS_OPEN],
	              "rules", rules, "inject", inject);
	if (e && (e->up_kbit || e->down_kbit)) {
		rate = json_object();
		if (e->up_kbit)
			json_object_set_new(rate, "upMbps", json_real(e->up_kbit / 1000.0));
		if (e->down_kbit)
			json_object_set_new(rate, "downMbps", json_real(e->down_kbit / 1000.0));
		json_object_set_new(j, "bandwidth", rate);
	}
	return j;
}
