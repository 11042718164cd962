/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_pack.h - references and packs of repositories that are stored; for git/
 *
 * Only of nodes with an object store. A repository that is stored has all references here, and all
 * that they reach in packs that are whole in the object store ("packs/<id>"). Its owner changes
 * both in one transaction, which raises its version; a pack has the version with which it came. So
 * a copy that was right at version n needs the packs that came later, and the references.
 */
#pragma once

#include "base/id.h"
#include "store/store_git.h"
#include "store/store_object.h"

#define STORE_REF_SIZE 512 /* bytes of a reference's name with the NUL */
#define STORE_SHA_SIZE 41

struct store_ref {
	char name[STORE_REF_SIZE];
	char target[STORE_SHA_SIZE];
};
struct store_refs {
	struct store_ref *v; /* owned; by name */
	size_t n;
	char *head;    /* owned; "refs/heads/main" */
	char *shallow; /* owned; the file of that name, or "" */
};
void store_refs_done(struct store_refs *r);
int store_refs_get(struct store *s, const char *repo, struct store_refs *ret, struct err *err);

struct store_pack {
	char id[ID_SIZE];
	char repo[REPO_ID_SIZE];
	char account[ACCOUNT_SIZE]; /* whose key it is encrypted with */
	char node[ID_SIZE];         /* that uploads it */
	uint64_t bytes;
	uint32_t chunks;
	uint64_t version; /* 0: on its way */
};
#define PACK_ID_PREFIX "gp-"
const char *pack_object_name(const char *id, char buf[STORE_OBJECT_SIZE]);
/* Before its first object is put: from now on there may be some. The node is set. */
int store_pack_begin(struct store *s, const struct store_pack *p, struct err *err);
/* It did not come to be part of a repository: its objects are garbage. */
int store_pack_drop(struct store *s, const char *id, struct err *err);
/* Those that an earlier process of this node left on their way. */
int store_packs_recover(struct store *s, struct err *err);
/* Of the repository, that came after that version, oldest first. Caller frees. */
int store_packs_since(struct store *s, const char *repo, uint64_t version, struct store_pack **ret,
                      size_t *ret_n, struct err *err);

struct store_ref_move {
	const char *name;
	const char *was, *to; /* hashes; all zeros: it is not there, is to go */
};
struct store_repo_write {
	const struct store_repo *repo; /* as its owner knows it: node, epoch and version */
	const char *pack;              /* that is whole, or NULL: nothing new */
	const struct store_ref_move *moves;
	size_t n_moves;
	/* All there is: references and packs of before are replaced; it is stored from then on. */
	bool all;
	/* The pack has all that is reached: those of before are replaced. No new version. */
	bool repack;
	const char *head, *shallow; /* NULL: as before */
};
/*
 * -ESTALE: the lease is over, or the repository is another node's, or has another version by now.
 * -EEXIST with the reference's name: it was not where a move says.
 */
int store_repo_write(struct store *s, const struct store_repo_write *w, uint64_t *ret_version,
                     struct err *err);

/*
 * Becomes this node's, if it is stored and its owner is not alive, or it is nobody's: 0, with the
 * row as it is then. -EAGAIN: its owner is alive, or has what is not stored, large files included.
 */
int store_repo_take(struct store *s, const char *id, struct store_repo *ret, struct err *err);
/* Becomes nobody's. 0: it is not stored, has large files, or is not this node's. */
int store_repo_give_up(struct store *s, const char *id, struct err *err);
/* This node's repositories, by whether they are stored, behind that id. Caller frees. */
int store_repos_own(struct store *s, bool stored, const char *after, unsigned limit,
                    struct store_repo **ret, size_t *ret_n, struct err *err);
/* Its files are what counts again: this node has no object store. */
int store_repo_unstore(struct store *s, const char *id, struct err *err);
