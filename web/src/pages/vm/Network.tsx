// SPDX-License-Identifier: Apache-2.0
/* Network.tsx - how a VM is reached, and what it may reach */
import { useEffect, useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { count, dateTime } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, notify, pending, undoable } from '../../ui/Toast';
import { parseRules, ruleLine, type Policy } from './egress';
import { word, type Vm } from './types';

interface Mapping { id: string; domain: string; vmId: string | null; vmPort: number | null; createdAt: string }
interface Port { port: number; targetPort: number | null; protocol: string; address?: string | null; listening?: boolean; error?: string | null; createdAt: string | null }
interface Blocked { kind: string; domain?: string; address?: string; protocol?: string; port?: number; count: number; lastAt: string }

function MapDialog({ vm, onClose, onDone }: { vm: Vm; onClose(): void; onDone(): Promise<unknown> }) {
	const [domain, setDomain] = useState('');
	const [port, setPort] = useState('3000');
	return (
		<Dialog title="Map a name to this VM" onClose={onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				api.post(`/domains/v1/mappings/${encodeURIComponent(domain.trim())}`, { vmId: vm.id, vmPort: Number(port) }).then(async () => {
					onClose();
					await onDone();
				}).catch(failed);
			}}>
				<Field label="Name" hint="Below the server's base domain, or below a domain that you verified (Networks)."><input value={domain} onInput={(e) => setDomain(e.currentTarget.value)} autocomplete="off" spellcheck={false} placeholder="shop.example.org" /></Field>
				<Field label="Port in the VM"><input type="number" min={1} max={65535} value={port} onInput={(e) => setPort(e.currentTarget.value)} /></Field>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={!domain.trim()}>Map it</Button></div>
			</form>
		</Dialog>
	);
}

function PortDialog({ vm, onClose, onDone }: { vm: Vm; onClose(): void; onDone(): Promise<unknown> }) {
	const [target, setTarget] = useState('5432');
	const [port, setPort] = useState('');
	const [protocol, setProtocol] = useState('tcp');
	return (
		<Dialog title="Map a port to this VM" onClose={onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				api.post(`/v1/vms/${encodeURIComponent(vm.id)}/ports`, { targetPort: Number(target), protocol, ...(port ? { port: Number(port) } : {}) }).then(async () => {
					onClose();
					await onDone();
				}).catch(failed);
			}}>
				<Field label="Port in the VM"><input type="number" min={1} max={65535} value={target} onInput={(e) => setTarget(e.currentTarget.value)} /></Field>
				<Field label="Port of the server" hint="Empty: a free one. 443: where the VM's own name leads."><input type="number" min={1} max={65535} value={port} onInput={(e) => setPort(e.currentTarget.value)} /></Field>
				<Field label="Protocol"><select value={protocol} onChange={(e) => setProtocol(e.currentTarget.value)}><option>tcp</option><option>udp</option></select></Field>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit">Map it</Button></div>
			</form>
		</Dialog>
	);
}

const MODES: [Policy['mode'], string, string][] = [
	['open', 'Open', 'Everything on the internet.'],
	['rules', 'By rules', 'What the first rule that fits allows; the rest is refused.'],
	['closed', 'Closed', 'Nothing, not even names.'],
];

function Egress({ vm }: { vm: Vm }) {
	const path = `/v1/vms/${encodeURIComponent(vm.id)}/egress`;
	const policy = useData<Policy>(path);
	const blocked = useData<{ blocked: Blocked[] }>(`${path}/blocked`, { poll: 4000 });
	const [mode, setMode] = useState<Policy['mode'] | null>(null);
	const [text, setText] = useState<string | null>(null);
	useEffect(() => {
		setMode(null);
		setText(null);
	}, [vm.id]);
	const rules = text ?? policy.data?.rules.map(ruleLine).join('\n') ?? '';
	const now = mode ?? policy.data?.mode ?? 'open';
	const parsed = parseRules(rules);
	const changed = policy.data !== null && (now !== policy.data.mode || JSON.stringify(parsed.rules) !== JSON.stringify(policy.data.rules));
	const save = async (next: Policy): Promise<void> => {
		await api.put(path, next);
		setMode(null);
		setText(null);
		await policy.reload();
		notify('The policy is in force, for open connections too.', { kind: 'good' });
	};
	return (
		<>
			<Card title="What this VM may reach">
				<Loaded of={policy} what="the policy">{(d) => <form class="stack-s" onSubmit={(e) => {
					e.preventDefault();
					if (!parsed.error)
						save({ ...d, mode: now, rules: parsed.rules }).catch(failed);
				}}>
					<fieldset class="choices"><legend class="off-screen">Mode</legend>{MODES.map(([m, title, what]) => <label key={m} class={now === m ? 'chosen' : ''}>
						<input type="radio" name="mode" checked={now === m} onChange={() => setMode(m)} /><span><b>{title}</b><small>{what}</small></span></label>)}</fieldset>
					{now === 'rules' && <Field label="Rules, the first that fits decides" hint={parsed.error ? <span class="bad-text">{parsed.error}</span> : 'allow *.example.org 443 · deny 203.0.113.0/24 · allow *'}>
						<textarea class="mono" rows={Math.max(4, rules.split('\n').length + 1)} value={rules} onInput={(e) => setText(e.currentTarget.value)} spellcheck={false} /></Field>}
					{now !== 'rules' && d.rules.length > 0 && <p class="muted">{d.rules.length} rules are kept, and used in the mode “By rules” only.</p>}
					{d.inject.length > 0 && <div><h3>Injected headers</h3><dl class="facts">{d.inject.map((i) => <><dt>{i.domain}</dt><dd class="mono">{Object.entries(i.headers).map(([k, v]) => `${k}: ${v}`).join(', ')}</dd></>)}</dl></div>}
					{d.bandwidth && <p class="muted">At most {d.bandwidth.upMbps ?? '∞'} Mbit/s up, {d.bandwidth.downMbps ?? '∞'} Mbit/s down.</p>}
					{changed && <div class="row"><Button kind="primary" type="submit" disabled={!!parsed.error}>Put in force</Button><Button onClick={() => {
						setMode(null);
						setText(null);
					}}>Discard</Button></div>}
				</form>}</Loaded>
			</Card>
			<Card title="Refused attempts">
				<Loaded of={blocked} what="the refused attempts">{(d) => <Table label="Refused attempts" rows={d.blocked} rowKey={(b) => `${b.kind} ${b.domain} ${b.address} ${b.protocol} ${b.port}`} page={50} columns={[
					{ key: 'to', title: 'Destination', cell: (b) => <span class="mono">{b.domain ?? b.address}{b.port ? `:${b.port}` : ''}</span>, grow: true, sort: (b) => b.domain ?? b.address ?? '' },
					{ key: 'kind', title: 'Seen as', cell: (b) => b.kind === 'dns' ? 'a name looked up' : b.kind === 'name' ? 'a connection by name' : `a packet${b.protocol ? ` (${b.protocol})` : ''}` },
					{ key: 'n', title: 'Times', cell: (b) => count(b.count), sort: (b) => b.count, align: 'end' },
					{ key: 'at', title: 'Last', cell: (b) => <Ago at={b.lastAt} />, sort: (b) => Date.parse(b.lastAt) },
					{ key: 'acts', title: '', cell: (b) => policy.data?.mode === 'rules' && (b.domain || b.address) ? <Button small onClick={() => {
						setMode('rules');
						setText(`allow ${b.domain ?? `${b.address}/32`}${b.port ? ` ${b.port}` : ''}\n${rules}`);
					}}>Allow…</Button> : null },
				]} empty={<p class="muted">Nothing was refused since the server was started.</p>} />}</Loaded>
			</Card>
		</>
	);
}

export function Network({ vm }: { vm: Vm }) {
	const ports = useData<{ ports: Port[]; range: string | null }>(`/v1/vms/${encodeURIComponent(vm.id)}/ports`);
	const names = useData<Mapping[]>('/domains/v1/mappings?limit=1000', { on: ['domain.*'] });
	const [dialog, setDialog] = useState<'name' | 'port' | null>(null);
	const own = names.data?.filter((m) => m.vmId === vm.id && !pending.value.has(`domain:${m.domain}`)) ?? [];
	return (
		<div class="stack">
			<Card title="Names" actions={<Button small icon="plus" onClick={() => setDialog('name')}>Map a name</Button>}>
				<Loaded of={names} what="the names">{() => <Table label="Names" rows={own} rowKey={(m) => m.domain} columns={[
					{ key: 'domain', title: 'Name', grow: true, cell: (m) => <a href={`https://${m.domain}`} target="_blank" rel="noopener noreferrer">{m.domain}</a> },
					{ key: 'port', title: 'Port in the VM', cell: (m) => m.vmPort, align: 'end' },
					{ key: 'at', title: 'Since', cell: (m) => <Ago at={m.createdAt} />, hideNarrow: true },
					{ key: 'acts', title: '', cell: (m) => <div class="row end"><CopyButton text={`https://${m.domain}`} label="Copy the address" /><Button small kind="quiet" icon="trash" label={`Remove ${m.domain}`} onClick={() => undoable(`Removing ${m.domain}`, async () => {
						await api.del(`/domains/v1/mappings/${encodeURIComponent(m.domain)}`);
						await names.reload();
					}, { key: `domain:${m.domain}` })} /></div> },
				]} empty={<Empty title="No name leads here" commands={[{ title: 'On the command line', code: `pando domain map app.example.org ${word(vm)} -p 3000` }]}>The VM's own name works without a mapping: <code>{vm.id}.&lt;base domain&gt;</code>.</Empty>} />}</Loaded>
			</Card>
			<Card title="Ports" actions={<Button small icon="plus" onClick={() => setDialog('port')}>Map a port</Button>}>
				<Loaded of={ports} what="the ports">{(d) => <><Table label="Ports" rows={d.ports.filter((p) => !pending.value.has(`port:${vm.id}:${p.protocol}:${p.port}`))} rowKey={(p) => `${p.protocol} ${p.port}`} columns={[
					{ key: 'port', title: 'Port of the server', cell: (p) => p.port === 443 ? <span>443 <span class="muted">(the VM's own name)</span></span> : <span class="mono">{p.address ?? p.port}</span>, sort: (p) => p.port },
					{ key: 'to', title: 'Port in the VM', cell: (p) => p.targetPort ?? <span class="muted">nowhere</span>, align: 'end' },
					{ key: 'protocol', title: 'Protocol', cell: (p) => p.protocol },
					{ key: 'state', title: 'State', cell: (p) => p.error ? <Badge kind="bad" title={p.error}>{p.error}</Badge> : p.listening === false ? <Badge kind="warn">not listening</Badge> : p.port === 443 ? null : <Badge kind="good">listening</Badge> },
					{ key: 'acts', title: '', cell: (p) => <Button small kind="quiet" icon="trash" label={`Unmap ${p.port}`} onClick={() => undoable(`Unmapping port ${p.port}`, async () => {
						await api.del(`/v1/vms/${encodeURIComponent(vm.id)}/ports/${p.port}?protocol=${p.protocol}`);
						await ports.reload();
					}, { key: `port:${vm.id}:${p.protocol}:${p.port}` })} /> },
				]} empty={<Empty title="No port leads here" commands={[{ title: 'On the command line', code: `pando vm port-map ${word(vm)} 5432` }]} />} />
				{!d.range && <p class="muted">This server maps no ports but that of the VM's own name; an operator can allow a range with <code>PANDO_PORT_RANGE</code>.</p>}</>}</Loaded>
			</Card>
			<Egress vm={vm} />
			{dialog === 'name' && <MapDialog vm={vm} onClose={() => setDialog(null)} onDone={names.reload} />}
			{dialog === 'port' && <PortDialog vm={vm} onClose={() => setDialog(null)} onDone={ports.reload} />}
			{vm.lastNetworkActivity && <p class="muted">Last traffic: {dateTime(vm.lastNetworkActivity)}.</p>}
		</div>
	);
}
