// SPDX-License-Identifier: Apache-2.0
// Data of GET routes for pages: useData('/v1/vms') loads, keeps the last answer while it loads again, and loads again
// when an event of `on` arrives (at most once per `every` ms), when the server is back, or every `poll` ms.
import { effect, signal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, ApiError } from './api';
import { comeback } from './connection';
import { events } from './events';
import { currentAccount } from './session';

export interface Data<T> {
	/** The last good answer, null before the first. */
	data: T | null;
	/** Why there is none, or why the last try failed. */
	error: ApiError | null;
	loading: boolean;
	reload(): Promise<void>;
	/** Shows a change before the server confirms it. */
	set(f: (old: T) => T): void;
}
export interface DataOptions {
	on?: string[];
	every?: number;
	poll?: number;
}

/* The last answers, so that going back to a page shows it at once. Cleared when the account changes. */
const cache = new Map<string, unknown>();
let cacheOf: string | null = null;
effect(() => {
	const id = currentAccount.value?.id ?? null;
	if (id !== cacheOf)
		cache.clear();
	cacheOf = id;
});

export function useData<T>(path: string | null, options: DataOptions = {}): Data<T> {
	const account = currentAccount.value?.id ?? null;
	const s = useMemo(() => signal<Omit<Data<T>, 'reload' | 'set'>>({
		data: path !== null && cache.has(path) ? cache.get(path) as T : null, error: null, loading: path !== null }), [path, account]);
	const reload = useMemo(() => {
		let running: Promise<void> | null = null;
		let again = false;
		const once = async (): Promise<void> => {
			try {
				const data = await api.get<T>(path as string);
				if (account === cacheOf)
					cache.set(path as string, data);
				s.value = { data, error: null, loading: false };
			} catch (e) {
				const error = e instanceof ApiError ? e : new ApiError(0, 'PAGE', String(e));
				s.value = { data: s.peek().data, error, loading: false };
			}
		};
		/* One request at a time; whoever asks meanwhile gets one more after it. */
		return (): Promise<void> => {
			if (path === null)
				return Promise.resolve();
			if (running) {
				again = true;
				return running;
			}
			running = (async () => {
				do {
					again = false;
					await once();
				} while (again);
				running = null;
			})();
			return running;
		};
	}, [s]);
	const on = (options.on ?? []).join(',');
	useEffect(() => {
		if (path === null)
			return undefined;
		void reload();
		let timer = 0;
		let last = 0;
		const soon = (): void => {
			if (timer)
				return;
			const every = options.every ?? 400;
			timer = window.setTimeout(() => {
				timer = 0;
				last = Date.now();
				void reload();
			}, Math.max(60, last + every - Date.now()));
		};
		const offs = [...on.split(',').filter(Boolean), 'reload'].map((t) => events.on(t, soon));
		let seen = comeback.peek();
		offs.push(effect(() => {
			if (comeback.value !== seen) {
				seen = comeback.value;
				void reload();
			}
		}));
		const poll = options.poll ? window.setInterval(() => {
			if (!document.hidden)
				void reload();
		}, options.poll) : 0;
		return () => {
			clearTimeout(timer);
			clearInterval(poll);
			offs.forEach((f) => f());
		};
	}, [path, on, account]);
	const v = s.value;
	return { ...v, reload, set: (f) => {
		if (s.peek().data !== null)
			s.value = { ...s.peek(), data: f(s.peek().data as T) };
	} };
}

/** The time, for "3 s ago" texts: one timer for the page. */
const ticking = signal(Date.now());
setInterval(() => {
	if (!document.hidden)
		ticking.value = Date.now();
}, 1000);
export const now: ReadonlySignal<number> = ticking;
