/* SPDX-License-Identifier: Apache-2.0 */
/* front/inside.h - names of this server as guests know them; for front.c and tests */
#pragma once

#include <stdbool.h>

#define INSIDE_NAME_SIZE 256

/* What an alias is for. */
struct inside_alias {
	char name[INSIDE_NAME_SIZE]; /* the name of this server that it stands for */
	char cert[INSIDE_NAME_SIZE]; /* of its certificate: "@" and the pattern that matched */
};

/*
 * list: patterns separated by spaces, "git.example.org" or "*.example.org" (one label). A name that
 * matches "*.x" stands for the same label below the base domain; "api.x", "git.x" and "dashboard.x"
 * for those below it; any other one for the base domain itself. false: it matches none.
 */
bool inside_match(const char *list, const char *base, const char *host, struct inside_alias *ret);
/* Is it the base domain, or anything below it? */
bool inside_below(const char *base, const char *host);
