// SPDX-License-Identifier: Apache-2.0
// A modal dialog on <dialog>: the browser keeps the focus inside, closes it with Escape and gives the focus back.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './Button';

export function Dialog(p: { title: string; children: ComponentChildren; onClose: () => void; small?: boolean; wide?: boolean }) {
	const ref = useRef<HTMLDialogElement>(null);
	const id = useId();
	useEffect(() => {
		const d = ref.current as HTMLDialogElement;
		const before = document.activeElement as HTMLElement | null;
		d.showModal();
		/* The first field, not the close button. */
		d.querySelector<HTMLElement>('.dialog-body input:not([type=hidden]), .dialog-body select, .dialog-body textarea, .dialog-body button.primary, .dialog-body button')?.focus();
		return () => {
			d.close();
			before?.focus?.();
		};
	}, []);
	return (
		<dialog ref={ref} class={`dialog${p.small ? ' small' : ''}${p.wide ? ' wide' : ''}`} aria-labelledby={id}
			onCancel={(e) => {
				e.preventDefault();
				p.onClose();
			}}
			onMouseDown={(e) => {
				/* A press on the backdrop, not one that began inside. */
				if (e.target === ref.current)
					p.onClose();
			}}>
			<div class="dialog-box">
				<header class="dialog-head"><h2 id={id}>{p.title}</h2><Button kind="quiet" icon="close" label="Close" onClick={p.onClose} /></header>
				<div class="dialog-body">{p.children}</div>
			</div>
		</dialog>
	);
}
