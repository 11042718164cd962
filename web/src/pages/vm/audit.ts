// SPDX-License-Identifier: Apache-2.0
/* audit.ts - records of the audit log in words */

const WORDS: Record<string, string> = {
	'POST /v1/vms': 'created it', 'DELETE /v1/vms/{vm_id}': 'deleted it', 'PATCH /v1/vms/{vm_id}': 'changed its settings', 'POST /v1/vms/{vm_id}/start': 'started or resumed it',
	'POST /v1/vms/{vm_id}/stop': 'stopped it', 'POST /v1/vms/{vm_id}/kill': 'killed it', 'POST /v1/vms/{vm_id}/suspend': 'suspended it', 'POST /v1/vms/{vm_id}/fork': 'forked it',
	'POST /v1/vms/{vm_id}/snapshot': 'took a snapshot', 'POST /v1/vms/{vm_id}/rewind': 'rewound it', 'POST /v1/vms/{vm_id}/resize': 'changed its size', 'POST /v1/vms/{vm_id}/optimize': 'optimized its disk',
	'PUT /v1/vms/{vm_id}/egress': 'changed what it may reach', 'POST /v1/vms/{vm_id}/ports': 'mapped a port', 'DELETE /v1/vms/{vm_id}/ports/{port}': 'unmapped a port',
	'PUT /v1/vms/{vm_id}/files/{path}': 'wrote a file', 'PUT /v1/vms/{vm_id}/raw-files/{path}': 'uploaded a file', 'DELETE /v1/vms/{vm_id}/raw-files/{path}': 'deleted a file', 'PUT /v1/vms/{vm_id}/tar/{path}': 'unpacked an archive',
	'POST /v1/vms/{vm_id}/exec': 'ran a command', 'POST /v1/vms/{vm_id}/code': 'ran a cell', 'DELETE /v1/vms/{vm_id}/pty/sessions/{session_id}': 'ended a terminal session',
	'POST /v1/vms/{vm_id}/processes/{process_id}/signal': 'sent a signal', 'POST /v1/vms/{vm_id}/systemd/services': 'created a service', 'DELETE /v1/vms/{vm_id}/systemd/services/{service_id}': 'deleted a service',
	'POST /v1/vms/{vm_id}/systemd/start': 'started a service', 'POST /v1/vms/{vm_id}/systemd/stop': 'stopped a service', 'POST /v1/vms/{vm_id}/systemd/restart': 'restarted a service',
};
/* Many of these belong to looking at a VM: this page itself makes them. */
const SMALL: Record<string, string> = { 'POST /v1/vms/{vm_id}/pty/tickets': 'opened a terminal', 'POST /v1/vms/{vm_id}/exec-await': 'ran a command', 'GET /v1/vms/{vm_id}/pty': 'opened a terminal', 'GET /v1/vms/{vm_id}/pty/sessions/{session_id}': 'attached to a terminal' };

export function act(method: string, route: string): { text: string; matters: boolean } {
	const key = `${method} ${route}`;
	return { text: WORDS[key] ?? SMALL[key] ?? key, matters: key in WORDS };
}
