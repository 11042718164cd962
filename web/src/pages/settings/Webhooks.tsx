// SPDX-License-Identifier: Apache-2.0
// Webhooks with their deliveries: what was sent, what came back, and once more.
import { useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, notify, pending, undoable } from '../../ui/Toast';

interface Hook { id: string; url: string; events: string[] | null; enabled: boolean; hasSecret: boolean; droppedEvents: number; createdAt: string }
interface Delivery { id: string; type: string; state: string; attempts: number; statusCode: number | null; error: string | null; createdAt: string; nextAttemptAt: string | null }

function Create({ onClose }: { onClose: () => void }) {
	const [to, setTo] = useState('');
	const [types, setTypes] = useState('');
	const [secret, setSecret] = useState('');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		const events = types.split(/[\s,]+/).filter(Boolean);
		try {
			await api.post('/v1/webhooks', { url: to.trim(), ...(events.length ? { events } : {}), ...(secret ? { secret } : {}) });
			onClose();
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title="New webhook" onClose={onClose} small><form onSubmit={submit}>
			<Field label="Address"><input type="url" required value={to} placeholder="https://example.org/hook" onInput={(e) => setTo(e.currentTarget.value)} /></Field>
			<Field label="Events" hint="Types, or vm.*; left out: all."><input value={types} placeholder="vm.created vm.deleted" onInput={(e) => setTypes(e.currentTarget.value)} /></Field>
			<Field label="Secret" hint="Signs what is sent. Can be left out."><input value={secret} autocomplete="off" onInput={(e) => setSecret(e.currentTarget.value)} /></Field>
			<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>Create</Button></div>
		</form></Dialog>
	);
}

function Deliveries({ hook }: { hook: Hook }) {
	const data = useData<{ deliveries: Delivery[] }>(url`/v1/webhooks/${hook.id}/deliveries`, { poll: 5000 });
	return <Loaded of={data} what="deliveries" lines={2}>{(d) => (
		<Table label={`Deliveries to ${hook.url}`} rows={d.deliveries} rowKey={(x) => x.id} empty={<p class="muted">Nothing was sent yet. “Send a test” shows whether it arrives.</p>} columns={[
			{ key: 'type', title: 'Event', cell: (x) => <Badge>{x.type}</Badge> },
			{ key: 'state', title: 'Result', grow: true, cell: (x) => <><Badge kind={x.state === 'delivered' ? 'good' : x.state === 'failed' ? 'bad' : 'warn'}>{x.state}</Badge> <span class="muted">{x.statusCode ?? ''} {x.error ?? ''}{x.attempts > 1 ? ` after ${x.attempts} tries` : ''}</span></> },
			{ key: 'at', title: 'When', cell: (x) => <Ago at={x.createdAt} /> },
			{ key: 'acts', title: '', align: 'end', cell: (x) => <Button small onClick={() => api.post(url`/v1/webhooks/${hook.id}/deliveries/${x.id}/redeliver`).then(data.reload)}>Again</Button> },
		]} />
	)}</Loaded>;
}

export function Webhooks() {
	const data = useData<{ webhooks: Hook[] }>('/v1/webhooks');
	const [creating, setCreating] = useState(false);
	return (
		<div class="stack">
			<Loaded of={data} what="webhooks">{(d) => d.webhooks.length ? (
				<>
					<div class="row"><Button icon="plus" onClick={() => setCreating(true)}>New webhook</Button></div>
					{d.webhooks.map((h) => (
						<Card key={h.id} class={pending.value.has(`hook:${h.id}`) ? 'going' : ''} title={<span class="wrap">{h.url}</span>} actions={<>
							<Button small onClick={() => api.post(url`/v1/webhooks/${h.id}/test`).then(() => notify('A test is on its way.', { kind: 'good' }))}>Send a test</Button>
							<Button small onClick={() => api.patch(url`/v1/webhooks/${h.id}`, { enabled: !h.enabled }).then(data.reload)}>{h.enabled ? 'Pause' : 'Go on'}</Button>
							<Button small kind="danger" icon="trash" onClick={() => undoable(`Deleting the webhook to ${h.url}`, () => api.del(url`/v1/webhooks/${h.id}`).then(data.reload), { key: `hook:${h.id}` })}>Delete</Button></>}>
							<div class="row hook-facts">{(h.events?.length ? h.events : ['all events']).map((e) => <Badge key={e}>{e}</Badge>)}{h.hasSecret && <Badge kind="good">signed</Badge>}{!h.enabled && <Badge kind="warn">paused</Badge>}{h.droppedEvents > 0 && <Badge kind="bad">{h.droppedEvents} dropped</Badge>}</div>
							<Deliveries hook={h} />
						</Card>
					))}
				</>
			) : <Empty icon="operate" title="No webhooks" action={<Button kind="primary" icon="plus" onClick={() => setCreating(true)}>New webhook</Button>} commands={[{ title: 'In a terminal', code: "pando webhook create https://example.org/hook --event 'vm.*'" }]}>
				A webhook tells your own server what happens to VMs, snapshots and builds.</Empty>}</Loaded>
			{creating && <Create onClose={() => {
				setCreating(false);
				void data.reload();
			}} />}
		</div>
	);
}
