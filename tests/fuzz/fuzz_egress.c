/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_egress.c - a document as an egress policy, and the names and keys of networks
 *
 * What is accepted is shown and stored, and means the same when it is read again; every question
 * the gate asks of it has an answer, and its plan for the helper is one that the helper takes.
 */
#include "base/err.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "net/wgkey.h"
#include "tests/fuzz/json_mutate.h"

static size_t json_begins(const uint8_t *data, size_t size)
{
	return 0;
}

static void ask(const struct egress *e)
{
	static struct priv_egress plan;
	uint32_t rules[PRIV_PIN_SETS_MAX];

	(void)egress_is_default(e);
	(void)egress_wants_proxy(e);
	for (size_t i = 0; i < e->n_rules; i++) {
		const char *d = e->rules[i].domain;

		must(memchr(d, 0, sizeof(e->rules[i].domain)) && e->rules[i].prefix <= 32);
		(void)egress_name_allowed(e, *d == '*' ? d + 2 : d);
		(void)egress_inject_for(e, d);
		(void)egress_conn_allowed(e, d, true, e->rules[i].addr, 443);
		must(egress_name_rules(e, d, rules) <= PRIV_PIN_SETS_MAX);
	}
	(void)egress_name_allowed(e, "a.test");
	(void)egress_conn_allowed(e, "", false, 0x0a000001, 80);
	egress_plan(e, 1, &plan);
}

/* As a PUT of what a GET has shown: secrets are masked, and kept. */
static void keep(struct egress *e)
{
	AUTO(egress_unrefp) struct egress *again = NULL;
	autojson json_t *shown = egress_json(e, false), *before = egress_json(e, true);
	autojson json_t *after = NULL;
	struct err err = { 0 };

	must(shown && before && egress_parse(shown, &again, &err) == 0);
	if (!again)
		return;
	must(egress_keep_secrets(again, e, &err) == 0);
	after = egress_json(again, true);
	must(json_equal(before, after));
	egress_unref(egress_ref(again));
}

static void try_key(const uint8_t *data, size_t size)
{
	autofree char *text = in_text((struct in){ data, size });
	uint8_t raw[WGKEY_LEN];
	char public[WGKEY_TEXT];
	struct err err = { 0 };

	if (wgkey_bytes(text, raw) == 0) {
		must(strlen(text) == WGKEY_TEXT - 1);
		must(wgkey_public(text, public, &err) == 0 && wgkey_bytes(public, raw) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(egress_unrefp) struct egress *e = NULL, *again = NULL;
	autojson json_t *j = NULL, *stored = NULL, *shown = NULL, *same = NULL;
	struct err err = { 0 };

	if (size <= 2 * (size_t)WGKEY_TEXT)
		try_key(data, size);
	if (json_text_parse(data, size, &j, &err) < 0)
		return 0;
	if (egress_parse(j, &e, &err) < 0) {
		must(err.code < 0 && err.msg[0]);
		return 0;
	}
	if (!e || egress_keep_secrets(e, NULL, &err) < 0)
		return 0;
	ask(e);
	keep(e);
	stored = egress_json(e, true);
	shown = egress_json(e, false);
	must(stored && shown);
	must(egress_parse(stored, &again, &err) == 0);
	if (again) {
		same = egress_json(again, true);
		must(json_equal(stored, same));
	}
	return 0;
}
