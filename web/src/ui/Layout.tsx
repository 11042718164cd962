// SPDX-License-Identifier: Apache-2.0
// The frame of every page: navigation at the side, which becomes a bar at the bottom of narrow screens; account, theme
// and sign-out; the banner while the server is away; the keyboard's shortcuts.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { api } from '../lib/api';
import { downSince, tryNow } from '../lib/connection';
import { eventsState } from '../lib/events';
import { duration } from '../lib/format';
import { navigate, place } from '../lib/route';
import { actAs, currentAccount, isOperator, session, signOut, type Named } from '../lib/session';
import { now, useData } from '../lib/state';
import { setTheme, theme } from '../lib/theme';
import { Button } from './Button';
import { Dialog } from './Dialog';
import { Icon, type IconName } from './Icon';
import { Menu } from './Menu';
import { Acts } from '../pages/acts';
import { Palette, paletteOpen, useCommands } from './Palette';
import { Loaded } from './parts';
import { Table } from './Table';
import { notify } from './Toast';

interface NavItem { href: string; title: string; icon: IconName; key: string; operator?: boolean; also?: string }
export const nav: NavItem[] = [
	{ href: '/ui/', title: 'Tree', icon: 'tree', key: 't' },
	{ href: '/ui/vms', title: 'VMs', icon: 'vms', key: 'v' },
	{ href: '/ui/git', title: 'Git', icon: 'git', key: 'g' },
	{ href: '/ui/runs', title: 'Runs', icon: 'runs', key: 'r' },
	{ href: '/ui/networks', title: 'Networks', icon: 'network', key: 'n' },
	{ href: '/ui/operate', title: 'Operate', icon: 'operate', key: 'o' },
	{ href: '/ui/settings', title: 'Settings', icon: 'settings', key: 's' },
];

const shortcutsOpen = signal(false);
const accountsOpen = signal(false);

function current(item: NavItem): boolean {
	const p = place.value.path;
	return item.href === '/ui/' ? p === '/ui/' : p === item.href || p.startsWith(item.href + '/');
}

function typing(e: KeyboardEvent): boolean {
	const t = e.target as HTMLElement | null;
	return !!t && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName) || !!t.closest('.xterm, .cm-editor, dialog'));
}

let prefix = 0;
function shortcut(e: KeyboardEvent): void {
	if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === 'k') {
		/* In a terminal Ctrl-K belongs to the shell. */
		if ((e.target as HTMLElement | null)?.closest?.('.xterm'))
			return;
		e.preventDefault();
		paletteOpen.value = !paletteOpen.value;
		return;
	}
	if (e.ctrlKey || e.metaKey || e.altKey || typing(e))
		return;
	if (prefix && Date.now() - prefix < 1500) {
		const item = nav.find((n) => n.key === e.key);
		prefix = 0;
		if (item) {
			e.preventDefault();
			navigate(item.href);
			return;
		}
	}
	if (e.key === 'g')
		prefix = Date.now();
	else if (e.key === '?')
		shortcutsOpen.value = true;
	else if (e.key === '/') {
		const box = document.querySelector<HTMLInputElement>('main input[type=search]');
		if (box) {
			e.preventDefault();
			box.focus();
			box.select();
		}
	}
}

function Banner() {
	if (downSince.value === null)
		return null;
	const s = Math.max(0, Math.round((now.value - downSince.value) / 1000));
	return (
		<div class="banner" role="alert">
			<span class="spinner" aria-hidden="true" />
			<span>The server is restarting or cannot be reached{s > 3 ? ` (for ${duration(s)})` : ''}. Trying again; your VMs keep running.</span>
			<Button small onClick={tryNow}>Try now</Button>
		</div>
	);
}

function Shortcuts() {
	const rows: [string, string][] = [['Ctrl K', 'Commands: go anywhere, do anything'], ['/', 'Search on this page'], ['?', 'This list'],
		...nav.map((n): [string, string] => [`g ${n.key}`, `Go to ${n.title}`]),
		['← ↑ ↓ →', 'In the tree: parent, neighbours, child'], ['Enter', 'In the tree: open'], ['+ − 0', 'In the tree: larger, smaller, all'],
		['f  p  s', 'In the tree: fork, snapshot, suspend or resume'], ['Delete', 'In the tree: delete']];
	return (
		<Dialog title="Keyboard" onClose={() => shortcutsOpen.value = false}>
			<dl class="keys">{rows.map(([k, t]) => <div key={k}><dt>{k.split(' ').filter(Boolean).map((x) => <kbd key={x}>{x}</kbd>)}</dt><dd>{t}</dd></div>)}</dl>
		</Dialog>
	);
}

interface AccountRow { id: string; name: string | null; operator?: boolean; disabled?: boolean }
function Accounts() {
	const accounts = useData<{ accounts: AccountRow[] }>('/v1/accounts');
	const choose = async (a: Named | null): Promise<void> => {
		await actAs(a?.id ?? null);
		accountsOpen.value = false;
		notify(a ? `You see and act as ${a.name ?? a.id} now.` : 'Back to your own account.', { kind: 'good' });
		navigate('/ui/');
	};
	return (
		<Dialog title="Accounts" onClose={() => accountsOpen.value = false}>
			<p class="muted">As the operator you can look at another account and act in its name. The audit log says that it was you.</p>
			<Loaded of={accounts} what="accounts">{(d) => (
				<Table label="Accounts" rows={d.accounts} rowKey={(a) => a.id} columns={[
					{ key: 'name', title: 'Name', grow: true, cell: (a) => <b>{a.name ?? a.id}</b>, sort: (a) => a.name ?? a.id },
					{ key: 'go', title: '', align: 'end', cell: (a) => currentAccount.value?.id === a.id ? <span class="muted">shown now</span>
						: <Button small onClick={() => choose(a.id === session.value?.account.id ? null : { id: a.id, name: a.name })}>Act as</Button> },
				]} />
			)}</Loaded>
		</Dialog>
	);
}

async function leave(everywhere: boolean): Promise<void> {
	await signOut(everywhere);
	navigate('/ui/login');
}

function AccountMenu() {
	const s = session.value;
	const who = currentAccount.value;
	return (
		<Menu label="Account and theme" icon="user" text={who?.name ?? who?.id ?? 'Account'} kind="quiet" align="start" items={[
			isOperator.value && { label: 'Switch account…', icon: 'user', run: () => void (accountsOpen.value = true) },
			s?.actingAs && { label: 'Back to my account', icon: 'left', run: () => actAs(null) },
			{ label: theme.value === 'light' ? '✓ Light' : 'Light', icon: 'sun', run: () => setTheme('light') },
			{ label: theme.value === 'dark' ? '✓ Dark' : 'Dark', icon: 'moon', run: () => setTheme('dark') },
			{ label: theme.value === 'system' ? '✓ As the system' : 'As the system', icon: 'system', run: () => setTheme('system') },
			{ label: 'Keyboard shortcuts', icon: 'keyboard', run: () => void (shortcutsOpen.value = true) },
			{ label: 'Documentation', icon: 'docs', run: () => location.assign('/docs') },
			{ label: 'Sign out', icon: 'signout', run: () => leave(false) },
			{ label: 'Sign out everywhere', icon: 'lock', run: () => leave(true) },
		]} />
	);
}

function Live() {
	const s = eventsState.value;
	const text = s === 'live' ? 'Live' : s === 'missing' ? 'Not live' : s === 'connecting' ? 'Connecting' : 'Paused';
	const hint = s === 'live' ? 'Changes arrive as they happen' : s === 'missing' ? 'This server sends no events; pages load again when you act' : 'Waiting for the event stream';
	return <span class={`live is-${s}`} title={hint}><i aria-hidden="true" />{text}</span>;
}

export function Layout({ children, full }: { children: ComponentChildren; full?: boolean }) {
	useEffect(() => {
		addEventListener('keydown', shortcut);
		return () => removeEventListener('keydown', shortcut);
	}, []);
	useCommands([
		...nav.map((n) => ({ title: n.title, icon: n.icon, group: 'Pages', keys: `g ${n.key}`, run: () => navigate(n.href) })),
		{ title: 'Light theme', icon: 'sun', group: 'View', run: () => setTheme('light') },
		{ title: 'Dark theme', icon: 'moon', group: 'View', run: () => setTheme('dark') },
		{ title: 'Theme as the system', icon: 'system', group: 'View', run: () => setTheme('system') },
		{ title: 'Keyboard shortcuts', icon: 'keyboard', keys: '?', run: () => void (shortcutsOpen.value = true) },
		{ title: 'Documentation', icon: 'docs', run: () => location.assign('/docs') },
		...(isOperator.value ? [{ title: 'Switch account', icon: 'user' as const, run: () => void (accountsOpen.value = true) }] : []),
		{ title: 'Sign out', icon: 'signout', run: () => leave(false) },
		{ title: 'Sign out everywhere', icon: 'lock', run: () => leave(true) },
	], [isOperator.value]);
	const acting = session.value?.actingAs;
	return (
		<div class={`frame${full ? ' full' : ''}`}>
			<a class="skip" href="#main" onClick={(e) => {
				e.preventDefault();
				document.getElementById('main')?.focus();
			}}>Skip to the content</a>
			<header class="side">
				<a class="brand" href="/ui/" aria-label="Pando, home"><Logo /><span>Pando</span></a>
				<nav aria-label="Pages"><ul>
					{nav.map((n) => <li key={n.href}><a href={n.href} aria-current={current(n) ? 'page' : undefined}><Icon name={n.icon} size={19} /><span>{n.title}</span></a></li>)}
				</ul></nav>
				<div class="side-foot">
					<button type="button" class="button quiet find" onClick={() => paletteOpen.value = true}><Icon name="search" /><span>Find</span><kbd>Ctrl K</kbd></button>
					<Live />
					<AccountMenu />
				</div>
			</header>
			<div class="content">
				<Banner />
				{acting && <div class="acting" role="status"><Icon name="user" /><span>You act as <b>{acting.name ?? acting.id}</b>.</span>
					<Button small onClick={() => actAs(null)}>Back to my account</Button></div>}
				<main id="main" tabIndex={-1}>{children}</main>
			</div>
			<Palette />
			<Acts />
			{shortcutsOpen.value && <Shortcuts />}
			{accountsOpen.value && <Accounts />}
		</div>
	);
}

export function Logo({ size = 26 }: { size?: number }) {
	return (
		<svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
			<rect width="32" height="32" rx="7" fill="#1f5c3a" />
			<g fill="none" stroke="#f2ead3" stroke-width="2.2" stroke-linecap="round"><path d="M16 27V15M16 21C16 17 9.5 18 9.5 12M16 19c0-4 6.5-3 6.5-8.5" /></g>
			<circle cx="16" cy="11" r="4.3" fill="#f0c24b" /><circle cx="9.5" cy="9.5" r="3.3" fill="#8fd19e" /><circle cx="22.5" cy="8.5" r="3.3" fill="#8fd19e" />
		</svg>
	);
}

/* Used by tests and by the page itself to see that it is up. */
export async function serverVersion(): Promise<string | null> {
	const h = await api.get<{ version?: string }>('/v1/health', { quiet: true });
	return h.version ?? null;
}
