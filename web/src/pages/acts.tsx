// SPDX-License-Identifier: Apache-2.0
// What can be done to VMs and snapshots, wherever they are shown: the tree, the list, the palette. Fork, snapshot,
// rewind and create ask for their details in a dialog; delete waits ten seconds for an undo.
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { api, url } from '../lib/api';
import { ago, dateTime, plural, vmName } from '../lib/format';
import { navigate } from '../lib/route';
import { useData } from '../lib/state';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Field, Loaded } from '../ui/parts';
import { confirmOnce, failed, notify, undoable } from '../ui/Toast';

export interface Vm {
	id: string;
	name?: string | null;
	state?: string;
}
interface Target { snapshotId: string; name: string | null; createdAt: string }

type Asked = { what: 'fork'; vm: Vm } | { what: 'snapshot'; vm: Vm } | { what: 'rewind'; vm: Vm; targets: Target[] | null } | { what: 'create'; snapshotId: string | null; from: string } |
	{ what: 'compare'; vm: Vm };
const asked = signal<Asked | null>(null);
const close = (): void => {
	asked.value = null;
};

export const FORK_MAX = 100;

export function openVm(vm: Vm): void {
	navigate(url`/ui/vms/${vm.id}`);
}
export function askFork(vm: Vm): void {
	asked.value = { what: 'fork', vm };
}
export function askSnapshot(vm: Vm): void {
	asked.value = { what: 'snapshot', vm };
}
/** targets null: found in the VM's tree. */
export function askRewind(vm: Vm, targets: Target[] | null = null): void {
	asked.value = { what: 'rewind', vm, targets };
}
export function askCompare(vm: Vm): void {
	asked.value = { what: 'compare', vm };
}
export function askCreate(snapshotId: string | null = null, from = 'the base image'): void {
	asked.value = { what: 'create', snapshotId, from };
}

export async function suspend(vm: Vm): Promise<void> {
	await api.post(url`/v1/vms/${vm.id}/suspend`);
}
export async function resume(vm: Vm): Promise<void> {
	await api.post(url`/v1/vms/${vm.id}/start`);
}
export async function stop(vm: Vm): Promise<void> {
	if (await confirmOnce(`Shut down ${vmName(vm)}?`, { text: 'What is in its memory ends, its disk is kept. Suspend keeps both.', action: 'Shut down', danger: true }))
		await api.post(url`/v1/vms/${vm.id}/stop`);
}
export function canSuspend(state: string | undefined): boolean {
	return state === 'running';
}
export function canResume(state: string | undefined): boolean {
	return state === 'suspended' || state === 'stopped';
}

export function removeVms(vms: Vm[]): void {
	if (!vms.length)
		return;
	const label = vms.length === 1 ? `Deleting ${vmName(vms[0] as Vm)}` : `Deleting ${plural(vms.length, 'VM')}`;
	undoable(label, async () => {
		const all = await Promise.allSettled(vms.map((v) => api.del(url`/v1/vms/${v.id}`)));
		all.forEach((r) => r.status === 'rejected' && failed(r.reason));
	}, { keys: vms.map((v) => `vm:${v.id}`) });
}
export function removeSnapshot(snapshotId: string, name: string | null, nodeId: string): void {
	undoable(`Deleting the snapshot ${name ?? snapshotId}`, () => api.del(url`/v1/vms/snapshots/${snapshotId}`), { key: `point:${nodeId}` });
}

function Fork({ vm }: { vm: Vm }) {
	const [count, setCount] = useState(1);
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			const r = await api.post<{ forks: { id: string }[] }>(url`/v1/vms/${vm.id}/fork`, { count });
			close();
			notify(`${plural(r.forks.length, 'copy', 'copies')} of ${vmName(vm)} ${r.forks.length === 1 ? 'runs' : 'run'}.`, { kind: 'good', action: r.forks.length === 1
				? { label: 'Side by side', run: () => navigate(url`/ui/compare/${vm.id}/${(r.forks[0] as { id: string }).id}`) } : undefined });
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title={`Fork ${vmName(vm)}`} onClose={close} small>
			<form onSubmit={submit}>
				<p class="muted">Each copy goes on from this instant, with memory, processes and files. {vm.state === 'running' ? 'The VM itself keeps running.' : 'The VM is woken for it.'}</p>
				<Field label="Copies"><input type="number" min={1} max={FORK_MAX} required value={count} onInput={(e) => setCount(Number(e.currentTarget.value))} /></Field>
				<div class="dialog-actions"><Button onClick={close}>Cancel</Button><Button type="submit" kind="primary" icon="fork" busy={busy}>Fork</Button></div>
			</form>
		</Dialog>
	);
}

function Snapshot({ vm }: { vm: Vm }) {
	const [name, setName] = useState('');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			await api.post(url`/v1/vms/${vm.id}/snapshot`, name.trim() ? { name: name.trim() } : {});
			close();
			notify(`Snapshot of ${vmName(vm)} taken.`, { kind: 'good' });
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title={`Snapshot of ${vmName(vm)}`} onClose={close} small>
			<form onSubmit={submit}>
				<p class="muted">Keeps memory and disk of this instant. You can rewind the VM to it, or start others from it.</p>
				<Field label="Name" hint="Can be left out."><input value={name} maxLength={200} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} /></Field>
				<div class="dialog-actions"><Button onClick={close}>Cancel</Button><Button type="submit" kind="primary" icon="snapshot" busy={busy}>Take it</Button></div>
			</form>
		</Dialog>
	);
}

interface SmallTree { nodes: { id: string; type: string; parent: string | null; name: string | null; state?: string; snapshots?: Target[] }[] }

/* The snapshots above a VM, from its own tree. */
function targetsOf(t: SmallTree, vm: string): Target[] {
	const byId = new Map(t.nodes.map((n) => [n.id, n]));
	const list: Target[] = [];
	let at = byId.get(vm);
	for (let i = 0; at && i < 10000; i++) {
		list.push(...at.snapshots ?? []);
		at = at.parent ? byId.get(at.parent) : undefined;
	}
	return list.sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}

function Rewind({ vm, targets }: { vm: Vm; targets: Target[] | null }) {
	const tree = useData<SmallTree>(targets ? null : url`/v1/vms/${vm.id}/tree`);
	const list = targets ?? (tree.data ? targetsOf(tree.data, vm.id) : []);
	const [choice, setChoice] = useState('');
	const [busy, setBusy] = useState(false);
	const chosen = choice || list[0]?.snapshotId || '';
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			const r = await api.post<{ previousSnapshotId?: string | null }>(url`/v1/vms/${vm.id}/rewind`, { snapshotId: chosen, keep: true });
			close();
			notify(`${vmName(vm)} is back at ${list.find((t) => t.snapshotId === chosen)?.name ?? chosen}.`, { kind: 'good', ms: 12000, action: r.previousSnapshotId ? { label: 'Undo', run: () => {
				api.post(url`/v1/vms/${vm.id}/rewind`, { snapshotId: r.previousSnapshotId, keep: false }).then(() => notify('Undone.', { kind: 'good' })).catch(failed);
			} } : undefined });
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	const body = list.length ? (
		<form onSubmit={submit}>
			<p class="muted">Memory and disk become those of the snapshot. How it is now is kept as a snapshot named “before rewind”.</p>
			<fieldset class="choices"><legend class="sr">Snapshot</legend>{list.map((t) => (
				<label class="choice" key={t.snapshotId}><input type="radio" name="target" checked={chosen === t.snapshotId} onChange={() => setChoice(t.snapshotId)} />
					<span><b>{t.name ?? t.snapshotId}</b> <span class="muted" title={dateTime(t.createdAt)}>{ago(t.createdAt)}</span></span></label>
			))}</fieldset>
			<div class="dialog-actions"><Button onClick={close}>Cancel</Button><Button type="submit" kind="primary" icon="rewind" busy={busy}>Rewind</Button></div>
		</form>
	) : <p>No snapshot was taken on the way to this VM, so there is nothing to go back to. Take one first; it takes a blink.</p>;
	return <Dialog title={`Rewind ${vmName(vm)}`} onClose={close} small>{targets ? body : <Loaded of={tree} what="its tree">{() => body}</Loaded>}</Dialog>;
}

function Compare({ vm }: { vm: Vm }) {
	const tree = useData<SmallTree>(url`/v1/vms/${vm.id}/tree`);
	const go = (id: string): void => {
		close();
		navigate(url`/ui/compare/${vm.id}/${id}`);
	};
	return (
		<Dialog title={`Compare ${vmName(vm)} with`} onClose={close}>
			<Loaded of={tree} what="its relatives">{(t) => {
				const vms = t.nodes.filter((n) => n.type === 'vm' && n.id !== vm.id);
				const snapshots = t.nodes.flatMap((n) => n.snapshots ?? []);
				if (!vms.length && !snapshots.length)
					return <p>It has no relatives yet. Fork it or take a snapshot, then compare.</p>;
				return <ul class="pick">{vms.map((v) => <li key={v.id}><button type="button" onClick={() => go(v.id)}><b>{v.name ?? v.id}</b> <span class="muted">{v.state}</span></button></li>)}
					{snapshots.map((s) => <li key={s.snapshotId}><button type="button" onClick={() => go(s.snapshotId)}><b>{s.name ?? s.snapshotId}</b> <span class="muted">snapshot, {ago(s.createdAt)}</span></button></li>)}</ul>;
			}}</Loaded>
		</Dialog>
	);
}

interface Health { defaultVm: { vcpuCount: number; memSizeMib: number; rootfsSizeMb: number } }
interface Snapshots { snapshots: { snapshotId: string; name: string | null; state: string; createdAt: string }[] }

function Create({ snapshotId, from }: { snapshotId: string | null; from: string }) {
	const health = useData<Health>('/v1/health');
	const snapshots = useData<Snapshots>('/v1/vms/snapshots');
	const [source, setSource] = useState(snapshotId ?? '');
	const [name, setName] = useState('');
	const [vcpus, setVcpus] = useState('');
	const [memory, setMemory] = useState('');
	const [disk, setDisk] = useState('');
	const [idle, setIdle] = useState('');
	const [busy, setBusy] = useState(false);
	const d = health.data?.defaultVm;
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		const body: Record<string, unknown> = {};
		if (name.trim())
			body['name'] = name.trim();
		if (source)
			body['snapshotId'] = source;
		if (vcpus)
			body['vcpuCount'] = Number(vcpus);
		if (memory)
			body['memSizeGb'] = Number(memory);
		if (disk)
			body['rootfsSizeGb'] = Number(disk);
		if (idle)
			body['idleTimeoutSeconds'] = idle === 'never' ? null : Number(idle) * 60;
		try {
			const vm = await api.post<{ id: string }>('/v1/vms', body);
			close();
			notify(`${name.trim() || vm.id} runs.`, { kind: 'good', action: { label: 'Open', run: () => openVm(vm) } });
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	const ready = (snapshots.data?.snapshots ?? []).filter((s) => s.state === 'ready');
	return (
		<Dialog title="New VM" onClose={close}>
			<form onSubmit={submit}>
				<Field label="Name" hint="Can be left out; the id names it then."><input value={name} maxLength={200} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} /></Field>
				<Field label="Start from"><select value={source} onChange={(e) => setSource(e.currentTarget.value)}>
					<option value="">The base image</option>
					{snapshotId && !ready.some((s) => s.snapshotId === snapshotId) && <option value={snapshotId}>{from}</option>}
					{ready.map((s) => <option key={s.snapshotId} value={s.snapshotId}>{s.name ?? s.snapshotId} (snapshot)</option>)}
				</select></Field>
				<div class="fields">
					<Field label="vCPUs"><select value={vcpus} onChange={(e) => setVcpus(e.currentTarget.value)}><option value="">{source ? 'As the snapshot' : d ? `${d.vcpuCount} (usual)` : 'Usual'}</option>{[1, 2, 4, 8, 16].map((n) => <option key={n} value={n}>{n}</option>)}</select></Field>
					<Field label="Memory, GB"><input type="number" min={0.25} max={512} step="any" placeholder={source ? 'as the snapshot' : d ? `${d.memSizeMib / 1024} (usual)` : ''} value={memory} onInput={(e) => setMemory(e.currentTarget.value)} /></Field>
					<Field label="Disk, GB"><input type="number" min={1} max={4096} placeholder={source ? 'as the snapshot' : d ? `${Math.round(d.rootfsSizeMb / 1024)} (usual)` : ''} value={disk} onInput={(e) => setDisk(e.currentTarget.value)} /></Field>
					<Field label="Suspend when idle"><select value={idle} onChange={(e) => setIdle(e.currentTarget.value)}><option value="">As the server is set</option>{[1, 5, 15, 60].map((n) => <option key={n} value={n}>after {n} min</option>)}<option value="never">never</option></select></Field>
				</div>
				<p class="muted small">A size other than the usual one is booted once and kept; that takes a while the first time.</p>
				<div class="dialog-actions"><Button onClick={close}>Cancel</Button><Button type="submit" kind="primary" icon="plus" busy={busy}>Create</Button></div>
			</form>
		</Dialog>
	);
}

/** Part of the frame: the dialog that was asked for. */
export function Acts() {
	const a = asked.value;
	if (!a)
		return null;
	switch (a.what) {
	case 'fork': return <Fork vm={a.vm} />;
	case 'snapshot': return <Snapshot vm={a.vm} />;
	case 'rewind': return <Rewind vm={a.vm} targets={a.targets} />;
	case 'compare': return <Compare vm={a.vm} />;
	case 'create': return <Create snapshotId={a.snapshotId} from={a.from} />;
	}
}
