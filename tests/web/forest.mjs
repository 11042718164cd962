// SPDX-License-Identifier: Apache-2.0
// A forest of a given size for GET /v1/tree, always the same for the same seed: images, snapshots, chains of forks, and
// crowds of VMs on one snapshot, as agents make them.

function random(seed) {
	let s = seed >>> 0 || 1;
	return () => {
		s ^= s << 13;
		s >>>= 0;
		s ^= s >>> 17;
		s ^= s << 5;
		s >>>= 0;
		return s / 4294967296;
	};
}

export function forest(size, seed = 7) {
	const rnd = random(seed);
	const pick = (list) => list[Math.floor(rnd() * list.length)];
	const words = ['web', 'agent', 'build', 'db', 'lab', 'fuzz', 'train', 'crawl', 'review', 'test'];
	const states = ['running', 'running', 'running', 'suspended', 'suspended', 'suspended', 'stopped', 'starting', 'lost'];
	const nodes = [];
	const vms = [];
	const id = (prefix) => prefix + Array.from({ length: 20 }, () => pick('abcdefghijklmnopqrstuvwxyz0123456789')).join('');
	const start = Date.UTC(2026, 0, 5);
	const node = (more) => {
		const n = { parent: null, name: null, createdAt: new Date(start + nodes.length * 61_000).toISOString(), snapshotId: null, snapshots: [], sourceVmId: null,
			sizing: { vcpuCount: 2, memSizeMib: 1024, rootfsSizeMb: 20480 }, memory: { ownBytes: Math.floor(rnd() ** 3 * 4e8), sharedBytes: 2e8 + Math.floor(rnd() * 3e8) },
			disk: { ownBytes: Math.floor(rnd() ** 2 * 1e9), sharedBytes: 1.4e9 }, ...more };
		(n.type === 'vm' ? vms : nodes).push(n);
		return n;
	};
	const roots = [node({ id: id('pt-'), type: 'point', kind: 'template', shared: true, memory: { ownBytes: 0, sharedBytes: 1.9e8 } })];
	if (size > 300)
		roots.push(node({ id: id('pt-'), type: 'point', kind: 'template', shared: true, sizing: { vcpuCount: 4, memSizeMib: 4096, rootfsSizeMb: 20480 } }));
	const points = [...roots];
	let crowd = null;
	while (nodes.length + vms.length < size) {
		const what = rnd();
		if (what < 0.14) {
			const sc = id('sc-');
			const name = `${pick(words)} ${pick(['ready', 'before deploy', 'clean', 'seeded'])}`;
			const p = node({ id: id('pt-'), type: 'point', kind: 'snapshot', parent: pick(points).id, snapshotId: sc, name });
			p.snapshots = [{ snapshotId: sc, name, createdAt: p.createdAt }];
			points.push(p);
			if (rnd() < 0.3)
				crowd = p;
		} else if (what < 0.24) {
			points.push(node({ id: id('pt-'), type: 'point', kind: pick(['fork', 'suspend']), parent: pick(points).id }));
		} else {
			const parent = crowd && rnd() < 0.55 ? crowd : pick(points);
			node({ id: id(''), type: 'vm', kind: 'vm', parent: parent.id, state: pick(states), name: rnd() < 0.7 ? `${pick(words)}-${vms.length}` : null });
		}
	}
	return { roots: roots.map((r) => r.id), nodes: [...nodes, ...vms], totals: { memoryBytes: 7.1e9, diskBytes: 64e9 } };
}
