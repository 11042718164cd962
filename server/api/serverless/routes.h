/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/serverless/routes.h - code that runs without anybody keeping a VM for it: /execute,
 * /v1/cron
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive; the DOC lines below a route describe it, as api/doc/openapi.h
 * says. No include guard: handlers.h makes the prototypes from it, routes.c the table.
 */
/* clang-format off */
DOC(SECTION, "Runs")
ROUTE(POST, "/execute/v3/script", SCOPE_ACCOUNT, MIB(8), api_run_create, 0,
      "Run a script in a VM of its own; the reply is what its default export returned")
DOC(BODY, "RunNew")
DOC(REPLY, "RunResult")
DOC(FAILS, "BAD_REQUEST EXECUTION_ERROR NODE_MODULES_INSTALL_FAILED CONFLICT MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED "
    "MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT ROOTFS_OVER_PLAN_LIMIT EXEC_TIMED_OUT VM_SETUP_FAILED SNAPSHOT_LAYER_CREATION_FAILED VM_DELETED NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/execute/v1/script", SCOPE_ACCOUNT, MIB(8), api_run_create, 0,
      "The same, as older clients call it")
DOC(ID, "runCreateV1")
DOC(BODY, "RunNew")
DOC(REPLY, "RunResult")
DOC(FAILS, "BAD_REQUEST EXECUTION_ERROR NODE_MODULES_INSTALL_FAILED CONFLICT MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED "
    "MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT ROOTFS_OVER_PLAN_LIMIT EXEC_TIMED_OUT VM_SETUP_FAILED SNAPSHOT_LAYER_CREATION_FAILED VM_DELETED NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(GET, "/execute/v1/deployments", SCOPE_ACCOUNT, NO_BODY, api_run_list, 0,
      "List runs, newest first")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{entries: Run[], total: int, offset: int =of the next page=}")
ROUTE(GET, "/execute/v1/deployments/{run}", SCOPE_ACCOUNT, NO_BODY, api_run_get, 0,
      "Get a run, with its script")
DOC(REPLY, "{metadata: Run, code: {code: string, nodeModules: {*: string}} | null}")
DOC(FAILS, "RUN_NOT_FOUND")
ROUTE(GET, "/execute/v1/deployments/{run}/output", SCOPE_ACCOUNT, NO_BODY, api_run_output, 0,
      "Result, error and logs of a run")
DOC(REPLY, "{status: string, result: any, error: string | null, logs: RunLog[]}")
DOC(FAILS, "RUN_NOT_FOUND")

DOC(SECTION, "Deployments")
#define DEPLOYMENTS "/web/v1/deployments"
#define DEPLOYMENT_FAILS "INVALID_DEPLOYMENT_REQUEST ENTRYPOINT_NOT_FOUND NO_ENTRYPOINT_FOUND TIMEOUT_LIMIT_EXCEEDED DEPLOYMENT_LIMIT_EXCEEDED DEPLOYMENT_FAILED UNAVAILABLE SERVICE_UNAVAILABLE INVALID_DOMAIN " \
    "DOMAIN_ALREADY_EXISTS DOMAIN_OWNERSHIP_NOT_VERIFIED NO_DOMAIN_OWNERSHIP DEPLOYMENT_NOT_FOUND INVALID_GIT_REPO_SPEC_ERROR MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED " \
    "SNAPSHOT_LAYER_CREATION_FAILED NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP"
ROUTE(POST, "/web/v1/deployment", SCOPE_ACCOUNT, MIB(64), api_deployment_create, ROUTE_MANY,
      "Build and start a server, and freeze it: its instances start with the next request")
DOC(BODY, "DeploymentNew")
DOC(REPLY, "{deploymentId: string, projectId: string, state: string, domains: string[], entrypoint: string | null, accountId: string, buildId: string | null}")
DOC(FAILS, DEPLOYMENT_FAILS)
ROUTE(POST, "/web/v1/deploy", SCOPE_ACCOUNT, MIB(64), api_deployment_create, ROUTE_MANY,
      "The same, as older clients call it")
DOC(ID, "deploymentCreateOld")
DOC(BODY, "DeploymentNew")
DOC(REPLY, "{deploymentId: string, projectId: string, state: string, domains: string[], entrypoint: string | null, accountId: string, buildId: string | null}")
DOC(FAILS, DEPLOYMENT_FAILS)
ROUTE(GET, DEPLOYMENTS, SCOPE_ACCOUNT, NO_BODY, api_deployment_list, 0,
      "List deployments, newest first")
DOC(QUERY, "limit?: int, offset?: int, search?: string =in id, name and domains=")
DOC(REPLY, "{entries: Deployment[], total: int, offset: int =of the next page=}")
ROUTE(GET, DEPLOYMENTS "/{deployment_id}", SCOPE_ACCOUNT, NO_BODY, api_deployment_get, 0,
      "Get a deployment with its instances")
DOC(REPLY, "{info: DeploymentInfo, events: DeploymentEvent[]}")
DOC(FAILS, "DEPLOYMENT_NOT_FOUND")
ROUTE(DELETE, DEPLOYMENTS "/{deployment_id}", SCOPE_ACCOUNT, NO_BODY, api_deployment_delete, 0,
      "Delete a deployment with its names, instances and snapshot; requests under way are cut")
DOC(REPLY, "{deploymentId: string}")
DOC(FAILS, "DEPLOYMENT_NOT_FOUND")
#define FETCH_FAILS "DEPLOYMENT_NOT_FOUND DEPLOYMENT_FAILED DEPLOYMENT_BUSY UNAVAILABLE BAD_REQUEST BAD_ANSWER NOTHING_LISTENS CONNECTION_CLOSED UPSTREAM_TIMEOUT"
ROUTE(GET, DEPLOYMENTS "/{deployment_id}/fetch", SCOPE_ACCOUNT, NO_BODY, api_deployment_fetch, 0,
      "Send a request to the server of a deployment; the path is in X-Freestyle-Request-Url")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, FETCH_FAILS)
ROUTE(POST, DEPLOYMENTS "/{deployment_id}/fetch", SCOPE_ACCOUNT, MIB(16), api_deployment_fetch, ROUTE_READS,
      "The same with POST")
DOC(ID, "deploymentFetchPost")
DOC(BODY_TYPE, "application/octet-stream")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, FETCH_FAILS)
ROUTE(PUT, DEPLOYMENTS "/{deployment_id}/fetch", SCOPE_ACCOUNT, MIB(16), api_deployment_fetch, ROUTE_READS,
      "The same with PUT")
DOC(ID, "deploymentFetchPut")
DOC(BODY_TYPE, "application/octet-stream")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, FETCH_FAILS)
ROUTE(PATCH, DEPLOYMENTS "/{deployment_id}/fetch", SCOPE_ACCOUNT, MIB(16), api_deployment_fetch, ROUTE_READS,
      "The same with PATCH")
DOC(ID, "deploymentFetchPatch")
DOC(BODY_TYPE, "application/octet-stream")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, FETCH_FAILS)
ROUTE(DELETE, DEPLOYMENTS "/{deployment_id}/fetch", SCOPE_ACCOUNT, MIB(16), api_deployment_fetch, ROUTE_READS,
      "The same with DELETE")
DOC(ID, "deploymentFetchDelete")
DOC(BODY_TYPE, "application/octet-stream")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, FETCH_FAILS)

DOC(SECTION, "Schedules")
#define SCHEDULES "/v1/cron/schedules"
ROUTE(POST, SCHEDULES, SCOPE_ACCOUNT, MIB(8), api_schedule_create, 0,
      "Run a script, or call a deployment, at the times of a cron expression")
DOC(BODY, "ScheduleNew")
DOC(REPLY, "{schedule: Schedule}")
DOC(FAILS, "BAD_REQUEST LIMIT_EXCEEDED DEPLOYMENT_NOT_FOUND")
ROUTE(GET, SCHEDULES, SCOPE_ACCOUNT, NO_BODY, api_schedule_list, 0,
      "List schedules with how they went, by default in the last day")
DOC(QUERY, "deploymentId?: string, metricsStart?: time, metricsEnd?: time")
DOC(REPLY, "{schedules: (Schedule & {successRate: number | null, averageLatencyMs: number | null, executionCount: int})[]}")
DOC(FAILS, "BAD_REQUEST")
ROUTE(GET, SCHEDULES "/{schedule}", SCOPE_ACCOUNT, NO_BODY, api_schedule_get, 0,
      "Get a schedule")
DOC(REPLY, "{schedule: Schedule}")
DOC(FAILS, "SCHEDULE_NOT_FOUND")
ROUTE(PATCH, SCHEDULES "/{schedule}", SCOPE_ACCOUNT, MIB(8), api_schedule_change, 0,
      "Change, pause or resume a schedule; times before the change are over")
DOC(BODY, "ScheduleNew")
DOC(REPLY, "{success: bool}")
DOC(FAILS, "BAD_REQUEST SCHEDULE_NOT_FOUND DEPLOYMENT_NOT_FOUND")
ROUTE(DELETE, SCHEDULES "/{schedule}", SCOPE_ACCOUNT, NO_BODY, api_schedule_delete, 0,
      "Delete a schedule with its executions")
DOC(REPLY, "{success: bool}")
DOC(FAILS, "SCHEDULE_NOT_FOUND")
ROUTE(GET, SCHEDULES "/{schedule}/executions", SCOPE_ACCOUNT, NO_BODY, api_execution_list, 0,
      "List executions with their attempts, newest first")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "{executions: Execution[], total: int, offset: int =of the next page=, limit: int}")
DOC(FAILS, "SCHEDULE_NOT_FOUND")
ROUTE(GET, SCHEDULES "/{schedule}/success-rate", SCOPE_ACCOUNT, NO_BODY, api_schedule_rate, 0,
      "How many executions of a time succeeded")
DOC(QUERY, "start: time, end: time")
DOC(REPLY, "{total: int, succeeded: int, failed: int, successRate: number, start: time, end: time, averageLatencyMs: number | null}")
DOC(FAILS, "BAD_REQUEST SCHEDULE_NOT_FOUND")
ROUTE(GET, SCHEDULES "/{schedule}/metrics-timeline", SCOPE_ACCOUNT, NO_BODY, api_schedule_timeline, 0,
      "Executions of a time, by equal parts of it")
DOC(QUERY, "start: time, end: time, bucketMinutes?: int")
DOC(REPLY, "{scheduleId: string, dataPoints: SchedulePoint[], start: time, end: time}")
DOC(FAILS, "BAD_REQUEST SCHEDULE_NOT_FOUND")
#undef SCHEDULES
/* clang-format on */
