/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diag.c - the state of the services after a failure
 *
 * {serviceStates: [{activeState, subState, services}], failedServiceLogs: [{unitName, log}],
 * additionalFailedServiceLogs: [...]}: the spec's own services first, then others that failed. All
 * of it comes from the guest and is bounded and cleaned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "build/build_internal.h"
#include "build/service.h"

#define DIAG_MS 60000 /* for all of it */
#define UNITS_BYTES (256u << 10)
#define LOG_BYTES (16u << 10) /* of one service */
#define LOGS_MAX 8            /* services of each kind */

static bool is_ours(const struct run *run, const char *unit)
{
	char name[SERVICE_NAME_SIZE + 15];

	for (size_t i = 0; i < run->spec->n; i++) {
		size_t k;
		json_t *j;

		json_array_foreach(run->spec->layers[i].services, k, j)
		{
			snprintf(name, sizeof(name), "%s.service",
			         json_string_value(json_object_get(j, "name")));
			if (strcmp(name, unit) == 0)
				return true;
		}
	}
	return false;
}

static json_t *state_group(json_t *states, const char *active, const char *sub)
{
	size_t i;
	json_t *g;

	json_array_foreach(
	        states, i,
	        g) if (strcmp(json_string_value(json_object_get(g, "activeState")), active) == 0 &&
	               strcmp(json_string_value(json_object_get(g, "subState")), sub) ==
	                       0) return g;
	g = json_pack("{s:s, s:s, s:[]}", "activeState", active, "subState", sub, "services");
	json_array_append_new(states, g);
	return g;
}

static void add_log(struct run *run, const char *unit, json_t *logs)
{
	autofree char *var = NULL, *out = NULL;

	if (json_array_size(logs) >= LOGS_MAX || asprintf(&var, "UNIT=%s", unit) < 0)
		return;
	if (step_read(run, "journalctl -u \"$UNIT\" -n 200 -o cat --no-pager 2>&1 | tail -c 16000",
	              (const char *[]){ var, NULL }, LOG_BYTES, &out, NULL) < 0)
		return;
	json_array_append_new(logs,
	                      json_pack("{s:o, s:o}", "unitName", json_text(unit, strlen(unit)),
	                                "log", json_text(out, strlen(out))));
}

/* "UNIT LOAD ACTIVE SUB" lines; words that are not plain text do not come from systemd. */
static void read_units(struct run *run, char *text, json_t *states, json_t *ours, json_t *others)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char unit[256], load[32], active[32], sub[32];
		bool mine, failed;

		if (sscanf(line, "%255s %31s %31s %31s", unit, load, active, sub) != 4 ||
		    !utf8_valid(unit, strlen(unit)) || !utf8_valid(active, strlen(active)) ||
		    !utf8_valid(sub, strlen(sub)))
			continue;
		mine = is_ours(run, unit);
		failed = strcmp(active, "failed") == 0 || strcmp(sub, "auto-restart") == 0;
		if (!mine && !failed)
			continue;
		json_array_append_new(json_object_get(state_group(states, active, sub), "services"),
		                      json_string(unit));
		if (failed || strcmp(active, "activating") == 0)
			add_log(run, unit, mine ? ours : others);
	}
}

json_t *diagnose(struct run *run)
{
	autofree char *units = NULL;
	autojson json_t *states = json_array(), *ours = json_array(), *others = json_array();
	uint64_t deadline = run->deadline_ms;
	int r;

	run->deadline_ms =
	        deadline_in(DIAG_MS); /* a separate deadline: the build's may have passed */
	r = step_read(run,
	              "systemctl list-units --all --type=service --plain --no-legend --no-pager",
	              NULL, UNITS_BYTES, &units, NULL);
	if (r >= 0)
		read_units(run, units, states, ours, others);
	run->deadline_ms = deadline;
	if (r < 0)
		return NULL;
	return json_pack("{s:O, s:O, s:O}", "serviceStates", states, "failedServiceLogs", ours,
	                 "additionalFailedServiceLogs", others);
}
