/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/git/routes.h - repositories and what follows a push: /git, and /{repo} for Git itself
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive; the DOC lines below a route describe it, as api/doc/openapi.h
 * says. No include guard: handlers.h makes the prototypes of it, routes.c the table.
 */
/* clang-format off */

/* repositories */
#define REPO "/git/v1/repo/{repo}"
DOC(SECTION, "Repositories")
ROUTE(POST, "/git/v1/repo", SCOPE_ACCOUNT, MIB(64), api_repo_create, ROUTE_MANY,
      "Create a repository")
DOC(BODY, "RepoNew")
DOC(REPLY, "{repoId: string}")
DOC(FAILS, "INVALID_FILE_PATH INVALID_FILE_CHANGE INVALID_BASE64_CONTENT PATH_NOT_FOUND GIT_INVALID_REQUEST GIT_REPO_LIMIT_EXCEEDED SOURCE_IMPORT_CONFLICT SOURCE_UNAUTHORIZED SOURCE_NOT_FOUND IMPORT_SUBDIR_NOT_FOUND")
ROUTE(GET, "/git/v1/repo", SCOPE_SELF, NO_BODY, api_repo_list, 0,
      "List repositories")
DOC(QUERY, "limit?: int, offset?: int, search?: string")
DOC(REPLY, "{repositories: RepositoryItem[], total: int, offset: int}")
ROUTE(GET, REPO, SCOPE_GIT_READ, NO_BODY, api_repo_get, 0,
      "Get a repository")
DOC(REPLY, "Repository")
ROUTE(DELETE, REPO, SCOPE_ACCOUNT, NO_BODY, api_repo_delete, 0,
      "Delete a repository with its contents")
DOC(REPLY, "Empty")
ROUTE(GET, REPO "/visibility", SCOPE_GIT_READ, NO_BODY, api_repo_visibility, 0,
      "Get the visibility")
DOC(REPLY, "{visibility: 'public' | 'private'}")
ROUTE(PUT, REPO "/visibility", SCOPE_ACCOUNT, KIB(64), api_repo_set_visibility, 0,
      "Make a repository public or private")
DOC(BODY, "RepoVisibility")
DOC(REPLY, "Empty")
DOC(FAILS, "GIT_INVALID_REQUEST")
ROUTE(GET, REPO "/default-branch", SCOPE_GIT_READ, NO_BODY, api_repo_default_branch, 0,
      "Get the default branch")
DOC(REPLY, "{defaultBranch: string}")
DOC(FAILS, "NO_DEFAULT_BRANCH")
ROUTE(PUT, REPO "/default-branch", SCOPE_GIT_WRITE, KIB(64), api_repo_set_default_branch, 0,
      "Change the default branch")
DOC(BODY, "RepoDefaultBranch")
DOC(REPLY, "Empty")
DOC(FAILS, "BRANCH_NOT_FOUND GIT_INVALID_REQUEST")
ROUTE(GET, REPO "/contents", SCOPE_GIT_READ, NO_BODY, api_repo_contents, 0,
      "The root directory")
DOC(ID, "repoRoot")
DOC(QUERY, "rev?: string =branch, tag or commit; the default branch if left out=, ref?: string =older name of rev=, recursive?: bool")
DOC(REPLY, "ContentEntry")
DOC(FAILS, "COMMIT_NOT_FOUND REFERENCE_NOT_FOUND CONTENT_NOT_FOUND PATH_NOT_FOUND INVALID_REVISION GET_CONTENT_FAILED NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/contents/", SCOPE_GIT_READ, NO_BODY, api_repo_contents, ROUTE_ALIAS,
      "The root directory")
ROUTE(GET, REPO "/contents/{*path}", SCOPE_GIT_READ, NO_BODY, api_repo_contents, 0,
      "A file with its bytes, or a directory")
DOC(QUERY, "rev?: string =branch, tag or commit; the default branch if left out=, ref?: string =older name of rev=, recursive?: bool")
DOC(REPLY, "ContentEntry")
DOC(FAILS, "COMMIT_NOT_FOUND REFERENCE_NOT_FOUND CONTENT_NOT_FOUND PATH_NOT_FOUND INVALID_REVISION GET_CONTENT_FAILED NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/tarball", SCOPE_GIT_READ, NO_BODY, api_repo_tarball, 0,
      "A revision's files as a tar archive")
DOC(QUERY, "rev?: string =branch, tag or commit; the default branch if left out=, ref?: string =older name of rev=")
DOC(SENDS, "application/x-tar")
DOC(FAILS, "COMMIT_NOT_FOUND REFERENCE_NOT_FOUND INVALID_REVISION NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/zip", SCOPE_GIT_READ, NO_BODY, api_repo_zip, 0,
      "A revision's files as a zip archive")
DOC(QUERY, "rev?: string =branch, tag or commit; the default branch if left out=, ref?: string =older name of rev=")
DOC(SENDS, "application/zip")
DOC(FAILS, "COMMIT_NOT_FOUND REFERENCE_NOT_FOUND INVALID_REVISION NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/git/refs/heads/", SCOPE_GIT_READ, NO_BODY, api_repo_branches, ROUTE_ALIAS,
      "List branches")
ROUTE(GET, REPO "/git/refs/heads", SCOPE_GIT_READ, NO_BODY, api_repo_branches, ROUTE_ALIAS,
      "List branches")
ROUTE(GET, REPO "/git/refs/heads/{*branch}", SCOPE_GIT_READ, NO_BODY, api_repo_branch, 0,
      "Get a branch")
DOC(REPLY, "Branch")
DOC(FAILS, "BRANCH_NOT_FOUND GIT_INVALID_REQUEST BRANCH_NAME_EMPTY")
ROUTE(POST, REPO "/git/refs/heads/{*branch}", SCOPE_GIT_WRITE, KIB(64), api_repo_branch_post, 0,
      "Create a branch of that name")
DOC(BODY, "BranchNew")
DOC(REPLY, "Branch")
DOC(FAILS, "BRANCH_ALREADY_EXISTS BRANCH_NAME_EMPTY GIT_INVALID_REQUEST REFERENCE_NOT_FOUND COMMIT_NOT_FOUND NO_DEFAULT_BRANCH INVALID_REVISION")
ROUTE(GET, REPO "/branches", SCOPE_GIT_READ, NO_BODY, api_repo_branches, 0,
      "List branches")
DOC(REPLY, "{branches: {name: string, commit: string | null}[]}")
ROUTE(POST, REPO "/branches", SCOPE_GIT_WRITE, KIB(64), api_repo_branch_create, 0,
      "Create a branch")
DOC(BODY, "BranchNew")
DOC(REPLY, "Branch")
DOC(FAILS, "BRANCH_ALREADY_EXISTS BRANCH_NAME_EMPTY GIT_INVALID_REQUEST REFERENCE_NOT_FOUND COMMIT_NOT_FOUND NO_DEFAULT_BRANCH INVALID_REVISION")
ROUTE(GET, REPO "/git/refs/tags/", SCOPE_GIT_READ, NO_BODY, api_repo_tags, ROUTE_ALIAS,
      "List tags")
ROUTE(GET, REPO "/git/refs/tags", SCOPE_GIT_READ, NO_BODY, api_repo_tags, 0,
      "List tags")
DOC(REPLY, "{tags: GitTag[]}")
ROUTE(GET, REPO "/git/refs/tags/{*tag}", SCOPE_GIT_READ, NO_BODY, api_repo_tag, 0,
      "Get a tag by name")
DOC(REPLY, "GitTag")
DOC(FAILS, "TAG_NOT_FOUND REFERENCE_NOT_FOUND EMPTY_TAG")
ROUTE(GET, REPO "/git/tags/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_tag_object, 0,
      "Get an annotated tag by hash")
DOC(REPLY, "GitTag")
DOC(FAILS, "TAG_NOT_FOUND")
ROUTE(GET, REPO "/git/blobs/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_blob, 0,
      "Get a blob in base64")
DOC(REPLY, "{content: bytes, encoding: 'base64', sha: string, size: int}")
DOC(FAILS, "BLOB_NOT_FOUND GET_CONTENT_FAILED")
ROUTE(GET, REPO "/git/trees/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_tree, 0,
      "Get a tree")
DOC(REPLY, "{sha: string, tree: {type: 'tree' | 'blob', path: string, sha: string, size?: int}[]}")
DOC(FAILS, "TREE_NOT_FOUND")
ROUTE(GET, REPO "/git/commits", SCOPE_GIT_READ, NO_BODY, api_repo_commits, 0,
      "Commits of a branch")
DOC(QUERY, "branch?: string, limit?: int, offset?: int, order?: 'asc' | 'desc', since?: string, until?: string, disableTotalCount?: bool")
DOC(REPLY, "{commits: Commit[], count: int, limit: int, order: 'asc' | 'desc', offset: int | null, total: int | null, selector: {Range: {since: "
    "string, until: string}} | {Since: {since: string}} | {Until: {until: string}} | null, next_commit: "
    "string | null}")
DOC(FAILS, "BRANCH_NOT_FOUND NO_DEFAULT_BRANCH COMMIT_NOT_FOUND COMMIT_NOT_IN_BRANCH OFFSET_WITH_SELECTOR INVALID_RANGE INVALID_REVISION")
ROUTE(POST, REPO "/git/commits", SCOPE_GIT_WRITE, MIB(1), api_repo_commit_object, 0,
      "Create a commit object from a tree and parents; no branch moves")
DOC(BODY, "CommitObjectNew")
DOC(REPLY, "{commit: Commit}")
DOC(FAILS, "GIT_INVALID_REQUEST TREE_NOT_FOUND PARENT_NOT_FOUND")
ROUTE(GET, REPO "/git/commits/{hash}", SCOPE_GIT_READ, NO_BODY, api_repo_commit, 0,
      "Get a commit")
DOC(REPLY, "Commit")
DOC(FAILS, "COMMIT_NOT_FOUND")
ROUTE(POST, REPO "/commits", SCOPE_GIT_WRITE, FILE_BODY, api_repo_commit_create, ROUTE_MANY,
      "Commit changes to files")
DOC(BODY, "CommitNew")
DOC(REPLY, "{commit: Commit}")
DOC(FAILS, "PATH_NOT_FOUND COMMIT_NOT_FOUND GIT_INVALID_REQUEST INVALID_FILE_CHANGE INVALID_FILE_PATH INVALID_BASE64_CONTENT CONFLICTING_PARENT BRANCH_NOT_FOUND "
    "GIT_REPO_LIMIT_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED")
ROUTE(GET, REPO "/compare", SCOPE_GIT_READ, NO_BODY, api_repo_compare, 0,
      "How two revisions relate and which files differ")
DOC(QUERY, "base: string, head: string")
DOC(REPLY, "{status: string, ahead_by: int, behind_by: int, total_commits: int, files: {sha: string | null, filename: string, status: string, "
    "additions: int, deletions: int, changes: int, previous_filename: string | null}[]}")
DOC(FAILS, "REFERENCE_NOT_FOUND COMMIT_NOT_FOUND GIT_INVALID_REQUEST INVALID_REVISION")
ROUTE(GET, REPO "/search", SCOPE_GIT_READ, NO_BODY, api_repo_search, 0,
      "Search in files")
DOC(QUERY, "query: string, rev?: string, ref?: string =older name of rev=, pathPattern?: string, excludePattern?: string, maxResults?: int, offset?: "
    "int, contextLines?: int<0..20>, caseSensitive?: bool, isRegex?: bool, wholeWord?: bool")
DOC(REPLY, "{totalFiles: int, totalMatches: int, hasMore: bool, files: (FoundFile & {matches: FoundLine[]})[]}")
DOC(FAILS, "EMPTY_QUERY INVALID_REGEX INVALID_PATH_PATTERN REFERENCE_NOT_FOUND NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/search/files", SCOPE_GIT_READ, NO_BODY, api_repo_search_files, 0,
      "Search the names of files")
DOC(QUERY, "query: string, rev?: string, ref?: string =older name of rev=, pathPattern?: string, excludePattern?: string, maxResults?: int, offset?: "
    "int, contextLines?: int<0..20>, caseSensitive?: bool, isRegex?: bool, wholeWord?: bool")
DOC(REPLY, "{totalFiles: int, hasMore: bool, files: FoundFile[]}")
DOC(FAILS, "FILENAME_EMPTY_QUERY FILENAME_INVALID_PATTERN INVALID_REGEX REFERENCE_NOT_FOUND NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/search/commits", SCOPE_GIT_READ, NO_BODY, api_repo_search_commits, 0,
      "Search commit messages")
DOC(QUERY, "query: string, rev?: string, ref?: string =older name of rev=, pathPattern?: string, excludePattern?: string, maxResults?: int, offset?: "
    "int, contextLines?: int<0..20>, caseSensitive?: bool, isRegex?: bool, wholeWord?: bool")
DOC(REPLY, "{totalCommits: int, hasMore: bool, commits: (FoundCommit & {fullMessage: string})[]}")
DOC(FAILS, "COMMIT_EMPTY_QUERY COMMIT_INVALID_REGEX REFERENCE_NOT_FOUND NO_DEFAULT_BRANCH")
ROUTE(GET, REPO "/search/diffs", SCOPE_GIT_READ, NO_BODY, api_repo_search_diffs, 0,
      "Search what commits added and removed")
DOC(QUERY, "query: string, rev?: string, ref?: string =older name of rev=, pathPattern?: string, excludePattern?: string, maxResults?: int, offset?: "
    "int, contextLines?: int<0..20>, caseSensitive?: bool, isRegex?: bool, wholeWord?: bool")
DOC(REPLY, "{totalCommits: int, hasMore: bool, commits: (FoundCommit & {files: {path: string | null, matches: {line: string, lineNumber: int, startColumn: "
    "int, endColumn: int, isAddition: bool}[]}[]})[]}")
DOC(FAILS, "DIFF_EMPTY_QUERY DIFF_INVALID_REGEX DIFF_INVALID_PATH_PATTERN REFERENCE_NOT_FOUND NO_DEFAULT_BRANCH")

/* triggers: what follows a push */
DOC(SECTION, "Triggers")
ROUTE(GET, REPO "/trigger", SCOPE_ACCOUNT, NO_BODY, api_trigger_list, 0,
      "List triggers")
DOC(REPLY, "{triggers: Trigger[]}")
ROUTE(POST, REPO "/trigger", SCOPE_ACCOUNT, KIB(64), api_trigger_create, 0,
      "Create a trigger for pushes, branches or tags: a webhook, or a command in a VM")
DOC(BODY, "TriggerNew")
DOC(REPLY, "{triggerId: string}")
DOC(FAILS, "GIT_INVALID_REQUEST SNAPSHOT_NOT_FOUND")
ROUTE(GET, REPO "/trigger/{trigger}", SCOPE_ACCOUNT, NO_BODY, api_trigger_get, 0,
      "Get a trigger")
DOC(REPLY, "Trigger")
DOC(FAILS, "NOT_FOUND")
ROUTE(DELETE, REPO "/trigger/{trigger}", SCOPE_ACCOUNT, NO_BODY, api_trigger_delete, 0,
      "Delete a trigger with its deliveries")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, REPO "/trigger/{trigger}/deliveries", SCOPE_ACCOUNT, NO_BODY, api_delivery_list, 0,
      "List deliveries, newest first")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{deliveries: Delivery[]}")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, REPO "/trigger/{trigger}/deliveries/{delivery}", SCOPE_ACCOUNT, NO_BODY, api_delivery_get, 0,
      "Get a delivery; for a command, with its output")
DOC(REPLY, "Delivery")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, REPO "/trigger/{trigger}/deliveries/{delivery}/redeliver", SCOPE_ACCOUNT, NO_BODY, api_delivery_again, 0,
      "Repeat a delivery")
DOC(REPLY, "Delivery")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(GET, REPO "/git/commits/{hash}/status", SCOPE_GIT_READ, NO_BODY, api_commit_status, 0,
      "Status of a commit, from the commands of triggers")
DOC(REPLY, "{commit: string, state: string | null, runs: Delivery[]}")
DOC(FAILS, "COMMIT_NOT_FOUND")
DOC(SECTION, "Mirrors")
ROUTE(GET, REPO "/github-sync", SCOPE_ACCOUNT, NO_BODY, api_sync_get, 0,
      "Configuration and state of the mirror; null when there is none")
DOC(REPLY, "GitSync | null")
ROUTE(POST, REPO "/github-sync", SCOPE_ACCOUNT, KIB(64), api_sync_enable, 0,
      "Mirror another repository both ways")
DOC(BODY, "SyncNew")
DOC(REPLY, "Empty")
DOC(FAILS, "GIT_INVALID_REQUEST CONFLICT")
ROUTE(DELETE, REPO "/github-sync", SCOPE_ACCOUNT, NO_BODY, api_sync_disable, 0,
      "Stop mirroring")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, REPO "/github-sync/run", SCOPE_ACCOUNT, NO_BODY, api_sync_run, 0,
      "Sync now")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND GIT_HUB_SYNC_FAILED")
ROUTE(POST, "/git/v1/sync-hook/{hook}", SCOPE_PUBLIC, NO_BODY, api_sync_hook, 0,
      "For the other server's webhook: sync now")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")

/* GitHub Apps */
#define HUB "/git/v1/github"
DOC(SECTION, "GitHub Apps")
ROUTE(GET, HUB "/apps", SCOPE_ACCOUNT, NO_BODY, api_github_apps, 0,
      "List the account's GitHub Apps and the shared ones, without their secrets")
DOC(REPLY, "{apps: GithubApp[]}")
ROUTE(POST, HUB "/apps", SCOPE_ACCOUNT, KIB(64), api_github_app_add, 0,
      "Add a GitHub App that exists; GitHub is asked whether the values are right")
DOC(BODY, "GithubAppNew")
DOC(REPLY, "GithubApp")
DOC(FAILS, "GIT_INVALID_REQUEST GIT_HUB_SYNC_FAILED FORBIDDEN LIMIT_EXCEEDED")
ROUTE(POST, HUB "/apps/manifest", SCOPE_ACCOUNT, KIB(64), api_github_manifest, 0,
      "A link with which a browser makes a new GitHub App for this account; valid for an hour")
DOC(BODY, "GithubManifest")
DOC(REPLY, "GithubLink")
DOC(FAILS, "GIT_INVALID_REQUEST FORBIDDEN LIMIT_EXCEEDED")
ROUTE(DELETE, HUB "/apps/{app}", SCOPE_ACCOUNT, NO_BODY, api_github_app_delete, 0,
      "Forget a GitHub App with its installations; on GitHub it stays")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, HUB "/apps/{app}/install", SCOPE_ACCOUNT, KIB(64), api_github_install, 0,
      "A link with which a browser installs the App for this account, once; valid for a week")
DOC(BODY, "GithubInstall")
DOC(REPLY, "GithubLink")
DOC(FAILS, "NOT_FOUND GIT_INVALID_REQUEST LIMIT_EXCEEDED")
ROUTE(GET, HUB "/installations", SCOPE_ACCOUNT, NO_BODY, api_github_installations, 0,
      "List the account's installations")
DOC(REPLY, "{installations: GithubInstallation[]}")
ROUTE(POST, HUB "/installations", SCOPE_ACCOUNT, KIB(64), api_github_adopt, 0,
      "Add an installation of the account's own App that was made without a link")
DOC(BODY, "GithubAdopt")
DOC(REPLY, "GithubInstallation")
DOC(FAILS, "NOT_FOUND GIT_INVALID_REQUEST CONFLICT LIMIT_EXCEEDED GIT_HUB_SYNC_FAILED")
ROUTE(GET, HUB "/installations/{installation}/repositories", SCOPE_ACCOUNT, NO_BODY, api_github_repositories, 0,
      "Repositories that an installation reaches")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{repositories: string[]}")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, HUB "/installations/{installation}/refresh", SCOPE_ACCOUNT, NO_BODY, api_github_refresh, 0,
      "Ask GitHub soon what the installation is now, as its webhook does")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")
ROUTE(DELETE, HUB "/installations/{installation}", SCOPE_ACCOUNT, NO_BODY, api_github_forget, 0,
      "Forget an installation; with uninstall, on GitHub too")
DOC(QUERY, "uninstall?: bool")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND GIT_HUB_SYNC_FAILED")
ROUTE(POST, HUB "/webhook/{app}", SCOPE_PUBLIC, MIB(1), api_github_webhook, ROUTE_MANY,
      "For GitHub: the App's webhook, with X-Hub-Signature-256")
DOC(BODY_TYPE, "application/json")
DOC(REPLY, "Empty")
DOC(FAILS, "GIT_INVALID_REQUEST UNAUTHORIZED LIMIT_EXCEEDED")
DOC(SECTION, NULL)
ROUTE(GET, HUB "/start", SCOPE_PUBLIC, NO_BODY, api_github_start, 0,
      "For browsers: the page of a link")
ROUTE(GET, HUB "/created", SCOPE_PUBLIC, NO_BODY, api_github_created, 0,
      "For browsers: GitHub has made the App")
ROUTE(GET, HUB "/installed", SCOPE_PUBLIC, NO_BODY, api_github_installed, 0,
      "For browsers: the App was installed")
#undef HUB

/* credentials for other Git servers */
DOC(SECTION, "Credentials and keys")
ROUTE(GET, "/git/v1/credentials", SCOPE_ACCOUNT, NO_BODY, api_credential_list, 0,
      "List credentials for other Git servers, without their secrets")
DOC(REPLY, "{credentials: Credential[]}")
ROUTE(PUT, "/git/v1/credentials", SCOPE_ACCOUNT, KIB(64), api_credential_put, 0,
      "Set the credential for a server: a token, or a GitHub App")
DOC(BODY, "CredentialNew")
DOC(REPLY, "Credential")
DOC(FAILS, "GIT_INVALID_REQUEST")
ROUTE(DELETE, "/git/v1/credentials", SCOPE_ACCOUNT, NO_BODY, api_credential_delete, 0,
      "Remove the credential for a server")
DOC(QUERY, "server: string")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND GIT_INVALID_REQUEST")
ROUTE(GET, "/.well-known/jwks.json", SCOPE_PUBLIC, NO_BODY, api_jwks, 0,
      "Public keys of webhook signatures")
DOC(REPLY, "{keys: {kty: string, crv: string, x: string, kid: string, alg: string, use: string}[]}")
ROUTE(POST, "/git/v1/signing-keys", SCOPE_ADMIN, NO_BODY, api_signing_rotate, 0,
      "Sign webhooks with a new key; the old one stays published for a week")
DOC(REPLY, "{kid: string}")

/* Git's own protocol, and large files */
DOC(SECTION, "Git protocol")
ROUTE(GET, "/{repo}/info/refs", SCOPE_GIT_HTTP, NO_BODY, api_git_info_refs, 0,
      "Git: list references")
DOC(QUERY, "service: 'git-upload-pack' | 'git-receive-pack'")
DOC(SENDS, "application/x-git-upload-pack-advertisement")
DOC(FAILS, "EXPECTED_SERVICE INVALID_SERVICE")
ROUTE(POST, "/{repo}/git-upload-pack", SCOPE_GIT_HTTP, MIB(64), api_git_upload_pack, ROUTE_READS,
      "Git: fetch")
DOC(BODY_TYPE, "application/x-git-upload-pack-request")
DOC(SENDS, "application/x-git-upload-pack-result")
ROUTE_INTAKE(POST, "/{repo}/git-receive-pack", SCOPE_GIT_HTTP, api_git_receive_pack, api_git_push_intake,
      "Git: push")
DOC(BODY_TYPE, "application/x-git-receive-pack-request")
DOC(SENDS, "application/x-git-receive-pack-result")
DOC(FAILS, "GIT_REPO_LIMIT_EXCEEDED")
ROUTE(POST, "/{repo}/info/lfs/objects/batch", SCOPE_GIT_HTTP, MIB(1), api_lfs_batch, ROUTE_READS,
      "Git LFS: where large files are")
DOC(BODY_TYPE, "application/vnd.git-lfs+json")
DOC(REPLY, "{transfer: string, objects: {oid: string, size: int, authenticated?: bool, actions?: {upload?: LfsAction, download?: LfsAction}, error?: "
    "{code: int, message: string}}[], hash_algo: string}")
DOC(FAILS, "GIT_INVALID_REQUEST UNSUPPORTED_TRANSFER")
ROUTE(GET, "/{repo}/info/lfs/objects/{oid}", SCOPE_GIT_HTTP, NO_BODY, api_lfs_get, 0,
      "Git LFS: a large file")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, "CONTENT_NOT_FOUND INVALID_OBJECT_ID NOT_FOUND")
ROUTE_INTAKE(PUT, "/{repo}/info/lfs/objects/{oid}", SCOPE_GIT_HTTP, api_lfs_put, api_lfs_intake,
      "Git LFS: upload a large file")
DOC(BODY_TYPE, "application/octet-stream")
DOC(REPLY, "Empty")
DOC(FAILS, "INVALID_OBJECT_ID GIT_INVALID_REQUEST GIT_REPO_LIMIT_EXCEEDED")
#undef REPO
/* clang-format on */
