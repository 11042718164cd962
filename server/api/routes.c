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
