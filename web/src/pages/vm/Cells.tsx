// SPDX-License-Identifier: Apache-2.0
/*
 * Cells.tsx - code cells of a VM
 *
 * A cell runs in a context on the server, which keeps its variables whatever this page does; the texts are kept in this tab. A run is a
 * stream: leaving the page interrupts the cell, as the server does for any client that leaves.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, messageOf } from '../../lib/api';
import { seconds } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Empty, Progress } from '../../ui/parts';
import { Menu } from '../../ui/Menu';
import { confirmOnce, notify, undoable } from '../../ui/Toast';
import { CodeView } from './CodeView';
import { applyEvent, LANGUAGES, loadCells, newCell, saveCells, type Cell, type Language } from './notebook';
import { PieceView } from './Output';
import { awake, type Vm, word } from './types';

interface Context { contextId: string; language: Language; state: string; default: boolean; executionCount: number; waiting: number }

const SYNTAX: Record<Language, string> = { python: 'py', javascript: 'js', typescript: 'ts', bash: 'sh' };
const NAMES: Record<Language, string> = { python: 'Python', javascript: 'JavaScript', typescript: 'TypeScript', bash: 'Bash' };

export function Cells({ vm }: { vm: Vm }) {
	const base = `/v1/vms/${encodeURIComponent(vm.id)}/code`;
	const [cells, setCells] = useState<Cell[]>(() => loadCells(sessionStorage, vm.id));
	const contexts = useData<{ contexts: Context[] }>(awake(vm) ? `${base}/contexts` : null);
	const runs = useRef(new Map<string, AbortController>());
	const waiting = useRef(new Map<string, [string, unknown][]>());
	const frame = useRef(0);
	const latest = useRef(cells);
	latest.current = cells;

	useEffect(() => {
		const id = setTimeout(() => saveCells(sessionStorage, vm.id, cells), 250);
		return () => clearTimeout(id);
	}, [cells]);
	useEffect(() => {
		const keep = (): void => saveCells(sessionStorage, vm.id, latest.current);
		addEventListener('pagehide', keep);
		return () => {
			removeEventListener('pagehide', keep);
			keep();
			cancelAnimationFrame(frame.current);
			runs.current.forEach((c) => c.abort());
		};
	}, []);

	const change = (id: string, f: (c: Cell) => Cell): void => setCells((all) => all.map((c) => c.id === id ? f(c) : c));
	/* Output may come faster than it can be drawn: once per frame is enough. */
	const flush = (): void => {
		frame.current = 0;
		const got = waiting.current;
		waiting.current = new Map();
		setCells((all) => all.map((c) => (got.get(c.id) ?? []).reduce((x, [event, data]) => applyEvent(x, event, data), c)));
	};
	const run = async (id: string): Promise<void> => {
		const cell = latest.current.find((c) => c.id === id);
		if (!cell || cell.running || !cell.code.trim())
			return;
		const stop = new AbortController();
		runs.current.set(id, stop);
		change(id, (c) => ({ ...c, running: true, pieces: [], durationMs: null }));
		const put = (event: string, data: unknown): void => {
			waiting.current.set(id, [...(waiting.current.get(id) ?? []), [event, data]]);
			frame.current ||= requestAnimationFrame(flush);
		};
		try {
			await api.stream(base, { code: cell.code, stream: true, ...(cell.contextId ? { contextId: cell.contextId } : { language: cell.language }) },
				(e) => put(e.event, e.json()), { signal: stop.signal });
		} catch (e) {
			put('error', { code: e instanceof ApiError ? e.code : 'ERROR', message: messageOf(e) });
		} finally {
			runs.current.delete(id);
			setTimeout(() => change(id, (c) => ({ ...c, running: false })), 50);
			void contexts.reload();
		}
	};
	const add = (language: Language, code = '', contextId = ''): void => setCells((all) => [...all, newCell(language, code, contextId)]);
	const contextOf = (c: Cell): Context | undefined => contexts.data?.contexts.find((x) => c.contextId ? x.contextId === c.contextId : x.default && x.language === c.language);
	const interrupt = async (c: Cell): Promise<void> => {
		const id = contextOf(c)?.contextId ?? (await api.get<{ contexts: Context[] }>(`${base}/contexts`)).contexts.find((x) => x.default && x.language === c.language)?.contextId;
		if (id)
			await api.post(`${base}/contexts/${encodeURIComponent(id)}/interrupt`);
		else
			runs.current.get(c.id)?.abort();
	};
	const restart = async (c: Context): Promise<void> => {
		if (!await confirmOnce(`Restart ${NAMES[c.language]} (${c.contextId})?`, { text: 'Its variables are lost.', action: 'Restart', danger: true }))
			return;
		await api.post(`${base}/contexts/${encodeURIComponent(c.contextId)}/restart`);
		notify(`${c.contextId} has a new kernel.`, { kind: 'good' });
		await contexts.reload();
	};
	const create = async (language: Language): Promise<void> => {
		const c = await api.post<Context>(`${base}/contexts`, { language });
		await contexts.reload();
		add(language, '', c.contextId);
	};

	if (!cells.length)
		return (
			<Empty icon="terminal" title="Run code in this VM" action={<div class="row">{LANGUAGES.map((l) => <Button key={l} kind={l === 'python' ? 'primary' : 'plain'} onClick={() => add(l)}>{NAMES[l]}</Button>)}</div>}
				commands={[{ title: 'On the command line', code: `pando code ${word(vm)} -e '6 * 7'` },
					{ title: 'Over HTTP', code: `POST /v1/vms/${vm.id}/code {"language":"python","code":"6 * 7"}` }]}>
				Variables stay in the VM from one cell to the next, across suspend and resume, and into forks.{!awake(vm) && ' Running a cell resumes this VM.'}
			</Empty>
		);
	return (
		<div class="cells">
			{cells.map((c, i) => {
				const ctx = contextOf(c);
				return (
					<article key={c.id} class={`cell ${c.running ? 'running' : ''}`} aria-label={`Cell ${i + 1}`}>
						<header class="cell-head">
							<span class="cell-count" title="How often code ran in this context">{c.running ? '[*]' : c.count !== null ? `[${c.count}]` : '[ ]'}</span>
							<select aria-label={`Context of cell ${i + 1}`} value={c.contextId || `lang:${c.language}`} disabled={c.running} onChange={(e) => {
								const v = e.currentTarget.value;
								const other = contexts.data?.contexts.find((x) => x.contextId === v);
								change(c.id, (x) => v.startsWith('lang:') ? { ...x, language: v.slice(5) as Language, contextId: '' } : { ...x, contextId: v, language: other?.language ?? x.language });
							}}>
								{LANGUAGES.map((l) => <option key={l} value={`lang:${l}`}>{NAMES[l]}</option>)}
								{contexts.data?.contexts.filter((x) => !x.default).map((x) => <option key={x.contextId} value={x.contextId}>{NAMES[x.language]} · {x.contextId}</option>)}
								{c.contextId && !contexts.data?.contexts.some((x) => x.contextId === c.contextId) && <option value={c.contextId}>{c.contextId}</option>}
							</select>
							<span class="cell-time muted">{c.durationMs !== null ? seconds(c.durationMs / 1000) : ''}</span>
							<span class="spacer" />
							{c.running ? <Button small icon="suspend" onClick={() => interrupt(c)}>Interrupt</Button>
								: <Button small kind="primary" icon="resume" title="Shift-Enter" onClick={() => run(c.id)}>Run</Button>}
							<Menu label={`More for cell ${i + 1}`} items={[
								ctx ? { label: 'Restart kernel', icon: 'refresh', run: () => restart(ctx) } : null,
								{ label: 'Clear output', icon: 'close', run: () => change(c.id, (x) => ({ ...x, pieces: [], durationMs: null })) },
								i > 0 && { label: 'Move up', icon: 'up', run: () => setCells((all) => [...all.slice(0, i - 1), all[i] as Cell, all[i - 1] as Cell, ...all.slice(i + 1)]) },
								{ label: 'Remove cell', icon: 'trash', danger: true, run: () => {
									const was = latest.current;
									runs.current.get(c.id)?.abort();
									setCells((all) => all.filter((x) => x.id !== c.id));
									undoable('The cell was removed', () => Promise.resolve(), { onUndo: () => setCells(was.map((x) => ({ ...x, running: false }))) });
								} },
							]} />
						</header>
						<CodeView text={c.code} language={SYNTAX[c.language]} label={`Code of cell ${i + 1}`} lineNumbers={false} grow autoFocus={!c.code}
							placeholder={`${NAMES[c.language]} · Shift-Enter runs it`} onChange={(code) => change(c.id, (x) => ({ ...x, code }))} onRun={() => void run(c.id)} />
						{c.running && !c.pieces.length && <Progress label="The cell runs" />}
						{c.pieces.length > 0 && <div class="cell-out" aria-live="polite">{c.pieces.map((p, k) => <PieceView key={k} piece={p} vmId={vm.id} />)}</div>}
					</article>
				);
			})}
			<div class="cells-add row">
				<span class="muted">New cell</span>
				{LANGUAGES.map((l) => <Button key={l} small icon="plus" onClick={() => add(l)}>{NAMES[l]}</Button>)}
				<Menu label="New context" text="New context" kind="plain" align="start" items={LANGUAGES.map((l) => ({ label: `${NAMES[l]}, with variables of its own`, run: () => create(l) }))} />
			</div>
		</div>
	);
}
