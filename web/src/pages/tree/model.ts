// SPDX-License-Identifier: Apache-2.0
// GET /v1/tree as objects: nodes with their children, and what the page asks of them.
import { shortTime } from '../../lib/format';

export interface Bytes { ownBytes: number; sharedBytes: number }
export interface RawNode {
	id: string;
	type: 'point' | 'vm';
	kind: 'template' | 'snapshot' | 'suspend' | 'fork' | 'vm' | string;
	parent: string | null;
	name?: string | null;
	createdAt?: string | null;
	shared?: boolean;
	state?: string;
	snapshotId?: string | null;
	snapshots?: { snapshotId: string; name: string | null; createdAt: string }[];
	sourceVmId?: string | null;
	parentVmId?: string | null;
	sizing?: { vcpuCount: number; memSizeMib: number; rootfsSizeMb: number } | null;
	memory?: Bytes;
	disk?: Bytes;
	/** Of a running VM: what only its process has of memory, now. */
	privateBytes?: number;
}
export interface RawTree { roots: string[]; nodes: RawNode[]; totals: { memoryBytes: number; diskBytes: number } }

export interface Node {
	id: string;
	raw: RawNode;
	parent: Node | null;
	children: Node[];
	/** VMs at or below it. */
	vms: number;
	label: string;
	/* Layout: where it belongs, and where it is drawn now. */
	x: number;
	y: number;
	nowX: number;
	nowY: number;
	r: number;
	/** Its label stands to the right (else only when zoomed in, below). */
	labelled: boolean;
	born: number;
}
export interface Forest {
	roots: Node[];
	byId: Map<string, Node>;
	all: Node[];
	/** The same nodes in the same places as in the forest before it: nothing to lay out. */
	same: boolean;
}

/** Points that nobody named are called after the VM they are of, and when: "fork of web, 14:02". */
export function labelOf(n: RawNode, source: RawNode | null = null, now = Date.now()): string {
	if (n.name)
		return n.name;
	if (n.kind === 'template')
		return 'Base image';
	const at = n.createdAt ? ', ' + shortTime(n.createdAt, now) : '';
	const of = source ? labelOf(source) : null;
	if (n.kind === 'fork')
		return (of ? `fork of ${of}` : 'fork point') + at;
	if (n.kind === 'suspend')
		return (of ? `${of} suspended` : 'suspended VM') + at;
	if (n.kind === 'snapshot')
		return (of ? `snapshot of ${of}` : 'snapshot') + at;
	return n.id.length > 9 ? n.id.slice(0, 8) + '…' : n.id;
}

export function kindName(n: RawNode): string {
	switch (n.kind) {
	case 'vm': return 'VM';
	case 'template': return 'Image';
	case 'snapshot': return 'Snapshot';
	case 'suspend': return 'Where a VM was suspended';
	case 'fork': return 'Fork point';
	default: return n.kind;
	}
}

/** In layers or, while it runs, in RAM. */
export function ownMemory(n: RawNode): number {
	return (n.memory?.ownBytes ?? 0) + (n.privateBytes ?? 0);
}

/** 5 to 15: grows with the logarithm of the memory that only this node has. */
function radius(n: RawNode): number {
	const mb = ownMemory(n) / 1e6;
	const size = mb > 1 ? Math.min(8, Math.log2(mb) * 0.8) : 0;
	if (n.type === 'vm')
		return 6.5 + size;
	if (n.kind === 'template')
		return 11;
	return n.kind === 'snapshot' ? 6 + size * 0.8 : 3.5 + size * 0.6;
}

/** Objects of nodes that were there before are kept, with where they are drawn: so that changes can be animated. */
export function build(tree: RawTree, before: Forest | null, now: number): Forest {
	const byId = new Map<string, Node>();
	const all: Node[] = [];
	let same = before !== null && before.all.length === tree.nodes.length;
	for (const raw of tree.nodes) {
		const old = before?.byId.get(raw.id);
		const n: Node = old ?? { id: raw.id, raw, parent: null, children: [], vms: 0, label: '', x: 0, y: 0, nowX: NaN, nowY: NaN, r: 0, labelled: false, born: before ? now : 0 };
		const r = radius(raw);
		same &&= before?.all[all.length] === n && n.raw.parent === raw.parent && n.r === r;
		n.raw = raw;
		n.parent = null;
		n.children = [];
		n.r = r;
		byId.set(raw.id, n);
		all.push(n);
	}
	for (const n of all)
		n.label = labelOf(n.raw, n.raw.sourceVmId ? byId.get(n.raw.sourceVmId)?.raw : null);
	const roots: Node[] = [];
	for (const n of all) {
		const p = n.raw.parent !== null ? byId.get(n.raw.parent) : undefined;
		if (p && p !== n) {
			n.parent = p;
			p.children.push(n);
		} else {
			roots.push(n);
		}
	}
	/* Parents come before their children in the reply, so backwards each child is counted before its parent. */
	for (const n of all)
		n.vms = n.raw.type === 'vm' ? 1 : 0;
	for (let i = all.length - 1; i >= 0; i--) {
		const n = all[i] as Node;
		if (n.parent)
			n.parent.vms += n.vms;
	}
	return { roots, byId, all, same };
}

export function ancestors(n: Node): Node[] {
	const list: Node[] = [];
	const seen = new Set<Node>([n]);
	for (let p = n.parent; p && !seen.has(p); p = p.parent) {
		seen.add(p);
		list.push(p);
	}
	return list;
}

/** Snapshots that a VM can be rewound to, newest first. */
export function rewindTargets(n: Node): { snapshotId: string; name: string | null; createdAt: string }[] {
	return ancestors(n).flatMap((a) => a.raw.snapshots ?? []).sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}

export function matches(n: Node, text: string): boolean {
	const t = text.toLowerCase();
	return n.id.toLowerCase().includes(t) || n.label.toLowerCase().includes(t) || (n.raw.state ?? '') === t || n.raw.kind === t ||
		!!n.raw.snapshots?.some((s) => s.snapshotId.includes(t) || (s.name ?? '').toLowerCase().includes(t));
}
