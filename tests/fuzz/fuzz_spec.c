/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_spec.c - any body as a request with a spec: rejected with a code, or layers that can be
 * hashed and written
 *
 * An array is many of them. Its services are also tried as those that are made in a running VM,
 * where the same is accepted.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "build/service.h"
#include "tests/fuzz/json_mutate.h"

static size_t json_begins(const uint8_t *data, size_t size)
{
	return 0;
}

/* Every line is a section, a setting of ours, or nothing: no value can add one of its own. */
static void check_unit(const struct buf *b)
{
	static const char *const keys[] = {
		"[Unit]",         "[Service]",        "[Install]",
		"Description=",   "After=",           "Requires=",
		"OnFailure=",     "StartLimit",       "Type=",
		"NotifyAccess=",  "RemainAfterExit=", "ExecStart",
		"User=",          "Group=",           "WorkingDirectory=",
		"Environment=\"", "TimeoutStartSec=", "WatchdogSec=",
		"Restart",        "WantedBy="
	};
	size_t sections = 0;

	must(!b->failed && memchr(b->p, 0, b->len) == NULL);
	for (size_t i = 0, n; i < b->len; i += n + 1) {
		const char *line = (const char *)b->p + i;
		const char *nl = memchr(line, '\n', b->len - i);
		bool known = false;

		must(nl != NULL);
		n = (size_t)(nl - line);
		for (size_t k = 0; k < ARRAY_SIZE(keys) && !known; k++)
			known = n >= strlen(keys[k]) && memcmp(line, keys[k], strlen(keys[k])) == 0;
		must(n == 0 || known);
		sections += n > 0 && line[0] == '[';
	}
	must(sections == 2 || sections == 3);
}

static void check_layer(const struct spec_layer *l)
{
	autofree char *text = layer_text(l);
	char key[SPEC_KEY_SIZE];
	json_t *j;
	size_t i;

	must(text && layer_key("parent", l, key, NULL) == 0 && strlen(key) == 64);
	must(!l->workdir[0] || l->workdir[0] == '/');
	for (int patch = 0; patch < 2; patch++)
		json_array_foreach(patch ? l->patched : l->services, i, j)
		{
			autobuf struct buf b = { 0 };
			struct service s;

			service_read(j, &s);
			must(s.name && *s.name && (patch || json_array_size(s.exec)));
			if (patch)
				unit_patch_text(&s, NULL, &b);
			else
				unit_text(&s, NULL, &b);
			check_unit(&b);
		}
}

/* One service as a request of its own. */
static void try_service(const json_t *j)
{
	struct unit u = { 0 };
	struct err err = { 0 };

	if (unit_make(j, &u, &err) < 0)
		must(err.code < 0 && err.msg[0] && err.tag);
	else
		check_unit(&u.text);
	unit_done(&u);
}

static void try_body(const json_t *j)
{
	static const struct spec_limits limits = { 2, 2048, 20480, 32, 65536, 204800, 256 };
	autojson json_t *extra = json_object();
	struct spec_ctx c = { .limits = &limits, .tag = ERR_CREATE_VM_BAD_REQUEST, .extra = extra };
	const char *running[SPEC_RUNNING_MAX + 1];
	autospec struct spec s = { 0 };
	char key[SPEC_KEY_SIZE];
	struct err err = { 0 };
	json_t *v;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(j, "systemd"), "services"), i, v)
	{
		if (json_is_object(v))
			try_service(v);
	}
	if (spec_parse(j, &c, &s, &err) < 0) {
		must(err.code < 0 && err.msg[0] && err.tag);
		return;
	}
	must(s.n <= ARRAY_SIZE(s.layers));
	for (i = 0; i < s.n; i++)
		check_layer(&s.layers[i]);
	spec_running(&s, running);
	for (i = 0; running[i]; i++)
		must(*running[i]);
	must(base_key("account", "template", s.snapshot_id, key, NULL) == 0 && strlen(key) == 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autojson json_t *j = NULL;
	struct err err = { 0 };
	json_t *v;
	size_t i;

	if (json_text_parse(data, size, &j, &err) < 0)
		return 0;
	if (json_is_object(j))
		try_body(j);
	json_array_foreach(j, i, v)
	{
		if (json_is_object(v))
			try_body(v);
	}
	return 0;
}
