// SPDX-License-Identifier: Apache-2.0
// Buttons. `onClick` may return a promise: the button is busy until it settles, and a failure becomes a toast.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './Icon';
import { failed } from './Toast';

export interface ButtonProps {
	children?: ComponentChildren;
	icon?: IconName;
	/** What a button that shows only an icon is called. */
	label?: string;
	kind?: 'plain' | 'primary' | 'danger' | 'quiet';
	small?: boolean;
	type?: 'button' | 'submit';
	disabled?: boolean;
	busy?: boolean;
	title?: string;
	pressed?: boolean;
	class?: string;
	onClick?: (e: MouseEvent) => void | Promise<unknown>;
}

export function Button(p: ButtonProps) {
	const [running, setRunning] = useState(false);
	const mounted = useRef(true);
	useEffect(() => () => {
		mounted.current = false;
	}, []);
	const busy = p.busy || running;
	const click = (e: MouseEvent): void => {
		if (busy)
			return;
		const r = p.onClick?.(e);
		if (r instanceof Promise) {
			setRunning(true);
			r.catch(failed).finally(() => mounted.current && setRunning(false));
		}
	};
	const cls = ['button', p.kind ?? 'plain', p.small && 'small', !p.children && 'only-icon', busy && 'busy', p.class];
	return (
		<button type={p.type ?? 'button'} class={cls.filter(Boolean).join(' ')} disabled={p.disabled} aria-busy={busy}
			aria-label={p.label} aria-pressed={p.pressed} title={p.title ?? (p.children ? undefined : p.label)} onClick={click}>
			{busy ? <span class="spinner" aria-hidden="true" /> : p.icon && <Icon name={p.icon} size={p.small ? 15 : 17} />}
			{p.children && <span>{p.children}</span>}
		</button>
	);
}

/** A link that looks like a button. */
export function LinkButton(p: { href: string; icon?: IconName; children: ComponentChildren; kind?: ButtonProps['kind']; small?: boolean; download?: string }) {
	return (
		<a class={`button ${p.kind ?? 'plain'}${p.small ? ' small' : ''}`} href={p.href} download={p.download}>
			{p.icon && <Icon name={p.icon} size={p.small ? 15 : 17} />}<span>{p.children}</span>
		</a>
	);
}

/** Copies text; says so for a moment. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
	const [done, setDone] = useState(false);
	const copy = async (): Promise<void> => {
		await copyText(text);
		setDone(true);
		setTimeout(() => setDone(false), 1500);
	};
	return <Button kind="quiet" small icon={done ? 'check' : 'copy'} label={done ? 'Copied' : label} onClick={copy} />;
}

export async function copyText(text: string): Promise<void> {
	if (navigator.clipboard && isSecureContext) {
		await navigator.clipboard.writeText(text);
		return;
	}
	/* Plain HTTP to another host has no clipboard API: the old way. */
	const t = document.createElement('textarea');
	t.value = text;
	t.className = 'off-screen';
	document.body.append(t);
	t.select();
	const ok = document.execCommand('copy');
	t.remove();
	if (!ok)
		throw new Error('The browser did not allow copying; select the text and copy it by hand.');
}
