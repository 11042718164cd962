// SPDX-License-Identifier: Apache-2.0
// The command palette (Ctrl-K): pages, VMs by name or id, repositories, and the acts that pages offer while they are
// shown (useCommands). Matching is by the letters in order, whole words first.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api';
import { navigate } from '../lib/route';
import { Icon, type IconName } from './Icon';
import { failed } from './Toast';

export interface Command { title: string; hint?: string; icon?: IconName; group?: string; keys?: string; run: () => void | Promise<unknown> }

export const paletteOpen = signal(false);
const registered = signal<Map<object, Command[]>>(new Map());

/** Offers commands as long as the calling component is shown. */
export function useCommands(commands: Command[], deps: unknown[] = []): void {
	useEffect(() => {
		const key = {};
		registered.value = new Map(registered.peek()).set(key, commands);
		return () => {
			const m = new Map(registered.peek());
			m.delete(key);
			registered.value = m;
		};
	}, deps);
}

/** How well `text` matches; 0 is not at all. */
export function score(text: string, query: string): number {
	if (!query)
		return 1;
	const t = text.toLowerCase();
	const q = query.toLowerCase();
	const at = t.indexOf(q);
	if (at === 0)
		return 100;
	if (at > 0)
		return /[^a-z0-9]/.test(t[at - 1] as string) ? 80 : 60;
	let i = 0;
	for (const ch of t)
		if (ch === q[i])
			i++;
	return i === q.length ? 20 - Math.min(15, t.length / 10) : 0;
}

interface Found { vms?: { id: string; name?: string | null; state?: string }[]; repositories?: { id: string; name?: string | null }[] }

function Box() {
	const [text, setText] = useState('');
	const [at, setAt] = useState(0);
	const [things, setThings] = useState<Command[]>([]);
	const dialog = useRef<HTMLDialogElement>(null);
	const list = useRef<HTMLUListElement>(null);
	useEffect(() => {
		const d = dialog.current as HTMLDialogElement;
		const before = document.activeElement as HTMLElement | null;
		d.showModal();
		void api.get<Found>('/v1/vms', { quiet: true }).then((r) => setThings((old) => [...old, ...(r.vms ?? []).map((v): Command => ({
			title: v.name || v.id, hint: `${v.name ? v.id + ' · ' : ''}${v.state ?? ''}`, icon: 'vms', group: 'VMs', run: () => navigate(`/ui/vms/${encodeURIComponent(v.id)}`) }))])).catch(() => undefined);
		void api.get<Found>('/git/v1/repo', { quiet: true }).then((r) => setThings((old) => [...old, ...(r.repositories ?? []).map((g): Command => ({
			title: g.name || g.id, hint: g.name ? g.id : undefined, icon: 'git', group: 'Repositories', run: () => navigate(`/ui/git/${encodeURIComponent(g.id)}`) }))])).catch(() => undefined);
		return () => {
			d.close();
			before?.focus?.();
		};
	}, []);
	const found = useMemo(() => {
		const all = [...[...registered.value.values()].flat(), ...things];
		return all.map((c) => ({ c, s: Math.max(score(c.title, text), score(c.hint ?? '', text) * (text ? 0.7 : 0)) })).filter((x) => x.s > 0)
			.sort((a, b) => b.s - a.s).slice(0, 60).map((x) => x.c);
	}, [text, things, registered.value]);
	const close = (): void => {
		paletteOpen.value = false;
	};
	const run = (c: Command | undefined): void => {
		if (!c)
			return;
		close();
		/* After the dialog gave the focus back. */
		setTimeout(() => {
			const r = c.run();
			if (r instanceof Promise)
				r.catch(failed);
		}, 0);
	};
	useEffect(() => {
		list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
	}, [at, found]);
	return (
		<dialog ref={dialog} class="palette" aria-label="Commands" onCancel={(e) => {
			e.preventDefault();
			close();
		}} onMouseDown={(e) => e.target === dialog.current && close()}>
			<div class="palette-box">
				<div class="palette-input"><Icon name="search" />
					<input autofocus placeholder="Go to a page, a VM, a repository, or do something" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Command"
						aria-activedescendant={found.length ? `palette-${Math.min(at, found.length - 1)}` : undefined} value={text} spellcheck={false} autocomplete="off"
						onInput={(e) => {
							setText(e.currentTarget.value);
							setAt(0);
						}}
						onKeyDown={(e) => {
							const n = found.length;
							if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
								e.preventDefault();
								if (n)
									setAt((Math.min(at, n - 1) + (e.key === 'ArrowDown' ? 1 : n - 1)) % n);
							} else if (e.key === 'Enter') {
								e.preventDefault();
								run(found[Math.min(at, n - 1)]);
							}
						}} /><kbd>Esc</kbd></div>
				<ul class="palette-list" role="listbox" id="palette-list" aria-label="Commands" ref={list}>
					{found.map((c, i) => (
						<li role="option" id={`palette-${i}`} key={i} aria-selected={i === Math.min(at, found.length - 1)} onMouseMove={() => at !== i && setAt(i)} onClick={() => run(c)}>
							<Icon name={c.icon ?? 'right'} size={16} /><span class="palette-title">{c.title}</span>{c.hint && <span class="palette-hint">{c.hint}</span>}
							{c.keys ? <kbd>{c.keys}</kbd> : c.group && <span class="palette-group">{c.group}</span>}
						</li>
					))}
					{!found.length && <li class="palette-none" role="option" aria-selected="false" aria-disabled="true">Nothing is called “{text}”.</li>}
				</ul>
			</div>
		</dialog>
	);
}

export function Palette() {
	return paletteOpen.value ? <Box /> : null;
}
