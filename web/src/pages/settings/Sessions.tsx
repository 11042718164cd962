// SPDX-License-Identifier: Apache-2.0
// Browsers that are signed in, and how to sign out one of them or all.
import { api, url } from '../../lib/api';
import { navigate } from '../../lib/route';
import { session, signOut } from '../../lib/session';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Ago, Badge, Card, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { confirmOnce, notify } from '../../ui/Toast';

interface Session { id: string; current: boolean; address: string; client: string; createdAt: string; lastUsedAt: string; expiresAt: string }

/* "Firefox 128 on Linux": what a person needs to recognize it; the whole line is its title. */
export function browserName(agent: string): string {
	const of = (list: [RegExp, string][]): string | null => {
		for (const [re, name] of list) {
			const m = re.exec(agent);
			if (m)
				return m[1] ? `${name} ${m[1]}` : name;
		}
		return null;
	};
	const what = of([[/\b(?:Edg|EdgA|EdgiOS)\/(\d+)/, 'Edge'], [/\bOPR\/(\d+)/, 'Opera'], [/\bFirefox\/(\d+)/, 'Firefox'], [/\bFxiOS\/(\d+)/, 'Firefox'],
		[/\b(?:Headless)?Chrom(?:e|ium)\/(\d+)/, 'Chrome'], [/\bCriOS\/(\d+)/, 'Chrome'], [/\bVersion\/(\d+)[\d.]* (?:Mobile\/\w+ )?Safari\//, 'Safari']]);
	const on = of([[/\bAndroid\b/, 'Android'], [/\biPhone\b/, 'iPhone'], [/\biPad\b/, 'iPad'], [/\bWindows\b/, 'Windows'], [/\bMac OS X\b/, 'macOS'], [/\bCrOS\b/, 'ChromeOS'], [/\bLinux\b/, 'Linux']]);
	if (!what)
		return agent.slice(0, 60) || 'unknown';
	return on ? `${what} on ${on}` : what;
}

export function Sessions() {
	const data = useData<{ sessions: Session[] }>('/v1/sessions', { poll: 30_000 });
	const everywhere = async (): Promise<void> => {
		if (await confirmOnce('Sign out everywhere?', { text: 'Every browser that is signed in to this account, this one too, has to sign in again. Programs with API keys are not affected.', action: 'Sign out', danger: true })) {
			await signOut(true);
			navigate('/ui/login');
		}
	};
	const end = async (s: Session): Promise<void> => {
		if (s.current) {
			await signOut(false);
			navigate('/ui/login');
			return;
		}
		if (!await confirmOnce('Sign this browser out?', { text: `${browserName(s.client)} at ${s.address} has to sign in again. Its terminals in the dashboard close; what runs in them goes on.`, action: 'Sign out', danger: true }))
			return;
		await api.del(url`/v1/sessions/${s.id}`);
		await data.reload();
		notify('That browser is signed out.', { kind: 'good' });
	};
	return (
		<Card title="Browsers that are signed in" actions={<Button small kind="danger" icon="lock" onClick={everywhere}>Sign out everywhere</Button>}>
			{session.value?.expiresAt && <p class="muted">This session ends <Ago at={session.value.expiresAt} /> unless it is used.</p>}
			<Loaded of={data} what="a list of sessions" lines={2}>{(d) => (
				<Table label="Sessions" rows={d.sessions} rowKey={(s) => s.id} columns={[
					{ key: 'client', title: 'Browser', grow: true, cell: (s) => <span title={s.client}>{browserName(s.client)}</span> },
					{ key: 'this', title: '', cell: (s) => s.current ? <Badge kind="good">this one</Badge> : null },
					{ key: 'address', title: 'From', cell: (s) => <span class="mono">{s.address}</span> },
					{ key: 'used', title: 'Last used', cell: (s) => <Ago at={s.lastUsedAt} /> },
					{ key: 'end', title: 'Ends', hideNarrow: true, cell: (s) => <Ago at={s.expiresAt} /> },
					{ key: 'out', title: '', align: 'end', cell: (s) => <Button small icon="signout" label={s.current ? 'Sign out here' : `Sign out ${browserName(s.client)} at ${s.address}`} onClick={() => end(s)}>Sign out</Button> },
				]} />
			)}</Loaded>
		</Card>
	);
}
