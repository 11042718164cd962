/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - what git/ answers with in the contract's JSON, where several routes have it */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/git/shared.h"

json_t *shape_str(const char *s)
{
	return s ? shape_output(s, strlen(s)) : json_null();
}

json_t *shape_sha(const char *sha)
{
	return *sha ? json_string(sha) : json_null();
}

json_t *shape_object(const char *sha)
{
	return json_pack("{s:s}", "sha", sha);
}

/* RFC 3339 with the person's own offset. */
static json_t *shape_when(const struct repo_person *p)
{
	char text[64], date[40];
	int off = p->offset_min, min = off < 0 ? -off : off;
	time_t local = (time_t)(p->when_s + (int64_t)off * 60);
	struct tm tm;

	if (!gmtime_r(&local, &tm) || !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		return json_string("1970-01-01T00:00:00Z");
	if (off == 0)
		snprintf(text, sizeof(text), "%sZ", date);
	else
		snprintf(text, sizeof(text), "%s%c%02d:%02d", date, off < 0 ? '-' : '+',
		         min / 60 % 100, min % 60);
	return json_string(text);
}

static json_t *shape_person(const struct repo_person *p)
{
	if (!p->name)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "date", shape_when(p), "name", shape_str(p->name),
	                 "email", shape_str(p->email));
}

json_t *shape_commit(const struct repo_commit *c)
{
	json_t *parents = json_array();

	for (size_t i = 0; i < c->n_parents; i++)
		json_array_append_new(parents, shape_object(c->parents[i]));
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "sha", c->sha, "author",
	                 shape_person(&c->author), "committer", shape_person(&c->committer),
	                 "message", shape_str(c->message), "tree", shape_object(c->tree), "parents",
	                 parents);
}

json_t *shape_tag(const struct repo_tag *t)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:s}", "name", shape_str(t->name), "tagger",
	                 shape_person(&t->tagger), "message", shape_str(t->message), "target",
	                 shape_object(t->target), "sha", t->sha);
}

int reply_extra_str(struct reply *res, int r, const char *name, const char *value)
{
	if (r < 0 && value)
		reply_extra(res, name, shape_str(value));
	return r;
}

int reply_about(struct reply *res, int r, const struct repo_about *a)
{
	reply_extra_str(res, r, "path", a->path);
	reply_extra_str(res, r, "revision", a->revision);
	if (*a->url)
		reply_extra_str(res, r, *a->dir ? "source" : "url", a->url);
	if (*a->dir)
		reply_extra_str(res, r, "dir", a->dir);
	reply_extra_str(res, r, "expected", a->expected);
	if (r < 0 && a->expected)
		reply_extra(res, "actual", shape_sha(a->actual));
	return r;
}
