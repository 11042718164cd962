// SPDX-License-Identifier: Apache-2.0
// What a page of the docs does in the browser: copy buttons, theme, menu, search, the heading one is at.
import { find, type Index } from '../search';

const $ = <T extends Element>(selector: string) => document.querySelector<T>(selector);

/* ---- copy ---- */

for (const button of document.querySelectorAll<HTMLButtonElement>('button.copy')) {
	if (!navigator.clipboard)
		break;
	button.hidden = false;
	button.addEventListener('click', () => {
		const text = button.parentElement?.querySelector('code')?.textContent ?? '';
		void navigator.clipboard.writeText(text).then(() => {
			button.textContent = 'Copied';
			setTimeout(() => button.textContent = 'Copy', 1500);
		});
	});
}

/* ---- theme: the same choice as the dashboard's ---- */

$<HTMLButtonElement>('button.theme')?.addEventListener('click', () => {
	const dark = document.documentElement.dataset['theme'] !== 'dark';
	document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
	try {
		localStorage.setItem('pando.theme', dark ? 'dark' : 'light');
	} catch {
		/* no storage: for this page only */
	}
});

/* ---- menu, on narrow screens ---- */

const menu = $<HTMLButtonElement>('button.menu');
const side = $<HTMLElement>('nav.side');
menu?.addEventListener('click', () => {
	const open = side?.classList.toggle('open') ?? false;
	menu.setAttribute('aria-expanded', String(open));
});
side?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });

/* ---- where one is ---- */

const links = new Map([...document.querySelectorAll<HTMLAnchorElement>('.toc a')].map((a) => [decodeURIComponent(a.hash.slice(1)), a]));
if (links.size && 'IntersectionObserver' in window) {
	const seen = new Set<string>();
	const order = [...links.keys()];
	const observer = new IntersectionObserver((changes) => {
		for (const c of changes)
			c.isIntersecting ? seen.add(c.target.id) : seen.delete(c.target.id);
		const first = order.find((id) => seen.has(id));
		if (first)
			for (const [id, a] of links)
				a.classList.toggle('here', id === first);
	}, { rootMargin: '-60px 0px -60% 0px' });
	for (const id of order) {
		const h = document.getElementById(id);
		if (h)
			observer.observe(h);
	}
}

/* ---- search ---- */

let index: Promise<Index> | null = null;
const load = () => index ??= fetch('/docs/_/search.json').then((r) => {
	if (!r.ok)
		throw new Error(`the index did not arrive (${r.status})`);
	return r.json() as Promise<Index>;
});

function element<K extends keyof HTMLElementTagNameMap>(tag: K, attrs: Record<string, string> = {}, ...kids: (Node | string)[]): HTMLElementTagNameMap[K] {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attrs))
		e.setAttribute(k, v);
	e.append(...kids);
	return e;
}

const input = element('input', { type: 'search', placeholder: 'Search the documentation', 'aria-label': 'Search the documentation', autocomplete: 'off',
	role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'found' });
const list = element('ul', { id: 'found', role: 'listbox', 'aria-label': 'Results' });
const note = element('p', { role: 'status' });
const dialog = element('dialog', { class: 'search', 'aria-label': 'Search' }, input, note, list);
document.body.append(dialog);
let chosen = -1;

function choose(at: number): void {
	const items = [...list.children] as HTMLElement[];
	chosen = items.length ? (at + items.length) % items.length : -1;
	items.forEach((li, i) => li.setAttribute('aria-selected', String(i === chosen)));
	if (items[chosen]) {
		items[chosen]!.scrollIntoView({ block: 'nearest' });
		input.setAttribute('aria-activedescendant', items[chosen]!.id);
	}
}

async function show(): Promise<void> {
	const query = input.value;
	try {
		const found = query.trim() ? find(await load(), query) : [];
		if (query !== input.value)
			return;
		list.replaceChildren(...found.map((f, i) => element('li', { role: 'option', id: `found-${i}` },
			element('a', { href: f.url, tabindex: '-1' }, element('b', {}, f.heading || f.title), element('span', {}, f.heading ? f.title : ''),
				element('small', {}, f.excerpt)))));
		note.textContent = query.trim() && !found.length ? 'Nothing has all of these words.' : '';
		choose(0);
	} catch (e) {
		index = null;
		note.textContent = `Search does not work now: ${(e as Error).message}. Try again.`;
	}
}

function open(): void {
	if (!dialog.open)
		dialog.showModal();
	input.select();
	void load().catch(() => {});
}

input.addEventListener('input', () => void show());
input.addEventListener('keydown', (e) => {
	if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
		e.preventDefault();
		choose(chosen + (e.key === 'ArrowDown' ? 1 : -1));
	} else if (e.key === 'Enter') {
		(list.children[chosen]?.querySelector('a'))?.click();
	}
});
list.addEventListener('click', () => dialog.close());
dialog.addEventListener('click', (e) => {
	if (e.target === dialog)
		dialog.close();
});
$<HTMLButtonElement>('button.find')?.addEventListener('click', open);
addEventListener('keydown', (e) => {
	const typing = e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
	if (!typing && !e.ctrlKey && !e.metaKey && !e.altKey && e.key === '/' || (e.ctrlKey || e.metaKey) && e.key === 'k') {
		e.preventDefault();
		open();
	}
});
