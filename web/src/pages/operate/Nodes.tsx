// SPDX-License-Identifier: Apache-2.0
// The machines that share this server's database, where there are several: health, load, and what to do with one that goes away.
import { api, url } from '../../lib/api';
import { bytes, count, duration, plural } from '../../lib/format';
import { Button } from '../../ui/Button';
import { Badge, Card, Progress } from '../../ui/parts';
import { Table } from '../../ui/Table';
import type { Data } from '../../lib/state';
import { confirmOnce, notify } from '../../ui/Toast';

interface Node { id: string; name: string; address: string; health: 'alive' | 'silent' | 'dead'; self: boolean; draining: boolean; version: string; vcpuCount: number; memoryMb: number; freeMemoryMb: number; runningVms: number; silentMs: number }
export interface Cluster { shared: boolean; nodes: Node[]; takenOver: { nodes: number; lostVms: number } }

const MB = 1048576;

export function Nodes({ of }: { of: Data<Cluster> }) {
	const c = of.data;
	if (!c)
		return null;
	const drain = async (n: Node, on: boolean): Promise<void> => {
		if (on && !await confirmOnce(`Drain ${n.name}?`, { text: `Its ${plural(n.runningVms, 'running VM')} will be suspended, and it gets no new ones. VMs that somebody uses are resumed there.`, action: 'Drain it' }))
			return;
		await api.post(url`/v1/cluster/nodes/${n.id}/drain`, { drain: on });
		notify(on ? `${n.name} is being drained.` : `${n.name} takes VMs again.`, { kind: 'good' });
		await of.reload();
	};
	const forget = async (n: Node): Promise<void> => {
		if (!await confirmOnce(`Forget ${n.name}?`, { text: 'Only if that machine is gone for good: the VMs and snapshots that only it has are lost, and this cannot be undone.', action: 'Forget it', danger: true, type: n.name }))
			return;
		await api.del(`${url`/v1/cluster/nodes/${n.id}`}?lose=true`);
		notify(`${n.name} is forgotten.`, { kind: 'good' });
		await of.reload();
	};
	return (
		<Card title="Nodes">
			<Table label="Nodes" rows={c.nodes} rowKey={(n) => n.id} order="name" columns={[
				{ key: 'name', title: 'Name', grow: true, sort: (n) => n.name, cell: (n) => <span><b>{n.name}</b>{n.self && <span class="muted"> (answers you)</span>}</span> },
				{ key: 'health', title: 'Health', sort: (n) => n.health, cell: (n) => <span class="row tight"><Badge kind={n.health === 'alive' ? 'good' : n.health === 'dead' ? 'bad' : 'warn'}>{n.health === 'alive' ? n.health : `${n.health} for ${duration(n.silentMs / 1000)}`}</Badge>{n.draining && <Badge kind="warn">drained</Badge>}</span> },
				{ key: 'vms', title: 'Running VMs', align: 'end', sort: (n) => n.runningVms, cell: (n) => count(n.runningVms) },
				{ key: 'memory', title: 'Memory free', cell: (n) => <span class="use"><span class="nowrap">{bytes(n.freeMemoryMb * MB)}<span class="muted"> of {bytes(n.memoryMb * MB)}</span></span>{n.memoryMb > 0 && <Progress value={1 - n.freeMemoryMb / n.memoryMb} label={`Memory used on ${n.name}`} />}</span> },
				{ key: 'cpus', title: 'vCPUs', align: 'end', hideNarrow: true, cell: (n) => n.vcpuCount },
				{ key: 'address', title: 'Address', hideNarrow: true, cell: (n) => <code>{n.address}</code> },
				{ key: 'version', title: 'Version', hideNarrow: true, cell: (n) => n.version },
				{ key: 'acts', title: '', align: 'end', cell: (n) => <span class="row tight">
					{n.health !== 'dead' && (n.draining ? <Button small onClick={() => drain(n, false)}>End draining</Button> : <Button small onClick={() => drain(n, true)}>Drain</Button>)}
					{n.health === 'dead' && !n.self && <Button small kind="danger" onClick={() => forget(n)}>Forget</Button>}</span> },
			]} />
			{c.takenOver.nodes > 0 && <p class="muted small">This node has taken over {plural(c.takenOver.nodes, 'node')} since it started; {plural(c.takenOver.lostVms, 'VM')} were lost with them.</p>}
		</Card>
	);
}
