/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/account/routes.h - accounts, keys, identities, permissions, the server itself: /v1/accounts,
 * /v1/keys, /v1/audit, /identity, /auth, /observability, /v1/health
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive; the DOC lines below a route describe it, as api/doc/openapi.h
 * says. No include guard: handlers.h makes the prototypes from it, routes.c the table.
 */
/* clang-format off */
DOC(SECTION, "Server")
ROUTE(GET, "/v1/health", SCOPE_PUBLIC, NO_BODY, api_health, 0,
      "State of the server: version, accelerator, template")
DOC(REPLY, "{status: string, version: string, accel: string, accelWhy: string | null, template: {state: string, note: string | null}, qemuVersion: "
    "string | null, limits: string, running: int, defaultVm: VmSizing, pool: {ready: int, memoryMb: int, given: int, missed: int, "
    "processes: int, seed: 'off' | 'making' | 'ready', forked: int}, ssh: {listen: string, connections: int, channels: int} | null, edge: {running: bool, starts: int, open: int, connections: int, "
    "requests: int, refused: int, woken: int, accessLinesLost: int} | null, sizes: {vcpuCount: int, memSizeMib: int, state: string, ahead: bool, "
    "diskMb: int, note: string | null}[], objects: {state: string, pending: int, pendingMb: int, garbage: int, cacheMb: int} | null, "
    "walls: string | null}")
ROUTE(GET, "/openapi.json", SCOPE_PUBLIC, NO_BODY, api_openapi, 0, /* its handler is in api/doc/serve.c */
      "This description of the API")
DOC(HEADER, "If-None-Match?: string")
DOC(REPLY, "{openapi: string, info: {title: string, version: string, *: any}, paths: {*: any}, components: {*: any}, *: any}")
ROUTE(GET, "/healthz", SCOPE_PUBLIC, NO_BODY, api_healthz, 0,
      "The process answers")
DOC(REPLY, "{status: string}")
ROUTE(GET, "/readyz", SCOPE_PUBLIC, NO_BODY, api_readyz, 0,
      "VMs can be created; 503 with the reasons if not")
DOC(REPLY, "{status: string}")
DOC(FAILS, "SERVICE_UNAVAILABLE")
/* also with PANDO_METRICS_KEY: watchers.c */
ROUTE(GET, "/metrics", SCOPE_ADMIN, NO_BODY, api_metrics, 0,
      "Metrics as Prometheus' text, or OpenMetrics")
DOC(HEADER, "Accept?: string =application/openmetrics-text for OpenMetrics=")
DOC(SENDS, "text/plain")
ROUTE(GET, "/v1/host", SCOPE_ADMIN, NO_BODY, api_host, 0,
      "Load, memory, disk, VMs and pool of the host, and what is wrong")
DOC(REPLY, "Host")
ROUTE(GET, "/v1/host/history", SCOPE_ADMIN, NO_BODY, api_host_history, 0,
      "The last hour of the host")
DOC(REPLY, "{intervalSeconds: int, samples: HostSample[]}")
ROUTE(GET, "/v1/host/latency", SCOPE_ADMIN, NO_BODY, api_host_latency, 0,
      "How long creates, forks, resumes and other operations took since the server started")
DOC(REPLY, "{verbs: {*: Latency}}")
ROUTE(GET, "/v1/cluster", SCOPE_ADMIN, NO_BODY, api_cluster, 0,
      "The machines that share this server's database, with health and load")
DOC(REPLY, "{shared: bool =false: this server is by itself=, nodes: Node[], lease: {leftMs: int, renewals: int, failed: int}, "
    "takenOver: {nodes: int, lostVms: int}}")
ROUTE(POST, "/v1/cluster/nodes/{node}/drain", SCOPE_ADMIN, KIB(4), api_node_drain, 0,
      "Suspend a node's VMs and give it no new ones, or end that")
DOC(BODY, "NodeDrain")
DOC(REPLY, "{id: string, draining: bool}")
DOC(FAILS, "NODE_NOT_FOUND")
ROUTE(DELETE, "/v1/cluster/nodes/{node}", SCOPE_ADMIN, NO_BODY, api_node_remove, 0,
      "Forget a node that is gone for good")
DOC(QUERY, "lose?: bool =together with the VMs and snapshots that are not in the object store=")
DOC(REPLY, "Id")
DOC(FAILS, "NODE_NOT_FOUND CONFLICT")
ROUTE(GET, "/auth/v1/whoami", SCOPE_SELF, NO_BODY, api_whoami, 0,
      "The account, and the identity, behind the key or token")
DOC(REPLY, "{accountId: string, identityId: string | null}")
/* its handler is in api/background.c */
ROUTE(GET, "/auth/v1/background-requests/{request_id}", SCOPE_ACCOUNT, NO_BODY, api_background_get, 0,
      "Result of a background request; 202 while it is running")
DOC(REPLY, "any")
DOC(REPLY_202, "{requestId: string, status: string}")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, "/observability/v1/logs", SCOPE_ACCOUNT, NO_BODY, api_logs, 0,
      "Logs of VMs, builds and requests")
DOC(QUERY, "vmId?: string, buildId?: string, requestId?: string, vmService?: string, resourceType?: string, instanceId?: string, deploymentId?: "
    "string, runId?: string, domain?: string =requests by name=, source?: string, search?: string, startTime?: time, endTime?: time, "
    "pageSize?: int, pageToken?: string")
DOC(REPLY, "{logs: LogLine[], nextPageToken: string | null}")
DOC(FAILS, "INVALID_QUERY")

/* web sessions */
DOC(SECTION, "Signing in")
ROUTE(POST, "/v1/session", SCOPE_PUBLIC, KIB(4), api_session_open, 0,
      "Sign in with a browser: credential (API key or access token) becomes a cookie")
DOC(BODY, "SessionOpen")
DOC(REPLY, "Session")
DOC(FAILS, "UNAUTHORIZED UNAUTHORIZED_ERROR LIMIT_EXCEEDED CROSS_SITE_REQUEST")
ROUTE(GET, "/v1/session", SCOPE_SELF, NO_BODY, api_session_get, 0,
      "Who is signed in, until when, and the token for x-pando-csrf")
DOC(REPLY, "Session")
ROUTE(DELETE, "/v1/session", SCOPE_SELF, NO_BODY, api_session_end, 0,
      "Sign out")
DOC(REPLY, "{sessionId: string}")
DOC(FAILS, "BAD_REQUEST")
ROUTE(PUT, "/v1/session/account", SCOPE_SELF, KIB(4), api_session_act, 0,
      "The operator acts as another account, or with null as the own one again")
DOC(BODY, "SessionAct")
DOC(REPLY, "Session")
DOC(FAILS, "BAD_REQUEST FORBIDDEN NOT_FOUND")
ROUTE(GET, "/v1/sessions", SCOPE_SELF, NO_BODY, api_session_list, 0,
      "List the web sessions of the account's keys, or of the identity")
DOC(REPLY, "{sessions: SessionItem[]}")
ROUTE(DELETE, "/v1/sessions", SCOPE_SELF, NO_BODY, api_session_end_all, 0,
      "Sign out everywhere: end all of these sessions")
DOC(REPLY, "{ended: int}")
ROUTE(DELETE, "/v1/sessions/{session_id}", SCOPE_SELF, NO_BODY, api_session_end_one, 0,
      "End one of these sessions")
DOC(REPLY, "{sessionId: string}")
DOC(FAILS, "NOT_FOUND")

/* programs that ask for a key, and a person who confirms it */
ROUTE(POST, "/v1/login-requests", SCOPE_PUBLIC, KIB(4), api_login_begin, 0,
      "Ask for an API key that a person confirms in the dashboard")
DOC(BODY, "LoginNew")
DOC(REPLY, "{id: string, code: string =shown to the person=, secret: string =for poll=, url: uri, expiresAt: time, intervalSeconds: int}")
DOC(FAILS, "LIMIT_EXCEEDED")
ROUTE(POST, "/v1/login-requests/{login_id}/poll", SCOPE_PUBLIC, KIB(4), api_login_poll, 0,
      "The API key, once, when it was confirmed; 202 before")
DOC(BODY, "LoginPoll")
DOC(REPLY, "{apiKey: string, accountId: string, keyId: string}")
DOC(REPLY_202, "{state: string}")
DOC(FAILS, "LOGIN_REQUEST_NOT_FOUND LOGIN_REQUEST_EXPIRED LOGIN_REQUEST_DENIED")
ROUTE(GET, "/v1/login-requests/by-code/{code}", SCOPE_ACCOUNT, NO_BODY, api_login_get, 0,
      "What asks for a key, from where and since when; with a session")
DOC(REPLY, "LoginRequest")
DOC(FAILS, "LOGIN_REQUEST_NOT_FOUND FORBIDDEN CONFLICT")
ROUTE(POST, "/v1/login-requests/by-code/{code}/confirm", SCOPE_ACCOUNT, NO_BODY, api_login_confirm, 0,
      "Give it a key of this account; with a session")
DOC(REPLY, "LoginRequest")
DOC(FAILS, "LOGIN_REQUEST_NOT_FOUND FORBIDDEN CONFLICT")
ROUTE(POST, "/v1/login-requests/by-code/{code}/deny", SCOPE_ACCOUNT, NO_BODY, api_login_deny, 0,
      "Give it none; with a session")
DOC(REPLY, "LoginRequest")
DOC(FAILS, "LOGIN_REQUEST_NOT_FOUND FORBIDDEN CONFLICT")
/* the same as the freestyle CLI asks for it, and its requests when it is logged in */
DOC(SECTION, NULL)
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
DOC(SECTION, "Events")
ROUTE(GET, "/v1/events", SCOPE_SELF, NO_BODY, api_events, 0,
      "Follow what happens, as server-sent events")
DOC(QUERY, "after?: string =what came after this id=, types?: string =separated by commas; vm.* stands for several=, follow?: bool")
DOC(HEADER, "Last-Event-ID?: string")
DOC(SENDS, "text/event-stream")
DOC(FAILS, "INVALID_QUERY LIMIT_EXCEEDED")

/* accounts, keys, audit log */
DOC(SECTION, "Accounts and keys")
ROUTE(POST, "/v1/accounts", SCOPE_ADMIN, KIB(64), api_account_create, 0,
      "Create an account")
DOC(BODY, "AccountNew")
DOC(REPLY, "Account")
DOC(FAILS, "CONFLICT")
ROUTE(GET, "/v1/accounts", SCOPE_ADMIN, NO_BODY, api_account_list, 0,
      "List accounts")
DOC(REPLY, "{accounts: Account[]}")
ROUTE(GET, "/v1/accounts/{account_id}", SCOPE_ADMIN, NO_BODY, api_account_get, 0,
      "Get an account with its limits and usage")
DOC(REPLY, "Account")
DOC(FAILS, "NOT_FOUND")
ROUTE(PATCH, "/v1/accounts/{account_id}", SCOPE_ADMIN, KIB(64), api_account_update, 0,
      "Change name and quotas of an account")
DOC(BODY, "AccountNew")
DOC(REPLY, "Account")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(DELETE, "/v1/accounts/{account_id}", SCOPE_ADMIN, NO_BODY, api_account_delete, 0,
      "Delete an account that has no VMs or snapshots")
DOC(REPLY, "Id")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(POST, "/v1/keys", SCOPE_ACCOUNT, KIB(64), api_key_create, 0,
      "Create an API key, shown once")
DOC(QUERY, "accountId?: string =the operator: of another account=")
DOC(BODY, "KeyNew")
DOC(REPLY, "Key & {accountId: string, key: string =the secret, shown once=}")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, "/v1/keys", SCOPE_ACCOUNT, NO_BODY, api_key_list, 0,
      "List API keys without their secrets")
DOC(QUERY, "accountId?: string =the operator: of another account=")
DOC(REPLY, "{accountId: string, keys: Key[]}")
DOC(FAILS, "NOT_FOUND")
ROUTE(DELETE, "/v1/keys/{key_id}", SCOPE_ACCOUNT, NO_BODY, api_key_revoke, 0,
      "Revoke an API key at once")
DOC(QUERY, "accountId?: string =the operator: of another account=")
DOC(REPLY, "Id")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(POST, "/v1/backups", SCOPE_ADMIN, NO_BODY, api_backup_begin, 0,
      "Prepare a backup on the server's disk; running VMs are frozen and go on")
DOC(REPLY, "{id: string, path: string, dataDir: string, keyFile: string, frozen: int =VMs=, notes: {id: string, text: string}[]}")
DOC(FAILS, "CONFLICT NO_LOCAL_STORAGE_CAPACITY")
ROUTE(DELETE, "/v1/backups/{backup_id}", SCOPE_ADMIN, NO_BODY, api_backup_end, 0,
      "Remove what a backup prepared")
DOC(REPLY, "Id")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, "/v1/secrets/rotate", SCOPE_ADMIN, NO_BODY, api_secrets_rotate, 0,
      "Seal all secrets of the server with a new key")
DOC(REPLY, "{keyId: int}")
DOC(FAILS, "CONFLICT")
ROUTE(GET, "/v1/audit", SCOPE_ACCOUNT, NO_BODY, api_audit, 0,
      "Read the audit log")
DOC(QUERY, "limit?: int<0..1000>, before?: int =records older than this id=, after?: int =records newer than this id=, action?: string, target?: "
    "string, accountId?: string =the operator: of another account=")
DOC(REPLY, "{records: AuditRecord[]}")
DOC(FAILS, "NOT_FOUND")

/* webhooks */
DOC(SECTION, "Webhooks")
ROUTE(POST, "/v1/webhooks", SCOPE_ACCOUNT, KIB(64), api_webhook_create, 0,
      "Create a webhook for events of VMs, snapshots and builds")
DOC(BODY, "WebhookNew")
DOC(REPLY, "Webhook")
DOC(FAILS, "BAD_REQUEST")
ROUTE(GET, "/v1/webhooks", SCOPE_ACCOUNT, NO_BODY, api_webhook_list, 0,
      "List webhooks")
DOC(REPLY, "{webhooks: Webhook[]}")
#define WEBHOOK "/v1/webhooks/{webhook}"
ROUTE(GET, WEBHOOK, SCOPE_ACCOUNT, NO_BODY, api_webhook_get, 0,
      "Get a webhook")
DOC(REPLY, "Webhook")
DOC(FAILS, "NOT_FOUND")
ROUTE(PATCH, WEBHOOK, SCOPE_ACCOUNT, KIB(64), api_webhook_change, 0,
      "Change a webhook")
DOC(BODY, "WebhookNew")
DOC(REPLY, "Webhook")
DOC(FAILS, "BAD_REQUEST NOT_FOUND")
ROUTE(DELETE, WEBHOOK, SCOPE_ACCOUNT, NO_BODY, api_webhook_delete, 0,
      "Delete a webhook with its deliveries")
DOC(REPLY, "Id")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, WEBHOOK "/test", SCOPE_ACCOUNT, NO_BODY, api_webhook_test, 0,
      "Send an event of the type test")
DOC(REPLY, "WebhookDelivery")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, WEBHOOK "/deliveries", SCOPE_ACCOUNT, NO_BODY, api_webhook_deliveries, 0,
      "Deliveries of a webhook, newest first")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{deliveries: WebhookDelivery[]}")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, WEBHOOK "/deliveries/{delivery}", SCOPE_ACCOUNT, NO_BODY, api_webhook_delivery, 0,
      "A delivery with its event")
DOC(REPLY, "WebhookDelivery")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, WEBHOOK "/deliveries/{delivery}/redeliver", SCOPE_ACCOUNT, NO_BODY, api_webhook_redeliver, 0,
      "Deliver an event again")
DOC(REPLY, "WebhookDelivery")
DOC(FAILS, "NOT_FOUND CONFLICT")
#undef WEBHOOK

/* identities, tokens, permissions */
#define IDENTITY "/identity/v1/identities/{identity}"
DOC(SECTION, "Identities")
ROUTE(GET, "/identity/v1/identities", SCOPE_ACCOUNT, NO_BODY, api_identity_list, 0,
      "List identities")
DOC(QUERY, "limit?: int, offset?: int, includeManaged?: bool")
DOC(REPLY, "{identities: Identity[], offset: int, total: int}")
ROUTE(POST, "/identity/v1/identities", SCOPE_ACCOUNT, NO_BODY, api_identity_create, 0,
      "Create an identity")
DOC(REPLY, "Identity")
ROUTE(DELETE, IDENTITY, SCOPE_ACCOUNT, NO_BODY, api_identity_delete, 0,
      "Delete an identity with its tokens and permissions")
DOC(REPLY, "Empty")
DOC(FAILS, "CANNOT_DELETE_MANAGED_IDENTITY")
ROUTE(GET, IDENTITY "/tokens", SCOPE_ACCOUNT, NO_BODY, api_token_list, 0,
      "List tokens by id")
DOC(REPLY, "{tokens: {id: string, createdAt: time}[]}")
ROUTE(POST, IDENTITY "/tokens", SCOPE_ACCOUNT, NO_BODY, api_token_create, 0,
      "Create an access token, shown once")
DOC(REPLY, "{id: string, token: string =shown once=}")
ROUTE(DELETE, IDENTITY "/tokens/{token_id}", SCOPE_ACCOUNT, NO_BODY, api_token_revoke, 0,
      "Revoke a token at once")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, IDENTITY "/permissions/vm", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_list, 0,
      "List the VMs an identity may use")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{permissions: VmPermission[], offset: int, total: int}")
ROUTE(GET, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_get, 0,
      "Get a permission")
DOC(REPLY, "VmPermission")
DOC(FAILS, "VM_PERMISSION_NOT_FOUND")
ROUTE(POST, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, KIB(64), api_vm_perm_grant, 0,
      "Let an identity use a VM")
DOC(BODY, "VmPermissionNew")
DOC(REPLY, "VmPermission")
DOC(FAILS, "PERMISSION_ALREADY_EXISTS")
ROUTE(PUT, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, KIB(64), api_vm_perm_update, 0,
      "Change the Linux users of a permission")
DOC(BODY, "VmPermissionNew")
DOC(REPLY, "VmPermission")
DOC(FAILS, "VM_PERMISSION_NOT_FOUND")
ROUTE(DELETE, IDENTITY "/permissions/vm/{vm_id}", SCOPE_ACCOUNT, NO_BODY, api_vm_perm_revoke, 0,
      "Revoke a permission at once")
DOC(REPLY, "Empty")
DOC(FAILS, "VM_PERMISSION_NOT_FOUND")
ROUTE(GET, IDENTITY "/permissions/git", SCOPE_ACCOUNT, NO_BODY, api_git_perm_list, 0,
      "List the repositories an identity may use")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{repositories: {id: string, name: string | null, accountId: string, permissions: 'read' | 'write', visibility: 'public' | 'private'}[]}")
ROUTE(GET, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, NO_BODY, api_git_perm_get, 0,
      "Get a permission on a repository")
DOC(REPLY, "GitPermission")
DOC(FAILS, "PERMISSION_NOT_FOUND")
ROUTE(POST, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, KIB(64), api_git_perm_grant, 0,
      "Let an identity use a repository")
DOC(BODY, "GitPermissionNew")
DOC(REPLY, "Empty")
DOC(FAILS, "PERMISSION_ALREADY_EXISTS GIT_INVALID_REQUEST")
ROUTE(PUT, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, KIB(64), api_git_perm_update, 0,
      "Change a permission on a repository")
DOC(BODY, "GitPermissionNew")
DOC(REPLY, "Empty")
DOC(FAILS, "PERMISSION_NOT_FOUND")
ROUTE(DELETE, IDENTITY "/permissions/git/{repo_id}", SCOPE_ACCOUNT, NO_BODY, api_git_perm_revoke, 0,
      "Revoke a permission on a repository")
DOC(REPLY, "Empty")
DOC(FAILS, "PERMISSION_NOT_FOUND")
#undef IDENTITY
/* clang-format on */
