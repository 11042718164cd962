// SPDX-License-Identifier: Apache-2.0
// Private networks: members by address, and WireGuard tunnels into them. A tunnel's file has its private key, which the
// server tells once: it is shown, as text and as a QR code, until the dialog is closed.
import { useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { bytes, vmName } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Code, Empty, Field, Loaded, StateBadge } from '../../ui/parts';
import { QrCode } from '../../ui/QrCode';
import { word } from '../vm/types';
import { Table } from '../../ui/Table';
import { confirmOnce, failed, notify, pending, undoable } from '../../ui/Toast';

interface Vpc { vpcId: string; name: string | null; cidr: string; createdAt: string }
interface Member { vmId: string; ipv4: string }
interface Session { sessionId: string; clientPublicKey: string; gatewayVmId: string | null; clientTunnelIp: string; createdAt: string | null; expiresAt: string | null; lastHandshakeAt: string | null; rxBytes: number | null; txBytes: number | null }
interface Tunnel { sessionId: string; clientConfig: string; interfaceName?: string; expiresAt?: string | null }
interface Vms { vms: { id: string; name: string | null; state: string }[] }

function save(name: string, text: string): void {
	const link = document.createElement('a');
	const blob = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
	link.href = blob;
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(blob), 10_000);
}

function TunnelFile({ tunnel, vpc, onClose }: { tunnel: Tunnel; vpc: Vpc; onClose: () => void }) {
	const file = `${tunnel.interfaceName ?? 'pando'}.conf`;
	return (
		<Dialog title={`Tunnel into ${vpc.name ?? vpc.vpcId}`} onClose={onClose} wide>
			<p class="note warn"><span>This is the only time that the key is shown. Save the file, or scan the code with the WireGuard app, before you close this.</span></p>
			<div class="tunnel">
				<div class="stack">
					<Code text={tunnel.clientConfig} />
					<div class="row"><Button kind="primary" icon="download" onClick={() => save(file, tunnel.clientConfig)}>Download {file}</Button></div>
					<p class="muted small">Then: <code>wg-quick up ./{file}</code>{tunnel.expiresAt && <>. It closes by itself <Ago at={tunnel.expiresAt} />.</>}</p>
				</div>
				<QrCode text={tunnel.clientConfig} label="The tunnel's configuration as a QR code" />
			</div>
		</Dialog>
	);
}

function Sessions({ vpc }: { vpc: Vpc }) {
	const data = useData<{ sessions: Session[] }>(url`/v1/vpcs/${vpc.vpcId}/wireguard`, { on: ['vpc.*'], poll: 10_000 });
	const [tunnel, setTunnel] = useState<Tunnel | null>(null);
	const open = async (): Promise<void> => {
		setTunnel(await api.post<Tunnel>(url`/v1/vpcs/${vpc.vpcId}/wireguard/ephemeral`));
		void data.reload();
	};
	const end = async (s: Session): Promise<void> => {
		if (await confirmOnce('Close this tunnel?', { text: `Whoever uses ${s.clientTunnelIp} is cut off and needs a new file.`, action: 'Close it', danger: true })) {
			await api.del(url`/v1/vpcs/${vpc.vpcId}/wireguard/ephemeral`, { sessionId: s.sessionId });
			await data.reload();
		}
	};
	return (
		<>
			<div class="row spread sub-head"><h3>WireGuard tunnels</h3><Button small icon="plus" onClick={open}>New tunnel</Button></div>
			<Loaded of={data} what="a list of tunnels" lines={2}>{(d) => (
				<Table label={`Tunnels into ${vpc.name ?? vpc.vpcId}`} rows={d.sessions} rowKey={(s) => s.sessionId} empty={<p class="muted">None is open. A tunnel puts your own machine into this network: a file for <code>wg-quick</code>, or a code for the phone.</p>} columns={[
					{ key: 'ip', title: 'Address', cell: (s) => <span class="mono">{s.clientTunnelIp}</span> },
					{ key: 'key', title: 'Public key', grow: true, hideNarrow: true, cell: (s) => <span class="mono small">{s.clientPublicKey}</span> },
					{ key: 'seen', title: 'Last heard of', cell: (s) => s.lastHandshakeAt ? <Ago at={s.lastHandshakeAt} /> : <span class="muted">not yet</span> },
					{ key: 'bytes', title: 'In, out', align: 'end', cell: (s) => <span class="nowrap">{bytes(s.rxBytes)}, {bytes(s.txBytes)}</span> },
					{ key: 'end', title: 'Ends', cell: (s) => s.expiresAt ? <Ago at={s.expiresAt} /> : <span class="muted">when closed</span> },
					{ key: 'acts', title: '', align: 'end', cell: (s) => <Button small kind="danger" onClick={() => end(s)}>Close</Button> },
				]} />
			)}</Loaded>
			{tunnel && <TunnelFile tunnel={tunnel} vpc={vpc} onClose={() => setTunnel(null)} />}
		</>
	);
}

function Network({ vpc, names }: { vpc: Vpc; names: Map<string, { name: string | null; state: string }> }) {
	const data = useData<Vpc & { vms: Member[] }>(url`/v1/vpcs/${vpc.vpcId}`, { on: ['vm.*', 'vpc.*'], every: 1000 });
	const remove = (): void => undoable(`Deleting the network ${vpc.name ?? vpc.vpcId}`, () => api.del(url`/v1/vpcs/${vpc.vpcId}`), { key: `vpc:${vpc.vpcId}` });
	const busy = (data.data?.vms.length ?? 0) > 0;
	return (
		<Card title={<>{vpc.name ?? vpc.vpcId} <Badge>{vpc.cidr}</Badge></>} class={pending.value.has(`vpc:${vpc.vpcId}`) ? 'going' : ''}
			actions={<Button small kind="danger" icon="trash" disabled={busy} title={busy ? 'It still has VMs' : undefined} onClick={remove}>Delete</Button>}>
			<p class="row tight small muted pad-b"><code>{vpc.vpcId}</code><CopyButton text={vpc.vpcId} label="Copy the id" /></p>
			<Loaded of={data} what="its members" lines={3}>{(d) => (
				<Table label={`Members of ${vpc.name ?? vpc.vpcId}`} rows={d.vms} rowKey={(m) => m.vmId} empty={<><p class="muted">No VM is in it. Put one in when you create it:</p><Code text={`pando vm create --vpc ${word({ id: vpc.vpcId, name: vpc.name })}`} /></>} columns={[
					{ key: 'ip', title: 'Address', sort: (m) => m.ipv4.split('.').map((x) => x.padStart(3, '0')).join('.'), cell: (m) => <span class="mono">{m.ipv4}</span> },
					{ key: 'vm', title: 'VM', grow: true, cell: (m) => <a href={url`/ui/vms/${m.vmId}`}>{vmName({ id: m.vmId, name: names.get(m.vmId)?.name })}</a> },
					{ key: 'state', title: 'State', cell: (m) => names.has(m.vmId) ? <StateBadge state={names.get(m.vmId)?.state} /> : '' },
				]} />
			)}</Loaded>
			<Sessions vpc={vpc} />
		</Card>
	);
}

function Create({ onClose }: { onClose: () => void }) {
	const [name, setName] = useState('');
	const [cidr, setCidr] = useState('');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			await api.post('/v1/vpcs', { ...(name.trim() ? { name: name.trim() } : {}), ...(cidr.trim() ? { cidr: cidr.trim() } : {}) });
			notify('The network is there.', { kind: 'good' });
			onClose();
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title="New private network" onClose={onClose} small><form onSubmit={submit}>
			<Field label="Name"><input value={name} maxLength={100} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} /></Field>
			<Field label="Addresses" hint="Left out: a free range is chosen."><input value={cidr} placeholder="10.1.0.0/24" autocomplete="off" onInput={(e) => setCidr(e.currentTarget.value)} /></Field>
			<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>Create</Button></div>
		</form></Dialog>
	);
}

export function Vpcs() {
	const data = useData<{ vpcs: Vpc[] }>('/v1/vpcs', { on: ['vpc.*'] });
	const vms = useData<Vms>('/v1/vms?limit=10000', { on: ['vm.*'], every: 1500 });
	const [creating, setCreating] = useState(false);
	const names = new Map((vms.data?.vms ?? []).map((v) => [v.id, v]));
	return (
		<div class="stack">
			<Loaded of={data} what="private networks">{(d) => d.vpcs.length ? (
				<>
					<div class="row"><Button icon="plus" onClick={() => setCreating(true)}>New network</Button></div>
					{d.vpcs.map((v) => <Network key={v.vpcId} vpc={v} names={names} />)}
				</>
			) : (
				<Empty icon="network" title="No private networks" action={<Button kind="primary" icon="plus" onClick={() => setCreating(true)}>New network</Button>}
					commands={[{ title: 'In a terminal', code: 'pando vpc create backend' }, { title: 'From TypeScript', code: 'const { vpc } = await freestyle.vpcs.create({ name: "backend" });' }]}>
					VMs in one private network reach each other by address and name, wake each other, and are reached from your machine through WireGuard.</Empty>
			)}</Loaded>
			{creating && <Create onClose={() => {
				setCreating(false);
				void data.reload();
			}} />}
		</div>
	);
}
