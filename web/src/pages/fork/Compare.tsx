// SPDX-License-Identifier: Apache-2.0
/*
 * Compare.tsx - two relatives side by side: their terminals, and the files that differ
 *
 * Comparing wakes nobody (docs/TREE.md): resting VMs and snapshots are looked at through hidden copies. The texts of a file
 * can only be read from VMs that run.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, messageOf, query } from '../../lib/api';
import { bytes, plural, vmName } from '../../lib/format';
import { navigate, place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import type { PageProps } from '../../routes';
import { Button } from '../../ui/Button';
import { Card, Empty, Failure, PageHead, Progress, Skeleton, StateBadge } from '../../ui/parts';
import { DiffView } from '../git/DiffView';
import { wake } from '../vm/actions';
import { decodeText, fromText, segment } from '../vm/paths';
import { TerminalView } from '../vm/Terminal';
import { awake, type PtySession, type Vm, word } from '../vm/types';
import { useVm } from '../vm/VmPage';

interface Change { path: string; change: 'added' | 'removed' | 'modified' | 'type'; kind: string; size: number | null; otherSize: number | null; mtime: string | null }
interface Diff { vmId: string; with: string; changes: Change[]; cursor: string | null }

const SIGNS = { added: '+', removed: '−', modified: '~', type: '!' };
const MAX_TEXT = 1_000_000;

function Side({ vm, session, sessions, onSession }: { vm: Vm; session: string; sessions: PtySession[]; onSession(id: string): void }) {
	const [fresh, setFresh] = useState(0);
	const id = session || (fresh ? '' : sessions[0]?.sessionId ?? '');
	return (
		<section aria-label={`Terminal of ${vmName(vm)}`}>
			<div class="beside-head">
				<h2><a href={`/ui/vms/${encodeURIComponent(vm.id)}`}>{vmName(vm)}</a></h2><StateBadge state={vm.state} />
				<span class="spacer" />
				{sessions.length > 0 && <select aria-label={`Session of ${vmName(vm)}`} value={id} onChange={(e) => onSession(e.currentTarget.value)}>
					{sessions.map((s) => <option key={s.sessionId}>{s.sessionId}</option>)}{id === '' && <option value="">new</option>}</select>}
				<Button small icon="plus" label={`New terminal in ${vmName(vm)}`} onClick={() => {
					setFresh(fresh + 1);
					onSession('');
				}} />
			</div>
			<div class="terminal-panel">
				{id || fresh ? <TerminalView key={id || `new-${fresh}`} vmId={vm.id} vmState={vm.state} sessionId={id || undefined} shown />
					: <Empty icon="terminal" title="No terminal" action={<Button icon="plus" onClick={() => setFresh(1)}>{awake(vm) ? 'New terminal' : 'Resume and open one'}</Button>} />}
			</div>
		</section>
	);
}

function useSessions(id: string | null): PtySession[] | null {
	const d = useData<{ sessions: PtySession[] }>(id === null ? null : `/v1/vms/${encodeURIComponent(id)}/pty/sessions`);
	return id === null ? [] : d.data ? d.data.sessions.filter((s) => s.running || s.suspended) : d.error ? [] : null;
}

async function textOf(vmId: string, path: string): Promise<string> {
	const url = `/v1/vms/${encodeURIComponent(vmId)}/raw-files/${segment(fromText(path))}`;
	const size = Number((await api.raw(url, { method: 'HEAD' })).headers.get('content-length') ?? 0);
	if (size > MAX_TEXT)
		throw new Error(`${path} has ${bytes(size)}: too large to compare here.`);
	const t = decodeText(new Uint8Array(await (await api.raw(url)).arrayBuffer()));
	if (t === null)
		throw new Error(`${path} is not a text.`);
	return t;
}

function FileDiff({ a, b, change, two }: { a: Vm; b: Vm | null; change: Change; two: boolean }) {
	const [texts, setTexts] = useState<[string, string] | null>(null);
	const [error, setError] = useState('');
	const asleep = [a, b].filter((v): v is Vm => !!v && !awake(v) && (v === a ? change.change !== 'removed' : change.change !== 'added'));
	useEffect(() => {
		setTexts(null);
		setError('');
		if (change.kind !== 'file' || asleep.length || (!b && change.change !== 'added'))
			return undefined;
		let gone = false;
		Promise.all([change.change === 'added' || !b ? '' : textOf(b.id, change.path), change.change === 'removed' ? '' : textOf(a.id, change.path)])
			.then((t) => !gone && setTexts(t as [string, string]), (e) => !gone && setError(messageOf(e)));
		return () => {
			gone = true;
		};
	}, [a.id, b?.id, change.path, asleep.length]);
	if (change.kind !== 'file')
		return <p class="muted pad">A {change.kind}: {change.change === 'added' ? `only in ${vmName(a)}` : change.change === 'removed' ? `only in the other` : 'its mode, owner or target differs'}.</p>;
	if (!b && change.change !== 'added')
		return <p class="muted pad">The text of a snapshot's files can be read after a VM was made from it.</p>;
	if (asleep.length)
		return <Empty title={`${asleep.map((v) => vmName(v)).join(' and ')} rest${asleep.length === 1 ? 's' : ''}`} action={<Button icon="resume" onClick={() => Promise.all(asleep.map(wake))}>Resume</Button>}>Reading a text needs the VM to run.</Empty>;
	if (error)
		return <p class="muted pad" role="alert">{error}</p>;
	return texts ? <DiffView a={texts[0]} b={texts[1]} two={two} label={`Changes in ${change.path}`} /> : <Skeleton lines={8} />;
}

function Changes({ a, b, other }: { a: Vm; b: Vm | null; other: string }) {
	const [list, setList] = useState<Change[]>([]);
	const [cursor, setCursor] = useState<string | null>(null);
	const [state, setState] = useState<'idle' | 'busy' | 'done'>('idle');
	const [error, setError] = useState<unknown>(null);
	const [filter, setFilter] = useState('');
	const [two, setTwo] = useState(false);
	const stop = useRef<AbortController | null>(null);
	const chosen = place.value.query.get('file');
	const load = async (from: string | null): Promise<void> => {
		stop.current?.abort();
		const mine = stop.current = new AbortController();
		setState('busy');
		setError(null);
		if (from === null)
			setList([]);
		try {
			const r = await api.get<Diff>(query(`/v1/vms/${encodeURIComponent(a.id)}/diff`, { with: other, limit: 1000, cursor: from }), { signal: mine.signal });
			setList((l) => from === null ? r.changes : [...l, ...r.changes]);
			setCursor(r.cursor);
			setState('done');
		} catch (e) {
			if (mine.signal.aborted)
				return;
			setError(e);
			setState('done');
		}
	};
	useEffect(() => {
		void load(null);
		return () => stop.current?.abort();
	}, [a.id, other]);
	const rows = list.filter((c) => c.path.toLowerCase().includes(filter.toLowerCase()));
	const change = list.find((c) => c.path === chosen) ?? null;
	return (
		<Card title={state === 'done' && !error ? `${plural(list.length, 'file differs', 'files differ')}${cursor ? ', so far' : ''}` : 'Files that differ'} actions={<>
			{change && <Button small pressed={two} onClick={() => setTwo(!two)}>Two columns</Button>}
			<Button small icon="refresh" onClick={() => load(null)} busy={state === 'busy'}>Compare again</Button></>}>
			{state === 'busy' && <Progress label="Comparing the files" />}
			{error ? <Failure error={error instanceof ApiError ? error : new ApiError(0, 'DIFF', messageOf(error))} retry={() => load(null)} what="the comparison" /> : null}
			{state === 'done' && !error && !list.length && <Empty icon="check" title="No file differs" commands={[{ title: 'Change something in one of them', code: `pando vm exec ${word(a)} -- sh -c 'date > /root/now'` }]}>Their memory may still differ.</Empty>}
			{list.length > 0 && <div class="changes">
				<div>
					<input type="search" class="filter" aria-label="Filter by path" placeholder="Filter" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
					<ul class="change-list" aria-label="Files that differ">{rows.slice(0, 1000).map((c) => <li key={c.path}><button type="button" aria-current={c.path === chosen} onClick={() => setQuery({ file: c.path })}>
						<span class={`change-${c.change}`} title={c.change} aria-label={c.change}>{SIGNS[c.change]}</span><span class="path">{c.path}</span><span class="muted">{c.kind === 'file' ? bytes(c.change === 'removed' ? c.otherSize : c.size) : c.kind}</span></button></li>)}</ul>
					{cursor && <Button small onClick={() => load(cursor)}>More</Button>}
					<p class="muted pad"><span class="change-added">+</span> only in {vmName(a)}, <span class="change-removed">−</span> only in {b ? vmName(b) : 'the snapshot'}, <span class="change-modified">~</span> in both</p>
				</div>
				<div>{change ? <><h3 class="pad mono">{change.path}</h3><FileDiff key={change.path} a={a} b={b} change={change} two={two} /></> : <Empty icon="diff" title="Choose a file">Its text is compared here.</Empty>}</div>
			</div>}
		</Card>
	);
}

export default function Compare({ params }: PageProps) {
	return <Pair key={`${params['a']} ${params['b']}`} a={params['a'] as string} b={params['b'] as string} />;
}

function Pair({ a, b }: { a: string; b: string }) {
	const isVm = !b.startsWith('sc-');
	const left = useVm(a);
	const right = useData<Vm>(isVm ? `/v1/vms/${encodeURIComponent(b)}` : null, { on: ['vm.*'], poll: 10_000 });
	const snapshot = useData<{ snapshotId: string; name: string | null }>(isVm ? null : `/v1/vms/snapshots/${encodeURIComponent(b)}`);
	const sa = useSessions(a), sb = useSessions(isVm ? b : null);
	const q = place.value.query;
	const error = left.error ?? right.error ?? snapshot.error;
	if (!left.data || (isVm && !right.data) || (!isVm && !snapshot.data) || sa === null || sb === null)
		return error && !error.offline ? <Failure error={error} what="one of the two" retry={async () => {
			await Promise.all([left.reload(), right.reload()]);
		}} /> : <Skeleton lines={8} />;
	const vm = left.data, other = right.data;
	const name = other ? vmName(other) : snapshot.data?.name ?? b;
	return (
		<div class="stack">
			<PageHead title={<>{vmName(vm)} and {name}</>} sub={isVm ? 'Two relatives side by side' : 'A VM and a snapshot'}>
				{isVm && <Button icon="diff" onClick={() => navigate(`/ui/compare/${encodeURIComponent(b)}/${encodeURIComponent(a)}`)}>Swap</Button>}
			</PageHead>
			{isVm && other && <div class="beside">
				<Side vm={vm} session={q.get('left') ?? ''} sessions={sa} onSession={(id) => setQuery({ left: id || null })} />
				<Side vm={other} session={q.get('right') ?? ''} sessions={sb} onSession={(id) => setQuery({ right: id || null })} />
			</div>}
			<Changes a={vm} b={other} other={b} />
		</div>
	);
}
