// SPDX-License-Identifier: Apache-2.0
// All VMs as a table: filter, sort, and acts on several at once.
import { useMemo, useState } from 'preact/hooks';
import { url } from '../lib/api';
import { duration, mib, plural, vmName } from '../lib/format';
import { place, setQuery } from '../lib/route';
import { useData } from '../lib/state';
import { Button } from '../ui/Button';
import { Icon } from '../ui/Icon';
import { Menu } from '../ui/Menu';
import { useCommands } from '../ui/Palette';
import { Ago, Badge, Empty, Loaded, PageHead, StateBadge } from '../ui/parts';
import { Table } from '../ui/Table';
import { failed, notify, pending } from '../ui/Toast';
import { askCompare, askCreate, askFork, askRewind, askSnapshot, canResume, canSuspend, openVm, removeVms, resume, stop, suspend } from './acts';

interface Vm {
	id: string;
	name: string | null;
	state: string;
	createdAt: string;
	lastNetworkActivity?: string | null;
	cpuTimeSeconds?: number;
	deleteAt?: string | null;
	tags?: string[];
	sizing?: { vcpuCount: number; memSizeMib: number; rootfsSizeMb: number } | null;
}
interface Vms { vms: Vm[]; totalCount: number }

export default function VmList() {
	const data = useData<Vms>('/v1/vms?limit=10000', { on: ['vm.*'], every: 700, poll: 60_000 });
	const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
	const [busy, setBusy] = useState(false);
	const text = place.value.query.get('q') ?? '';
	const state = place.value.query.get('state') ?? '';
	const all = data.data?.vms ?? [];
	const counts = useMemo(() => {
		const m = new Map<string, number>();
		for (const v of all)
			m.set(v.state, (m.get(v.state) ?? 0) + 1);
		return [...m].sort();
	}, [all]);
	const rows = useMemo(() => {
		const t = text.trim().toLowerCase();
		return all.filter((v) => (!state || v.state === state) && (!t || v.id.includes(t) || (v.name ?? '').toLowerCase().includes(t) || !!v.tags?.some((g) => g.toLowerCase().includes(t))));
	}, [all, text, state]);
	const picked = rows.filter((v) => chosen.has(v.id));
	useCommands([{ title: 'New VM', icon: 'plus', run: () => askCreate() }]);
	const forAll = async (list: Vm[], what: string, act: (v: Vm) => Promise<unknown>): Promise<void> => {
		setBusy(true);
		const all = await Promise.allSettled(list.map(act));
		setBusy(false);
		all.forEach((r) => r.status === 'rejected' && failed(r.reason));
		const done = all.filter((r) => r.status === 'fulfilled').length;
		if (done)
			notify(`${plural(done, 'VM')} ${what}.`, { kind: 'good' });
		void data.reload();
	};
	return (
		<>
			<PageHead title="VMs" sub={data.data ? plural(all.length, 'VM') : ' '}>
				<Button kind="primary" icon="plus" onClick={() => askCreate()}>New VM</Button>
			</PageHead>
			<Loaded of={data} what="VMs" lines={9}>{() => !all.length ? (
				<Empty icon="vms" title="No VMs yet" action={<Button kind="primary" icon="plus" onClick={() => askCreate()}>New VM</Button>}
					commands={[{ title: 'In a terminal', code: 'pando vm create --name web' }, { title: 'From TypeScript', code: 'const { vm } = await freestyle.vms.create({ name: "web" });' }]}>
					A VM starts in a blink from the base image or a snapshot, and sleeps when nobody uses it.</Empty>
			) : (
				<div class="card">
					<div class="row list-tools">
						<div class="search" role="search"><Icon name="search" /><input type="search" placeholder="Name, id or tag" aria-label="Filter VMs" value={text} onInput={(e) => setQuery({ q: e.currentTarget.value })} /></div>
						<div class="row" role="group" aria-label="State">
							<Button small pressed={!state} onClick={() => setQuery({ state: null })}>All</Button>
							{counts.map(([s, n]) => <Button small key={s} pressed={state === s} onClick={() => setQuery({ state: state === s ? null : s })}>{s} {n}</Button>)}
						</div>
						<div class="row bulk" aria-live="polite">{picked.length > 0 && <>
							<span class="muted">{picked.length} selected</span>
							<Button small icon="suspend" disabled={busy} onClick={() => forAll(picked.filter((v) => canSuspend(v.state)), 'suspended', suspend)}>Suspend</Button>
							<Button small icon="resume" disabled={busy} onClick={() => forAll(picked.filter((v) => canResume(v.state)), 'resumed', resume)}>Resume</Button>
							<Button small icon="trash" kind="danger" onClick={() => {
								removeVms(picked);
								setChosen(new Set());
							}}>Delete</Button></>}</div>
					</div>
					<Table label="VMs" rows={rows} rowKey={(v) => v.id} order="-created" select={{ chosen, onChange: setChosen }} rowClass={(v) => pending.value.has(`vm:${v.id}`) ? 'going' : undefined}
						empty={<Empty title="No VM matches" action={<Button onClick={() => setQuery({ q: null, state: null })}>Show all</Button>} />}
						columns={[
							{ key: 'name', title: 'Name', grow: true, sort: (v) => vmName(v).toLowerCase(), cell: (v) => <span><a href={url`/ui/vms/${v.id}`}><b>{vmName(v)}</b></a>{!!v.tags?.length && <span class="tags">{v.tags.slice(0, 3).map((t) => <Badge key={t}>{t}</Badge>)}</span>}</span> },
							{ key: 'state', title: 'State', sort: (v) => v.state, cell: (v) => <StateBadge state={v.state} /> },
							{ key: 'size', title: 'Size', sort: (v) => v.sizing?.memSizeMib ?? 0, cell: (v) => v.sizing ? <span class="nowrap">{v.sizing.vcpuCount} vCPU, {mib(v.sizing.memSizeMib)}</span> : '–' },
							{ key: 'cpu', title: 'CPU used', align: 'end', hideNarrow: true, sort: (v) => v.cpuTimeSeconds ?? 0, cell: (v) => <span class="nowrap">{duration(v.cpuTimeSeconds)}</span> },
							{ key: 'active', title: 'Last traffic', hideNarrow: true, sort: (v) => v.lastNetworkActivity ?? null, cell: (v) => <span class="nowrap"><Ago at={v.lastNetworkActivity} /></span> },
							{ key: 'created', title: 'Created', sort: (v) => v.createdAt, cell: (v) => <span class="nowrap"><Ago at={v.createdAt} /></span> },
							{ key: 'acts', title: '', align: 'end', cell: (v) => <Menu label={`Acts on ${vmName(v)}`} items={[
								{ label: 'Open', icon: 'open', run: () => openVm(v) },
								{ label: 'Fork…', icon: 'fork', run: () => askFork(v) },
								{ label: 'Snapshot…', icon: 'snapshot', run: () => askSnapshot(v) },
								canSuspend(v.state) && { label: 'Suspend', icon: 'suspend', run: () => suspend(v) },
								canResume(v.state) && { label: 'Resume', icon: 'resume', run: () => resume(v) },
								v.state === 'running' && { label: 'Shut down', icon: 'minus', run: () => stop(v) },
								{ label: 'Rewind…', icon: 'rewind', run: () => askRewind(v) },
								{ label: 'Compare…', icon: 'diff', run: () => askCompare(v) },
								{ label: 'Delete', icon: 'trash', danger: true, run: () => removeVms([v]) },
							]} /> },
						]} />
				</div>
			)}</Loaded>
		</>
	);
}
