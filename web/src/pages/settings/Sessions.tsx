// SPDX-License-Identifier: Apache-2.0
// Browsers that are signed in, and how to sign them all out.
import { navigate } from '../../lib/route';
import { session, signOut } from '../../lib/session';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Ago, Badge, Card, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { confirmOnce } from '../../ui/Toast';

interface Session { id: string; current: boolean; address: string; client: string; createdAt: string; lastUsedAt: string; expiresAt: string }

export function Sessions() {
	const data = useData<{ sessions: Session[] }>('/v1/sessions', { poll: 30_000 });
	const everywhere = async (): Promise<void> => {
		if (await confirmOnce('Sign out everywhere?', { text: 'Every browser that is signed in to this account, this one too, has to sign in again. Programs with API keys are not affected.', action: 'Sign out', danger: true })) {
			await signOut(true);
			navigate('/ui/login');
		}
	};
	return (
		<Card title="Browsers that are signed in" actions={<Button small kind="danger" icon="lock" onClick={everywhere}>Sign out everywhere</Button>}>
			{session.value?.expiresAt && <p class="muted">This session ends <Ago at={session.value.expiresAt} /> unless it is used.</p>}
			<Loaded of={data} what="a list of sessions" lines={2}>{(d) => (
				<Table label="Sessions" rows={d.sessions} rowKey={(s) => s.id} columns={[
					{ key: 'client', title: 'Browser', grow: true, cell: (s) => <span title={s.client}>{s.client || 'unknown'}</span> },
					{ key: 'this', title: '', cell: (s) => s.current ? <Badge kind="good">this one</Badge> : null },
					{ key: 'address', title: 'From', cell: (s) => <span class="mono">{s.address}</span> },
					{ key: 'used', title: 'Last used', cell: (s) => <Ago at={s.lastUsedAt} /> },
					{ key: 'end', title: 'Ends', hideNarrow: true, cell: (s) => <Ago at={s.expiresAt} /> },
				]} />
			)}</Loaded>
		</Card>
	);
}
