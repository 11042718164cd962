// SPDX-License-Identifier: Apache-2.0
/* actions.tsx - what can be done with a VM as a whole, and the dialogs that ask for more */
import { useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { dateTime, mib, plural, vmName } from '../../lib/format';
import { navigate } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Empty, Field, Loaded } from '../../ui/parts';
import { confirmOnce, failed, notify, undoable } from '../../ui/Toast';
import { ancestors, relatives, type Tree, type Vm, word } from './types';

const at = (vm: { id: string }): string => `/v1/vms/${encodeURIComponent(vm.id)}`;

export const wake = (vm: Vm): Promise<unknown> => api.post(`${at(vm)}/start`);
export const suspend = (vm: Vm): Promise<unknown> => api.post(`${at(vm)}/suspend`, undefined);

export { stop } from '../acts';

export async function kill(vm: Vm): Promise<void> {
	if (await confirmOnce(`Kill ${vmName(vm)}?`, { text: 'It ends at once, without a shutdown: what was not written to its disk is lost.', action: 'Kill', danger: true }))
		await api.post(`${at(vm)}/kill`, undefined);
}

export function remove(vm: Vm): void {
	undoable(`Deleting ${vmName(vm)}`, () => api.del(at(vm)), { key: `vm:${vm.id}` });
	navigate('/ui/');
}

export type DialogName = 'fork' | 'snapshot' | 'rewind' | 'resize' | 'rename' | 'compare';

interface Props { vm: Vm; onClose(): void; reload(): Promise<void> }

function Form(p: { title: string; action: string; danger?: boolean; disabled?: boolean; onClose(): void; run(): Promise<unknown>; children: preact.ComponentChildren }) {
	const [busy, setBusy] = useState(false);
	return (
		<Dialog title={p.title} onClose={p.onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				if (busy || p.disabled)
					return;
				setBusy(true);
				p.run().then(p.onClose, failed).finally(() => setBusy(false));
			}}>
				{p.children}
				<div class="dialog-actions"><Button onClick={p.onClose}>Cancel</Button><Button type="submit" kind={p.danger ? 'danger' : 'primary'} busy={busy} disabled={p.disabled}>{p.action}</Button></div>
			</form>
		</Dialog>
	);
}

function Fork({ vm, onClose }: Props) {
	const [n, setN] = useState('1');
	const run = async (): Promise<void> => {
		const r = await api.post<{ forks: { id: string }[] }>(`${at(vm)}/fork`, { count: Number(n) });
		const first = r.forks[0]?.id;
		notify(`${plural(r.forks.length, 'copy', 'copies')} of ${vmName(vm)} run${r.forks.length === 1 ? 's' : ''}.`, { kind: 'good', ms: 12_000,
			action: first ? { label: r.forks.length === 1 ? 'Side by side' : 'Show the first', run: () => navigate(r.forks.length === 1 ? `/ui/compare/${vm.id}/${first}` : `/ui/vms/${first}`) } : undefined });
	};
	return <Form title={`Fork ${vmName(vm)}`} action="Fork" onClose={onClose} run={run}>
		<p class="muted">Live copies with memory, processes and terminals; this VM runs on.</p>
		<Field label="Copies"><input type="number" min={1} max={100} value={n} onInput={(e) => setN(e.currentTarget.value)} /></Field>
	</Form>;
}

function Snapshot({ vm, onClose }: Props) {
	const [name, setName] = useState('');
	return <Form title={`Snapshot of ${vmName(vm)}`} action="Take it" onClose={onClose} run={async () => {
		const r = await api.post<{ snapshotId: string }>(`${at(vm)}/snapshot`, name.trim() ? { name: name.trim() } : {});
		notify(`Snapshot ${name.trim() || r.snapshotId} was taken.`, { kind: 'good' });
	}}>
		<Field label="Name" hint="For people; may be empty."><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" /></Field>
	</Form>;
}

function Rewind({ vm, onClose, reload }: Props) {
	const tree = useData<Tree>(`${at(vm)}/tree`);
	const [to, setTo] = useState('');
	const [keep, setKeep] = useState(true);
	const list = tree.data ? ancestors(tree.data, vm.id) : [];
	return <Form title={`Rewind ${vmName(vm)}`} action="Rewind" danger={!keep} disabled={!to} onClose={onClose} run={async () => {
		await api.post(`${at(vm)}/rewind`, { snapshotId: to, keep });
		await reload();
		notify(`${vmName(vm)} is as it was then.`, { kind: 'good' });
	}}>
		<Loaded of={tree} what="its snapshots">{() => list.length ? <fieldset class="choices"><legend>Memory and disk become those of</legend>
			{list.map((s) => <label key={s.snapshotId} class={to === s.snapshotId ? 'chosen' : ''}><input type="radio" name="to" checked={to === s.snapshotId} onChange={() => setTo(s.snapshotId)} /><span><b>{s.name ?? s.snapshotId}</b><small>{dateTime(s.createdAt)}</small></span></label>)}</fieldset>
			: <Empty title="Nothing to go back to" commands={[{ title: 'Take a snapshot first', code: `pando vm snapshot ${word(vm)} --name before` }]} />}</Loaded>
		{list.length > 0 && <label class="check"><input type="checkbox" checked={keep} onChange={(e) => setKeep(e.currentTarget.checked)} /> Keep what is now as a snapshot</label>}
	</Form>;
}

const POWERS = [1, 2, 4, 8, 16, 32];
const MEMORY = [0.5, 1, 2, 4, 8, 16, 32, 64];

function Resize({ vm, onClose, reload }: Props) {
	const [cpu, setCpu] = useState(vm.sizing.vcpuCount);
	const [mem, setMem] = useState(vm.sizing.memSizeMib / 1024);
	const [disk, setDisk] = useState(String(Math.ceil(vm.sizing.rootfsSizeMb / 1024)));
	const boots = cpu !== vm.sizing.vcpuCount || mem !== vm.sizing.memSizeMib / 1024;
	const grows = Number(disk) > vm.sizing.rootfsSizeMb / 1024;
	return <Form title={`Size of ${vmName(vm)}`} action={boots ? 'Shut down and resize' : 'Resize'} danger={boots} disabled={!boots && !grows} onClose={onClose} run={async () => {
		await api.post(`${at(vm)}/resize`, { ...(cpu !== vm.sizing.vcpuCount ? { vcpuCount: cpu } : {}), ...(mem !== vm.sizing.memSizeMib / 1024 ? { memSizeGb: mem } : {}), ...(grows ? { rootfsSizeGb: Number(disk) } : {}) });
		await reload();
		notify('It has its new size.', { kind: 'good' });
	}}>
		<Field label="vCPUs"><select value={cpu} onChange={(e) => setCpu(Number(e.currentTarget.value))}>{POWERS.map((n) => <option key={n} value={n}>{n}</option>)}</select></Field>
		<Field label="Memory"><select value={mem} onChange={(e) => setMem(Number(e.currentTarget.value))}>{MEMORY.map((n) => <option key={n} value={n}>{mib(n * 1024)}</option>)}</select></Field>
		<Field label="Disk, GB" hint="Disks only grow."><input type="number" min={Math.ceil(vm.sizing.rootfsSizeMb / 1024)} value={disk} onInput={(e) => setDisk(e.currentTarget.value)} /></Field>
		{boots && <p class="note warn">Other vCPUs or memory need a shutdown and a boot: processes and terminals end, files stay.</p>}
	</Form>;
}

function Rename({ vm, onClose, reload }: Props) {
	const [name, setName] = useState(vm.name ?? '');
	const [tags, setTags] = useState(vm.tags.join(', '));
	return <Form title="Name and tags" action="Save" onClose={onClose} run={async () => {
		await api.patch(at(vm), { name: name.trim() || null, tags: tags.split(',').map((t) => t.trim()).filter(Boolean) });
		await reload();
	}}>
		<Field label="Name"><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
		<Field label="Tags" hint="Separated by commas."><input value={tags} onInput={(e) => setTags(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
	</Form>;
}

function Compare({ vm, onClose }: Props) {
	const tree = useData<Tree>(`${at(vm)}/tree`);
	const list = tree.data ? relatives(tree.data, vm.id) : [];
	return (
		<Dialog title={`Compare ${vmName(vm)} with`} onClose={onClose} small>
			<Loaded of={tree} what="its relatives">{() => list.length ? <ul class="pick-list">{list.map((r) => <li key={r.id}><a href={`/ui/compare/${encodeURIComponent(vm.id)}/${encodeURIComponent(r.id)}`} onClick={onClose}>{r.label}</a><span class="muted">{r.kind === 'vm' ? r.state : 'snapshot'}</span></li>)}</ul>
				: <Empty icon="fork" title="It has no relatives" commands={[{ title: 'Make one', code: `pando vm fork ${word(vm)}` }]}>Forks and snapshots of it can be compared with it.</Empty>}</Loaded>
		</Dialog>
	);
}

const DIALOGS = { fork: Fork, snapshot: Snapshot, rewind: Rewind, resize: Resize, rename: Rename, compare: Compare };

export function ActionDialog({ name, ...p }: Props & { name: DialogName }) {
	const D = DIALOGS[name];
	return <D {...p} />;
}
