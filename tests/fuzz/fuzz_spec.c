/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spec.c - any body as a request with a spec: rejected with a code, or layers that can be
 * hashed and written */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "build/build_internal.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct spec_limits limits = { 2, 2048, 20480, 32, 65536, 204800, 256 };
	autojson json_t *j = NULL, *extra = json_object();
	struct spec_ctx c = { .limits = &limits, .tag = ERR_CREATE_VM_BAD_REQUEST, .extra = extra };
	autospec struct spec s = { 0 };
	struct err err = { 0 };

	if (json_text_parse(data, size, &j, &err) < 0 || !json_is_object(j))
		return 0;
	if (spec_parse(j, &c, &s, &err) < 0) {
		must(err.code < 0 && err.msg[0] && err.tag);
		return 0;
	}
	must(s.n <= ARRAY_SIZE(s.layers));
	for (size_t i = 0; i < s.n; i++)
		check_layer(&s.layers[i]);
	return 0;
}
