/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - THE route table: everything the API answers, with its policy and its help */
#include "api/api_internal.h"

#include "base/auto.h"

#define NO_BODY API_BODY_IGNORED
#define FILE_BODY (MIB(352)) /* 256 MiB in base64, and the JSON around it */

/* clang-format off */
const struct route api_routes[] = {
	{ METHOD_GET,    "/v1/health",                     SCOPE_PUBLIC,   NO_BODY,   api_health,
	  "State of the server: version, accelerator, template" },
	{ METHOD_GET,    "/auth/v1/whoami",                SCOPE_ACCOUNT,  NO_BODY,   api_whoami,
	  "The account behind the key" },

	{ METHOD_POST,   "/v1/vms",                        SCOPE_VM_WRITE, MIB(4),    api_vm_create,
	  "Create a VM from the base template or a snapshot" },
	{ METHOD_GET,    "/v1/vms",                        SCOPE_VM_READ,  NO_BODY,   api_vm_list,
	  "List VMs; limit, offset, vmState, search" },
	{ METHOD_GET,    "/v1/vms/{vm_id}",                SCOPE_VM_READ,  NO_BODY,   api_vm_get,
	  "One VM" },
	{ METHOD_DELETE, "/v1/vms/{vm_id}",                SCOPE_VM_WRITE, NO_BODY,   api_vm_delete,
	  "Delete a VM for good" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/start",          SCOPE_VM_WRITE, KIB(64),   api_vm_start,
	  "Resume or boot a VM" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/stop",           SCOPE_VM_WRITE, NO_BODY,   api_vm_stop,
	  "Shut a VM down; its disk stays" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/kill",           SCOPE_VM_WRITE, NO_BODY,   api_vm_kill,
	  "Stop a VM without asking it" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/suspend",        SCOPE_VM_WRITE, NO_BODY,   api_vm_suspend,
	  "Freeze a VM with its memory" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/fork",           SCOPE_VM_WRITE, KIB(64),   api_vm_fork,
	  "Live copies of a VM, with its memory" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/snapshot",       SCOPE_VM_WRITE, KIB(64),   api_vm_snapshot,
	  "Keep the VM as it is now under an id" },

	{ METHOD_POST,   "/v1/vms/{vm_id}/exec-await",     SCOPE_VM_EXEC,  MIB(4),    api_vm_exec,
	  "Run a command to its end" },
	{ METHOD_GET,    "/v1/vms/{vm_id}/files/{path}",   SCOPE_VM_EXEC,  NO_BODY,   api_file_get,
	  "Read a file or list a directory; the path is one encoded segment" },
	{ METHOD_PUT,    "/v1/vms/{vm_id}/files/{path}",   SCOPE_VM_EXEC,  FILE_BODY, api_file_put,
	  "Write a file" },

	/* streams */
	{ METHOD_POST,   "/v1/vms/{vm_id}/exec",           SCOPE_VM_EXEC,  MIB(16),   api_vm_exec_stream,
	  "Run a command; its output as server-sent events while it runs" },
	{ METHOD_GET,    "/v1/vms/{vm_id}/processes",      SCOPE_VM_EXEC,  NO_BODY,   api_process_list,
	  "List the processes that were started detached, and the attached ones that run" },
	{ METHOD_GET,    "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_get,
	  "One process" },
	{ METHOD_DELETE, "/v1/vms/{vm_id}/processes/{process_id}", SCOPE_VM_EXEC, NO_BODY, api_process_delete,
	  "Forget a process that has ended" },
	{ METHOD_GET,    "/v1/vms/{vm_id}/processes/{process_id}/output", SCOPE_VM_EXEC, NO_BODY,
	  api_process_output, "Output from an offset on; stream, offset, follow" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/processes/{process_id}/signal", SCOPE_VM_EXEC, KIB(4),
	  api_process_signal, "Send a signal to a process and its group" },
	{ METHOD_POST,   "/v1/vms/{vm_id}/processes/{process_id}/stdin", SCOPE_VM_EXEC, API_BODY_STREAMED,
	  api_process_stdin, "Write the body to a process's stdin; eof", &api_stdin_intake },
	{ METHOD_GET,    "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY,  api_raw_get,
	  "A file's bytes; Range" },
	{ METHOD_PUT,    "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, API_BODY_STREAMED, api_raw_put,
	  "Write a file of any size; mode", &api_raw_intake },
	{ METHOD_DELETE, "/v1/vms/{vm_id}/raw-files/{path}", SCOPE_VM_EXEC, NO_BODY,  api_raw_delete,
	  "Remove a file or directory; recursive" },
	{ METHOD_GET,    "/v1/vms/{vm_id}/tar/{path}",     SCOPE_VM_EXEC,  NO_BODY,   api_tar_get,
	  "A directory as a tar archive; gzip" },
	{ METHOD_PUT,    "/v1/vms/{vm_id}/tar/{path}",     SCOPE_VM_EXEC,  API_BODY_STREAMED, api_tar_put,
	  "Unpack a tar archive below a directory; gzip, owners", &api_tar_intake },
	{ METHOD_POST,   "/v1/vms/{vm_id}/watch-files",    SCOPE_VM_EXEC,  KIB(16),   api_watch_files,
	  "Changes to files as they happen; path" },

	{ METHOD_GET,    "/v1/vms/snapshots",               SCOPE_VM_READ,  NO_BODY,  api_snapshot_list,
	  "List snapshots; includeDeleted" },
	{ METHOD_POST,   "/v1/vms/snapshots",               SCOPE_VM_WRITE, MIB(4),   api_snapshot_create,
	  "Make a snapshot from a spec (refused: not there yet)" },
	{ METHOD_GET,    "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_READ,  NO_BODY,  api_snapshot_get,
	  "One snapshot" },
	{ METHOD_PATCH,  "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, KIB(64),  api_snapshot_rename,
	  "Rename a snapshot" },
	{ METHOD_DELETE, "/v1/vms/snapshots/{snapshot_id}", SCOPE_VM_WRITE, NO_BODY,  api_snapshot_delete,
	  "Delete a snapshot" },
};
/* clang-format on */
const size_t api_n_routes = ARRAY_SIZE(api_routes);
