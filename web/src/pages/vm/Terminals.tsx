// SPDX-License-Identifier: Apache-2.0
/*
 * Terminals.tsx - the sessions of a VM as tabs
 *
 * Sessions live in the guest. The list is the server's; a tab attaches when it is first shown and stays attached while the page is open.
 * The address names the session in sight (?session=), so that a reload attaches to it again.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Empty, Failure, Skeleton } from '../../ui/parts';
import { Icon } from '../../ui/Icon';
import { confirmOnce } from '../../ui/Toast';
import { TerminalView } from './Terminal';
import { plainTitle } from './ansi';
import type { PtyState } from './pty';
import { awake, type PtySession, type Vm, word } from './types';

interface Tab {
	/** Stays the same when a new session gets its name. */
	key: string;
	sessionId?: string;
	title: string;
	watch: boolean;
	state: PtyState;
}

let made = 0;

export function Terminals({ vm, onWake }: { vm: Vm; onWake: () => Promise<void> }) {
	const path = `/v1/vms/${encodeURIComponent(vm.id)}/pty/sessions`;
	const list = useData<{ sessions: PtySession[]; known?: boolean }>(`${path}?wake=false`, { on: ['vm.resumed', 'vm.started'], poll: 15_000 });
	const [tabs, setTabs] = useState<Tab[]>([]);
	const [current, setCurrent] = useState('');
	const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
	const bar = useRef<HTMLDivElement>(null);
	const first = useRef(true);
	const wanted = place.value.query.get('session');

	const show = (tab: Tab): void => {
		setCurrent(tab.key);
		setOpened((o) => new Set(o).add(tab.key));
		setQuery({ session: tab.sessionId ?? null });
	};
	const change = (key: string, f: Partial<Tab>): void => setTabs((all) => all.map((t) => t.key === key ? { ...t, ...f } : t));

	/* Sessions that appeared elsewhere get a tab; tabs of sessions that are gone stay until they are closed. */
	useEffect(() => {
		const there = list.data?.sessions.filter((s) => s.running || s.suspended || s.exitCode === undefined || s.exitCode === null);
		if (!there)
			return;
		const fresh = there.filter((s) => !tabs.some((t) => t.sessionId === s.sessionId)).map((s): Tab => ({
			key: `s-${s.sessionId}`, sessionId: s.sessionId, watch: false, state: 'idle', title: s.exec ? plainTitle(s.exec, 28) : s.sessionId }));
		const all = [...tabs, ...fresh];
		if (fresh.length)
			setTabs(all);
		if (first.current && all.length) {
			first.current = false;
			show(all.find((t) => t.sessionId === wanted) ?? all[0] as Tab);
		}
	}, [list.data]);

	const open = (): void => {
		first.current = false;
		const tab: Tab = { key: `n-${++made}`, title: 'new', watch: false, state: 'idle' };
		setTabs((all) => [...all, tab]);
		show(tab);
	};
	const drop = (tab: Tab): void => {
		const rest = tabs.filter((t) => t.key !== tab.key);
		setTabs(rest);
		if (current === tab.key) {
			const next = rest[rest.length - 1];
			if (next)
				show(next);
			else
				setQuery({ session: null });
		}
	};
	const end = async (tab: Tab): Promise<void> => {
		if (tab.sessionId && tab.state !== 'exited') {
			if (!await confirmOnce(`End session ${tab.sessionId}?`, { text: 'All of its processes are killed.', action: 'End it', danger: true }))
				return;
			await api.del(`${path}/${encodeURIComponent(tab.sessionId)}`);
		}
		drop(tab);
		await list.reload();
	};
	const keys = (e: KeyboardEvent): void => {
		const i = tabs.findIndex((t) => t.key === current), n = tabs.length;
		const to = e.key === 'ArrowRight' ? (i + 1) % n : e.key === 'ArrowLeft' ? (i + n - 1) % n : -1;
		if (to < 0 || !tabs[to])
			return;
		e.preventDefault();
		show(tabs[to] as Tab);
		requestAnimationFrame(() => bar.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
	};

	if (!list.data && list.error && !tabs.length && awake(vm))
		return <Failure error={list.error} retry={list.reload} what="the terminal sessions" />;
	if (!list.data && !list.error && !tabs.length)
		return <Skeleton height={360} />;
	if (!tabs.length && list.data?.known === false)
		return (
			<Empty icon="terminal" title="The VM rests" action={<><Button kind="primary" icon="resume" onClick={onWake}>Resume it</Button> <Button icon="plus" onClick={open}>Resume and open a terminal</Button></>}
				commands={[{ title: 'On the command line', code: `pando vm pty ${word(vm)}` }]}>
				Its terminal sessions are in its memory and go on when it does. Looking at this page does not wake it.
			</Empty>
		);
	if (!tabs.length)
		return (
			<Empty icon="terminal" title="No terminal yet" action={<Button kind="primary" icon="plus" onClick={open}>{awake(vm) ? 'New terminal' : 'Resume and open a terminal'}</Button>}
				commands={[{ title: 'On the command line', code: `pando vm pty ${word(vm)}` }, { title: 'With the SDK', code: 'const session = await vm.pty.open({ cols: 120, rows: 30 });' }]}>
				A session stays in the VM when this page is closed, when the VM is suspended, and in its forks.
			</Empty>
		);
	const tab = tabs.find((t) => t.key === current);
	return (
		<div class="terminals">
			<div class="terminal-bar">
				<div class="tab-list" role="tablist" aria-label="Terminal sessions" ref={bar} onKeyDown={keys}>
					{tabs.map((t) => (
						<button type="button" role="tab" key={t.key} class="tab" id={`tt-${t.key}`} aria-selected={t.key === current} aria-controls={`tp-${t.key}`} tabIndex={t.key === current ? 0 : -1} onClick={() => show(t)}
							title={t.sessionId}>
							<span class="terminal-title">{t.title}</span>{t.watch && <Icon name="lock" size={12} />}
						</button>
					))}
				</div>
				<div class="tab-actions">
					<Button small kind="quiet" icon="plus" label="New terminal" onClick={open} />
					{tab && <>
						<Button small kind="quiet" icon="lock" pressed={tab.watch} label={tab.watch ? 'Watch only: on' : 'Watch only'} title="See what others type, without typing" onClick={() => change(tab.key, { watch: !tab.watch })} />
						<Button small kind="quiet" icon="trash" label="End session" onClick={() => end(tab)} />
					</>}
				</div>
			</div>
			{tabs.filter((t) => opened.has(t.key)).map((t) => (
				<div key={t.key} role="tabpanel" id={`tp-${t.key}`} aria-labelledby={`tt-${t.key}`} hidden={t.key !== current} class="terminal-panel">
					<TerminalView key={t.watch ? 'watch' : 'use'} vmId={vm.id} vmState={vm.state} sessionId={t.sessionId} watch={t.watch} shown={t.key === current}
						onSession={(id) => {
							change(t.key, { sessionId: id, title: t.title === 'new' ? id : t.title });
							if (t.key === current)
								setQuery({ session: id });
						}}
						onTitle={(title) => change(t.key, { title: title || t.sessionId || 'terminal' })}
						onState={(state) => change(t.key, { state })}
						onClose={() => drop(t)} />
				</div>
			))}
		</div>
	);
}
