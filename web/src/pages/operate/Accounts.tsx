// SPDX-License-Identifier: Apache-2.0
// Accounts with what they use of what they may. The operator creates them, changes quotas, makes keys, acts as one.
import { useState } from 'preact/hooks';
import { api, query, url } from '../../lib/api';
import { bytes, count } from '../../lib/format';
import { navigate } from '../../lib/route';
import { actAs, currentAccount, session } from '../../lib/session';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Menu } from '../../ui/Menu';
import { Ago, Badge, Card, Code, Field, Loaded, Progress } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { confirmOnce, failed, notify } from '../../ui/Toast';

const quotaNames = { vms: 'VMs', runningVms: 'Running VMs', vcpus: 'vCPUs', memoryMb: 'Memory, MB', diskMb: 'Disk, MB', snapshots: 'Snapshots', gitRepos: 'Repositories', gitMb: 'Git, MB' } as const;
type QuotaKey = keyof typeof quotaNames;
type Quota = Partial<Record<QuotaKey, number | null>>;
interface Account { id: string; name: string; admin: boolean; createdAt: string; quotas?: Quota; limits: Quota; usage: Quota }

function shown(k: QuotaKey, n: number | null | undefined): string {
	if (n === null || n === undefined)
		return '∞';
	return k.endsWith('Mb') ? bytes(n * 1048576) : count(n);
}

function Use({ a, k }: { a: Account; k: QuotaKey }) {
	const used = a.usage[k] ?? 0;
	const limit = a.limits[k];
	return <span class="use"><span class="nowrap">{shown(k, used)}{limit !== null && limit !== undefined && <span class="muted"> of {shown(k, limit)}</span>}</span>
		{typeof limit === 'number' && limit > 0 && <Progress value={used / limit} label={`${quotaNames[k]} used by ${a.name}`} />}</span>;
}

function Edit({ account, onClose }: { account: Account | null; onClose: () => void }) {
	const [name, setName] = useState(account?.name ?? '');
	const [values, setValues] = useState<Record<string, string>>(() => Object.fromEntries(Object.keys(quotaNames).map((k) => [k, String(account?.quotas?.[k as QuotaKey] ?? '')])));
	const [busy, setBusy] = useState(false);
	const [key, setKey] = useState<string | null>(null);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		const quotas = Object.fromEntries(Object.entries(values).filter(([k, v]) => v !== '' || account?.quotas?.[k as QuotaKey] !== undefined).map(([k, v]) => [k, v === '' ? null : Number(v)]));
		try {
			if (account) {
				await api.patch(url`/v1/accounts/${account.id}`, { name, quotas });
				notify(`${name} is changed.`, { kind: 'good' });
				onClose();
			} else {
				const a = await api.post<{ id: string }>('/v1/accounts', { name, quotas });
				const k = await api.post<{ key: string }>(query('/v1/keys', { accountId: a.id }), { name: 'first' });
				setKey(k.key);
			}
		} catch (err) {
			failed(err);
		}
		setBusy(false);
	};
	if (key)
		return <Dialog title={`${name} is created`} onClose={onClose}><p>Its first API key, shown only now:</p><Code text={key} /><div class="dialog-actions"><Button kind="primary" onClick={onClose}>Done</Button></div></Dialog>;
	return (
		<Dialog title={account ? `Account ${account.name}` : 'New account'} onClose={onClose}>
			<form onSubmit={submit}>
				<Field label="Name"><input value={name} required maxLength={100} onInput={(e) => setName(e.currentTarget.value)} /></Field>
				<div class="fields">{(Object.keys(quotaNames) as QuotaKey[]).map((k) => <Field key={k} label={quotaNames[k]}><input type="number" min={0} placeholder="as the server is set" value={values[k]} onInput={(e) => setValues({ ...values, [k]: e.currentTarget.value })} /></Field>)}</div>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>{account ? 'Save' : 'Create'}</Button></div>
			</form>
		</Dialog>
	);
}

export function Accounts() {
	const data = useData<{ accounts: Account[] }>('/v1/accounts', { poll: 30_000 });
	const [edit, setEdit] = useState<Account | 'new' | null>(null);
	const remove = async (a: Account): Promise<void> => {
		if (await confirmOnce(`Delete the account ${a.name}?`, { text: 'Its keys stop working at once. It can only be deleted when it has no VMs and no snapshots. This cannot be undone.', action: 'Delete', danger: true, type: a.name })) {
			await api.del(url`/v1/accounts/${a.id}`);
			await data.reload();
		}
	};
	return (
		<Card title="Accounts" actions={<Button small icon="plus" onClick={() => setEdit('new')}>New account</Button>}>
			<Loaded of={data} what="accounts">{(d) => (
				<Table label="Accounts" rows={d.accounts} rowKey={(a) => a.id} columns={[
					{ key: 'name', title: 'Name', sort: (a) => a.name, cell: (a) => <><b>{a.name}</b> {a.admin && <Badge kind="info">operator</Badge>} {currentAccount.value?.id === a.id && <Badge>shown now</Badge>}</> },
					{ key: 'vms', title: 'VMs', sort: (a) => a.usage.vms ?? 0, cell: (a) => <Use a={a} k="vms" /> },
					{ key: 'running', title: 'Running', sort: (a) => a.usage.runningVms ?? 0, cell: (a) => <Use a={a} k="runningVms" /> },
					{ key: 'memory', title: 'Memory', sort: (a) => a.usage.memoryMb ?? 0, cell: (a) => <Use a={a} k="memoryMb" /> },
					{ key: 'disk', title: 'Disk', sort: (a) => a.usage.diskMb ?? 0, cell: (a) => <Use a={a} k="diskMb" /> },
					{ key: 'snapshots', title: 'Snapshots', hideNarrow: true, cell: (a) => <Use a={a} k="snapshots" /> },
					{ key: 'created', title: 'Created', hideNarrow: true, sort: (a) => a.createdAt, cell: (a) => <Ago at={a.createdAt} /> },
					{ key: 'acts', title: '', align: 'end', cell: (a) => <Menu label={`Acts on ${a.name}`} items={[
						{ label: 'Act as', icon: 'user', disabled: currentAccount.value?.id === a.id, run: async () => {
							await actAs(a.id === session.value?.account.id ? null : a.id);
							navigate('/ui/');
						} },
						{ label: 'Name and quotas…', icon: 'settings', run: () => setEdit(a) },
						!a.admin && { label: 'Delete…', icon: 'trash', danger: true, run: () => remove(a) },
					]} /> },
				]} />
			)}</Loaded>
			{edit && <Edit account={edit === 'new' ? null : edit} onClose={() => {
				setEdit(null);
				void data.reload();
			}} />}
		</Card>
	);
}
