// SPDX-License-Identifier: Apache-2.0
// Messages at the edge of the page, and the two ways to protect people from their own clicks:
//
//   undoable(label, doIt)   shows `label` with an Undo button for ten seconds, then does it. Leaving the page does it
//                           at once: closing a tab after "Delete" means delete.
//   confirmOnce(question)   asks; resolves to true or false.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, messageOf, pageLeaves } from '../lib/api';
import { Button } from './Button';
import { Dialog } from './Dialog';
import { Icon } from './Icon';

export const UNDO_SECONDS = 10;

interface Toast {
	id: number;
	kind: 'info' | 'good' | 'bad' | 'undo';
	text: string;
	detail?: string;
	action?: { label: string; run: () => void };
	until: number | null;
}
const toasts = signal<Toast[]>([]);
let nextId = 1;

function drop(id: number): void {
	toasts.value = toasts.value.filter((t) => t.id !== id);
}

/* Who points at the messages, or is among them with the keyboard, reads them: they stay until a moment after. */
let held = false;
const overdue = new Set<number>();
function expire(id: number): void {
	if (held)
		overdue.add(id);
	else
		drop(id);
}
function hold(on: boolean): void {
	held = on;
	if (!on)
		setTimeout(() => {
			if (held)
				return;
			overdue.forEach(drop);
			overdue.clear();
		}, 2000);
}

export function notify(text: string, options: { kind?: 'info' | 'good' | 'bad'; detail?: string; action?: Toast['action']; ms?: number } = {}): void {
	const id = nextId++;
	const kind = options.kind ?? 'info';
	/* Errors stay until they are closed. The same one again does not pile up. */
	const ms = options.ms ?? (kind === 'bad' ? null : 5000);
	const rest = toasts.value.filter((t) => t.kind !== kind || t.text !== text).slice(-4);
	toasts.value = [...rest, { id, kind, text, detail: options.detail, action: options.action, until: ms === null ? null : Date.now() + ms }];
	if (ms !== null)
		setTimeout(() => expire(id), ms);
}

/** Shows a failure. What the connection banner or the login page already says is not said again. */
export function failed(e: unknown): void {
	if (e instanceof ApiError && (e.offline || e.status === 401 && e.code !== 'BAD_CREDENTIAL'))
		return;
	if (e instanceof DOMException && e.name === 'AbortError')
		return;
	notify(messageOf(e), { kind: 'bad', detail: e instanceof ApiError ? [e.code, e.traceId].filter(Boolean).join(' · ') : undefined });
}

/* What waits to be done: keys ("vm:ID") let lists show it as going. */
export const pending = signal<ReadonlySet<string>>(new Set());
const waiting = new Map<number, () => void>();

export function undoable(label: string, doIt: () => Promise<unknown>, options: { key?: string; keys?: string[]; onUndo?: () => void } = {}): void {
	const keys = options.keys ?? (options.key ? [options.key] : []);
	const id = nextId++;
	const release = (): void => {
		const s = new Set(pending.value);
		keys.forEach((k) => s.delete(k));
		pending.value = s;
	};
	const timer = window.setTimeout(() => waiting.get(id)?.(), UNDO_SECONDS * 1000);
	waiting.set(id, () => {
		waiting.delete(id);
		clearTimeout(timer);
		drop(id);
		/* Stays marked until it is done, so that nothing jumps back into sight in between. */
		doIt().catch((e) => {
			failed(e);
			options.onUndo?.();
		}).finally(() => setTimeout(release, 800));
	});
	pending.value = new Set([...pending.value, ...keys]);
	toasts.value = [...toasts.value, { id, kind: 'undo', text: label, until: Date.now() + UNDO_SECONDS * 1000, action: { label: 'Undo', run: () => {
		clearTimeout(timer);
		waiting.delete(id);
		drop(id);
		release();
		options.onUndo?.();
	} } }];
}
addEventListener('pagehide', () => {
	if (waiting.size)
		pageLeaves();
	for (const run of [...waiting.values()])
		run();
});

interface Question { title: string; text?: string; action: string; danger: boolean; type?: string; answer: (yes: boolean) => void }
const question = signal<Question | null>(null);

/** Asks once. `type`: a word that must be typed first, for what cannot be brought back. */
export function confirmOnce(title: string, options: { text?: string; action?: string; danger?: boolean; type?: string } = {}): Promise<boolean> {
	return new Promise((answer) => {
		question.peek()?.answer(false);
		question.value = { title, text: options.text, action: options.action ?? 'OK', danger: options.danger ?? false, type: options.type, answer };
	});
}

function Ask({ q }: { q: Question }) {
	const [typed, setTyped] = useState('');
	const done = (yes: boolean): void => {
		question.value = null;
		q.answer(yes);
	};
	return (
		<Dialog title={q.title} onClose={() => done(false)} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				if (!q.type || typed === q.type)
					done(true);
			}}>
				{q.text && <p>{q.text}</p>}
				{q.type && <label class="field"><span>Type <b>{q.type}</b> to confirm</span>
					<input value={typed} onInput={(e) => setTyped(e.currentTarget.value)} autocomplete="off" /></label>}
				<div class="dialog-actions">
					<Button onClick={() => done(false)}>Cancel</Button>
					<Button type="submit" kind={q.danger ? 'danger' : 'primary'} disabled={!!q.type && typed !== q.type}>{q.action}</Button>
				</div>
			</form>
		</Dialog>
	);
}

function Countdown({ until }: { until: number }) {
	const [left, setLeft] = useState(() => Math.max(0, Math.ceil((until - Date.now()) / 1000)));
	useEffect(() => {
		const t = setInterval(() => setLeft(Math.max(0, Math.ceil((until - Date.now()) / 1000))), 250);
		return () => clearInterval(t);
	}, [until]);
	return <span class="countdown" aria-hidden="true">{left}</span>;
}

export function Toasts() {
	return (
		<>
			<div class="toasts" role="region" aria-label="Messages" onPointerEnter={() => hold(true)} onPointerLeave={() => hold(false)} onFocusIn={() => hold(true)} onFocusOut={() => hold(false)}>
				<div role="status" aria-live="polite">
					{toasts.value.map((t) => (
						<div class={`toast ${t.kind}`} key={t.id}>
							{t.kind === 'undo' && t.until ? <Countdown until={t.until} /> : <Icon name={t.kind === 'bad' ? 'warning' : t.kind === 'good' ? 'check' : 'info'} />}
							<div class="toast-text"><div>{t.text}</div>{t.detail && <small class="mono">{t.detail}</small>}</div>
							{t.action && <Button small kind="quiet" onClick={() => {
								t.action?.run();
								drop(t.id);
							}}>{t.action.label}</Button>}
							{t.kind !== 'undo' && <Button small kind="quiet" icon="close" label="Close message" onClick={() => drop(t.id)} />}
						</div>
					))}
				</div>
			</div>
			{question.value && <Ask q={question.value} />}
		</>
	);
}
