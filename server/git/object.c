/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - commits, tags, blobs and trees in the contract's shapes; by hash */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/utf8.h"
#include "git/git_internal.h"

json_t *text_json(const char *p, size_t n)
{
	autobuf struct buf b = { 0 };

	if (utf8_valid(p, n))
		return json_stringn(p, n);
	utf8_put_clean(&b, p, n);
	return b.failed ? NULL : json_stringn((char *)b.p, b.len);
}

json_t *oid_json(const git_oid *id)
{
	char s[REPO_SHA_SIZE];

	return json_string(git_oid_tostr(s, sizeof(s), id));
}

/* RFC 3339 with the author's own offset. */
static json_t *when_json(const git_time *t)
{
	char text[64], date[40];
	int off = t->offset;
	time_t local = (time_t)(t->time + (git_time_t)off * 60);
	struct tm tm;

	if (!gmtime_r(&local, &tm) || !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		return json_string("1970-01-01T00:00:00Z");
	if (off == 0)
		snprintf(text, sizeof(text), "%sZ", date);
	else
		snprintf(text, sizeof(text), "%s%c%02d:%02d", date, off < 0 ? '-' : '+',
		         (off < 0 ? -off : off) / 60 % 100, (off < 0 ? -off : off) % 60);
	return json_string(text);
}

static json_t *sig_json(const git_signature *s)
{
	if (!s)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "date", when_json(&s->when), "name",
	                 text_json(s->name, strlen(s->name)), "email",
	                 text_json(s->email, strlen(s->email)));
}

json_t *commit_json(git_commit *c)
{
	json_t *parents = json_array();
	const char *msg = git_commit_message(c);

	for (unsigned i = 0; i < git_commit_parentcount(c); i++)
		json_array_append_new(
		        parents, json_pack("{s:o}", "sha", oid_json(git_commit_parent_id(c, i))));
	return json_pack("{s:o, s:o, s:o, s:o, s:{s:o}, s:o}", "sha", oid_json(git_commit_id(c)),
	                 "author", sig_json(git_commit_author(c)), "committer",
	                 sig_json(git_commit_committer(c)), "message",
	                 text_json(msg ? msg : "", msg ? strlen(msg) : 0), "tree", "sha",
	                 oid_json(git_commit_tree_id(c)), "parents", parents);
}

/* Opens the repository and finds an object of that type. */
static int lookup(struct repos *g, const struct store_repo *r, const char *hash, git_object_t type,
                  enum err_code tag, git_repository **repo, git_object **ret, struct err *err)
{
	git_oid id;
	int rc;

	if ((rc = rev_oid(hash, &id, err)) < 0 || (rc = repo_open(g, r, repo, err)) < 0)
		return rc;
	if (git_object_lookup(ret, *repo, &id, type) < 0)
		return err_tag(err, -ENOENT, tag, "there is no %s '%s'",
		               git_object_type2string(type), hash);
	return 0;
}

int repo_commit(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
                struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	int rc = lookup(g, r, hash, GIT_OBJECT_COMMIT, ERR_COMMIT_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	*ret = commit_json((git_commit *)o);
	return 0;
}

json_t *base64_json(const void *p, size_t n)
{
	size_t len = 4 * ((n + 2) / 3);
	char *text = malloc(len + 1);
	json_t *j;

	if (!text)
		return NULL;
	len = (size_t)EVP_EncodeBlock((unsigned char *)text, p, (int)n);
	j = json_stringn_nocheck(text, len);
	free(text);
	return j;
}

int blob_size_check(git_object_size_t n, struct err *err)
{
	if (n <= CONTENT_MAX)
		return 0;
	return err_tag(err, -EFBIG, ERR_GET_CONTENT_FAILED,
	               "the file has %llu bytes, more than the %u of a reply: clone the repository "
	               "instead",
	               (unsigned long long)n, CONTENT_MAX);
}

int repo_blob(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
              struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	git_blob *b;
	int rc = lookup(g, r, hash, GIT_OBJECT_BLOB, ERR_BLOB_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	b = (git_blob *)o;
	if ((rc = blob_size_check(git_blob_rawsize(b), err)) < 0)
		return rc;
	*ret = json_pack("{s:o, s:s, s:o, s:I}", "content",
	                 base64_json(git_blob_rawcontent(b), git_blob_rawsize(b)), "encoding",
	                 "base64", "sha", oid_json(git_object_id(o)), "size",
	                 (json_int_t)git_blob_rawsize(b));
	return 0;
}

int repo_tree(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
              struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	autoodb *odb = NULL;
	json_t *items;
	size_t n, len;
	git_object_t type;
	int rc = lookup(g, r, hash, GIT_OBJECT_TREE, ERR_TREE_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	if ((rc = git_repository_odb(&odb, repo)) < 0)
		return git_fail(rc, "read objects", err);
	items = json_array();
	n = git_tree_entrycount((git_tree *)o);
	for (size_t i = 0; i < n; i++) {
		const git_tree_entry *e = git_tree_entry_byindex((git_tree *)o, i);
		const char *name = git_tree_entry_name(e);
		bool dir = git_tree_entry_type(e) == GIT_OBJECT_TREE;
		json_t *j = json_pack("{s:s, s:o, s:o}", "type", dir ? "tree" : "blob", "path",
		                      text_json(name, strlen(name)), "sha",
		                      oid_json(git_tree_entry_id(e)));

		if (!dir && git_odb_read_header(&len, &type, odb, git_tree_entry_id(e)) < 0)
			len = 0; /* a submodule: its commit is elsewhere */
		if (!dir)
			json_object_set_new(j, "size", json_integer((json_int_t)len));
		json_array_append_new(items, j);
	}
	*ret = json_pack("{s:o, s:o}", "sha", oid_json(git_object_id(o)), "tree", items);
	return 0;
}

static json_t *tag_json(git_tag *t)
{
	const char *msg = git_tag_message(t), *name = git_tag_name(t);

	return json_pack("{s:o, s:o, s:o, s:{s:o}, s:o}", "name", text_json(name, strlen(name)),
	                 "tagger", sig_json(git_tag_tagger(t)), "message",
	                 msg ? text_json(msg, strlen(msg)) : json_null(), "target", "sha",
	                 oid_json(git_tag_target_id(t)), "sha", oid_json(git_tag_id(t)));
}

int repo_tag_object(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
                    struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	int rc = lookup(g, r, hash, GIT_OBJECT_TAG, ERR_TAG_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	*ret = tag_json((git_tag *)o);
	return 0;
}

/* A reference below refs/tags: annotated, or a name for a commit. */
json_t *tag_ref_json(git_repository *repo, git_reference *ref)
{
	const git_oid *id = git_reference_target(ref);
	const char *name = git_reference_shorthand(ref);
	autoobject *o = NULL;
	json_t *j;

	if (!id)
		return NULL;
	if (git_object_lookup(&o, repo, id, GIT_OBJECT_ANY) == 0 &&
	    git_object_type(o) == GIT_OBJECT_TAG) {
		j = tag_json((git_tag *)o);
		json_object_set_new(j, "name", text_json(name, strlen(name)));
		return j;
	}
	return json_pack("{s:o, s:n, s:n, s:{s:o}, s:o}", "name", text_json(name, strlen(name)),
	                 "tagger", "message", "target", "sha", oid_json(id), "sha", oid_json(id));
}
