/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/vms/routes.h - VMs and what runs in them: /v1/vms, /v1/code, /v1/tree
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive; the DOC lines below a route describe it, as api/doc/openapi.h
 * says. No include guard: handlers.h makes the prototypes from it, routes.c the table.
 */
/* clang-format off */
DOC(SECTION, "VMs")
ROUTE(POST, "/v1/vms", SCOPE_VM_WRITE, SPEC_BODY, api_vm_create, ROUTE_BACKGROUND | ROUTE_MANY,
      "Create a VM from the base template, a snapshot or a spec")
DOC(NOTE, "Without a source it is a copy of the base template, which already runs.")
DOC(HEADER, "Idempotency-Key?: string =a repeat with the same key gets the first one's result=, x-freestyle-background-after-secs?: int =then 202, and the "
    "result under /auth/v1/background-requests=")
DOC(BODY, "VmNew & SpecSource & Spec")
DOC(REPLY, "VmCreated")
DOC(REPLY_202, "{requestId: string, status: string}")
DOC(FAILS, "CREATE_VM_BAD_REQUEST CREATE_VM_MEM_NOT_POWER_OF_TWO CREATE_VM_VCPU_NOT_POWER_OF_TWO CREATE_VM_ROOTFS_OUT_OF_RANGE "
    "CREATE_VM_MEM_OUT_OF_RANGE CREATE_VM_VCPU_OUT_OF_RANGE VM_SETUP_FAILED VM_START_TIMEOUT VM_EXIT_DURING_START RESUMED_VM_NON_RESPONSIVE "
    "DOMAIN_OWNERSHIP_NOT_VERIFIED INVALID_DOMAINS CONFLICT NOT_FOUND CONFLICTING_SPEC_SOURCES_ERROR NON_LEAF_LAYER_FIELD_ERROR "
    "INVALID_GIT_REPO_SPEC_ERROR INVALID_SNAPSHOT_ID SNAPSHOT_NOT_FOUND SOURCE_SNAPSHOT_DELETED SOURCE_SNAPSHOT_LOST OBJECT_DAMAGED SOURCE_SNAPSHOT_BUILDING "
    "NO_DEFAULT_SNAPSHOT_AVAILABLE VALIDATION_ERROR EXEC_EMPTY MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED "
    "TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT "
    "NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(GET, "/v1/vms", SCOPE_SELF, NO_BODY, api_vm_list, 0,
      "List VMs")
DOC(QUERY, "limit?: int, offset?: int, vmState?: VmState, includeDeleted?: bool, search?: string =part of id or name=, tags?: string =separated by "
    "commas; all of them=, metadata?: string =name and value with an equals sign between them, separated by commas=")
DOC(REPLY, "VmList")
ROUTE(GET, "/v1/vms/{vm_id}", SCOPE_VM_LOOK, NO_BODY, api_vm_get, 0,
      "Get a VM")
DOC(REPLY, "Vm")
ROUTE(PATCH, "/v1/vms/{vm_id}", SCOPE_VM_WRITE, KIB(64), api_vm_change, 0,
      "Change name, tags, metadata, settings and end of life of a VM; wakes nothing")
DOC(BODY, "VmChange")
DOC(REPLY, "Vm")
DOC(FAILS, "BAD_REQUEST")
ROUTE(DELETE, "/v1/vms/{vm_id}", SCOPE_VM_WRITE, NO_BODY, api_vm_delete, 0,
      "Delete a VM permanently")
DOC(REPLY, "{id: string, recreate: bool}")
DOC(FAILS, "CONFLICT")
ROUTE(POST, "/v1/vms/{vm_id}/start", SCOPE_VM_LOOK, KIB(64), api_vm_start, 0,
      "Resume or boot a VM")
DOC(BODY, "VmStart")
DOC(REPLY, "{id: string, domains: string[], console_url: null}")
DOC(FAILS, "BAD_REQUEST STILL_CREATING VM_IS_SUSPENDING RESUMED_VM_NON_RESPONSIVE VM_EXIT_DURING_START VM_START_TIMEOUT INSUFFICIENT_SWAP "
    "VM_LIMIT_EXCEEDED VCPU_OVER_PLAN_LIMIT")
ROUTE(POST, "/v1/vms/{vm_id}/stop", SCOPE_VM_WRITE, NO_BODY, api_vm_stop, 0,
      "Shut a VM down; its disk is kept")
DOC(REPLY, "{vmId: string, vmInstanceId: string | null}")
DOC(FAILS, "VM_NOT_RUNNING CONFLICT STILL_CREATING VM_IS_SUSPENDING")
ROUTE(POST, "/v1/vms/{vm_id}/kill", SCOPE_VM_WRITE, NO_BODY, api_vm_kill, 0,
      "Power a VM off without a shutdown")
DOC(REPLY, "Id")
DOC(FAILS, "VM_NOT_RUNNING CONFLICT STILL_CREATING VM_IS_SUSPENDING")
ROUTE(POST, "/v1/vms/{vm_id}/suspend", SCOPE_VM_WRITE, NO_BODY, api_vm_suspend, 0,
      "Freeze a VM with its memory")
DOC(REPLY, "{id: string, vmInstanceId: string | null, snapshotLayerId: string | null}")
DOC(FAILS, "VM_NOT_RUNNING STILL_CREATING VM_IS_SUSPENDING SUSPEND_FAILED_VM_RESUMED SUSPEND_FAILED_AND_STOPPED NO_LOCAL_STORAGE_CAPACITY")
ROUTE(POST, "/v1/vms/{vm_id}/fork", SCOPE_VM_WRITE, KIB(64), api_vm_fork, 0,
      "Make live copies of a VM, with its memory")
DOC(BODY, "VmFork")
DOC(REPLY, "{vmId: string, forks: VmMade[], spread?: {nodes: (string | null)[], note: string | null}}")
DOC(FAILS, "BAD_REQUEST FORK_FAILED VPC_FORK_UNSUPPORTED VM_NOT_RUNNING NOT_FOUND STILL_CREATING VM_IS_SUSPENDING RESUMED_VM_NON_RESPONSIVE "
    "VM_EXIT_DURING_START VM_START_TIMEOUT INSUFFICIENT_SWAP VM_LIMIT_EXCEEDED VCPU_OVER_PLAN_LIMIT MEMORY_STORAGE_QUOTA_EXCEEDED "
    "ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT "
    "MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/vms/{vm_id}/snapshot", SCOPE_VM_WRITE, KIB(64), api_vm_snapshot, 0,
      "Take a snapshot of a VM, with its memory")
DOC(BODY, "SnapshotNew")
DOC(REPLY, "{snapshotId: string, sourceVmId: string, sourceVmInstanceId: string | null}")
DOC(FAILS, "SNAPSHOT_VM_BAD_REQUEST VM_NOT_RUNNING STILL_CREATING VM_IS_SUSPENDING SNAPSHOT_LAYER_CREATION_FAILED MEMORY_STORAGE_QUOTA_EXCEEDED "
    "ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT "
    "MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/vms/{vm_id}/await", SCOPE_VM_READ, NO_BODY, api_vm_await, 0,
      "Wait until the VM stops running")
DOC(SENDS, "text/event-stream")
ROUTE(POST, "/v1/vms/{vm_id}/resize", SCOPE_VM_WRITE, KIB(64), api_vm_resize, 0,
      "Change vCPUs and memory, enlarge the disk")
DOC(BODY, "VmResize")
DOC(REPLY, "Empty")
DOC(FAILS, "BAD_REQUEST RESIZE_VM_MEM_NOT_POWER_OF_TWO RESIZE_VM_VCPU_NOT_POWER_OF_TWO RESIZE_VM_MEM_OUT_OF_RANGE RESIZE_VM_VCPU_OUT_OF_RANGE "
    "RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED RESIZE_VM_EMPTY_REQUEST RESIZE_FAILED ROOTFS_SIZE_TOO_LARGE STILL_CREATING VM_IS_SUSPENDING "
    "RESUMED_VM_NON_RESPONSIVE VM_EXIT_DURING_START VM_START_TIMEOUT INSUFFICIENT_SWAP VM_LIMIT_EXCEEDED VCPU_OVER_PLAN_LIMIT "
    "MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED "
    "ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/vms/{vm_id}/optimize", SCOPE_VM_WRITE, NO_BODY, api_vm_optimize, 0,
      "Trim the VM's disk and shorten its chains now")
DOC(REPLY, "{id: string, message: string}")
ROUTE(GET, "/v1/vms/{vm_id}/ports", SCOPE_VM_LOOK, NO_BODY, api_vm_ports, 0,
      "Ports of this server that lead to ports of a VM, and where its own name leads")
DOC(REPLY, "{ports: Port[], range: string | null}")
ROUTE(POST, "/v1/vms/{vm_id}/ports", SCOPE_VM_WRITE, KIB(64), api_vm_port_set, 0,
      "Map a port of this server to a port of a VM")
DOC(BODY, "PortMap")
DOC(REPLY, "Port")
DOC(FAILS, "CONFLICT")
ROUTE(DELETE, "/v1/vms/{vm_id}/ports/{port}", SCOPE_VM_WRITE, NO_BODY, api_vm_port_delete, 0,
      "Unmap a port of a VM")
DOC(QUERY, "protocol?: 'tcp' | 'udp'")
DOC(REPLY, "{vmId: string, port: int}")
DOC(FAILS, "NOT_FOUND")
ROUTE(GET, "/v1/vms/{vm_id}/stats/stream", SCOPE_VM_READ, NO_BODY, api_vm_stats, 0,
      "CPU, memory, disk and network as lines of JSON")
DOC(QUERY, "interval_ms?: int")
DOC(SENDS, "application/x-ndjson")
DOC(NOTE, "Each line is an object of the type Stats.")
ROUTE(GET, "/v1/vms/{vm_id}/history", SCOPE_VM_READ, NO_BODY, api_vm_history, 0,
      "CPU, memory, disk and network of a VM in the last hour; wakes nothing")
DOC(REPLY, "{vmId: string, intervalSeconds: int, samples: VmSample[]}")
DOC(SECTION, "Commands, files and processes")
ROUTE(POST, "/v1/vms/{vm_id}/exec-await", SCOPE_VM_EXEC, MIB(4), api_vm_exec, 0,
      "Run a command and wait for its end")
DOC(BODY, "Exec")
DOC(REPLY, "ExecResult")
DOC(FAILS, "EXEC_TIMED_OUT")
ROUTE(GET, "/v1/vms/{vm_id}/files/{path}", SCOPE_VM_EXEC, NO_BODY, api_file_get, 0,
      "Read a file or list a directory; the path is one encoded segment")
DOC(REPLY, "FileContent | FileList")
DOC(SENDS, "application/json")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE(PUT, "/v1/vms/{vm_id}/files/{path}", SCOPE_VM_EXEC, FILE_BODY, api_file_put, 0,
      "Write a file")
DOC(BODY, "FileContent")
DOC(REPLY, "Empty")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")

/* streams */
ROUTE(POST, "/v1/vms/{vm_id}/exec", SCOPE_VM_EXEC, MIB(16), api_vm_exec_stream, 0,
      "Run a command; its output as server-sent events while it runs")
DOC(NOTE, "Events: started, stdout, stderr, exit, error; with detach the reply is JSON at once. See STREAMS.")
DOC(BODY, "ExecStream")
DOC(SENDS, "text/event-stream")
DOC(REPLY, "{processId: string, pid: int}")
DOC(FAILS, "EXEC_TIMED_OUT")
ROUTE(GET, "/v1/vms/{vm_id}/processes", SCOPE_VM_EXEC, NO_BODY, api_process_list, 0,
      "List detached processes, and attached ones that are running")
DOC(REPLY, "{processes: Process[]}")
ROUTE(GET, "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_get, 0,
      "Get a process")
DOC(REPLY, "Process")
DOC(FAILS, "NOT_FOUND")
ROUTE(DELETE, "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_delete, 0,
      "Remove a finished process from the list")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(GET, "/v1/vms/{vm_id}/processes/{process_id}/output", SCOPE_VM_EXEC, NO_BODY, api_process_output, 0,
      "Output of a process from an offset on")
DOC(QUERY, "stream?: string =stdout, stderr or both=, offset?: int, follow?: bool")
DOC(SENDS, "application/octet-stream")
DOC(SENDS, "text/event-stream")
DOC(FAILS, "NOT_FOUND")
ROUTE(POST, "/v1/vms/{vm_id}/processes/{process_id}/signal", SCOPE_VM_EXEC, KIB(4), api_process_signal, 0,
      "Send a signal to a process and its group")
DOC(BODY, "Signal")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE_INTAKE(POST, "/v1/vms/{vm_id}/processes/{process_id}/stdin", SCOPE_VM_EXEC, api_process_stdin, api_stdin_intake,
      "Write the body to a process's stdin")
DOC(QUERY, "eof?: bool")
DOC(BODY_TYPE, "application/octet-stream")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(GET, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY, api_raw_get, 0,
      "A file's bytes")
DOC(HEADER, "Range?: string")
DOC(SENDS, "application/octet-stream")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE_INTAKE(PUT, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, api_raw_put, api_raw_intake,
      "Write a file of any size")
DOC(QUERY, "mode?: string =octal, such as 644=")
DOC(BODY_TYPE, "application/octet-stream")
DOC(REPLY, "{bytes: int}")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE(DELETE, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY, api_raw_delete, 0,
      "Remove a file or directory")
DOC(QUERY, "recursive?: bool")
DOC(REPLY, "Empty")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE(GET, "/v1/vms/{vm_id}/tar/{path}", SCOPE_VM_EXEC, NO_BODY, api_tar_get, 0,
      "A directory as a tar archive")
DOC(QUERY, "gzip?: bool")
DOC(SENDS, "application/x-tar")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE_INTAKE(PUT, "/v1/vms/{vm_id}/tar/{path}", SCOPE_VM_EXEC, api_tar_put, api_tar_intake,
      "Unpack a tar archive below a directory")
DOC(QUERY, "gzip?: bool, owners?: bool")
DOC(BODY_TYPE, "application/x-tar")
DOC(REPLY, "{bytes: int}")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")
ROUTE(POST, "/v1/vms/{vm_id}/watch-files", SCOPE_VM_EXEC, KIB(16), api_watch_files, 0,
      "Changes to files as they happen")
DOC(QUERY, "path?: string")
DOC(BODY, "FileWatch")
DOC(SENDS, "text/event-stream")
DOC(FAILS, "FILES_BAD_REQUEST FILE_NOT_FOUND")

/* code interpreter */
DOC(SECTION, "Code interpreter")
ROUTE(POST, "/v1/code", SCOPE_VM_WRITE, MIB(2), api_code, 0,
      "Run a cell in a new VM that is deleted afterwards")
DOC(BODY, "CellNew")
DOC(REPLY, "CellResult")
DOC(SENDS, "text/event-stream")
DOC(FAILS, "BAD_REQUEST CONFLICT EXEC_TIMED_OUT VM_NOT_RUNNING MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED "
    "SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/vms/{vm_id}/code", SCOPE_VM_EXEC, MIB(2), api_vm_code, 0,
      "Run a cell in a context that keeps its variables")
DOC(BODY, "CellNew")
DOC(REPLY, "CellResult")
DOC(SENDS, "text/event-stream")
DOC(FAILS, "NOT_FOUND CONFLICT EXEC_TIMED_OUT")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts", SCOPE_VM_EXEC, MIB(1), api_context_create, 0,
      "Create a context: a kernel of its own")
DOC(BODY, "ContextNew")
DOC(REPLY, "CodeContext")
DOC(FAILS, "CONFLICT")
ROUTE(GET, "/v1/vms/{vm_id}/code/contexts", SCOPE_VM_EXEC, NO_BODY, api_context_list, 0,
      "List contexts")
DOC(REPLY, "{contexts: CodeContext[]}")
ROUTE(DELETE, "/v1/vms/{vm_id}/code/contexts/{context_id}", SCOPE_VM_EXEC, NO_BODY, api_context_delete, 0,
      "End a context with its kernel")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts/{context_id}/restart", SCOPE_VM_EXEC, NO_BODY, api_context_restart, 0,
      "Restart a context's kernel")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts/{context_id}/interrupt", SCOPE_VM_EXEC, NO_BODY, api_context_interrupt, 0,
      "Interrupt the running cell")
DOC(REPLY, "Empty")
DOC(FAILS, "NOT_FOUND CONFLICT")

/* terminal sessions */
DOC(SECTION, "Terminals")
ROUTE(GET, "/v1/vms/{vm_id}/pty", SCOPE_VM_EXEC, NO_BODY, api_pty_open, 0,
      "Open a terminal session (WebSocket)")
DOC(QUERY, "cols?: int<0..1000>, rows?: int<0..1000>, ticket?: string =instead of a header=, exec?: string =command; a login shell if left out=, "
    "sessionId?: string")
DOC(SOCKET, "A terminal session: see PTY.")
DOC(FAILS, "INVALID_SESSION_ID SESSION_ALREADY_EXISTS SESSION_CAP_REACHED SESSION_NOT_FOUND SESSION_USER_MISMATCH SESSION_EXPIRED")
ROUTE(GET, "/v1/vms/{vm_id}/pty/sessions", SCOPE_VM_EXEC, NO_BODY, api_pty_list, 0,
      "List terminal sessions")
DOC(QUERY, "wake?: bool =false: do not wake a suspended VM to ask it; known is false then if nobody can tell=")
DOC(REPLY, "{sessions: PtySession[], known?: bool}")
ROUTE(GET, "/v1/vms/{vm_id}/pty/sessions/{session_id}", SCOPE_VM_EXEC, NO_BODY, api_pty_attach, 0,
      "Attach to a terminal session (WebSocket)")
DOC(QUERY, "cols?: int<0..1000>, rows?: int<0..1000>, ticket?: string =instead of a header=")
DOC(SOCKET, "The terminal session: see PTY.")
DOC(FAILS, "INVALID_SESSION_ID SESSION_NOT_FOUND SESSION_USER_MISMATCH SESSION_EXPIRED SESSION_CAP_REACHED")
ROUTE(DELETE, "/v1/vms/{vm_id}/pty/sessions/{session_id}", SCOPE_VM_EXEC, NO_BODY, api_pty_close, 0,
      "Kill a terminal session")
DOC(REPLY, "{sessionId: string, exitCode: int | null}")
DOC(FAILS, "INVALID_SESSION_ID SESSION_NOT_FOUND SESSION_USER_MISMATCH SESSION_EXPIRED")
ROUTE(POST, "/v1/vms/{vm_id}/pty/tickets", SCOPE_VM_EXEC, KIB(4), api_pty_ticket, 0,
      "Create a ticket with which a browser opens or attaches to a terminal session once")
DOC(BODY, "PtyTicketNew")
DOC(REPLY, "{ticket: string, expiresAt: time, url: string}")
DOC(FAILS, "INVALID_SESSION_ID SESSION_NOT_FOUND")
DOC(SECTION, "Snapshots and builds")
ROUTE(GET, "/v1/vms/snapshots", SCOPE_VM_READ, NO_BODY, api_snapshot_list, 0,
      "List snapshots")
DOC(QUERY, "includeDeleted?: bool, includeFailed?: bool, includeBuilding?: bool, includeCancelled?: bool, includeLost?: bool")
DOC(REPLY, "{snapshots: Snapshot[], totalCount: int, buildingCount: int, readyCount: int, failedCount: int, cancelledCount: int, lostCount: int, "
    "deletedCount: int}")
ROUTE(POST, "/v1/vms/snapshots", SCOPE_VM_WRITE, SPEC_BODY, api_snapshot_create, ROUTE_BACKGROUND | ROUTE_MANY,
      "Build a snapshot from a spec")
DOC(HEADER, "Idempotency-Key?: string =a repeat with the same key gets the first one's result=, x-freestyle-background-after-secs?: int =then 202, and the "
    "result under /auth/v1/background-requests=")
DOC(BODY, "SnapshotNew & SpecSource & Spec")
DOC(REPLY, "SnapshotBuilt")
DOC(REPLY_202, "{requestId: string, status: string}")
DOC(FAILS, "CREATE_SNAPSHOT_BAD_REQUEST SNAPSHOT_SETUP_FAILED SNAPSHOT_LAYER_CREATION_FAILED CREATE_VM_BAD_REQUEST CONFLICT "
    "CONFLICTING_SPEC_SOURCES_ERROR NON_LEAF_LAYER_FIELD_ERROR INVALID_GIT_REPO_SPEC_ERROR INVALID_SNAPSHOT_ID SNAPSHOT_NOT_FOUND "
    "SOURCE_SNAPSHOT_DELETED SOURCE_SNAPSHOT_LOST SOURCE_SNAPSHOT_BUILDING NO_DEFAULT_SNAPSHOT_AVAILABLE VALIDATION_ERROR EXEC_EMPTY "
    "MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED "
    "ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(GET, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_READ, NO_BODY, api_snapshot_get, 0,
      "Get a snapshot")
DOC(REPLY, "Snapshot")
DOC(FAILS, "SOURCE_SNAPSHOT_DELETED")
ROUTE(PATCH, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, KIB(64), api_snapshot_rename, 0,
      "Rename a snapshot")
DOC(BODY, "SnapshotName")
DOC(REPLY, "{snapshotId: string, snapshot_id: string =the same=, name: string | null}")
DOC(FAILS, "BAD_REQUEST SNAPSHOT_ALREADY_DELETED")
ROUTE(DELETE, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, NO_BODY, api_snapshot_delete, 0,
      "Delete a snapshot")
DOC(REPLY, "{snapshotId: string, snapshot_id: string =the same=}")
DOC(FAILS, "SNAPSHOT_ALREADY_DELETED CONFLICT")
ROUTE(GET, "/v1/vms/{vm_id}/build", SCOPE_VM_LOOK, NO_BODY, api_vm_build, 0,
      "The build a VM came from")
DOC(REPLY, "Build")
DOC(FAILS, "BUILD_NOT_FOUND_FOR_VM BUILD_NOT_FOUND")
ROUTE(GET, "/v1/vms/builds", SCOPE_VM_READ, NO_BODY, api_build_list, 0,
      "Builds, the newest first")
DOC(QUERY, "state?: 'pending' | 'running' | 'succeeded' | 'failed', limit?: int, accountId?: string =the operator: of another account=")
DOC(REPLY, "{builds: Build[]}")
DOC(FAILS, "BAD_REQUEST NOT_FOUND")
ROUTE(GET, "/v1/vms/builds/{build_id}", SCOPE_VM_READ, NO_BODY, api_build_get, 0,
      "Get a build")
DOC(REPLY, "Build")
ROUTE(GET, "/v1/vms/builds/{build_id}/phases", SCOPE_VM_READ, NO_BODY, api_build_phases, 0,
      "Steps of a build so far")
DOC(REPLY, "{phases: {phaseId: string, buildId: string, name: string, snapshotId: string | null, startedAt: time | null}[]}")

/* egress, private networks, tunnels */
DOC(SECTION, "Egress")
ROUTE(GET, "/v1/vms/{vm_id}/egress", SCOPE_VM_READ, NO_BODY, api_egress_get, 0,
      "What a VM may reach; secrets are masked")
DOC(REPLY, "EgressShown")
ROUTE(PUT, "/v1/vms/{vm_id}/egress", SCOPE_VM_WRITE, KIB(256), api_egress_put, 0,
      "Change what a VM may reach, at once")
DOC(BODY, "Egress")
DOC(REPLY, "EgressShown")
DOC(FAILS, "BAD_REQUEST")
ROUTE(GET, "/v1/vms/{vm_id}/egress/blocked", SCOPE_VM_READ, NO_BODY, api_egress_blocked, 0,
      "Destinations that were blocked, newest first")
DOC(REPLY, "{vmId: string, blocked: Blocked[]}")
DOC(SECTION, "The tree")
ROUTE(GET, "/v1/tree", SCOPE_VM_READ, NO_BODY, api_tree, 0,
      "All points and VMs of the account, with parents, states and sizes")
DOC(REPLY, "Tree")
ROUTE(GET, "/v1/vms/{vm_id}/tree", SCOPE_VM_READ, NO_BODY, api_vm_tree, 0,
      "The tree around one VM")
DOC(REPLY, "Tree")
ROUTE(POST, "/v1/vms/{vm_id}/rewind", SCOPE_VM_WRITE, KIB(64), api_vm_rewind, 0,
      "Rewind a VM to an ancestor snapshot, or with null to the newest point of its past")
DOC(BODY, "Rewind")
DOC(REPLY, "{id: string, snapshotId: string | null, state: VmState, previousSnapshotId: string | null, vmInstanceId: string | null, generation: int}")
DOC(FAILS, "BAD_REQUEST INVALID_SNAPSHOT_ID SNAPSHOT_NOT_FOUND SOURCE_SNAPSHOT_LOST SOURCE_SNAPSHOT_DELETED CONFLICT STILL_CREATING VM_IS_SUSPENDING "
    "RESUMED_VM_NON_RESPONSIVE VM_EXIT_DURING_START VM_START_TIMEOUT INSUFFICIENT_SWAP VM_LIMIT_EXCEEDED VCPU_OVER_PLAN_LIMIT "
    "MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED "
    "ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(GET, "/v1/vms/{vm_id}/diff", SCOPE_VM_READ, NO_BODY, api_vm_diff, 0,
      "Files that differ from a relative")
DOC(QUERY, "with?: string =id of a relative, or of a snapshot=, path?: string, ignore?: string, limit?: int<0..10000>, cursor?: string")
DOC(REPLY, "{vmId: string, with: string, changes: FileDiff[], cursor: string | null}")
DOC(FAILS, "BAD_REQUEST SNAPSHOT_NOT_FOUND CONFLICT STILL_CREATING VM_IS_SUSPENDING RESUMED_VM_NON_RESPONSIVE VM_EXIT_DURING_START VM_START_TIMEOUT "
    "INSUFFICIENT_SWAP VM_LIMIT_EXCEEDED VCPU_OVER_PLAN_LIMIT")
DOC(SECTION, "Services")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services", SCOPE_VM_EXEC, NO_BODY, api_service_list, 0,
      "List services")
DOC(REPLY, "{services: Service[]}")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/services", SCOPE_VM_EXEC, MIB(1), api_service_create, 0,
      "Create a service, enable and start it")
DOC(BODY, "ServiceNew")
DOC(REPLY, "{success: bool, message: string, serviceName: string}")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS EXEC_EMPTY ENV_KEY_EMPTY "
    "ENV_KEY_CONTAINS_EQUALS AFTER_ARRAY_CONTAINS_EMPTY REQUIRES_ARRAY_CONTAINS_EMPTY ON_FAILURE_ARRAY_CONTAINS_EMPTY USER_EMPTY GROUP_EMPTY "
    "WORKDIR_EMPTY WANTED_BY_EMPTY SERVICE_ALREADY_EXISTS VALIDATION_ERROR")
ROUTE(DELETE, "/v1/vms/{vm_id}/systemd/services/{service_id}", SCOPE_VM_EXEC, NO_BODY, api_service_delete, 0,
      "Stop a service and remove its unit file")
DOC(REPLY, "{success: bool, message: string}")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services/{service_id}/status", SCOPE_VM_EXEC, NO_BODY, api_service_status, 0,
      "Status of a service")
DOC(REPLY, "Service")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services/{service_id}/logs", SCOPE_VM_EXEC, NO_BODY, api_service_logs, 0,
      "Journal of a service")
DOC(QUERY, "lines?: int, since?: string")
DOC(REPLY, "{logs: {message: string | null, timestamp: time | null, priority: int | null, unit: string | null}[]}")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/start", SCOPE_VM_EXEC, KIB(64), api_service_start, 0,
      "Start services")
DOC(BODY, "ServiceNames")
DOC(REPLY, "ServiceResults")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/stop", SCOPE_VM_EXEC, KIB(64), api_service_stop, 0,
      "Stop services")
DOC(BODY, "ServiceNames")
DOC(REPLY, "ServiceResults")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/restart", SCOPE_VM_EXEC, KIB(64), api_service_restart, 0,
      "Restart services")
DOC(BODY, "ServiceNames")
DOC(REPLY, "ServiceResults")
DOC(FAILS, "SERVICE_NAME_EMPTY SERVICE_NAME_TOO_LONG SERVICE_NAME_INVALID_PREFIX SERVICE_NAME_INVALID_CHARS SERVICE_NOT_FOUND")
DOC(SECTION, "Terminals of commands")
ROUTE(GET, "/v1/vms/{vm_id}/terminals", SCOPE_VM_EXEC, NO_BODY, api_terminal_list, 0,
      "List terminals: the output of commands that were run under a name")
DOC(REPLY, "{terminals: {name: string, status: string, created: time | null, lastOutput: time | null, user: string}[]}")
ROUTE(GET, "/v1/vms/{vm_id}/terminals/{terminal_id}/logs", SCOPE_VM_EXEC, NO_BODY, api_terminal_logs, 0,
      "The last lines of a terminal")
DOC(REPLY, "{logs: {line: string, timestamp: time}[], truncated: bool}")
DOC(FAILS, "SESSION_NOT_FOUND")
ROUTE(GET, "/v1/vms/{vm_id}/terminals/{terminal_id}/xterm-256color", SCOPE_VM_EXEC, NO_BODY, api_terminal_xterm, 0,
      "The same with escape sequences, for a terminal emulator")
DOC(REPLY, "{output: string}")
DOC(FAILS, "SESSION_NOT_FOUND")

/* a VM about itself, through its agent, and about what it made: self_check.c */
DOC(SECTION, "From inside a VM")
ROUTE(GET, "/v1/self", SCOPE_FROM_VM, NO_BODY, api_self_info, 0,
      "Who this VM is, and what it may do to itself")
DOC(REPLY, "SelfVm")
ROUTE(POST, "/v1/self/fork", SCOPE_FROM_VM, KIB(4), api_self_fork, 0,
      "Copy this VM; answered in the copies too")
DOC(BODY, "SelfFork")
DOC(REPLY, "{role: 'parent' | 'child', id: string, children?: string[]}")
DOC(FAILS, "BAD_REQUEST FORK_FAILED VPC_FORK_UNSUPPORTED MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED "
    "VM_LIMIT_EXCEEDED SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY "
    "INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/self/snapshot", SCOPE_FROM_VM, KIB(4), api_self_snapshot, 0,
      "Take a snapshot of this VM; answered again in what is made from it")
DOC(BODY, "SnapshotNew")
DOC(REPLY, "{role: string, id: string, snapshotId?: string}")
DOC(FAILS, "SNAPSHOT_VM_BAD_REQUEST MEMORY_STORAGE_QUOTA_EXCEEDED ROOTFS_STORAGE_QUOTA_EXCEEDED TOTAL_VM_LIMIT_EXCEEDED VM_LIMIT_EXCEEDED "
    "SNAPSHOT_LIMIT_EXCEEDED ROOTFS_OVER_PLAN_LIMIT MEM_OVER_PLAN_LIMIT VCPU_OVER_PLAN_LIMIT NO_LOCAL_STORAGE_CAPACITY INSUFFICIENT_SWAP")
ROUTE(POST, "/v1/self/suspend", SCOPE_FROM_VM, NO_BODY, api_self_suspend, 0,
      "Freeze this VM; answered when it runs again")
DOC(REPLY, "Id")
DOC(FAILS, "SUSPEND_FAILED_VM_RESUMED")
ROUTE(POST, "/v1/self/rewind", SCOPE_FROM_VM, KIB(4), api_self_rewind, 0,
      "Rewind this VM to a snapshot")
DOC(BODY, "Rewind")
DOC(REPLY, "{id: string, snapshotId: string | null, state: VmState, previousSnapshotId: string | null, vmInstanceId: string | null, generation: int}")
DOC(FAILS, "BAD_REQUEST INVALID_SNAPSHOT_ID SNAPSHOT_NOT_FOUND")
ROUTE(GET, "/v1/self/children", SCOPE_FROM_VM, NO_BODY, api_self_children, 0,
      "VMs that this VM made, and those they made")
DOC(REPLY, "{children: SelfVm[]}")
ROUTE(GET, "/v1/self/children/{vm_id}", SCOPE_FROM_VM, NO_BODY, api_self_child, 0,
      "One of them")
DOC(REPLY, "SelfVm")
ROUTE(DELETE, "/v1/self/children/{vm_id}", SCOPE_FROM_VM, NO_BODY, api_vm_delete, 0,
      "Delete it")
ROUTE(POST, "/v1/self/children/{vm_id}/exec-await", SCOPE_FROM_VM, MIB(4), api_vm_exec, 0,
      "Run a command in it and wait for its end")
ROUTE(POST, "/v1/self/children/{vm_id}/exec", SCOPE_FROM_VM, MIB(4), api_vm_exec_stream, 0,
      "Run a command in it; its output as server-sent events while it runs")
ROUTE(GET, "/v1/self/children/{vm_id}/raw-files/{path}", SCOPE_FROM_VM, NO_BODY, api_raw_get, 0,
      "The bytes of a file in it")
ROUTE_INTAKE(PUT, "/v1/self/children/{vm_id}/raw-files/{path}", SCOPE_FROM_VM, api_raw_put, api_raw_intake,
      "Write a file of any size in it")
ROUTE(POST, "/v1/self/children/{vm_id}/start", SCOPE_FROM_VM, KIB(4), api_vm_start, 0,
      "Resume or boot it")
ROUTE(POST, "/v1/self/children/{vm_id}/suspend", SCOPE_FROM_VM, NO_BODY, api_vm_suspend, 0,
      "Freeze it")
ROUTE(POST, "/v1/self/children/{vm_id}/await", SCOPE_FROM_VM, NO_BODY, api_vm_await, 0,
      "Wait until it stops running")
/* clang-format on */
