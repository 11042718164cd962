/* SPDX-License-Identifier: Apache-2.0 */
/* cli/logs.h - log lines, each once, in order of time; for cli/ */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct cli;

struct logs_reader {
	char *query;  /* owned; a path with a '?' */
	char *since;  /* owned; startTime of the next request */
	json_t *seen; /* owned; lines of that instant that were already shown */
	bool whole;   /* all lines since then, not only the newest page of them */
};
/* Lines that are new since the last call: text on f, objects in out (either may be NULL). */
int logs_next(struct cli *c, struct logs_reader *r, FILE *f, json_t *out);
void logs_done(struct logs_reader *r);
/* Shows them, at most `lines` (NULL: a page) of those that are there; follow: and those that come.
 */
int logs_show(struct cli *c, struct logs_reader *r, const char *lines, bool follow);
