// SPDX-License-Identifier: Apache-2.0
/*
 * Terminal.tsx - one terminal session on the page: xterm.js (loaded when the first one is shown) on a PtyClient
 *
 * What programs write reaches the page only as cells of the terminal and as a title, which is text. Links open after a question and
 * only if they are http or https. A watcher asks for the largest terminal there is, so that it never makes the others' smaller, and
 * follows the size that the session has.
 */
import type { FitAddon } from '@xterm/addon-fit';
import type { SearchAddon } from '@xterm/addon-search';
import type { ITheme, Terminal as Xterm } from '@xterm/xterm';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { cssVar, effectiveTheme } from '../../lib/theme';
import { Button, copyText } from '../../ui/Button';
import { confirmOnce, failed } from '../../ui/Toast';
import { plainTitle } from './ansi';
import { PtyClient, type PtySocket, type PtyState } from './pty';
import type { PtySession } from './types';

const WATCH_COLS = 1000;
const WATCH_ROWS = 200;

export interface TerminalProps {
	vmId: string;
	vmState: string;
	/** None: a new one is opened. */
	sessionId?: string;
	exec?: string;
	watch?: boolean;
	/** The tab is in sight; one that is not keeps its size. */
	shown: boolean;
	onSession?(id: string): void;
	onTitle?(title: string): void;
	onState?(state: PtyState): void;
	onClose?(): void;
}

function colours(): ITheme {
	const c = (name: string): string => cssVar(`--term-${name}`);
	const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;
	const bright = ['brightBlack', 'brightRed', 'brightGreen', 'brightYellow', 'brightBlue', 'brightMagenta', 'brightCyan', 'brightWhite'] as const;
	const theme: Record<string, string> = {
		background: c('bg'), foreground: c('fg'), cursor: c('cursor'), cursorAccent: c('bg'), selectionBackground: c('select'),
	};
	names.forEach((n, i) => theme[n] = c(String(i)));
	bright.forEach((n, i) => theme[n] = c(String(i + 8)));
	return theme;
}

async function load() {
	const [x, fit, find, links, csp] = await Promise.all([import('@xterm/xterm'), import('@xterm/addon-fit'), import('@xterm/addon-search'),
		import('@xterm/addon-web-links'), import('./xterm_csp')]);
	return { Xterm: x.Terminal, FitAddon: fit.FitAddon, SearchAddon: find.SearchAddon, WebLinksAddon: links.WebLinksAddon, cspDocument: csp.cspDocument, withoutStyles: csp.withoutStyles, styleCells: csp.styleCells };
}

async function openLink(text: string): Promise<void> {
	let to: URL;
	try {
		to = new URL(text);
	} catch {
		return;
	}
	if (to.protocol !== 'http:' && to.protocol !== 'https:')
		return;
	if (await confirmOnce('Open this link?', { text: to.href, action: 'Open in a new tab' }))
		window.open(to.href, '_blank', 'noopener,noreferrer');
}

const NOTES: Partial<Record<PtyState, string>> = {
	connecting: 'Connecting…',
	waiting: 'Not connected. Trying again…',
	asleep: 'The VM rests. This session is kept with it.',
};

export function TerminalView(p: TerminalProps) {
	const box = useRef<HTMLDivElement>(null);
	const term = useRef<Xterm | null>(null);
	const fit = useRef<FitAddon | null>(null);
	const find = useRef<SearchAddon | null>(null);
	const pty = useRef<PtyClient | null>(null);
	const latest = useRef(p);
	const [state, setState] = useState<PtyState>('idle');
	const [note, setNote] = useState('');
	const [slow, setSlow] = useState(false);
	const [finding, setFinding] = useState(false);
	latest.current = p;

	useEffect(() => {
		let gone = false;
		const undo: (() => void)[] = [];
		load().then(({ Xterm, FitAddon, SearchAddon, WebLinksAddon, cspDocument, withoutStyles, styleCells }) => {
			const el = box.current;
			if (gone || !el)
				return;
			const t = new Xterm({
				documentOverride: cspDocument(), allowProposedApi: true, theme: colours(), fontFamily: cssVar('--mono') || 'monospace', fontSize: 13, scrollback: 10_000,
				cursorBlink: false, macOptionIsMeta: true, disableStdin: !!p.watch, minimumContrastRatio: 4.5, tabStopWidth: 8,
				linkHandler: { activate: (_e, text) => void openLink(text) },
			});
			const f = new FitAddon(), s = new SearchAddon();
			t.loadAddon(f);
			t.loadAddon(s);
			t.loadAddon(new WebLinksAddon((_e, text) => void openLink(text)));
			withoutStyles(() => t.open(el));
			styleCells(t);
			t.textarea?.setAttribute('aria-label', `Terminal ${p.sessionId ?? ''}`);
			term.current = t;
			fit.current = f;
			find.current = s;
			undo.push(() => t.dispose());
			if (!p.watch)
				f.fit();
			const client = new PtyClient(
				{ sessionId: p.sessionId, exec: p.exec, watch: !!p.watch, cols: p.watch ? WATCH_COLS : t.cols, rows: p.watch ? WATCH_ROWS : t.rows },
				location.href,
				{
					ticket: async (sessionId) => (await api.post<{ url: string }>(`/v1/vms/${encodeURIComponent(p.vmId)}/pty/tickets`,
						{ ...(sessionId ? { sessionId } : {}), origin: location.origin }, { quiet: true })).url,
					socket: (url) => new WebSocket(url) as unknown as PtySocket,
					vmState: () => latest.current.vmState,
					exists: async (id) => (await api.get<{ sessions: PtySession[] }>(`/v1/vms/${encodeURIComponent(p.vmId)}/pty/sessions`))
						.sessions.some((x) => x.sessionId === id && x.running !== false),
					later: (fn, ms) => {
						const id = window.setTimeout(fn, ms);
						return () => clearTimeout(id);
					},
					random: Math.random,
				},
				{
					data: (bytes, picture) => {
						if (picture)
							t.reset();
						t.write(bytes);
					},
					state: (st, n) => {
						setState(st);
						setNote(n);
						latest.current.onState?.(st);
					},
					session: (id) => {
						t.textarea?.setAttribute('aria-label', `Terminal ${id}`);
						latest.current.onSession?.(id);
					},
				});
			pty.current = client;
			undo.push(() => client.close());
			const subs = [
				t.onData((d) => client.send(d)),
				t.onBinary((d) => client.send(Uint8Array.from(d, (c) => c.charCodeAt(0)))),
				t.onResize(({ cols, rows }) => client.resize(cols, rows)),
				t.onTitleChange((title) => latest.current.onTitle?.(plainTitle(title))),
			];
			undo.push(() => subs.forEach((x) => x.dispose()));
			t.attachCustomKeyEventHandler((e) => {
				if (e.type !== 'keydown')
					return true;
				const key = e.key.toLowerCase(), ctrl = e.ctrlKey && !e.altKey && !e.metaKey;
				if (ctrl && key === 'c' && (e.shiftKey || t.hasSelection())) {
					copyText(t.getSelection()).then(() => t.clearSelection(), failed);
					e.preventDefault();
					return false;
				}
				if (ctrl && key === 'v')
					return false; // the browser pastes into xterm's field
				if (ctrl && e.shiftKey && key === 'f') {
					e.preventDefault();
					setFinding(true);
					return false;
				}
				return true;
			});
			const refit = (): void => {
				if (latest.current.shown && !latest.current.watch && el.clientWidth > 40 && el.clientHeight > 40)
					f.fit();
			};
			const ro = new ResizeObserver(refit);
			ro.observe(el);
			undo.push(() => ro.disconnect());
			if (p.watch) {
				const follow = async (): Promise<void> => {
					const r = await api.get<{ sessions: PtySession[] }>(`/v1/vms/${encodeURIComponent(p.vmId)}/pty/sessions`, { quiet: true }).catch(() => null);
					const own = r?.sessions.find((x) => x.sessionId === client.sessionId);
					if (own && (own.cols !== t.cols || own.rows !== t.rows))
						t.resize(own.cols, own.rows);
				};
				void follow();
				const timer = window.setInterval(() => void follow(), 3000);
				undo.push(() => clearInterval(timer));
			}
			client.begin();
			if (p.shown && !p.watch)
				t.focus();
		}).catch(failed);
		return () => {
			gone = true;
			undo.reverse().forEach((fn) => fn());
			term.current = null;
		};
	}, []);

	useEffect(() => pty.current?.vmChanged(), [p.vmState]);
	useEffect(() => {
		if (p.shown && !p.watch && term.current) {
			fit.current?.fit();
			term.current.focus();
		}
	}, [p.shown]);
	const theme = effectiveTheme.value;
	useEffect(() => {
		if (term.current)
			term.current.options.theme = colours();
	}, [theme]);
	useEffect(() => {
		setSlow(false);
		if (state !== 'connecting' && state !== 'idle')
			return undefined;
		const id = setTimeout(() => setSlow(true), 400);
		return () => clearTimeout(id);
	}, [state]);

	const wake = (): void => {
		pty.current?.send(new Uint8Array(0));
		term.current?.focus();
	};
	const text = state === 'exited' ? `Session ${pty.current?.sessionId ?? ''} ${note}.` : state === 'failed' ? note : NOTES[state];
	const showNote = text && (state !== 'connecting' || slow);
	return (
		<div class={`terminal ${p.watch ? 'watching' : ''}`} data-state={state} data-session={pty.current?.sessionId ?? ''}>
			<div class="terminal-box" ref={box} />
			{finding && <form class="terminal-find" role="search" onSubmit={(e) => {
				e.preventDefault();
				find.current?.findNext((e.currentTarget.elements.namedItem('find') as HTMLInputElement).value);
			}} onKeyDown={(e) => {
				if (e.key === 'Escape') {
					setFinding(false);
					find.current?.clearDecorations();
					term.current?.focus();
				}
			}}>
				<input name="find" aria-label="Find in the terminal" placeholder="Find" autocomplete="off" ref={(i) => i?.focus()} onInput={(e) =>
					find.current?.findNext(e.currentTarget.value, { incremental: true })} />
				<Button small kind="quiet" icon="up" label="Previous" onClick={() => {
					find.current?.findPrevious(box.current?.parentElement?.querySelector<HTMLInputElement>('input[name=find]')?.value ?? '');
				}} />
				<Button small kind="quiet" icon="down" label="Next" type="submit" />
				<Button small kind="quiet" icon="close" label="Close search" onClick={() => setFinding(false)} />
			</form>}
			{showNote && <div class={`terminal-note ${state}`} role="status">
				<span>{text}</span>
				{state === 'asleep' && !p.watch && <Button small kind="primary" icon="resume" onClick={wake}>Resume the VM</Button>}
				{state === 'waiting' && <Button small icon="refresh" onClick={() => {
					void pty.current?.connect();
				}}>Now</Button>}
				{state === 'failed' && !p.watch && <Button small icon="refresh" onClick={() => {
					void pty.current?.connect();
				}}>Try again</Button>}
				{(state === 'exited' || state === 'failed') && p.onClose && <Button small onClick={p.onClose}>Close tab</Button>}
			</div>}
		</div>
	);
}
