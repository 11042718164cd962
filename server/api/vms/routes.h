/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/vms/routes.h - VMs and what runs in them: /v1/vms, /v1/code, /v1/tree
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive. No include guard: handlers.h makes the prototypes from it,
 * routes.c the table.
 */
/* clang-format off */
ROUTE(POST, "/v1/vms", SCOPE_VM_WRITE, SPEC_BODY, api_vm_create, ROUTE_BACKGROUND | ROUTE_MANY,
      "Create a VM from the base template, a snapshot or a spec")
ROUTE(GET, "/v1/vms", SCOPE_SELF, NO_BODY, api_vm_list, 0,
      "List VMs; limit, offset, vmState, includeDeleted, search, tags, metadata")
ROUTE(GET, "/v1/vms/{vm_id}", SCOPE_VM_LOOK, NO_BODY, api_vm_get, 0,
      "Get a VM")
ROUTE(PATCH, "/v1/vms/{vm_id}", SCOPE_VM_WRITE, KIB(64), api_vm_change, 0,
      "Change name, tags, metadata, settings and end of life of a VM; wakes nothing")
ROUTE(DELETE, "/v1/vms/{vm_id}", SCOPE_VM_WRITE, NO_BODY, api_vm_delete, 0,
      "Delete a VM permanently")
ROUTE(POST, "/v1/vms/{vm_id}/start", SCOPE_VM_LOOK, KIB(64), api_vm_start, 0,
      "Resume or boot a VM")
ROUTE(POST, "/v1/vms/{vm_id}/stop", SCOPE_VM_WRITE, NO_BODY, api_vm_stop, 0,
      "Shut a VM down; its disk is kept")
ROUTE(POST, "/v1/vms/{vm_id}/kill", SCOPE_VM_WRITE, NO_BODY, api_vm_kill, 0,
      "Power a VM off without a shutdown")
ROUTE(POST, "/v1/vms/{vm_id}/suspend", SCOPE_VM_WRITE, NO_BODY, api_vm_suspend, 0,
      "Freeze a VM with its memory")
ROUTE(POST, "/v1/vms/{vm_id}/fork", SCOPE_VM_WRITE, KIB(64), api_vm_fork, 0,
      "Make live copies of a VM, with its memory")
ROUTE(POST, "/v1/vms/{vm_id}/snapshot", SCOPE_VM_WRITE, KIB(64), api_vm_snapshot, 0,
      "Take a snapshot of a VM, with its memory")
ROUTE(POST, "/v1/vms/{vm_id}/await", SCOPE_VM_READ, NO_BODY, api_vm_await, 0,
      "Wait until the VM stops running")
ROUTE(POST, "/v1/vms/{vm_id}/resize", SCOPE_VM_WRITE, KIB(64), api_vm_resize, 0,
      "Change vCPUs and memory, enlarge the disk")
ROUTE(POST, "/v1/vms/{vm_id}/optimize", SCOPE_VM_WRITE, NO_BODY, api_vm_optimize, 0,
      "Trim the VM's disk and shorten its chains now")
ROUTE(GET, "/v1/vms/{vm_id}/ports", SCOPE_VM_LOOK, NO_BODY, api_vm_ports, 0,
      "Ports of this server that lead to ports of a VM, and where its own name leads")
ROUTE(POST, "/v1/vms/{vm_id}/ports", SCOPE_VM_WRITE, KIB(64), api_vm_port_set, 0,
      "Map a port to a port of a VM; targetPort, port (443: the VM's own name; left out: a free one), protocol")
ROUTE(DELETE, "/v1/vms/{vm_id}/ports/{port}", SCOPE_VM_WRITE, NO_BODY, api_vm_port_delete, 0,
      "Unmap a port of a VM; protocol")
ROUTE(GET, "/v1/vms/{vm_id}/stats/stream", SCOPE_VM_READ, NO_BODY, api_vm_stats, 0,
      "CPU, memory, disk and network as lines of JSON; interval_ms")
ROUTE(GET, "/v1/vms/{vm_id}/history", SCOPE_VM_READ, NO_BODY, api_vm_history, 0,
      "CPU, memory, disk and network of a VM in the last hour; wakes nothing")
ROUTE(POST, "/v1/vms/{vm_id}/exec-await", SCOPE_VM_EXEC, MIB(4), api_vm_exec, 0,
      "Run a command and wait for its end")
ROUTE(GET, "/v1/vms/{vm_id}/files/{path}", SCOPE_VM_EXEC, NO_BODY, api_file_get, 0,
      "Read a file or list a directory; the path is one encoded segment")
ROUTE(PUT, "/v1/vms/{vm_id}/files/{path}", SCOPE_VM_EXEC, FILE_BODY, api_file_put, 0,
      "Write a file")

/* streams */
ROUTE(POST, "/v1/vms/{vm_id}/exec", SCOPE_VM_EXEC, MIB(16), api_vm_exec_stream, 0,
      "Run a command; its output as server-sent events while it runs")
ROUTE(GET, "/v1/vms/{vm_id}/processes", SCOPE_VM_EXEC, NO_BODY, api_process_list, 0,
      "List detached processes, and attached ones that are running")
ROUTE(GET, "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_get, 0,
      "Get a process")
ROUTE(DELETE, "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_delete, 0,
      "Remove a finished process from the list")
ROUTE(GET, "/v1/vms/{vm_id}/processes/{process_id}/output", SCOPE_VM_EXEC, NO_BODY, api_process_output, 0,
      "Output of a process from an offset on; stream, offset, follow")
ROUTE(POST, "/v1/vms/{vm_id}/processes/{process_id}/signal", SCOPE_VM_EXEC, KIB(4), api_process_signal, 0,
      "Send a signal to a process and its group")
ROUTE_INTAKE(POST, "/v1/vms/{vm_id}/processes/{process_id}/stdin", SCOPE_VM_EXEC, api_process_stdin, api_stdin_intake,
      "Write the body to a process's stdin; eof")
ROUTE(GET, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY, api_raw_get, 0,
      "A file's bytes; Range")
ROUTE_INTAKE(PUT, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, api_raw_put, api_raw_intake,
      "Write a file of any size; mode")
ROUTE(DELETE, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY, api_raw_delete, 0,
      "Remove a file or directory; recursive")
ROUTE(GET, "/v1/vms/{vm_id}/tar/{path}", SCOPE_VM_EXEC, NO_BODY, api_tar_get, 0,
      "A directory as a tar archive; gzip")
ROUTE_INTAKE(PUT, "/v1/vms/{vm_id}/tar/{path}", SCOPE_VM_EXEC, api_tar_put, api_tar_intake,
      "Unpack a tar archive below a directory; gzip, owners")
ROUTE(POST, "/v1/vms/{vm_id}/watch-files", SCOPE_VM_EXEC, KIB(16), api_watch_files, 0,
      "Changes to files as they happen; path")

/* code interpreter */
ROUTE(POST, "/v1/code", SCOPE_VM_WRITE, MIB(2), api_code, 0,
      "Run a cell in a new VM that is deleted afterwards; stream")
ROUTE(POST, "/v1/vms/{vm_id}/code", SCOPE_VM_EXEC, MIB(2), api_vm_code, 0,
      "Run a cell in a context that keeps its variables; stream")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts", SCOPE_VM_EXEC, MIB(1), api_context_create, 0,
      "Create a context: a kernel of its own")
ROUTE(GET, "/v1/vms/{vm_id}/code/contexts", SCOPE_VM_EXEC, NO_BODY, api_context_list, 0,
      "List contexts")
ROUTE(DELETE, "/v1/vms/{vm_id}/code/contexts/{context_id}", SCOPE_VM_EXEC, NO_BODY, api_context_delete, 0,
      "End a context with its kernel")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts/{context_id}/restart", SCOPE_VM_EXEC, NO_BODY, api_context_restart, 0,
      "Restart a context's kernel")
ROUTE(POST, "/v1/vms/{vm_id}/code/contexts/{context_id}/interrupt", SCOPE_VM_EXEC, NO_BODY, api_context_interrupt, 0,
      "Interrupt the running cell")

/* terminal sessions */
ROUTE(GET, "/v1/vms/{vm_id}/pty", SCOPE_VM_EXEC, NO_BODY, api_pty_open, 0,
      "Open a terminal session (WebSocket); cols, rows, exec, sessionId, ticket")
ROUTE(GET, "/v1/vms/{vm_id}/pty/sessions", SCOPE_VM_EXEC, NO_BODY, api_pty_list, 0,
      "List terminal sessions")
ROUTE(GET, "/v1/vms/{vm_id}/pty/sessions/{session_id}", SCOPE_VM_EXEC, NO_BODY, api_pty_attach, 0,
      "Attach to a terminal session (WebSocket); cols, rows, ticket")
ROUTE(DELETE, "/v1/vms/{vm_id}/pty/sessions/{session_id}", SCOPE_VM_EXEC, NO_BODY, api_pty_close, 0,
      "Kill a terminal session")
ROUTE(POST, "/v1/vms/{vm_id}/pty/tickets", SCOPE_VM_EXEC, KIB(4), api_pty_ticket, 0,
      "Create a ticket with which a browser opens or attaches to a terminal session once")
ROUTE(GET, "/v1/vms/snapshots", SCOPE_VM_READ, NO_BODY, api_snapshot_list, 0,
      "List snapshots; includeDeleted, includeFailed, includeBuilding, includeCancelled, includeLost")
ROUTE(POST, "/v1/vms/snapshots", SCOPE_VM_WRITE, SPEC_BODY, api_snapshot_create, ROUTE_BACKGROUND | ROUTE_MANY,
      "Build a snapshot from a spec")
ROUTE(GET, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_READ, NO_BODY, api_snapshot_get, 0,
      "Get a snapshot")
ROUTE(PATCH, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, KIB(64), api_snapshot_rename, 0,
      "Rename a snapshot")
ROUTE(DELETE, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, NO_BODY, api_snapshot_delete, 0,
      "Delete a snapshot")
ROUTE(GET, "/v1/vms/{vm_id}/build", SCOPE_VM_LOOK, NO_BODY, api_vm_build, 0,
      "The build a VM came from")
ROUTE(GET, "/v1/vms/builds", SCOPE_VM_READ, NO_BODY, api_build_list, 0,
      "Builds, the newest first; state, limit, accountId (operator)")
ROUTE(GET, "/v1/vms/builds/{build_id}", SCOPE_VM_READ, NO_BODY, api_build_get, 0,
      "Get a build")
ROUTE(GET, "/v1/vms/builds/{build_id}/phases", SCOPE_VM_READ, NO_BODY, api_build_phases, 0,
      "Steps of a build so far")

/* egress, private networks, tunnels */
ROUTE(GET, "/v1/vms/{vm_id}/egress", SCOPE_VM_READ, NO_BODY, api_egress_get, 0,
      "What a VM may reach; secrets are masked")
ROUTE(PUT, "/v1/vms/{vm_id}/egress", SCOPE_VM_WRITE, KIB(256), api_egress_put, 0,
      "Change what a VM may reach, at once; mode, rules, inject, bandwidth")
ROUTE(GET, "/v1/vms/{vm_id}/egress/blocked", SCOPE_VM_READ, NO_BODY, api_egress_blocked, 0,
      "Destinations that were blocked, newest first")
ROUTE(GET, "/v1/tree", SCOPE_VM_READ, NO_BODY, api_tree, 0,
      "All points and VMs of the account, with parents, states and sizes")
ROUTE(GET, "/v1/vms/{vm_id}/tree", SCOPE_VM_READ, NO_BODY, api_vm_tree, 0,
      "The tree around one VM")
ROUTE(POST, "/v1/vms/{vm_id}/rewind", SCOPE_VM_WRITE, KIB(64), api_vm_rewind, 0,
      "Rewind a VM to an ancestor snapshot; keep, snapshotId")
ROUTE(GET, "/v1/vms/{vm_id}/diff", SCOPE_VM_READ, NO_BODY, api_vm_diff, 0,
      "Files that differ from a relative; with, path, ignore, limit, cursor")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services", SCOPE_VM_EXEC, NO_BODY, api_service_list, 0,
      "List services")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/services", SCOPE_VM_EXEC, MIB(1), api_service_create, 0,
      "Create a service, enable and start it")
ROUTE(DELETE, "/v1/vms/{vm_id}/systemd/services/{service_id}", SCOPE_VM_EXEC, NO_BODY, api_service_delete, 0,
      "Stop a service and remove its unit file")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services/{service_id}/status", SCOPE_VM_EXEC, NO_BODY, api_service_status, 0,
      "Status of a service")
ROUTE(GET, "/v1/vms/{vm_id}/systemd/services/{service_id}/logs", SCOPE_VM_EXEC, NO_BODY, api_service_logs, 0,
      "Journal of a service; lines, since")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/start", SCOPE_VM_EXEC, KIB(64), api_service_start, 0,
      "Start services")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/stop", SCOPE_VM_EXEC, KIB(64), api_service_stop, 0,
      "Stop services")
ROUTE(POST, "/v1/vms/{vm_id}/systemd/restart", SCOPE_VM_EXEC, KIB(64), api_service_restart, 0,
      "Restart services")
ROUTE(GET, "/v1/vms/{vm_id}/terminals", SCOPE_VM_EXEC, NO_BODY, api_terminal_list, 0,
      "List terminals: the output of commands that were run under a name")
ROUTE(GET, "/v1/vms/{vm_id}/terminals/{terminal_id}/logs", SCOPE_VM_EXEC, NO_BODY, api_terminal_logs, 0,
      "The last lines of a terminal")
ROUTE(GET, "/v1/vms/{vm_id}/terminals/{terminal_id}/xterm-256color", SCOPE_VM_EXEC, NO_BODY, api_terminal_xterm, 0,
      "The same with escape sequences, for a terminal emulator")

/* a VM about itself, through its agent, and about what it made: self_check.c */
ROUTE(GET, "/v1/self", SCOPE_FROM_VM, NO_BODY, api_self_info, 0,
      "Who this VM is, and what it may do to itself")
ROUTE(POST, "/v1/self/fork", SCOPE_FROM_VM, KIB(4), api_self_fork, 0,
      "Copy this VM; answered in the copies too; count, inherit")
ROUTE(POST, "/v1/self/snapshot", SCOPE_FROM_VM, KIB(4), api_self_snapshot, 0,
      "Take a snapshot of this VM; answered again in what is made from it; name")
ROUTE(POST, "/v1/self/suspend", SCOPE_FROM_VM, NO_BODY, api_self_suspend, 0,
      "Freeze this VM; answered when it runs again")
ROUTE(POST, "/v1/self/rewind", SCOPE_FROM_VM, KIB(4), api_self_rewind, 0,
      "Rewind this VM to a snapshot; keep, snapshotId")
ROUTE(GET, "/v1/self/children", SCOPE_FROM_VM, NO_BODY, api_self_children, 0,
      "VMs that this VM made, and those they made")
ROUTE(GET, "/v1/self/children/{vm_id}", SCOPE_FROM_VM, NO_BODY, api_self_child, 0,
      "One of them")
ROUTE(DELETE, "/v1/self/children/{vm_id}", SCOPE_FROM_VM, NO_BODY, api_vm_delete, 0,
      "Delete it")
ROUTE(POST, "/v1/self/children/{vm_id}/exec-await", SCOPE_FROM_VM, MIB(4), api_vm_exec, 0,
      "Run a command in it and wait for its end")
ROUTE(POST, "/v1/self/children/{vm_id}/exec", SCOPE_FROM_VM, MIB(4), api_vm_exec_stream, 0,
      "Run a command in it; its output as server-sent events while it runs")
ROUTE(GET, "/v1/self/children/{vm_id}/raw-files/{path}", SCOPE_FROM_VM, NO_BODY, api_raw_get, 0,
      "The bytes of a file in it; Range")
ROUTE_INTAKE(PUT, "/v1/self/children/{vm_id}/raw-files/{path}", SCOPE_FROM_VM, api_raw_put, api_raw_intake,
      "Write a file of any size in it; mode")
ROUTE(POST, "/v1/self/children/{vm_id}/start", SCOPE_FROM_VM, KIB(4), api_vm_start, 0,
      "Resume or boot it")
ROUTE(POST, "/v1/self/children/{vm_id}/suspend", SCOPE_FROM_VM, NO_BODY, api_vm_suspend, 0,
      "Freeze it")
ROUTE(POST, "/v1/self/children/{vm_id}/await", SCOPE_FROM_VM, NO_BODY, api_vm_await, 0,
      "Wait until it stops running")
/* clang-format on */
