// SPDX-License-Identifier: Apache-2.0
// A button that opens a list of acts. Arrow keys move, Escape closes; it closes when the focus leaves it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './Icon';
import { failed } from './Toast';

export interface MenuItem { label: string; icon?: IconName; danger?: boolean; disabled?: boolean; hint?: string; run: () => void | Promise<unknown> }

export function Menu(p: { label: string; items: (MenuItem | null | undefined | false)[]; icon?: IconName; text?: string; kind?: string; align?: 'start' | 'end' }) {
	const [open, setOpen] = useState(false);
	const box = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (open)
			box.current?.querySelector<HTMLElement>('[role=menuitem]:not(:disabled)')?.focus();
	}, [open]);
	const keys = (e: KeyboardEvent): void => {
		if (!open)
			return;
		const all = [...box.current?.querySelectorAll<HTMLElement>('[role=menuitem]:not(:disabled)') ?? []];
		const i = all.indexOf(document.activeElement as HTMLElement);
		const to = e.key === 'ArrowDown' ? (i + 1) % all.length : e.key === 'ArrowUp' ? (i + all.length - 1) % all.length : -1;
		if (to >= 0) {
			e.preventDefault();
			all[to]?.focus();
		} else if (e.key === 'Escape') {
			e.stopPropagation();
			setOpen(false);
			box.current?.querySelector<HTMLElement>('.menu-button')?.focus();
		}
	};
	return (
		<div class="menu" ref={box} onKeyDown={keys} onFocusOut={(e) => {
			if (!box.current?.contains(e.relatedTarget as Node | null))
				setOpen(false);
		}}>
			<button type="button" class={`button menu-button ${p.kind ?? 'quiet'}${p.text ? '' : ' only-icon'}`} aria-haspopup="menu" aria-expanded={open} aria-label={p.text ? `${p.text}: ${p.label}` : p.label} title={p.text ? undefined : p.label} onClick={() => setOpen(!open)}>
				{p.icon !== undefined || !p.text ? <Icon name={p.icon ?? 'more'} /> : null}{p.text && <span>{p.text}</span>}
			</button>
			{open && <div class={`menu-list ${p.align ?? 'end'}`} role="menu" aria-label={p.label}>
				{p.items.filter((i): i is MenuItem => !!i).map((i) => (
					<button type="button" role="menuitem" tabIndex={-1} key={i.label} class={i.danger ? 'danger' : ''} disabled={i.disabled} title={i.hint} onClick={() => {
						setOpen(false);
						const r = i.run();
						if (r instanceof Promise)
							r.catch(failed);
					}}>{i.icon && <Icon name={i.icon} size={16} />}<span>{i.label}</span></button>
				))}
			</div>}
		</div>
	);
}
