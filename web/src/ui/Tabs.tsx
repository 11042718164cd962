// SPDX-License-Identifier: Apache-2.0
// Tabs by the ARIA pattern: arrow keys move, only the current tab is in the tab order. The current one is the caller's
// state (or part of the address: setQuery), so that a reload shows the same.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

export interface Tab { key: string; title: ComponentChildren; count?: number | null }

export function Tabs(p: { label: string; tabs: Tab[]; current: string; onChange: (key: string) => void; children?: ComponentChildren; actions?: ComponentChildren }) {
	const id = useId();
	const bar = useRef<HTMLDivElement>(null);
	/* On a narrow screen the bar scrolls: the current tab is in sight. Only the bar, not the page. */
	useEffect(() => {
		const b = bar.current as HTMLDivElement;
		const show = (): void => {
			const t = b.querySelector<HTMLElement>('[aria-selected=true]');
			if (t && (t.offsetLeft < b.scrollLeft || t.offsetLeft + t.offsetWidth > b.scrollLeft + b.clientWidth))
				b.scrollLeft = t.offsetLeft - (b.clientWidth - t.offsetWidth) / 2;
		};
		const ro = new ResizeObserver(show); /* calls at once, too */
		ro.observe(b);
		return () => ro.disconnect();
	}, [p.current]);
	const move = (e: KeyboardEvent): void => {
		const i = p.tabs.findIndex((t) => t.key === p.current);
		const n = p.tabs.length;
		const to = e.key === 'ArrowRight' ? (i + 1) % n : e.key === 'ArrowLeft' ? (i + n - 1) % n : e.key === 'Home' ? 0 : e.key === 'End' ? n - 1 : -1;
		if (to < 0)
			return;
		e.preventDefault();
		p.onChange((p.tabs[to] as Tab).key);
		requestAnimationFrame(() => bar.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
	};
	return (
		<div class="tabs">
			<div class="tabs-bar">
				<div class="tab-list" role="tablist" aria-label={p.label} ref={bar} onKeyDown={move}>
					{p.tabs.map((t) => (
						<button type="button" key={t.key} id={`${id}-${t.key}`} role="tab" class="tab" aria-selected={t.key === p.current}
							aria-controls={t.key === p.current ? `${id}-panel` : undefined} tabIndex={t.key === p.current ? 0 : -1} onClick={() => p.onChange(t.key)}>
							{t.title}{typeof t.count === 'number' && <span class="count">{t.count}</span>}
						</button>
					))}
				</div>
				{p.actions && <div class="tab-actions">{p.actions}</div>}
			</div>
			<div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${p.current}`} tabIndex={0}>{p.children}</div>
		</div>
	);
}
