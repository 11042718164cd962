/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/account/routes.h - accounts, keys, identities, permissions, the server itself: /v1/accounts,
 * /v1/keys, /v1/audit, /identity, /auth, /observability, /v1/health
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive. No include guard: handlers.h makes the prototypes from it,
 * routes.c the table.
 */
/* clang-format off */
ROUTE(GET, "/v1/health", SCOPE_PUBLIC, NO_BODY, api_health, 0,
      "State of the server: version, accelerator, template")
ROUTE(GET, "/healthz", SCOPE_PUBLIC, NO_BODY, api_healthz, 0,
      "The process answers")
ROUTE(GET, "/readyz", SCOPE_PUBLIC, NO_BODY, api_readyz, 0,
      "VMs can be created; 503 with the reasons if not")
/* also with PANDO_METRICS_KEY: watchers.c */
ROUTE(GET, "/metrics", SCOPE_ADMIN, NO_BODY, api_metrics, 0,
      "Metrics as Prometheus' text, or OpenMetrics")
ROUTE(GET, "/v1/host", SCOPE_ADMIN, NO_BODY, api_host, 0,
      "Load, memory, disk, VMs and pool of the host, and what is wrong")
ROUTE(GET, "/v1/host/history", SCOPE_ADMIN, NO_BODY, api_host_history, 0,
      "The last hour of the host")
ROUTE(GET, "/v1/host/latency", SCOPE_ADMIN, NO_BODY, api_host_latency, 0,
      "How long creates, forks, resumes and other operations took since the server started")
ROUTE(GET, "/auth/v1/whoami", SCOPE_SELF, NO_BODY, api_whoami, 0,
      "The account, and the identity, behind the key or token")
/* its handler is in api/background.c */
ROUTE(GET, "/auth/v1/background-requests/{request_id}", SCOPE_ACCOUNT, NO_BODY, api_background_get, 0,
      "Result of a background request; 202 while it is running")
ROUTE(GET, "/observability/v1/logs", SCOPE_ACCOUNT, NO_BODY, api_logs, 0,
      "Logs of VMs, builds and requests; vmId, buildId, requestId, vmService, search, startTime, endTime, pageSize, pageToken; domain or source=access: requests by name")

/* web sessions */
ROUTE(POST, "/v1/session", SCOPE_PUBLIC, KIB(4), api_session_open, 0,
      "Sign in with a browser: credential (API key or access token) becomes a cookie")
ROUTE(GET, "/v1/session", SCOPE_SELF, NO_BODY, api_session_get, 0,
      "Who is signed in, until when, and the token for x-pando-csrf")
ROUTE(DELETE, "/v1/session", SCOPE_SELF, NO_BODY, api_session_end, 0,
      "Sign out")
ROUTE(PUT, "/v1/session/account", SCOPE_SELF, KIB(4), api_session_act, 0,
      "Act as another account, or null: as the own one again; accountId (operator)")
ROUTE(GET, "/v1/sessions", SCOPE_SELF, NO_BODY, api_session_list, 0,
      "List the web sessions of the account's keys, or of the identity")
ROUTE(DELETE, "/v1/sessions", SCOPE_SELF, NO_BODY, api_session_end_all, 0,
      "Sign out everywhere: end all of these sessions")

/* programs that ask for a key, and a person who confirms it */
ROUTE(POST, "/v1/login-requests", SCOPE_PUBLIC, KIB(4), api_login_begin, 0,
      "Ask for an API key that a person confirms in the dashboard; client")
ROUTE(POST, "/v1/login-requests/{login_id}/poll", SCOPE_PUBLIC, KIB(4), api_login_poll, 0,
      "The API key, once, when it was confirmed; 202 before; secret")
ROUTE(GET, "/v1/login-requests/by-code/{code}", SCOPE_ACCOUNT, NO_BODY, api_login_get, 0,
      "What asks for a key, from where and since when; with a session")
ROUTE(POST, "/v1/login-requests/by-code/{code}/confirm", SCOPE_ACCOUNT, NO_BODY, api_login_confirm, 0,
      "Give it a key of this account; with a session")
ROUTE(POST, "/v1/login-requests/by-code/{code}/deny", SCOPE_ACCOUNT, NO_BODY, api_login_deny, 0,
      "Give it none; with a session")
/* the same as the freestyle CLI asks for it, and its requests when it is logged in */
ROUTE(POST, "/api/v1/auth/cli", SCOPE_PUBLIC, KIB(4), api_freestyle_cli, 0,
      "freestyle login: begin")
ROUTE(POST, "/api/v1/auth/cli/poll", SCOPE_PUBLIC, KIB(4), api_freestyle_poll, 0,
      "freestyle login: was it confirmed? polling_code")
ROUTE(POST, "/api/v1/auth/sessions/current/refresh", SCOPE_PUBLIC, KIB(4), api_freestyle_refresh, 0,
      "freestyle login: an access token for the refresh token in x-stack-refresh-token")
ROUTE(POST, "/api/cli/teams", SCOPE_PUBLIC, KIB(4), api_freestyle_teams, 0,
      "freestyle login: the account, as the one team")
ROUTE(POST, "/api/proxy/request", SCOPE_PUBLIC, SPEC_BODY, api_freestyle_proxy, ROUTE_NO_TRAIL,
      "A request of the freestyle CLI that is logged in; data: accessToken, teamId, path, method, headers, body")
ROUTE(GET, "/handler/cli-auth-confirm", SCOPE_PUBLIC, NO_BODY, api_freestyle_page, 0,
      "The page that freestyle login opens: leads to the dashboard; login_code")

/* its format is in docs/EVENTS.md */
ROUTE(GET, "/v1/events", SCOPE_SELF, NO_BODY, api_events, 0,
      "Follow what happens, as server-sent events; after (or Last-Event-ID), types, follow")

/* accounts, keys, audit log */
ROUTE(POST, "/v1/accounts", SCOPE_ADMIN, KIB(64), api_account_create, 0,
      "Create an account; name, quotas")
ROUTE(GET, "/v1/accounts", SCOPE_ADMIN, NO_BODY, api_account_list, 0,
      "List accounts")
ROUTE(GET, "/v1/accounts/{account_id}", SCOPE_ADMIN, NO_BODY, api_account_get, 0,
      "Get an account with its limits and usage")
ROUTE(PATCH, "/v1/accounts/{account_id}", SCOPE_ADMIN, KIB(64), api_account_update, 0,
      "Change name and quotas of an account")
ROUTE(DELETE, "/v1/accounts/{account_id}", SCOPE_ADMIN, NO_BODY, api_account_delete, 0,
      "Delete an account that has no VMs or snapshots")
ROUTE(POST, "/v1/keys", SCOPE_ACCOUNT, KIB(64), api_key_create, 0,
      "Create an API key, shown once; name, accountId (operator)")
ROUTE(GET, "/v1/keys", SCOPE_ACCOUNT, NO_BODY, api_key_list, 0,
      "List API keys without their secrets; accountId (operator)")
ROUTE(DELETE, "/v1/keys/{key_id}", SCOPE_ACCOUNT, NO_BODY, api_key_revoke, 0,
      "Revoke an API key at once; accountId (operator)")
ROUTE(POST, "/v1/backups", SCOPE_ADMIN, NO_BODY, api_backup_begin, 0,
      "Prepare a backup on the server's disk; running VMs are frozen and go on")
ROUTE(DELETE, "/v1/backups/{backup_id}", SCOPE_ADMIN, NO_BODY, api_backup_end, 0,
      "Remove what a backup prepared")
ROUTE(POST, "/v1/secrets/rotate", SCOPE_ADMIN, NO_BODY, api_secrets_rotate, 0,
      "Seal all secrets of the server with a new key")
ROUTE(GET, "/v1/audit", SCOPE_ACCOUNT, NO_BODY, api_audit, 0,
      "Read the audit log; limit, before, after, action, target, accountId (operator)")

/* webhooks */
ROUTE(POST, "/v1/webhooks", SCOPE_ACCOUNT, KIB(64), api_webhook_create, 0,
      "Create a webhook for events of VMs, snapshots and builds; url, events, vmId, tags, metadata, secret, enabled")
ROUTE(GET, "/v1/webhooks", SCOPE_ACCOUNT, NO_BODY, api_webhook_list, 0,
      "List webhooks")
#define WEBHOOK "/v1/webhooks/{webhook}"
ROUTE(GET, WEBHOOK, SCOPE_ACCOUNT, NO_BODY, api_webhook_get, 0,
      "Get a webhook")
ROUTE(PATCH, WEBHOOK, SCOPE_ACCOUNT, KIB(64), api_webhook_change, 0,
      "Change a webhook; members as on create")
ROUTE(DELETE, WEBHOOK, SCOPE_ACCOUNT, NO_BODY, api_webhook_delete, 0,
      "Delete a webhook with its deliveries")
ROUTE(POST, WEBHOOK "/test", SCOPE_ACCOUNT, NO_BODY, api_webhook_test, 0,
      "Send an event of the type test")
ROUTE(GET, WEBHOOK "/deliveries", SCOPE_ACCOUNT, NO_BODY, api_webhook_deliveries, 0,
      "Deliveries of a webhook, newest first; limit, offset")
ROUTE(GET, WEBHOOK "/deliveries/{delivery}", SCOPE_ACCOUNT, NO_BODY, api_webhook_delivery, 0,
      "A delivery with its event")
ROUTE(POST, WEBHOOK "/deliveries/{delivery}/redeliver", SCOPE_ACCOUNT, NO_BODY, api_webhook_redeliver, 0,
      "Deliver an event again")
#undef WEBHOOK

/* identities, tokens, permissions */
#define IDENTITY "/identity/v1/identities/{identity}"
ROUTE(GET, "/identity/v1/identities", SCOPE_ACCOUNT, NO_BODY, api_identity_list, 0,
      "List identities; limit, offset")
ROUTE(POST, "/identity/v1/identities", SCOPE_ACCOUNT, NO_BODY, api_identity_create, 0,
      "Create an identity")
ROUTE(DELETE, IDENTITY, SCOPE_ACCOUNT, NO_BODY, api_identity_delete, 0,
      "Delete an identity with its tokens and permissions")
ROUTE(GET, IDENTITY "/tokens", SCOPE_ACCOUNT, NO_BODY, api_token_list, 0,
      "List tokens by id")
ROUTE(POST, IDENTITY "/tokens", SCOPE_ACCOUNT, NO_BODY, api_token_create, 0,
      "Create an access token, shown once")
ROUTE(DELETE, IDENTITY "/tokens/{token_id}", SCOPE_ACCOUNT, NO_BODY, api_token_revoke, 0,
      "Revoke a token at once")
ROUTE(GET, IDENTITY "/permissions/vm", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_list, 0,
      "List the VMs an identity may use; limit, offset")
ROUTE(GET, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_get, 0,
      "Get a permission")
ROUTE(POST, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, KIB(64), api_vm_perm_grant, 0,
      "Let an identity use a VM; allowedUsers")
ROUTE(PUT, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, KIB(64), api_vm_perm_update, 0,
      "Change the Linux users of a permission; allowedUsers")
ROUTE(DELETE, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_revoke, 0,
      "Revoke a permission at once")
ROUTE(GET, IDENTITY "/permissions/git", SCOPE_ACCOUNT, NO_BODY, api_git_perm_list, 0,
      "List the repositories an identity may use; limit, offset")
ROUTE(GET, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, NO_BODY, api_git_perm_get, 0,
      "Get a permission on a repository")
ROUTE(POST, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, KIB(64), api_git_perm_grant, 0,
      "Let an identity use a repository; permission")
ROUTE(PUT, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, KIB(64), api_git_perm_update, 0,
      "Change a permission on a repository; permission")
ROUTE(DELETE, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, NO_BODY, api_git_perm_revoke, 0,
      "Revoke a permission on a repository")
#undef IDENTITY
/* clang-format on */
