// SPDX-License-Identifier: Apache-2.0
// Identities: users of the account who may use only what they were granted, by tokens.
import { useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { vmName } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Ago, Badge, Card, Empty, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, pending, undoable } from '../../ui/Toast';
import { Secret } from './Secret';

interface Identity { id: string; managed: boolean }
interface Perms { vms?: { id?: string; vmId?: string; name?: string | null }[]; permissions?: { vmId: string }[] }
interface Tokens { tokens: { id: string; createdAt: string }[] }

function One({ identity, onGone }: { identity: Identity; onGone: () => void }) {
	const tokens = useData<Tokens>(url`/identity/v1/identities/${identity.id}/tokens`);
	const perms = useData<Perms>(url`/identity/v1/identities/${identity.id}/permissions/vm`);
	const [secret, setSecret] = useState<string | null>(null);
	const vms = (perms.data?.vms ?? perms.data?.permissions ?? []).map((v) => ({ id: ('id' in v && v.id) || v.vmId || '', name: 'name' in v ? v.name : null }));
	return (
		<Card class={pending.value.has(`identity:${identity.id}`) ? 'going' : ''} title={<span class="mono">{identity.id}</span>} actions={<>
			<Button small icon="key" onClick={async () => {
				setSecret((await api.post<{ token: string }>(url`/identity/v1/identities/${identity.id}/tokens`)).token);
				await tokens.reload();
			}}>New token</Button>
			<Button small kind="danger" icon="trash" onClick={() => undoable('Deleting an identity with its tokens', () => api.del(url`/identity/v1/identities/${identity.id}`).then(onGone), { key: `identity:${identity.id}` })}>Delete</Button></>}>
			{identity.managed && <Badge>managed</Badge>}
			<p class="muted">{vms.length ? <>May use {vms.map((v, i) => <span key={v.id}>{i ? ', ' : ''}<a href={url`/ui/vms/${v.id}`}>{vmName(v)}</a></span>)}.</> : perms.data ? 'May use no VM yet.' : ''}</p>
			<Loaded of={tokens} what="tokens" lines={1}>{(t) => <Table label={`Tokens of ${identity.id}`} rows={t.tokens} rowKey={(x) => x.id} empty={<p class="muted">It has no tokens.</p>} columns={[
				{ key: 'id', title: 'Token', grow: true, cell: (x) => <span class="mono small">{x.id}</span> },
				{ key: 'created', title: 'Created', cell: (x) => <Ago at={x.createdAt} /> },
				{ key: 'acts', title: '', align: 'end', cell: (x) => <Button small kind="danger" onClick={() => undoable('Revoking a token', () => api.del(url`/identity/v1/identities/${identity.id}/tokens/${x.id}`).then(tokens.reload))}>Revoke</Button> },
			]} />}</Loaded>
			{secret && <Secret title="The new token" text={secret} onClose={() => setSecret(null)} />}
		</Card>
	);
}

export function Identities() {
	const data = useData<{ identities: Identity[] }>('/identity/v1/identities');
	const create = async (): Promise<void> => {
		await api.post('/identity/v1/identities').catch(failed);
		await data.reload();
	};
	return (
		<div class="stack">
			<Loaded of={data} what="identities">{(d) => d.identities.length ? (
				<><div class="row"><Button icon="plus" onClick={create}>New identity</Button></div>{d.identities.map((i) => <One key={i.id} identity={i} onGone={() => void data.reload()} />)}</>
			) : <Empty icon="user" title="No identities" action={<Button kind="primary" icon="plus" onClick={create}>New identity</Button>} commands={[{ title: 'In a terminal', code: 'pando identity create\npando identity grant ID web' }]}>
				An identity is a user of this account who may use only the VMs and repositories that you grant.</Empty>}</Loaded>
		</div>
	);
}
