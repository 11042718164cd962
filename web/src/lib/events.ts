// SPDX-License-Identifier: Apache-2.0
// GET /v1/events for the whole page: one stream, resumed by the id of the last event after any break. A tab that is
// hidden for a minute lets go of its stream (browsers allow six connections to a server over HTTP/1.1) and catches
// up when it is looked at again.
//
// events.on('vm.created', fn), events.on('vm.*', fn), events.on('*', fn) return a function that ends the subscription.
// 'reload' is sent to everyone when events may have been missed: read everything again.
import { effect, signal } from '@preact/signals';
import { ApiError, errorOf } from './api';
import { comeback, connectionLost } from './connection';
import { currentAccount, sessionEnded, sessionEpoch, sessionState } from './session';
import { readEvents } from './sse';

export interface PandoEvent {
	id: number;
	type: string;
	createdAt: string;
	vm?: { id: string; name?: string | null; state?: string; [key: string]: unknown };
	snapshot?: { id?: string; snapshotId?: string; name?: string | null };
	build?: { id?: string; buildId?: string; state?: string; phase?: string };
	push?: { repoId: string; repoName?: string | null; ref?: string };
	delivery?: { repoId: string; triggerId: string; state: string };
	sync?: { repoId: string; state: string };
	domain?: { domain: string; vmId?: string };
	quota?: { name: string; code: string; limit: number; current: number; requested: number; before: number };
	run?: { id: string; state?: string };
	execution?: { id: string; scheduleId: string; status: string };
	vpc?: { id: string; name?: string | null; reason?: string };
	[key: string]: unknown;
}
type Listener = (e: PandoEvent) => void;

const listeners = new Map<string, Set<Listener>>();
/** live: events arrive; off: signed out or hidden; missing: this server has no /v1/events. */
export const eventsState = signal<'off' | 'connecting' | 'live' | 'missing'>('off');
/** How many arrived since the page was opened. */
export const eventCount = signal(0);

let lastId: string | null = null;
let stop: AbortController | null = null;
let retry = 0;
let wait = 500;
let alive = 0;
let failures = 0;
const HIDDEN_MS = 60_000;
const SILENT_MS = 45_000;

export const events = {
	on(type: string, fn: Listener): () => void {
		let set = listeners.get(type);
		if (!set)
			listeners.set(type, set = new Set());
		set.add(fn);
		return () => set.delete(fn);
	},
};

function tell(e: PandoEvent): void {
	const dot = e.type.indexOf('.');
	const keys = dot > 0 ? [e.type, e.type.slice(0, dot) + '.*', '*'] : [e.type, '*'];
	for (const k of keys)
		for (const fn of [...listeners.get(k) ?? []])
			try {
				fn(e);
			} catch (err) {
				console.error('an event listener failed', err);
			}
}

function reloadAll(): void {
	tell({ id: 0, type: 'reload', createdAt: new Date().toISOString() });
}

function disconnect(): void {
	clearTimeout(retry);
	stop?.abort();
	stop = null;
	eventsState.value = 'off';
}

async function connect(): Promise<void> {
	disconnect();
	const mine = stop = new AbortController();
	const epoch = sessionEpoch();
	eventsState.value = 'connecting';
	try {
		const headers: Record<string, string> = { accept: 'text/event-stream' };
		if (lastId !== null)
			headers['last-event-id'] = lastId;
		const res = await fetch('/v1/events', { headers, credentials: 'same-origin', cache: 'no-store', signal: mine.signal });
		if (!res.ok)
			throw await errorOf(res);
		failures = 0;
		alive = Date.now();
		const watch = window.setInterval(() => {
			if (Date.now() - alive > SILENT_MS)
				mine.abort();
		}, 5000);
		try {
			await readEvents(res, (e) => {
				wait = 500;
				if (e.event === 'hello') {
					if (lastId === null)
						lastId = String(e.json<{ lastId: number }>().lastId ?? 0);
					eventsState.value = 'live';
					return;
				}
				if (e.event === 'gap') {
					lastId = String(e.json<{ lastId?: number }>().lastId ?? e.id ?? 0);
					reloadAll();
					return;
				}
				if (e.id !== null)
					lastId = e.id;
				eventsState.value = 'live';
				eventCount.value++;
				tell(e.json<PandoEvent>());
			}, () => alive = Date.now());
		} finally {
			clearInterval(watch);
		}
	} catch (e) {
		if (stop !== mine)
			return;
		if (e instanceof ApiError) {
			if (e.status === 404 || e.status === 405) {
				eventsState.value = 'missing';
				return;
			}
			if (e.status === 401) {
				sessionEnded(epoch);
				return;
			}
		} else if (!mine.signal.aborted && ++failures > 1) {
			connectionLost(); /* once may be the network's mood: see api.ts */
		}
	}
	if (stop !== mine)
		return;
	eventsState.value = 'connecting';
	retry = window.setTimeout(connect, wait);
	wait = Math.min(wait * 2, 10_000);
}

let account: string | null = null;
let hiddenTimer = 0;

export function startEvents(): void {
	/* The tests' and the benchmark's way in: how far it has got. */
	(window as unknown as { pandoEvents?: unknown }).pandoEvents = { get count() {
		return eventCount.peek();
	}, get lastId() {
		return Number(lastId ?? 0);
	} };
	effect(() => {
		const id = sessionState.value === 'in' ? currentAccount.value?.id ?? null : null;
		if (id === account)
			return;
		account = id;
		lastId = null;
		if (id)
			void connect();
		else
			disconnect();
	});
	let seen = 0;
	effect(() => {
		if (comeback.value > seen && account)
			void connect();
		seen = comeback.value;
	});
	document.addEventListener('visibilitychange', () => {
		clearTimeout(hiddenTimer);
		if (document.hidden)
			hiddenTimer = window.setTimeout(disconnect, HIDDEN_MS);
		else if (account && eventsState.value === 'off')
			void connect();
	});
}
