// SPDX-License-Identifier: Apache-2.0
// Names: which lead to which VM, which domains are verified, and what is missing for those that are not.
import { useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { vmName } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, notify, pending, undoable } from '../../ui/Toast';

interface Domain { id: string; domain: string; createdAt: string; manageDns?: boolean }
interface Verification { id: string; domain: string; verificationCode: string; createdAt: string }
interface Mapping { id: string; domain: string; vmId: string | null; vmPort: number | null; deploymentId?: string | null; protocol?: string; createdAt: string }
type Listed<T> = T[] | { domains?: T[]; mappings?: T[]; verifications?: T[] };
interface Vms { vms: { id: string; name: string | null; state: string }[] }
const on = ['domain.*'];

/* The contract has bare arrays; take an object with one as well. */
function list<T>(d: Listed<T>): T[] {
	return Array.isArray(d) ? d : d.domains ?? d.mappings ?? d.verifications ?? [];
}

function MapName({ vms, onClose }: { vms: Vms['vms']; onClose: () => void }) {
	const [domain, setDomain] = useState('');
	const [vmId, setVmId] = useState(vms[0]?.id ?? '');
	const [port, setPort] = useState('3000');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			await api.post(url`/domains/v1/mappings/${domain.trim()}`, { vmId, vmPort: Number(port) });
			notify(`${domain.trim()} leads to port ${port} now.`, { kind: 'good' });
			onClose();
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title="Map a name to a VM" onClose={onClose} small><form onSubmit={submit}>
			<Field label="Name" hint="Of a verified domain, or below style.dev without verification."><input required value={domain} placeholder="my-app.style.dev" autocomplete="off" spellcheck={false} onInput={(e) => setDomain(e.currentTarget.value)} /></Field>
			<Field label="VM"><select required value={vmId} onChange={(e) => setVmId(e.currentTarget.value)}>{vms.map((v) => <option key={v.id} value={v.id}>{vmName(v)}</option>)}</select></Field>
			<Field label="Port in the VM"><input type="number" min={1} max={65535} required value={port} onInput={(e) => setPort(e.currentTarget.value)} /></Field>
			<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>Map it</Button></div>
		</form></Dialog>
	);
}

function Verify({ onClose }: { onClose: () => void }) {
	const [domain, setDomain] = useState('');
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		try {
			await api.post('/domains/v1/verifications', { domain: domain.trim() });
			onClose();
		} catch (err) {
			setBusy(false);
			failed(err);
		}
	};
	return (
		<Dialog title="Verify a domain" onClose={onClose} small><form onSubmit={submit}>
			<Field label="Domain" hint="You will be told which TXT record proves that it is yours."><input required value={domain} placeholder="example.org" autocomplete="off" spellcheck={false} onInput={(e) => setDomain(e.currentTarget.value)} /></Field>
			<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" busy={busy}>Begin</Button></div>
		</form></Dialog>
	);
}

export function Domains() {
	const mappings = useData<Listed<Mapping>>('/domains/v1/mappings', { on });
	const domains = useData<Listed<Domain>>('/domains/v1/domains', { on });
	const waiting = useData<Listed<Verification>>('/domains/v1/verifications', { on });
	const vms = useData<Vms>('/v1/vms?limit=10000', { on: ['vm.*'], every: 1500 });
	const [dialog, setDialog] = useState<'map' | 'verify' | null>(null);
	const names = new Map((vms.data?.vms ?? []).map((v) => [v.id, v]));
	const close = (): void => {
		setDialog(null);
		void mappings.reload();
		void domains.reload();
		void waiting.reload();
	};
	const check = async (v: Verification): Promise<void> => {
		await api.put('/domains/v1/verifications', { id: v.id });
		notify(`${v.domain} is yours.`, { kind: 'good' });
		close();
	};
	return (
		<div class="stack">
			<Card title="Names that lead to VMs" actions={<Button small icon="plus" disabled={!vms.data?.vms.length} onClick={() => setDialog('map')}>Map a name</Button>}>
				<Loaded of={mappings} what="mapped names" lines={3}>{(d) => (
					<Table label="Names that lead to VMs" rows={list(d)} rowKey={(m) => m.id} rowClass={(m) => pending.value.has(`name:${m.domain}`) ? 'going' : undefined}
						empty={<Empty title="No names are mapped" commands={[{ title: 'In a terminal', code: 'pando domain map my-app.style.dev web -p 8080' }]}>A name leads people to a port of a VM, over HTTPS, and wakes it when it sleeps.</Empty>} columns={[
							{ key: 'name', title: 'Name', grow: true, sort: (m) => m.domain, cell: (m) => <a href={`https://${m.domain}`} target="_blank" rel="noreferrer noopener">{m.domain}</a> },
							{ key: 'vm', title: 'VM', cell: (m) => m.vmId ? <a href={url`/ui/vms/${m.vmId}`}>{vmName({ id: m.vmId, name: names.get(m.vmId)?.name })}</a> : m.deploymentId ?? '–' },
							{ key: 'port', title: 'Port', align: 'end', cell: (m) => m.vmPort ?? '–' },
							{ key: 'protocol', title: '', cell: (m) => m.protocol === 'h2c' ? <Badge>h2c</Badge> : null },
							{ key: 'since', title: 'Since', hideNarrow: true, cell: (m) => <Ago at={m.createdAt} /> },
							{ key: 'acts', title: '', align: 'end', cell: (m) => <Button small kind="danger" onClick={() => undoable(`Unmapping ${m.domain}`, async () => {
								await api.del(url`/domains/v1/mappings/${m.domain}`);
								await mappings.reload();
							}, { key: `name:${m.domain}` })}>Unmap</Button> },
						]} />
				)}</Loaded>
			</Card>
			<Card title="Domains" actions={<Button small icon="plus" onClick={() => setDialog('verify')}>Verify a domain</Button>}>
				<Loaded of={waiting} what="verifications" lines={1}>{(d) => list(d).length ? (
					<div class="stack pending-domains">{list(d).map((v) => (
						<div class="note warn" key={v.id}><span><b>{v.domain}</b> waits for this TXT record at <code>_freestyle_custom_hostname.{v.domain}</code>: <code>{v.verificationCode}</code> <CopyButton text={v.verificationCode} label="Copy the value" /></span>
							<Button small onClick={() => check(v)}>Check now</Button>
							<Button small kind="quiet" onClick={() => undoable(`Giving up the verification of ${v.domain}`, async () => {
								await api.del('/domains/v1/verifications', { domain: v.domain, verificationCode: v.verificationCode });
								close();
							}, { key: `verify:${v.id}` })}>Cancel</Button></div>
					))}</div>
				) : null}</Loaded>
				<Loaded of={domains} what="domains" lines={2}>{(d) => (
					<Table label="Domains" rows={list(d)} rowKey={(x) => x.id} empty={<Empty title="No domains of your own" commands={[{ title: 'In a terminal', code: 'pando domain verify example.org' }]}>A domain that you verified can be mapped to VMs, with all names below it.</Empty>} columns={[
						{ key: 'name', title: 'Domain', grow: true, sort: (x) => x.domain, cell: (x) => <b>{x.domain}</b> },
						{ key: 'dns', title: 'Name server', cell: (x) => x.manageDns ? <Badge kind="good">this server</Badge> : <Badge>elsewhere</Badge> },
						{ key: 'since', title: 'Verified', cell: (x) => <Ago at={x.createdAt} /> },
					]} />
				)}</Loaded>
			</Card>
			{dialog === 'map' && <MapName vms={vms.data?.vms ?? []} onClose={close} />}
			{dialog === 'verify' && <Verify onClose={close} />}
		</div>
	);
}
