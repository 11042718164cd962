// SPDX-License-Identifier: Apache-2.0
// Where the page is: /ui/... paths, changed through history. Links are ordinary <a href="/ui/...">; clicks on them are
// taken over here, so that opening one in a new tab works as everywhere.
import { signal } from '@preact/signals';

export interface Place { path: string; query: URLSearchParams; hash: string }

function read(): Place {
	let path = location.pathname;
	if (path === '/' || path === '/ui' || path === '/ui/')
		path = '/ui/';
	else if (path.endsWith('/'))
		path = path.slice(0, -1);
	return { path, query: new URLSearchParams(location.search), hash: location.hash };
}

export const place = signal<Place>(read());

export function navigate(to: string, options: { replace?: boolean } = {}): void {
	if (options.replace)
		history.replaceState(null, '', to);
	else if (to !== location.pathname + location.search + location.hash)
		history.pushState(null, '', to);
	const before = place.peek().path;
	place.value = read();
	if (place.peek().path !== before)
		scrollTo(0, 0);
}

/** Changes values of the query without a new entry in the history; null removes one. */
export function setQuery(values: Record<string, string | null>): void {
	const q = new URLSearchParams(location.search);
	for (const [k, v] of Object.entries(values))
		if (v === null || v === '')
			q.delete(k);
		else
			q.set(k, v);
	const s = q.toString();
	navigate(location.pathname + (s ? '?' + s : '') + location.hash, { replace: true });
}

/** Params of '/ui/vms/:id' in a path, '*rest' takes what remains; null if it does not match. */
export function match(pattern: string, path: string): Record<string, string> | null {
	const want = pattern.split('/');
	const have = path.split('/');
	const params: Record<string, string> = {};
	for (let i = 0; i < want.length; i++) {
		const w = want[i] as string;
		if (w.startsWith('*')) {
			try {
				params[w.slice(1)] = have.slice(i).map(decodeURIComponent).join('/');
			} catch {
				return null;
			}
			return params;
		}
		const h = have[i];
		if (h === undefined)
			return null;
		if (w.startsWith(':')) {
			if (h === '')
				return null;
			try {
				params[w.slice(1)] = decodeURIComponent(h);
			} catch {
				return null;
			}
		} else if (w !== h) {
			return null;
		}
	}
	return want.length === have.length ? params : null;
}

export function startRouter(): void {
	addEventListener('popstate', () => place.value = read());
	document.addEventListener('click', (e) => {
		if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)
			return;
		const a = (e.target as Element | null)?.closest?.('a');
		if (!a || a.target || a.hasAttribute('download') || a.origin !== location.origin)
			return;
		if (a.pathname !== '/' && a.pathname !== '/ui' && !a.pathname.startsWith('/ui/'))
			return;
		e.preventDefault();
		navigate(a.pathname + a.search + a.hash);
	});
}
