// SPDX-License-Identifier: Apache-2.0
/* types.ts - replies of the VM routes, as far as these pages look at them */

export interface Persistence { type: 'sticky' | 'ephemeral' | 'persistent'; priority?: number; deleteEvent?: string }

export interface Vm {
	id: string;
	state: string;
	name: string | null;
	createdAt: string | null;
	lastNetworkActivity: string | null;
	snapshotId: string | null;
	buildId: string | null;
	persistence: Persistence;
	sizing: { vcpuCount: number; memSizeMib: number; rootfsSizeMb: number };
	parentVmId: string | null;
	usage: {
		cpuSeconds: number; wallSeconds: number; memoryGbSeconds: number; networkInBytes: number; networkOutBytes: number;
		diskReadBytes: number; diskWriteBytes: number;
	};
	deleteAt: string | null;
	recreate: boolean;
	idleTimeoutSeconds: number | null;
	activityThresholdBytes: number;
	countExecAsActivity: boolean;
	workdir: string | null;
	selfAccess: unknown;
	tags: string[];
	metadata: Record<string, string>;
}

export interface PtySession {
	sessionId: string;
	running: boolean;
	cols: number;
	rows: number;
	createdAtMs: number;
	attachedCount: number;
	exec: string | null;
	exitCode?: number | null;
	user?: string | null;
	suspended?: boolean;
}

export interface TreeNode {
	id: string;
	type: 'point' | 'vm';
	kind: string;
	parent: string | null;
	name: string | null;
	state?: string;
	createdAt: string;
	sourceVmId?: string | null;
	snapshotId?: string | null;
	snapshots?: { snapshotId: string; name: string | null; createdAt: string }[];
}
export interface Tree { roots: string[]; nodes: TreeNode[] }

export interface Process {
	processId: string;
	pid: number;
	command: string;
	user: string;
	startedAt: string;
	running: boolean;
	attached: boolean;
	timedOut: boolean;
	stdinOpen: boolean;
	statusCode: number | null;
	signal: string | null;
	durationMs: number;
	stdoutBytes: number;
	stderrBytes: number;
}

export interface Service { name: string; loadState?: string; activeState?: string; subState?: string; description?: string }

/** A name for a command that is shown to be copied: its own only if a shell takes it as one plain word. */
export function word(of: { id: string; name: string | null }): string {
	return of.name && /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(of.name) ? of.name : of.id;
}

/** Does looking into the VM leave it as it is? In any other state, a command or a file resumes or boots it. */
export function awake(vm: Vm): boolean {
	return vm.state === 'running';
}

/** The snapshots among a VM's ancestors, nearest first: those it can be rewound to. */
export function ancestors(tree: Tree, vmId: string): { snapshotId: string; name: string | null; createdAt: string }[] {
	const by = new Map(tree.nodes.map((n) => [n.id, n]));
	const out: { snapshotId: string; name: string | null; createdAt: string }[] = [];
	let n = by.get(vmId);
	for (let steps = 0; n && steps < tree.nodes.length + 1; steps++) {
		n = n.parent ? by.get(n.parent) : undefined;
		out.push(...[...(n?.snapshots ?? [])].reverse());
	}
	return out;
}

/** The VMs and snapshots of a family that another one can be compared with. */
export function relatives(tree: Tree, vmId: string): { id: string; label: string; kind: 'vm' | 'snapshot'; state?: string }[] {
	const out: { id: string; label: string; kind: 'vm' | 'snapshot'; state?: string }[] = [];
	for (const n of tree.nodes) {
		if (n.type === 'vm' && n.id !== vmId)
			out.push({ id: n.id, label: n.name ?? n.id, kind: 'vm', state: n.state });
		for (const s of n.snapshots ?? [])
			out.push({ id: s.snapshotId, label: s.name ?? s.snapshotId, kind: 'snapshot' });
	}
	return out;
}
