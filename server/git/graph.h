/* SPDX-License-Identifier: Apache-2.0 */
/* git/graph.h - the order of commits; for git/ only */
#pragma once

#include "git/git_internal.h"

struct graph {
	struct repos *g;
	const struct store_repo *r;
	git_repository *repo;             /* weak */
	const struct repo_client *client; /* who asks; NULL: the server itself */
};

struct oids {
	git_oid *v; /* owned */
	size_t n, cap;
};
#define autooids AUTO(oids_done) struct oids
void oids_done(struct oids *o);
int oids_add(struct oids *o, const git_oid *id, struct err *err);

/* Those reachable from tip and not from hide (NULL: all), newest first; at most max. */
int graph_walk(struct graph *g, const git_oid *tip, const git_oid *hide, size_t max,
               struct oids *ret, struct err *err);
/* Is a the same as b, or does it come before it? 1 or 0. */
int graph_before(struct graph *g, const git_oid *a, const git_oid *b, struct err *err);

struct relation {
	size_t ahead, behind;
	bool has_base;
	git_oid base; /* what both have in common */
};
int graph_relate(struct graph *g, const git_oid *base, const git_oid *head, struct relation *ret,
                 struct err *err);
