// SPDX-License-Identifier: Apache-2.0
// Home: the forest of points and VMs, live. Events change states at once and have the whole tree read again, never more
// often than reading it takes time.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { url } from '../../lib/api';
import { events } from '../../lib/events';
import { bytes, count, mib, plural } from '../../lib/format';
import { navigate, place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Icon } from '../../ui/Icon';
import { useCommands } from '../../ui/Palette';
import { Ago, Empty, Failure, Skeleton, StateBadge } from '../../ui/parts';
import { failed } from '../../ui/Toast';
import { askCompare, askCreate, askFork, askRewind, askSnapshot, canResume, canSuspend, removeSnapshot, removeVms, resume, suspend, type Vm } from '../acts';
import { Canvas, type TreeHandle } from './Canvas';
import { layout } from './layout';
import { List } from './List';
import { build, kindName, matches, ownMemory, rewindTargets, type Forest, type Node, type RawTree } from './model';

const vmOf = (n: Node): Vm => ({ id: n.id, name: n.raw.name, state: n.raw.state });

function open(n: Node): void {
	if (n.raw.type === 'vm')
		navigate(url`/ui/vms/${n.id}`);
	else if (n.raw.snapshotId)
		askCreate(n.raw.snapshotId, n.label);
	else if (n.raw.kind === 'template')
		askCreate();
}

function Figures({ n }: { n: Node }) {
	const r = n.raw;
	return (
		<dl class="facts">
			{r.sizing && <><dt>Size</dt><dd>{plural(r.sizing.vcpuCount, 'vCPU')}, {mib(r.sizing.memSizeMib)}, {Math.round(r.sizing.rootfsSizeMb / 1024)} GB disk</dd></>}
			{r.memory && <><dt>Memory</dt><dd>{bytes(ownMemory(r))} own, {bytes(r.memory.sharedBytes)} shared</dd></>}
			{r.disk && <><dt>Disk</dt><dd>{bytes(r.disk.ownBytes)} own, {bytes(r.disk.sharedBytes)} shared</dd></>}
			{n.vms > (r.type === 'vm' ? 1 : 0) && <><dt>Below</dt><dd>{plural(n.vms, 'VM')}</dd></>}
			<dt>Since</dt><dd><Ago at={r.createdAt} /></dd>
		</dl>
	);
}

/* What is shared, as a bar: the reason for the tree. */
function Share({ n }: { n: Node }) {
	const m = n.raw.memory;
	const d = n.raw.disk;
	const own = ownMemory(n.raw) + (d?.ownBytes ?? 0);
	const shared = (m?.sharedBytes ?? 0) + (d?.sharedBytes ?? 0);
	if (!own && !shared)
		return null;
	const part = shared / (own + shared) * 100;
	return (
		<div class="share"><div class="share-bar" role="img" aria-label={`${part.toFixed(0)} percent shared with relatives`}><div style={{ width: `${part}%` }} /></div>
			<small>{part.toFixed(part > 99 && part < 100 ? 1 : 0)} % of memory and disk shared with relatives</small></div>
	);
}

function Panel({ n, onClose }: { n: Node; onClose: () => void }) {
	const vm = n.raw.type === 'vm' ? vmOf(n) : null;
	const targets = vm ? rewindTargets(n) : [];
	return (
		<aside class="tree-panel" aria-label={`${kindName(n.raw)} ${n.label}`}>
			<header><div><small class="muted">{kindName(n.raw)}</small><h2>{n.label}</h2></div><Button kind="quiet" icon="close" label="Close" onClick={onClose} /></header>
			{vm && <StateBadge state={vm.state} />}
			<div class="mono small muted tree-id">{n.raw.snapshotId ?? n.id}</div>
			<Figures n={n} />
			<Share n={n} />
			{vm ? (
				<div class="tree-acts">
					<Button kind="primary" icon="open" onClick={() => open(n)}>Open</Button>
					<Button icon="fork" onClick={() => askFork(vm)}>Fork</Button>
					<Button icon="snapshot" onClick={() => askSnapshot(vm)}>Snapshot</Button>
					{canSuspend(vm.state) && <Button icon="suspend" onClick={() => suspend(vm)}>Suspend</Button>}
					{canResume(vm.state) && <Button icon="resume" onClick={() => resume(vm)}>{vm.state === 'stopped' ? 'Start' : 'Resume'}</Button>}
					<Button icon="rewind" onClick={() => askRewind(vm, targets)} disabled={!targets.length} title={targets.length ? undefined : 'No snapshot above it to go back to'}>Rewind</Button>
					<Button icon="diff" onClick={() => askCompare(vm)}>Compare</Button>
					<Button icon="trash" kind="danger" onClick={() => removeVms([vm])}>Delete</Button>
				</div>
			) : (
				<div class="tree-acts">
					{(n.raw.snapshotId || n.raw.kind === 'template') && <Button kind="primary" icon="plus" onClick={() => open(n)}>New VM from it</Button>}
					{n.raw.sourceVmId && <Button icon="open" onClick={() => navigate(url`/ui/vms/${n.raw.sourceVmId as string}`)}>Its VM</Button>}
					{n.raw.snapshotId && <Button icon="trash" kind="danger" onClick={() => removeSnapshot(n.raw.snapshotId as string, n.raw.name ?? null, n.id)}>Delete snapshot</Button>}
				</div>
			)}
			{!!n.raw.snapshots && n.raw.snapshots.length > 1 && <div class="small"><b>Names of this point</b><ul>{n.raw.snapshots.map((s) => <li key={s.snapshotId}>{s.name ?? s.snapshotId} <span class="muted"><Ago at={s.createdAt} /></span></li>)}</ul></div>}
		</aside>
	);
}

function Legend({ forest }: { forest: Forest }) {
	const states = new Map<string, number>();
	let points = 0;
	for (const n of forest.all)
		if (n.raw.type === 'vm')
			states.set(n.raw.state ?? 'unknown', (states.get(n.raw.state ?? 'unknown') ?? 0) + 1);
		else
			points++;
	return (
		<div class="tree-legend" role="status" aria-label="What is in the tree">
			{[...states].sort().map(([s, n]) => <span key={s}><StateBadge state={s} /> {count(n)}</span>)}
			<span class="legend-point"><i aria-hidden="true" />{plural(points, 'point')}</span>
		</div>
	);
}

/* Parent, child and neighbours by arrow keys: as the tree lies on the page, grown to the right. */
function neighbour(f: Forest, n: Node, key: string): Node | null {
	if (key === 'ArrowLeft')
		return n.parent;
	if (key === 'ArrowRight')
		return n.children[Math.floor((n.children.length - 1) / 2)] ?? null;
	const dir = key === 'ArrowDown' ? 1 : -1;
	let best: Node | null = null;
	let least = Infinity;
	for (const m of f.all) {
		const dy = (m.y - n.y) * dir;
		if (m === n || dy <= 0)
			continue;
		const d = dy + Math.abs(m.x - n.x) * 3;
		if (d < least) {
			least = d;
			best = m;
		}
	}
	return best;
}

export default function Tree() {
	const [every, setEvery] = useState(400);
	const data = useData<RawTree>('/v1/tree', { on: ['vm.*', 'snapshot.*', 'build.*'], every, poll: 60_000 });
	const before = useRef<Forest | null>(null);
	const started = useRef(0);
	const forest = useMemo(() => {
		if (!data.data)
			return null;
		return before.current = build(data.data, before.current, before.current ? performance.now() : 0);
	}, [data.data]);
	const laidOut = useRef<ReturnType<typeof layout> | null>(null);
	const shape = useMemo(() => {
		if (forest && !(forest.same && laidOut.current))
			laidOut.current = layout(forest);
		return forest && laidOut.current;
	}, [forest]);
	const [selectedId, setSelectedId] = useState<string | null>(place.peek().query.get('node'));
	const selected = selectedId && forest ? forest.byId.get(selectedId) ?? null : null;
	const [hover, setHover] = useState<{ n: Node; x: number; y: number } | null>(null);
	const [text, setText] = useState('');
	const list = place.value.query.get('view') === 'list';
	const handle = useRef<TreeHandle | null>(null);
	const found = useMemo(() => text.trim() && forest ? new Set(forest.all.filter((n) => matches(n, text.trim()))) : null, [text, forest]);

	/* States arrive with the events; the shape comes with the next reading. All that arrive before the next picture are one change. */
	const set = useRef(data.set);
	set.current = data.set;
	useEffect(() => {
		const states = new Map<string, string>();
		let timer = 0;
		const apply = (): void => {
			timer = 0;
			set.current((t) => ({ ...t, nodes: t.nodes.map((r) => {
				const state = r.type === 'vm' ? states.get(r.id) : undefined;
				return state !== undefined && state !== r.state ? { ...r, state } : r;
			}) }));
			states.clear();
		};
		const off = events.on('vm.*', (e) => {
			const n = e.vm?.id ? before.current?.byId.get(e.vm.id) : undefined;
			if (!n || !e.vm?.state || e.vm.state === 'deleted')
				return;
			states.set(n.id, e.vm.state);
			timer ||= window.setTimeout(apply, 50); /* not an animation frame: a hidden page has none */
		});
		return () => {
			off();
			clearTimeout(timer);
		};
	}, []);
	/* Large trees take the server time: ask at most a third of the time. */
	useEffect(() => {
		const t0 = started.current;
		started.current = performance.now();
		if (t0 && forest)
			setEvery(Math.max(400, Math.min(5000, forest.all.length * 2)));
	}, [data.data]);

	const select = (n: Node | null, show = false): void => {
		setSelectedId(n?.id ?? null);
		setQuery({ node: n?.id ?? null });
		if (n && show)
			handle.current?.show(n);
	};
	const next = (back: boolean): void => {
		const all = found ? [...found] : [];
		if (!all.length)
			return;
		const i = selected ? all.indexOf(selected) : -1;
		select(all[(i + (back ? all.length - 1 : 1) + all.length) % all.length] as Node, true);
	};
	const act = (e: KeyboardEvent): boolean => {
		if (!forest || e.ctrlKey || e.metaKey || e.altKey)
			return false;
		const n = selected;
		if (e.key.startsWith('Arrow') && !list) {
			const to = n ? neighbour(forest, n, e.key) : forest.roots[0] ?? null;
			if (to)
				select(to, true);
			return true;
		}
		if (e.key === '+' || e.key === '=')
			handle.current?.zoom(1.3);
		else if (e.key === '-')
			handle.current?.zoom(1 / 1.3);
		else if (e.key === '0')
			handle.current?.fit();
		else if (e.key === 'Escape')
			select(null);
		else if (n && e.key === 'Enter')
			open(n);
		else if (n && n.raw.type === 'vm') {
			const vm = vmOf(n);
			if (e.key === 'f')
				askFork(vm);
			else if (e.key === 'p')
				askSnapshot(vm);
			else if (e.key === 's')
				(canSuspend(vm.state) ? suspend(vm) : resume(vm)).catch(failed);
			else if (e.key === 'Delete')
				removeVms([vm]);
			else
				return false;
		} else {
			return false;
		}
		return true;
	};
	const keys = (e: KeyboardEvent): void => {
		if (act(e)) {
			e.preventDefault();
			e.stopPropagation();
		}
	};
	useCommands([
		{ title: 'New VM', icon: 'plus', run: () => askCreate() },
		{ title: 'Show the whole tree', icon: 'fit', keys: '0', run: () => handle.current?.fit() },
		{ title: list ? 'Tree as a picture' : 'Tree as a list', icon: 'list', run: () => setQuery({ view: list ? null : 'list' }) },
		...(selected?.raw.type === 'vm' ? [
			{ title: `Fork ${selected.label}`, icon: 'fork' as const, keys: 'f', run: () => askFork(vmOf(selected)) },
			{ title: `Snapshot of ${selected.label}`, icon: 'snapshot' as const, keys: 'p', run: () => askSnapshot(vmOf(selected)) },
		] : []),
	], [list, selected]);
	/* The tests' and the benchmark's way in: how fast it draws. */
	useEffect(() => {
		(window as unknown as { pandoTree?: unknown }).pandoTree = { get handle() {
			return handle.current;
		}, get forest() {
			return before.current;
		} };
		return () => {
			delete (window as unknown as { pandoTree?: unknown }).pandoTree;
		};
	}, []);

	const vms = forest?.all.filter((n) => n.raw.type === 'vm').length ?? 0;
	const totals = data.data?.totals;
	return (
		<div class="tree-page">
			<header class="tree-head">
				<h1>Tree</h1>
				<span class="muted tree-sum">{forest ? `${plural(vms, 'VM')}${totals ? `, ${bytes(totals.memoryBytes)} of memory and ${bytes(totals.diskBytes)} of disk in layers` : ''}` : ''}</span>
				<div class="tree-tools">
					<div class="search" role="search"><Icon name="search" /><input type="search" placeholder="Find by name, id or state" aria-label="Find in the tree" value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => {
						if (e.key === 'Enter')
							next(e.shiftKey);
						else if (e.key === 'Escape')
							setText('');
					}} />{found && <span class="muted nowrap" role="status">{found.size} found</span>}</div>
					<Button icon="list" label="As a list" pressed={list} onClick={() => setQuery({ view: list ? null : 'list' })} />
					<Button kind="primary" icon="plus" onClick={() => askCreate()}>New VM</Button>
				</div>
			</header>
			<div class="tree-box">
				{!forest || !shape ? <div class="tree-wait">{data.error ? <Failure error={data.error} retry={data.reload} what="the tree" /> : <Skeleton lines={6} />}</div>
					: vms === 0 && forest.all.length <= 1 ? (
						<Empty icon="tree" title="A forest with nothing in it yet" action={<Button kind="primary" icon="plus" onClick={() => askCreate()}>New VM</Button>}
							commands={[{ title: 'In a terminal', code: 'pando vm create --name web\npando vm fork web -n 3' },
								{ title: 'From TypeScript', code: 'import { freestyle } from "freestyle";\n\nconst { vm } = await freestyle.vms.create();\nconst { forks } = await vm.fork({ count: 3 });' }]}>
							Each VM grows from an image or a snapshot and can be forked while it runs. This page shows them as they come and go.</Empty>
					) : list ? <List forest={forest} selected={selected} found={found} onSelect={(n) => select(n)} onOpen={open} onKey={keys} />
						: (
							<>
								<Canvas forest={forest} layout={shape} selected={selected} found={found} label={`Tree of ${plural(vms, 'VM')}. Arrow keys move, Enter opens.`}
									onSelect={select} onOpen={open} onHover={(n, at) => setHover(n && at ? { n, ...at } : null)} onKey={keys} handle={(h) => handle.current = h} />
								<span id="tree-help" class="sr">Arrow keys go to the parent, a child or the neighbours. Enter opens, f forks, p takes a snapshot, s suspends or resumes, Delete deletes. The button “As a list” shows the same as a list.</span>
								<div class="sr" role="status">{selected ? `${kindName(selected.raw)} ${selected.label} ${selected.raw.state ?? ''}` : ''}</div>
								<div class="tree-zoom"><Button small icon="plus" label="Larger" onClick={() => handle.current?.zoom(1.35)} /><Button small icon="minus" label="Smaller" onClick={() => handle.current?.zoom(1 / 1.35)} /><Button small icon="fit" label="All of it" onClick={() => handle.current?.fit()} /></div>
								<Legend forest={forest} />
								{hover && hover.n !== selected && <div class="tree-tip" style={{ transform: `translate(${Math.round(hover.x + 16)}px, ${Math.round(hover.y + 12)}px)` }}>
									<b>{hover.n.label}</b> {hover.n.raw.type === 'vm' ? <StateBadge state={hover.n.raw.state} /> : <span class="muted">{kindName(hover.n.raw)}</span>}<Figures n={hover.n} /></div>}
							</>
						)}
				{selected && <Panel n={selected} onClose={() => select(null)} />}
			</div>
		</div>
	);
}
