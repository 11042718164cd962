// SPDX-License-Identifier: Apache-2.0
/* Triggers.tsx - what follows a push, and how it went */
import { useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { dateTime } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, notify, pending, undoable } from '../../ui/Toast';
import { AnsiText } from '../vm/AnsiText';
import { at, short, type Delivery, type Repo, type Trigger } from './types';

const KIND: Record<string, 'good' | 'bad' | 'warn' | 'info' | 'plain'> = { delivered: 'good', done: 'good', success: 'good', failed: 'bad', failure: 'bad', error: 'bad', running: 'info', pending: 'info', waiting: 'info', retry: 'warn' };

export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

function Create({ repo, onClose, onDone }: { repo: Repo; onClose(): void; onDone(): Promise<void> }) {
	const [kind, setKind] = useState<'webhook' | 'vm'>('vm');
	const [endpoint, setEndpoint] = useState('');
	const [command, setCommand] = useState('make test');
	const [snapshot, setSnapshot] = useState('');
	const [branches, setBranches] = useState('');
	const [globs, setGlobs] = useState('');
	return (
		<Dialog title="New trigger" onClose={onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				api.post(`${at(repo.id)}/trigger`, {
					trigger: { event: 'push', ...(words(branches).length ? { branches: words(branches) } : {}), ...(words(globs).length ? { globs: words(globs) } : {}) },
					action: kind === 'vm' ? { action: 'vm', command, ...(snapshot.trim() ? { snapshotId: snapshot.trim() } : {}) } : { action: 'webhook', endpoint: endpoint.trim() },
				}).then(async () => {
					onClose();
					await onDone();
				}).catch(failed);
			}}>
				<fieldset class="choices"><legend>A push</legend>
					<label class={kind === 'vm' ? 'chosen' : ''}><input type="radio" name="kind" checked={kind === 'vm'} onChange={() => setKind('vm')} /><span><b>runs a command</b><small>in a new VM, in a clone of the commit</small></span></label>
					<label class={kind === 'webhook' ? 'chosen' : ''}><input type="radio" name="kind" checked={kind === 'webhook'} onChange={() => setKind('webhook')} /><span><b>calls an address</b><small>a signed POST with branch and commit</small></span></label></fieldset>
				{kind === 'vm' ? <><Field label="Command"><input class="mono" value={command} onInput={(e) => setCommand(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
					<Field label="Snapshot" hint="Empty: the base image."><input value={snapshot} onInput={(e) => setSnapshot(e.currentTarget.value)} placeholder="sc-…" autocomplete="off" spellcheck={false} /></Field></>
					: <Field label="Address"><input type="url" value={endpoint} onInput={(e) => setEndpoint(e.currentTarget.value)} placeholder="https://ci.example.org/hook" autocomplete="off" /></Field>}
				<Field label="Branches" hint="Names in which * fits any text; empty: all."><input value={branches} onInput={(e) => setBranches(e.currentTarget.value)} placeholder="main release/*" autocomplete="off" spellcheck={false} /></Field>
				<Field label="Paths" hint="One of them must have changed; empty: all."><input value={globs} onInput={(e) => setGlobs(e.currentTarget.value)} placeholder="src/**" autocomplete="off" spellcheck={false} /></Field>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={kind === 'vm' ? !command.trim() : !endpoint.trim()}>Create</Button></div>
			</form>
		</Dialog>
	);
}

function DeliveryDialog({ path, onClose }: { path: string; onClose(): void }) {
	const one = useData<Delivery>(path, { on: ['git.delivery'], poll: 3000 });
	return (
		<Dialog title="Delivery" onClose={onClose} wide>
			<Loaded of={one} what="the delivery">{(d) => <><dl class="facts"><dt>State</dt><dd><Badge kind={KIND[d.status ?? d.state] ?? 'plain'}>{d.status ?? d.state}</Badge></dd><dt>Branch</dt><dd><code>{d.branch}</code></dd><dt>Commit</dt><dd><code>{d.commit}</code></dd>
				<dt>Attempts</dt><dd>{d.attempts}</dd><dt>Begun</dt><dd>{dateTime(d.createdAt)}</dd><dt>Last change</dt><dd>{dateTime(d.updatedAt)}</dd>
				{d.statusCode !== undefined && <><dt>Answer</dt><dd>{d.statusCode ?? 'none'}</dd></>}{d.exitCode !== undefined && <><dt>Exit status</dt><dd>{d.exitCode ?? '–'}</dd></>}
				{d.nextAttemptAt && <><dt>Next attempt</dt><dd>{dateTime(d.nextAttemptAt)}</dd></>}{d.error && <><dt>Error</dt><dd class="bad-text">{d.error}</dd></>}</dl>
			{d.output !== undefined && <div class="log-box"><AnsiText text={d.output || 'No output.'} label="Output of the command" /></div>}</>}</Loaded>
		</Dialog>
	);
}

function Deliveries({ repo, trigger }: { repo: Repo; trigger: Trigger }) {
	const path = `${at(repo.id)}/trigger/${encodeURIComponent(trigger.id)}/deliveries`;
	const list = useData<{ deliveries: Delivery[] }>(`${path}?limit=50`, { on: ['git.delivery', 'git.push'], poll: 5000 });
	const [open, setOpen] = useState<string | null>(null);
	const again = async (d: Delivery): Promise<void> => {
		await api.post(`${path}/${encodeURIComponent(d.id)}/redeliver`);
		notify('It is delivered again.', { kind: 'good' });
		await list.reload();
	};
	return (
		<Loaded of={list} what="the deliveries">{(d) => <><Table label="Deliveries" rows={d.deliveries} rowKey={(x) => x.id} columns={[
			{ key: 'at', title: 'When', cell: (x) => <Ago at={x.createdAt} /> },
			{ key: 'state', title: 'State', cell: (x) => <Badge kind={KIND[x.status ?? x.state] ?? 'plain'}>{x.status ?? x.state}</Badge> },
			{ key: 'branch', title: 'Branch', cell: (x) => <code>{x.branch}</code> },
			{ key: 'commit', title: 'Commit', cell: (x) => <button type="button" class="link mono" onClick={() => setQuery({ tab: 'commits', commit: x.commit })}>{short(x.commit)}</button> },
			{ key: 'result', title: 'Result', grow: true, cell: (x) => x.error ?? (x.statusCode !== undefined && x.statusCode !== null ? `HTTP ${x.statusCode}` : x.exitCode !== undefined && x.exitCode !== null ? `exit ${x.exitCode}` : '') },
			{ key: 'acts', title: '', cell: (x) => <div class="row end"><Button small onClick={() => setOpen(x.id)}>{x.action === 'vm' ? 'Output' : 'Details'}</Button><Button small icon="refresh" onClick={() => again(x)}>Redeliver</Button></div> },
		]} empty={<p class="muted pad">No push has fitted it yet.</p>} />{open && <DeliveryDialog path={`${path}/${encodeURIComponent(open)}`} onClose={() => setOpen(null)} />}</>}</Loaded>
	);
}

export function Triggers({ repo }: { repo: Repo }) {
	const list = useData<{ triggers: Trigger[] }>(`${at(repo.id)}/trigger`);
	const [making, setMaking] = useState(false);
	const open = place.value.query.get('trigger');
	return (
		<div class="stack">
			<Loaded of={list} what="the triggers">{(d) => {
				const rows = d.triggers.filter((t) => !pending.value.has(`trigger:${t.id}`));
				return rows.length ? <>
					<div><Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New trigger</Button></div>
					{rows.map((t, i) => <Card key={t.id} title={t.action.action === 'vm' ? <>Run <code>{t.action.command}</code></> : <>Call <code>{t.action.endpoint}</code></>} actions={<>
						<Button small pressed={open === t.id || (!open && i === 0)} onClick={() => setQuery({ trigger: open === t.id ? null : t.id })}>Deliveries</Button>
						<Button small kind="quiet" icon="trash" label="Delete this trigger" onClick={() => undoable('Deleting the trigger', async () => {
							await api.del(`${at(repo.id)}/trigger/${encodeURIComponent(t.id)}`);
							await list.reload();
						}, { key: `trigger:${t.id}` })} /></>}>
						<p class="muted">On pushes to {t.trigger.branches?.length ? t.trigger.branches.join(', ') : 'any branch'}{t.trigger.globs?.length ? ` that change ${t.trigger.globs.join(', ')}` : ''}{t.action.action === 'vm' && t.action.snapshotId ? `, in a VM from ${t.action.snapshotId}` : ''}.</p>
						{(open === t.id || (!open && i === 0)) && <Deliveries repo={repo} trigger={t} />}
					</Card>)}
				</> : <Empty icon="operate" title="Nothing follows a push" action={<Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New trigger</Button>}
					commands={[{ title: 'Over HTTP', code: `POST ${at(repo.id)}/trigger {"trigger":{"event":"push"},"action":{"action":"vm","command":"make test"}}` }]}>A trigger runs a command in a new VM, or calls an address, whenever a branch moves.</Empty>;
			}}</Loaded>
			{making && <Create repo={repo} onClose={() => setMaking(false)} onDone={list.reload} />}
		</div>
	);
}
