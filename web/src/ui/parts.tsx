// SPDX-License-Identifier: Apache-2.0
// Small pieces that every page uses: empty states, loading, errors, progress, states, figures, code.
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../lib/api';
import type { Data } from '../lib/state';
import { now } from '../lib/state';
import { ago, dateTime } from '../lib/format';
import { Button, CopyButton } from './Button';
import { Icon, type IconName } from './Icon';

/** Nothing here yet: what would be here, and the command or call that fills it. */
export function Empty(p: { icon?: IconName; title: string; children?: ComponentChildren; commands?: { title: string; code: string }[]; action?: ComponentChildren }) {
	return (
		<div class="empty">
			{p.icon && <Icon name={p.icon} size={34} />}
			<h2>{p.title}</h2>
			{p.children && <p>{p.children}</p>}
			{p.action && <div class="empty-action">{p.action}</div>}
			{p.commands?.map((c) => <div class="empty-code" key={c.title}><span>{c.title}</span><Code text={c.code} /></div>)}
		</div>
	);
}

export function Code({ text, copy = true }: { text: string; copy?: boolean }) {
	return <div class="code"><pre tabIndex={0}>{text}</pre>{copy && <CopyButton text={text} />}</div>;
}

export function Skeleton({ lines = 5, height }: { lines?: number; height?: number }) {
	if (height)
		return <div class="skeleton block" style={{ height: `${height}px` }} aria-hidden="true" />;
	return <div class="skeletons" role="status" aria-label="Loading">{Array.from({ length: lines }, (_, i) =>
		<div class="skeleton" key={i} style={{ width: `${92 - (i * 17) % 40}%` }} />)}</div>;
}

/** What could not be loaded, and why. A route that this server does not have is said plainly. */
export function Failure({ error, retry, what }: { error: ApiError; retry?: () => Promise<void>; what?: string }) {
	if (error.offline)
		return <div class="failure quiet" role="status"><Icon name="refresh" /><div>Waiting for the server.</div></div>;
	const missing = error.missing;
	const forbidden = error.status === 403;
	return (
		<div class="failure" role="alert">
			<Icon name={missing || forbidden ? 'info' : 'warning'} />
			<div>
				<b>{missing ? `This server does not offer ${what ?? 'this'}.` : forbidden ? 'Not yours to see' : `Could not load ${what ?? 'this'}`}</b>
				<div>{missing ? 'It is older than this page, or that part is switched off.' : error.message}</div>
				{!missing && <small class="mono">{[error.code, error.traceId].filter(Boolean).join(' · ')}</small>}
			</div>
			{retry && !missing && !forbidden && <Button small icon="refresh" onClick={retry}>Try again</Button>}
		</div>
	);
}

/** Skeleton, failure or the data: what most pages show. Keeps showing old data while it is loaded again. */
export function Loaded<T>({ of, children, what, lines, height }: { of: Data<T>; children: (data: T) => ComponentChildren; what?: string; lines?: number; height?: number }) {
	if (of.data !== null)
		return <>{children(of.data)}</>;
	if (of.error)
		return <Failure error={of.error} retry={of.reload} what={what} />;
	return <Skeleton lines={lines} height={height} />;
}

/** A bar; without a value it only shows that something goes on. */
export function Progress({ value, label }: { value?: number | null; label: string }) {
	const known = value !== undefined && value !== null;
	return (
		<div class={`progress${known ? '' : ' unknown'}`} role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100}
			aria-valuenow={known ? Math.round(value * 100) : undefined}>
			<div style={known ? { width: `${Math.min(100, Math.max(0, value * 100))}%` } : undefined} />
		</div>
	);
}

export function StateBadge({ state }: { state: string | null | undefined }) {
	const s = state ?? 'unknown';
	return <span class={`state state-${/^[a-z]+$/.test(s) ? s : 'unknown'}`}><i aria-hidden="true" />{s}</span>;
}

export function Badge({ children, kind = 'plain', title }: { children: ComponentChildren; kind?: 'plain' | 'good' | 'warn' | 'bad' | 'info'; title?: string }) {
	return <span class={`badge ${kind}`} title={title}>{children}</span>;
}

/** "3 min ago", with the date on hover. */
export function Ago({ at }: { at: string | number | null | undefined }) {
	if (at === null || at === undefined)
		return <span class="muted">never</span>;
	return <time dateTime={new Date(at).toISOString()} title={dateTime(at)}>{ago(at, now.value)}</time>;
}

export function PageHead({ title, children, sub }: { title: ComponentChildren; children?: ComponentChildren; sub?: ComponentChildren }) {
	return <header class="page-head"><div class="page-title"><h1>{title}</h1>{sub && <div class="page-sub">{sub}</div>}</div>{children && <div class="page-actions">{children}</div>}</header>;
}

export function Card({ title, children, actions, class: cls }: { title?: ComponentChildren; children: ComponentChildren; actions?: ComponentChildren; class?: string }) {
	return <section class={`card ${cls ?? ''}`}>{(title || actions) && <header class="card-head"><h2>{title}</h2>{actions && <div>{actions}</div>}</header>}{children}</section>;
}

/** A figure with its name. */
export function Stat({ label, value, sub }: { label: string; value: ComponentChildren; sub?: ComponentChildren }) {
	return <div class="stat"><span class="stat-label">{label}</span><span class="stat-value">{value}</span>{sub && <span class="stat-sub">{sub}</span>}</div>;
}

export function Field({ label, hint, children }: { label: string; hint?: ComponentChildren; children: ComponentChildren }) {
	return <label class="field"><span>{label}</span>{children}{hint && <small>{hint}</small>}</label>;
}
