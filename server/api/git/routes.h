/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/git/routes.h - repositories and what follows a push: /git, and /{repo} for Git itself
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive. No include guard: handlers.h makes the prototypes of it,
 * routes.c the table.
 */
/* clang-format off */

/* repositories */
#define REPO "/git/v1/repo/{repo}"
ROUTE(POST, "/git/v1/repo", SCOPE_ACCOUNT, MIB(64), api_repo_create, ROUTE_MANY,
      "Create a repository; name, public, defaultBranch, source, import")
ROUTE(GET, "/git/v1/repo", SCOPE_SELF, NO_BODY, api_repo_list, 0,
      "List repositories; limit, offset, search")
ROUTE(GET, REPO, SCOPE_GIT_READ, NO_BODY, api_repo_get, 0,
      "Get a repository")
ROUTE(DELETE, REPO, SCOPE_ACCOUNT, NO_BODY, api_repo_delete, 0,
      "Delete a repository with its contents")
ROUTE(GET, REPO "/visibility", SCOPE_GIT_READ, NO_BODY, api_repo_visibility, 0,
      "Get the visibility")
ROUTE(PUT, REPO "/visibility", SCOPE_ACCOUNT, KIB(64), api_repo_set_visibility, 0,
      "Make a repository public or private; visibility")
ROUTE(GET, REPO "/default-branch", SCOPE_GIT_READ, NO_BODY, api_repo_default_branch, 0,
      "Get the default branch")
ROUTE(PUT, REPO "/default-branch", SCOPE_GIT_WRITE, KIB(64), api_repo_set_default_branch, 0,
      "Change the default branch; defaultBranch")
ROUTE(GET, REPO "/contents", SCOPE_GIT_READ, NO_BODY, api_repo_contents, 0,
      "The root directory; rev, recursive")
ROUTE(GET, REPO "/contents/", SCOPE_GIT_READ, NO_BODY, api_repo_contents, 0,
      "The root directory; rev, recursive")
ROUTE(GET, REPO "/contents/{*path}", SCOPE_GIT_READ, NO_BODY, api_repo_contents, 0,
      "A file with its bytes, or a directory; rev, recursive")
ROUTE(GET, REPO "/tarball", SCOPE_GIT_READ, NO_BODY, api_repo_tarball, 0,
      "A revision's files as a tar archive; rev")
ROUTE(GET, REPO "/zip", SCOPE_GIT_READ, NO_BODY, api_repo_zip, 0,
      "A revision's files as a zip archive; rev")
ROUTE(GET, REPO "/git/refs/heads/", SCOPE_GIT_READ, NO_BODY, api_repo_branches, 0,
      "List branches")
ROUTE(GET, REPO "/git/refs/heads", SCOPE_GIT_READ, NO_BODY, api_repo_branches, 0,
      "List branches")
ROUTE(GET, REPO "/git/refs/heads/{*branch}", SCOPE_GIT_READ, NO_BODY, api_repo_branch, 0,
      "Get a branch")
ROUTE(POST, REPO "/git/refs/heads/{*branch}", SCOPE_GIT_WRITE, KIB(64), api_repo_branch_post, 0,
      "Create a branch of that name; sha")
ROUTE(GET, REPO "/branches", SCOPE_GIT_READ, NO_BODY, api_repo_branches, 0,
      "List branches")
ROUTE(POST, REPO "/branches", SCOPE_GIT_WRITE, KIB(64), api_repo_branch_create, 0,
      "Create a branch; name, sha")
ROUTE(GET, REPO "/git/refs/tags/", SCOPE_GIT_READ, NO_BODY, api_repo_tags, 0,
      "List tags")
ROUTE(GET, REPO "/git/refs/tags", SCOPE_GIT_READ, NO_BODY, api_repo_tags, 0,
      "List tags")
ROUTE(GET, REPO "/git/refs/tags/{*tag}", SCOPE_GIT_READ, NO_BODY, api_repo_tag, 0,
      "Get a tag by name")
ROUTE(GET, REPO "/git/tags/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_tag_object, 0,
      "Get an annotated tag by hash")
ROUTE(GET, REPO "/git/blobs/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_blob, 0,
      "Get a blob in base64")
ROUTE(GET, REPO "/git/trees/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_tree, 0,
      "Get a tree")
ROUTE(GET, REPO "/git/commits", SCOPE_GIT_READ, NO_BODY, api_repo_commits, 0,
      "Commits of a branch; branch, limit, offset, order, since, until, disableTotalCount")
ROUTE(POST, REPO "/git/commits", SCOPE_GIT_WRITE, MIB(1), api_repo_commit_object, 0,
      "Create a commit object from a tree and parents; no branch moves")
ROUTE(GET, REPO "/git/commits/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_commit, 0,
      "Get a commit")
ROUTE(POST, REPO "/commits", SCOPE_GIT_WRITE, FILE_BODY, api_repo_commit_create, ROUTE_MANY,
      "Commit changes to files; message, files, branch, author, expectedSha")
ROUTE(GET, REPO "/compare", SCOPE_GIT_READ, NO_BODY, api_repo_compare, 0,
      "How two revisions relate and which files differ; base, head")
ROUTE(GET, REPO "/search", SCOPE_GIT_READ, NO_BODY, api_repo_search, 0,
      "Search in files; query, rev, pathPattern, excludePattern, maxResults, offset, caseSensitive, isRegex, wholeWord, contextLines")
ROUTE(GET, REPO "/search/files", SCOPE_GIT_READ, NO_BODY, api_repo_search_files, 0,
      "Search the names of files")
ROUTE(GET, REPO "/search/commits", SCOPE_GIT_READ, NO_BODY, api_repo_search_commits, 0,
      "Search commit messages")
ROUTE(GET, REPO "/search/diffs", SCOPE_GIT_READ, NO_BODY, api_repo_search_diffs, 0,
      "Search what commits added and removed")

/* triggers: what follows a push */
ROUTE(GET, REPO "/trigger", SCOPE_ACCOUNT, NO_BODY, api_trigger_list, 0,
      "List triggers")
ROUTE(POST, REPO "/trigger", SCOPE_ACCOUNT, KIB(64), api_trigger_create, 0,
      "Create a trigger for pushes; trigger: event, branches, globs; action: webhook and endpoint, or vm, snapshotId and command")
ROUTE(GET, REPO "/trigger/{trigger}", SCOPE_ACCOUNT, NO_BODY, api_trigger_get, 0,
      "Get a trigger")
ROUTE(DELETE, REPO "/trigger/{trigger}", SCOPE_ACCOUNT, NO_BODY, api_trigger_delete, 0,
      "Delete a trigger with its deliveries")
ROUTE(GET, REPO "/trigger/{trigger}/deliveries", SCOPE_ACCOUNT, NO_BODY, api_delivery_list, 0,
      "List deliveries, newest first; limit, offset")
ROUTE(GET, REPO "/trigger/{trigger}/deliveries/{delivery}", SCOPE_ACCOUNT, NO_BODY, api_delivery_get, 0,
      "Get a delivery; for a command, with its output")
ROUTE(POST, REPO "/trigger/{trigger}/deliveries/{delivery}/redeliver", SCOPE_ACCOUNT, NO_BODY, api_delivery_again, 0,
      "Repeat a delivery")
ROUTE(GET, REPO "/git/commits/{hash}/status", SCOPE_GIT_READ, NO_BODY, api_commit_status, 0,
      "Status of a commit, from the commands of triggers")
ROUTE(GET, REPO "/github-sync", SCOPE_ACCOUNT, NO_BODY, api_sync_get, 0,
      "Configuration and state of the mirror; null when there is none")
ROUTE(POST, REPO "/github-sync", SCOPE_ACCOUNT, KIB(64), api_sync_enable, 0,
      "Mirror another repository both ways; githubRepoName or url, token")
ROUTE(DELETE, REPO "/github-sync", SCOPE_ACCOUNT, NO_BODY, api_sync_disable, 0,
      "Stop mirroring")
ROUTE(POST, REPO "/github-sync/run", SCOPE_ACCOUNT, NO_BODY, api_sync_run, 0,
      "Sync now")
ROUTE(POST, "/git/v1/sync-hook/{hook}", SCOPE_PUBLIC, NO_BODY, api_sync_hook, 0,
      "For the other server's webhook: sync now")

/* credentials for other Git servers */
ROUTE(GET, "/git/v1/credentials", SCOPE_ACCOUNT, NO_BODY, api_credential_list, 0,
      "List credentials for other Git servers, without their secrets")
ROUTE(PUT, "/git/v1/credentials", SCOPE_ACCOUNT, KIB(64), api_credential_put, 0,
      "Set the credential for a server; server, and token, or appId, installationId, privateKey and apiUrl of a GitHub App")
ROUTE(DELETE, "/git/v1/credentials", SCOPE_ACCOUNT, NO_BODY, api_credential_delete, 0,
      "Remove the credential for a server; server")
ROUTE(GET, "/.well-known/jwks.json", SCOPE_PUBLIC, NO_BODY, api_jwks, 0,
      "Public keys of webhook signatures")
ROUTE(POST, "/git/v1/signing-keys", SCOPE_ADMIN, NO_BODY, api_signing_rotate, 0,
      "Sign webhooks with a new key; the old one stays published for a week")

/* Git's own protocol, and large files */
ROUTE(GET, "/{repo}/info/refs", SCOPE_GIT_HTTP, NO_BODY, api_git_info_refs, 0,
      "Git: list references; service")
ROUTE(POST, "/{repo}/git-upload-pack", SCOPE_GIT_HTTP, MIB(64), api_git_upload_pack, ROUTE_READS,
      "Git: fetch")
ROUTE_INTAKE(POST, "/{repo}/git-receive-pack", SCOPE_GIT_HTTP, api_git_receive_pack, api_git_push_intake,
      "Git: push")
ROUTE(POST, "/{repo}/info/lfs/objects/batch", SCOPE_GIT_HTTP, MIB(1), api_lfs_batch, ROUTE_READS,
      "Git LFS: where large files are")
ROUTE(GET, "/{repo}/info/lfs/objects/{oid}", SCOPE_GIT_HTTP, NO_BODY, api_lfs_get, 0,
      "Git LFS: a large file")
ROUTE_INTAKE(PUT, "/{repo}/info/lfs/objects/{oid}", SCOPE_GIT_HTTP, api_lfs_put, api_lfs_intake,
      "Git LFS: upload a large file")
#undef REPO
/* clang-format on */
