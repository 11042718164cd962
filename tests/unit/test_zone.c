/* SPDX-License-Identifier: Apache-2.0 */
/* test_zone.c - DNS records in a real store, and answers about them, read back byte by byte */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "net/dns_msg.h"
#include "store/store_account.h"
#include "store/store_record.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"
#include "zone/zone_internal.h"

#define A "11111111-1111-4111-8111-111111111111"
#define B "22222222-2222-4222-8222-222222222222"
#define ZONE "example.test"
/* The call fails with that code and that tag. */
#define REFUSED(want, tag_, expr)                                  \
	do {                                                       \
		FAILS(want, expr);                                 \
		assert_string_equal(err_code_name(err.tag), tag_); \
	} while (0)
#define DATA_SIZE 300
#define FLAG_AA 0x0400u
#define FLAG_TC 0x0200u
enum { T_A = 1, T_NS = 2, T_CNAME = 5, T_SOA = 6, T_MX = 15, T_TXT = 16, T_AAAA = 28, T_OPT = 41 };
enum { T_AXFR = 252, T_ANY = 255 };

struct fx {
	struct tmpdir dir;
	struct store *s;
	struct zones *z;
};

static void own(struct fx *f, const char *account, const char *domain)
{
	struct store_verification v = { .created_ms = 1 }, got;

	id_make("dv-", v.id);
	snprintf(v.account, sizeof(v.account), "%s", account);
	snprintf(v.domain, sizeof(v.domain), "%s", domain);
	snprintf(v.code, sizeof(v.code), "code");
	OK(store_verification_add(f->s, &v, &got, &err));
	OK(store_domain_own(f->s, &got, &err));
}

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));
	char path[256];

	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	*state = f;
	if (store_open(db_at(&f->dir, "pando.db", path, sizeof(path)), &f->s, NULL) < 0 ||
	    store_account_create(f->s, A, "first", NULL) < 0 ||
	    store_account_create(f->s, B, "second", NULL) < 0)
		return -1;
	own(f, A, ZONE);
	return zones_new(f->s, "ns.pando.test", &f->z, NULL);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	zones_free(f->z);
	store_close(f->s);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static struct store_record put(struct fx *f, const char *kind, const char *name, const char *value)
{
	struct record_wish w = {
		.kind = kind, .name = name, .value = value, .ttl = -1, .priority = -1
	};
	struct store_record rec = { 0 };

	OK(zones_put(f->z, A, ZONE, &w, &rec, &err));
	return rec;
}

/* ---- an answer, read back ---- */

struct got {
	unsigned rcode;
	bool aa, tc, opt;
	unsigned answers, authority, additional;
	struct {
		char owner[256];
		unsigned type, ttl;
		char data[DATA_SIZE]; /* as text, as far as a test cares */
	} rr[16];
	size_t n, len;
};

static void read_name(const uint8_t *p, size_t n, size_t *at, char ret[256])
{
	size_t i = *at, len = 0;
	bool jumped = false;

	ret[0] = '\0';
	for (int hops = 0; hops < 128; hops++) {
		assert_true(i < n);
		if (p[i] >= 0xc0) {
			assert_true(i + 1 < n && !jumped);
			*at = i + 2;
			jumped = true;
			i = (size_t)(p[i] & 0x3f) << 8 | p[i + 1];
			continue;
		}
		if (p[i] == 0)
			break;
		assert_true(i + 1 + p[i] < n && len + p[i] + 1 < 255);
		len += (size_t)snprintf(ret + len, 256 - len, "%s%.*s", len ? "." : "", p[i],
		                        (const char *)p + i + 1);
		i += 1u + p[i];
	}
	if (!jumped)
		*at = i + 1;
}

static uint32_t last_serial; /* of the last SOA record that was read */

static void read_data(const uint8_t *p, size_t n, size_t at, unsigned type, unsigned len, char *ret)
{
	char person[256];

	switch (type) {
	case T_A:
		assert_int_equal(len, 4);
		snprintf(ret, DATA_SIZE, "%u.%u.%u.%u", p[at], p[at + 1], p[at + 2], p[at + 3]);
		break;
	case T_MX:
		snprintf(ret, DATA_SIZE, "%u ", get_be16(p + at));
		at += 2;
		read_name(p, n, &at, ret + strlen(ret));
		break;
	case T_TXT:
		snprintf(ret, DATA_SIZE, "%u:%.*s", p[at], MIN(p[at], 40),
		         (const char *)p + at + 1);
		break;
	case T_NS:
	case T_CNAME:
		read_name(p, n, &at, ret);
		break;
	case T_SOA:
		read_name(p, n, &at, ret);
		read_name(p, n, &at, person);
		last_serial = get_be32(p + at);
		break;
	default:
		snprintf(ret, DATA_SIZE, "%u bytes", len);
	}
}

static void read_answer(const uint8_t *p, size_t n, size_t question, struct got *g)
{
	unsigned flags = get_be16(p + 2), total;
	size_t at = DNS_HEADER_LEN + question;

	*g = (struct got){ .rcode = flags & 15,
		           .aa = flags & FLAG_AA,
		           .tc = flags & FLAG_TC,
		           .answers = get_be16(p + 6),
		           .authority = get_be16(p + 8),
		           .additional = get_be16(p + 10),
		           .len = n };
	assert_true(flags & 0x8000);
	total = g->answers + g->authority + g->additional;
	for (unsigned i = 0; i < total; i++) {
		char owner[256];
		unsigned type, len;

		read_name(p, n, &at, owner);
		assert_true(at + 10 <= n);
		type = get_be16(p + at);
		len = get_be16(p + at + 8);
		assert_true(at + 10 + len <= n);
		if (type == T_OPT) {
			g->opt = true;
			g->additional--;
		} else if (g->n < ARRAY_SIZE(g->rr)) {
			snprintf(g->rr[g->n].owner, sizeof(g->rr[0].owner), "%s", owner);
			g->rr[g->n].type = type;
			g->rr[g->n].ttl = get_be32(p + at + 4);
			read_data(p, n, at + 10, type, len, g->rr[g->n].data);
			g->n++;
		}
		at += 10 + len;
	}
	assert_int_equal(at, n);
}

static struct got ask_with(struct fx *f, const char *name, unsigned type, struct dns_edns e,
                           bool tcp)
{
	static uint8_t out[DNS_ANSWER_MAX];
	struct dns_query q;
	autobuf struct buf b = { 0 };
	struct got g;
	size_t n;

	buf_put_u16(&b, 7);
	buf_put_u16(&b, 0x0100);
	buf_put_u16(&b, 1);
	for (int i = 0; i < 3; i++)
		buf_put_u16(&b, 0);
	for (const char *p = name; *p; p += strcspn(p, "."), p += *p == '.') {
		buf_put_u8(&b, (uint8_t)strcspn(p, "."));
		buf_put(&b, p, strcspn(p, "."));
	}
	buf_put_u8(&b, 0);
	buf_put_u16(&b, (uint16_t)type);
	buf_put_u16(&b, 1);
	assert_int_equal(dns_query_parse(b.p, b.len, &q), type == T_AXFR ? -EPERM : 0);
	n = zones_answer(f->z, &q, &e, tcp, out, sizeof(out));
	assert_true(n >= DNS_HEADER_LEN && (tcp || n <= 1232));
	assert_true(dns_answer_matches(out, n, &q, 7));
	read_answer(out, n, q.question_len, &g);
	return g;
}

static struct got ask(struct fx *f, const char *name, unsigned type)
{
	return ask_with(f, name, type, (struct dns_edns){ 0 }, false);
}

static void one(struct fx *f, const char *name, unsigned type, const char *data)
{
	struct got g = ask(f, name, type);

	assert_int_equal(g.rcode, DNS_NOERROR);
	assert_true(g.aa);
	assert_int_equal(g.answers, 1);
	assert_string_equal(g.rr[0].data, data);
	assert_int_equal(g.rr[0].type, type);
}

static void denied(struct fx *f, const char *name, unsigned type, unsigned rcode)
{
	struct got g = ask(f, name, type);

	assert_int_equal(g.rcode, rcode);
	assert_int_equal(g.answers, 0);
	assert_int_equal(g.authority, 1);
	assert_int_equal(g.rr[0].type, T_SOA);
	assert_string_equal(g.rr[0].owner, ZONE);
}

/* ---- tests ---- */

static void test_forms(void **state)
{
	static const struct {
		const char *kind, *name, *value;
		const char *want_name, *want_value; /* NULL: refused */
	} v[] = {
		{ "a", "", "192.0.2.1", "@", "192.0.2.1" },
		{ "A", "@", "192.0.2.1", "@", "192.0.2.1" },
		{ "A", "WWW", "192.0.2.1", "www", "192.0.2.1" },
		{ "A", "www.example.test", "192.0.2.1", "www", "192.0.2.1" },
		{ "A", "example.test.", "192.0.2.1", "@", "192.0.2.1" },
		{ "A", "www.other.test.", "192.0.2.1", NULL, NULL },
		{ "A", "www.other.test", "192.0.2.1", "www.other.test", "192.0.2.1" },
		{ "A", "*", "192.0.2.1", "*", "192.0.2.1" },
		{ "A", "*.dev", "192.0.2.1", "*.dev", "192.0.2.1" },
		{ "A", "a*", "192.0.2.1", NULL, NULL },
		{ "A", "a.*", "192.0.2.1", NULL, NULL },
		{ "A", "a..b", "192.0.2.1", NULL, NULL },
		{ "A", "-a", "192.0.2.1", NULL, NULL },
		{ "A", "a b", "192.0.2.1", NULL, NULL },
		{ "A", "www", "192.0.2.256", NULL, NULL },
		{ "A", "www", "::1", NULL, NULL },
		{ "AAAA", "www", "2001:DB8:0::1", "www", "2001:db8::1" },
		{ "AAAA", "www", "192.0.2.1", NULL, NULL },
		{ "CNAME", "www", "Target.Example.ORG.", "www", "target.example.org" },
		{ "CNAME", "@", "target.example.org", NULL, NULL },
		{ "CNAME", "www", "word", NULL, NULL },
		{ "CNAME", "www", "*.example.org", NULL, NULL },
		{ "TXT", "_acme-challenge", "any \"text\" at all", "_acme-challenge",
		  "any \"text\" at all" },
		{ "TXT", "a", "", NULL, NULL },
		{ "TXT", "a", "line\nbreak", NULL, NULL },
		{ "NS", "sub", "ns1.example.org", "sub", "ns1.example.org" },
		{ "NS", "*.sub", "ns1.example.org", NULL, NULL },
		{ "MX", "@", "mail.example.org", "@", "mail.example.org" },
		{ "SOA", "@", "x.y", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct record_wish w = { .kind = v[i].kind,
			                 .name = v[i].name,
			                 .value = v[i].value,
			                 .ttl = -1,
			                 .priority = -1 };
		struct store_record rec = { 0 };
		int r = record_normal(ZONE, &w, &rec, &err);

		if (v[i].want_name) {
			assert_int_equal(r, 0);
			assert_string_equal(rec.name, v[i].want_name);
			assert_string_equal(rec.value, v[i].want_value);
			assert_int_equal(rec.ttl, RECORD_TTL_DEFAULT);
			assert_int_equal(rec.priority, rec.kind == RECORD_MX ? 10 : 0);
		} else {
			assert_int_equal(r, -EINVAL);
			assert_int_equal(err.tag, ERR_INVALID_PARAMETERS);
			assert_true(*err.msg);
		}
	}
}

static void test_bounds_of_numbers(void **state)
{
	static const struct {
		int64_t ttl, priority;
		int want;
	} v[] = { { 1, -1, 0 },        { RECORD_TTL_MAX, 65535, 0 }, { 0, -1, -EINVAL },
		  { -2, -1, -EINVAL }, { 604801, -1, -EINVAL },      { 60, 65536, -EINVAL } };

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct record_wish w = { "MX", "@", "mail.example.org", v[i].ttl, v[i].priority };
		struct store_record rec = { 0 };

		assert_int_equal(record_normal(ZONE, &w, &rec, NULL), v[i].want);
	}
}

static void test_owners(void **state)
{
	struct fx *f = *state;
	struct record_wish w = { "A", "www", "192.0.2.1", -1, -1 };
	struct store_record rec, *rows = NULL, mine = put(f, "A", "www", "192.0.2.1");
	char id[ID_SIZE];
	size_t n = 0;

	REFUSED(-EACCES, "DOMAIN_OWNERSHIP_ERROR", zones_put(f->z, B, ZONE, &w, &rec, &err));
	REFUSED(-EACCES, "DOMAIN_OWNERSHIP_ERROR", zones_put(f->z, A, "a.test", &w, &rec, &err));
	REFUSED(-EACCES, "DOMAIN_OWNERSHIP_ERROR", zones_delete(f->z, B, ZONE, mine.id, &err));
	REFUSED(-EACCES, "DOMAIN_OWNERSHIP_ERROR",
	        store_record_list(f->s, B, ZONE, &rows, &n, &err));
	REFUSED(-EACCES, "RECORD_OWNERSHIP_ERROR", zones_delete(f->z, A, ZONE, "rec-none", &err));
	/* Adding the same record again updates it, without a duplicate. */
	w.ttl = 77;
	OK(zones_put(f->z, A, ZONE, &w, &rec, &err));
	assert_string_equal(rec.id, mine.id);
	assert_int_equal(ask(f, "www.example.test", T_A).rr[0].ttl, 77);
	assert_int_equal(ask(f, "www.example.test", T_A).answers, 1);
	OK(zones_find(f->z, A, ZONE, &w, id, &err));
	assert_string_equal(id, mine.id);
	/* An account that takes the domain over starts without records. */
	own(f, B, ZONE);
	OK(zones_reload(f->z, &err));
	assert_int_equal(ask(f, "www.example.test", T_A).rcode, DNS_REFUSED);
	OK(store_record_list(f->s, B, ZONE, &rows, &n, &err));
	assert_int_equal(n, 0);
	free(rows);
	OK(zones_put(f->z, B, ZONE, &w, &rec, &err));
	one(f, "www.example.test", T_A, "192.0.2.1");
	OK(store_account_delete(f->s, B, &err));
	OK(zones_reload(f->z, &err));
	assert_int_equal(ask(f, "www.example.test", T_A).rcode, DNS_REFUSED);
}

static void test_cname_stands_alone(void **state)
{
	struct fx *f = *state;
	struct record_wish a = { "A", "x", "192.0.2.1", -1, -1 };
	struct record_wish c = { "CNAME", "x", "www.example.org", -1, -1 };
	struct record_wish d = { "CNAME", "x", "other.example.org", -1, -1 };
	struct store_record rec;

	OK(zones_put(f->z, A, ZONE, &a, &rec, &err));
	REFUSED(-EEXIST, "CONFLICT", zones_put(f->z, A, ZONE, &c, &rec, &err));
	OK(zones_delete(f->z, A, ZONE, rec.id, &err));
	OK(zones_put(f->z, A, ZONE, &c, &rec, &err));
	REFUSED(-EEXIST, "CONFLICT", zones_put(f->z, A, ZONE, &a, &rec, &err));
	REFUSED(-EEXIST, "CONFLICT", zones_put(f->z, A, ZONE, &d, &rec, &err));
	OK(zones_put(f->z, A, ZONE, &c, &rec, &err));
}

static void test_answers(void **state)
{
	struct fx *f = *state;
	struct got g;

	assert_int_equal(ask(f, "www.example.test", T_A).rcode, DNS_REFUSED); /* no records yet */
	put(f, "A", "www", "192.0.2.1");
	put(f, "A", "www", "192.0.2.2");
	put(f, "TXT", "www", "hello");
	put(f, "MX", "@", "mail.example.test");
	put(f, "CNAME", "alias", "www.example.test");
	put(f, "CNAME", "away", "www.example.org");
	put(f, "CNAME", "loop", "loop.example.test");
	put(f, "A", "deep.down.there", "192.0.2.3");
	g = ask(f, "WWW.Example.Test", T_A);
	assert_int_equal(g.answers, 2);
	assert_string_equal(g.rr[1].data, "192.0.2.2");
	one(f, "www.example.test", T_TXT, "5:hello");
	one(f, ZONE, T_MX, "10 mail.example.test");
	one(f, ZONE, T_NS, "ns.pando.test");
	one(f, ZONE, T_SOA, "ns.pando.test");
	one(f, "alias.example.test", T_CNAME, "www.example.test");
	g = ask(f, "alias.example.test", T_A);
	assert_int_equal(g.answers, 3);
	assert_int_equal(g.rr[0].type, T_CNAME);
	assert_string_equal(g.rr[1].owner, "www.example.test");
	g = ask(f, "away.example.test", T_A);
	assert_int_equal(g.answers, 1);
	assert_string_equal(g.rr[0].data, "www.example.org");
	assert_int_equal(ask(f, "loop.example.test", T_A).answers, 8);
	denied(f, "www.example.test", T_AAAA, DNS_NOERROR);
	denied(f, "down.there.example.test", T_A, DNS_NOERROR); /* empty, but there */
	denied(f, "nobody.example.test", T_A, DNS_NXDOMAIN);
	denied(f, ZONE, T_A, DNS_NOERROR);
	assert_int_equal(ask(f, "www.example.test", T_ANY).answers, 2);
	assert_int_equal(ask(f, ZONE, T_AXFR).rcode, DNS_REFUSED);
	assert_int_equal(ask(f, "example.org", T_A).rcode, DNS_REFUSED);
	assert_int_equal(ask(f, "test", T_A).rcode, DNS_REFUSED);
	assert_int_equal(ask(f, "notexample.test", T_A).rcode, DNS_REFUSED);
	assert_int_equal(ask(f, "", T_NS).rcode, DNS_REFUSED);
}

static void test_wildcards(void **state)
{
	struct fx *f = *state;
	struct got g;

	put(f, "A", "*", "192.0.2.9");
	put(f, "A", "*.dev", "192.0.2.8");
	put(f, "TXT", "here", "x");
	put(f, "A", "a.deep", "192.0.2.7");
	g = ask(f, "any.example.test", T_A);
	assert_int_equal(g.answers, 1);
	assert_string_equal(g.rr[0].owner, "any.example.test");
	one(f, "one.two.example.test", T_A, "192.0.2.9");
	one(f, "x.dev.example.test", T_A, "192.0.2.8");
	denied(f, "here.example.test", T_A, DNS_NOERROR); /* has records of its own */
	denied(f, "dev.example.test", T_A, DNS_NOERROR);  /* has names below it */
	denied(f, "b.deep.example.test", T_A, DNS_NXDOMAIN);
}

static void test_given_away(void **state)
{
	struct fx *f = *state;
	struct got g;

	put(f, "NS", "sub", "ns1.sub.example.test");
	put(f, "NS", "sub", "ns.example.org");
	put(f, "A", "ns1.sub", "192.0.2.5");
	put(f, "A", "www.sub", "192.0.2.6");
	put(f, "CNAME", "in", "www.sub.example.test");
	g = ask(f, "www.sub.example.test", T_A);
	assert_false(g.aa);
	assert_int_equal(g.answers, 0);
	assert_int_equal(g.authority, 2);
	assert_int_equal(g.additional, 1);
	assert_string_equal(g.rr[0].owner, "sub.example.test");
	assert_string_equal(g.rr[2].data, "192.0.2.5");
	g = ask(f, "in.example.test", T_A);
	assert_true(g.aa);
	assert_int_equal(g.answers, 1);
	assert_int_equal(g.authority, 2);
	/* The zone's own, when it has them. */
	put(f, "NS", "@", "ns7.example.org");
	one(f, ZONE, T_NS, "ns7.example.org");
	/* Another account's domain below is another zone as soon as it has records. */
	own(f, B, "down.example.test");
	put(f, "A", "x.down", "192.0.2.1");
	one(f, "x.down.example.test", T_A, "192.0.2.1");
	OK(zones_put(f->z, B, "down.example.test",
	             &(struct record_wish){ "A", "y", "192.0.2.2", -1, -1 },
	             &(struct store_record){ 0 }, &err));
	assert_int_equal(ask(f, "x.down.example.test", T_A).rcode, DNS_NXDOMAIN);
	one(f, "y.down.example.test", T_A, "192.0.2.2");
}

static void test_sizes(void **state)
{
	struct fx *f = *state;
	struct dns_edns big = { .there = true, .size = 4096 },
	                newer = { .there = true, .version = 1 };
	char text[1500];
	struct got g;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	put(f, "TXT", "long", text);
	text[700] = '\0';
	put(f, "TXT", "middle", text);
	g = ask(f, "long.example.test", T_TXT);
	assert_true(g.tc);
	assert_int_equal(g.answers, 0);
	assert_true(ask_with(f, "long.example.test", T_TXT, big, false).tc);
	g = ask_with(f, "long.example.test", T_TXT, big, true);
	assert_false(g.tc);
	assert_true(g.opt);
	assert_int_equal(g.answers, 1);
	assert_string_equal(g.rr[0].data, "255:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	assert_true(ask(f, "middle.example.test", T_TXT).tc);
	g = ask_with(f, "middle.example.test", T_TXT, big, false);
	assert_int_equal(g.answers, 1);
	assert_true(g.opt);
	g = ask_with(f, "middle.example.test", T_TXT, newer, false);
	assert_true(g.opt);
	assert_int_equal(g.answers, 0);
}

static void test_limit(void **state)
{
	struct fx *f = *state;
	struct store_record rec = { .kind = RECORD_A, .ttl = 1 }, got;
	char value[32];

	snprintf(rec.account, sizeof(rec.account), A);
	snprintf(rec.domain, sizeof(rec.domain), ZONE);
	snprintf(rec.name, sizeof(rec.name), "many");
	for (int i = 0; i < RECORDS_PER_ACCOUNT; i++) {
		id_make("rec-", rec.id);
		snprintf(rec.value, sizeof(rec.value), "192.0.%d.%d", i / 250, i % 250);
		OK(store_record_put(f->s, &rec, &got, &err));
	}
	id_make("rec-", rec.id);
	snprintf(value, sizeof(value), "198.51.100.1");
	snprintf(rec.value, sizeof(rec.value), "%s", value);
	REFUSED(-EDQUOT, "LIMIT_EXCEEDED", store_record_put(f->s, &rec, &got, &err));
	OK(zones_reload(f->z, &err));
	assert_true(ask(f, "many.example.test", T_A).tc);
	assert_int_equal(
	        ask_with(f, "many.example.test", T_A, (struct dns_edns){ 0 }, true).answers,
	        RECORDS_PER_ACCOUNT);
}

/* The store has them all, and another node says nothing. */
static void test_records_of_another_node(void **state)
{
	struct fx *f = *state;
	struct store_record rec = { .kind = RECORD_A, .ttl = 1 }, got;
	uint32_t before;

	put(f, "A", "www", "192.0.2.1");
	OK(zones_refresh(f->z, &err));
	one(f, ZONE, T_SOA, "ns.pando.test");
	before = last_serial;
	OK(zones_refresh(f->z, &err));
	OK(zones_reload(f->z, &err));
	one(f, ZONE, T_SOA, "ns.pando.test");
	assert_int_equal(last_serial, before); /* nothing has changed */
	id_make("rec-", rec.id);
	snprintf(rec.account, sizeof(rec.account), A);
	snprintf(rec.domain, sizeof(rec.domain), ZONE);
	snprintf(rec.name, sizeof(rec.name), "new");
	snprintf(rec.value, sizeof(rec.value), "192.0.2.2");
	OK(store_record_put(f->s, &rec, &got, &err));
	OK(zones_refresh(f->z, &err));
	one(f, "new.example.test", T_A, "192.0.2.2");
	one(f, ZONE, T_SOA, "ns.pando.test");
	assert_true(last_serial > before);
	rec.ttl = 99; /* in place */
	OK(store_record_put(f->s, &rec, &got, &err));
	OK(zones_refresh(f->z, &err));
	assert_int_equal(ask(f, "new.example.test", T_A).rr[0].ttl, 99);
	OK(store_record_delete(f->s, A, ZONE, rec.id, &err));
	OK(zones_refresh(f->z, &err));
	assert_int_equal(ask(f, "new.example.test", T_A).answers, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_forms),     T(test_bounds_of_numbers),  T(test_records_of_another_node),
		T(test_owners),    T(test_cname_stands_alone), T(test_answers),
		T(test_wildcards), T(test_given_away),         T(test_sizes),
		T(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
