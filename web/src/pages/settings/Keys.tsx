// SPDX-License-Identifier: Apache-2.0
// API keys of the account. Revoking one ends the sessions that were opened with it.
import { useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, pending, undoable } from '../../ui/Toast';
import { Secret } from './Secret';

interface Key { id: string; name: string | null; createdAt: string; lastUsedAt: string | null }

function Create({ onDone }: { onDone: (key: string | null) => void }) {
	const [name, setName] = useState('');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			onDone((await api.post<{ key: string }>('/v1/keys', name.trim() ? { name: name.trim() } : {})).key);
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title="New API key" onClose={() => onDone(null)} small><form onSubmit={submit}>
			<Field label="Name" hint="What it is for, so that you know which to revoke."><input value={name} maxLength={100} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} /></Field>
			<div class="dialog-actions"><Button onClick={() => onDone(null)}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>Create</Button></div>
		</form></Dialog>
	);
}

export function Keys() {
	const data = useData<{ keys: Key[] }>('/v1/keys', { poll: 60_000 });
	const [creating, setCreating] = useState(false);
	const [secret, setSecret] = useState<string | null>(null);
	return (
		<Card title="API keys" actions={<Button small icon="plus" onClick={() => setCreating(true)}>New key</Button>}>
			<Loaded of={data} what="API keys">{(d) => (
				<Table label="API keys" rows={d.keys} rowKey={(k) => k.id} order="-created" rowClass={(k) => pending.value.has(`key:${k.id}`) ? 'going' : undefined} empty={<Empty icon="key" title="No API keys">A program needs one to use this account.</Empty>} columns={[
					{ key: 'name', title: 'Name', grow: true, sort: (k) => k.name ?? '', cell: (k) => k.name ? <b>{k.name}</b> : <span class="muted">no name</span> },
					{ key: 'id', title: 'Id', hideNarrow: true, cell: (k) => <span class="mono small">{k.id}</span> },
					{ key: 'used', title: 'Last used', sort: (k) => k.lastUsedAt, cell: (k) => <span class="nowrap"><Ago at={k.lastUsedAt} /></span> },
					{ key: 'created', title: 'Created', sort: (k) => k.createdAt, cell: (k) => <span class="nowrap"><Ago at={k.createdAt} /></span> },
					{ key: 'acts', title: '', align: 'end', cell: (k) => <Button small kind="danger" onClick={() => undoable(`Revoking the key ${k.name ?? k.id}`, async () => {
						await api.del(url`/v1/keys/${k.id}`);
						await data.reload();
					}, { key: `key:${k.id}` })}>Revoke</Button> },
				]} />
			)}</Loaded>
			{creating && <Create onDone={(key) => {
				setCreating(false);
				setSecret(key);
				void data.reload();
			}} />}
			{secret && <Secret title="Your new API key" text={secret} onClose={() => setSecret(null)} />}
		</Card>
	);
}
