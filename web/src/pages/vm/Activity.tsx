// SPDX-License-Identifier: Apache-2.0
/* Activity.tsx - who did what with a VM, what happened to it, and who asked for it by name */
import { useState } from 'preact/hooks';
import { query } from '../../lib/api';
import { bytes, dateTime } from '../../lib/format';
import { useKeyNames } from '../../lib/keynames';
import { useData } from '../../lib/state';
import { Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { act } from './audit';
import { LogLines } from './Processes';
import { word, type Vm } from './types';

interface Audit { id: number; at: string; keyId: string | null; identityId: string | null; method: string; route: string; target: string | null; status: number; code: string | null; remote: string; repeated?: number }
interface Log { timestamp: string; message: string; level: string; source: string; vmService: string | null; access?: { method: string; host: string; path: string; status: number | null; bytesIn: number; bytesOut: number; durationMs: number; client: string; wokeVm: boolean } }

export function Activity({ vm }: { vm: Vm }) {
	const [search, setSearch] = useState('');
	const keyName = useKeyNames();
	const [all, setAll] = useState(false);
	const audit = useData<{ records: Audit[] }>(query('/v1/audit', { target: vm.id, limit: 200 }), { poll: 10_000 });
	const logs = useData<{ logs: Log[] }>(query('/observability/v1/logs', { vmId: vm.id, pageSize: 200, search }), { poll: 5000 });
	const access = useData<{ logs: Log[] }>(query('/observability/v1/logs', { vmId: vm.id, source: 'access', pageSize: 200 }), { poll: 10_000 });
	return (
		<div class="stack">
			<Card title="Who did what" actions={<label class="check"><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> every request</label>}>
				<Loaded of={audit} what="the audit log">{(d) => <Table label="Audit log of this VM" page={50} rowKey={(a) => String(a.id)} rows={d.records.filter((a) => all || act(a.method, a.route).matters || a.status >= 400)} columns={[
					{ key: 'at', title: 'When', cell: (a) => <span class="nowrap">{dateTime(a.at)}</span> },
					{ key: 'what', title: 'What', grow: true, cell: (a) => <span title={`${a.method} ${a.route}`}>{act(a.method, a.route).text}{a.repeated ? ` (${a.repeated + 1} times)` : ''}</span> },
					{ key: 'who', title: 'Who', cell: (a) => a.keyId && !a.identityId && keyName(a.keyId) !== a.keyId ? <span class="nowrap" title={a.keyId}>{keyName(a.keyId)}</span> : <span class="mono">{a.identityId ?? a.keyId ?? '–'}</span>, hideNarrow: true },
					{ key: 'from', title: 'From', cell: (a) => <span class="mono">{a.remote}</span>, hideNarrow: true },
					{ key: 'status', title: 'Result', cell: (a) => a.status >= 400 ? <Badge kind="bad">{a.code ?? a.status}</Badge> : <Badge kind="good">{a.status}</Badge> },
				]} empty={<Empty title="Nothing yet" commands={[{ title: 'Over HTTP', code: `GET /v1/audit?target=${vm.id}` }]}>Acts on this VM are listed here with the key or identity that did them.</Empty>} />}</Loaded>
			</Card>
			<Card title="What happened">
				<div class="pad-b"><Field label="Search"><input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></Field></div>
				<Loaded of={logs} what="the log">{(d) => d.logs.length ? <div class="log-box" tabIndex={0} role="region" aria-label="Log of this VM"><LogLines lines={d.logs} /></div>
					: <Empty title="No lines" commands={[{ title: 'On the command line', code: `pando vm logs ${word(vm)}` }]} />}</Loaded>
			</Card>
			<Card title="Requests to its names">
				<Loaded of={access} what="the access log">{(d) => <Table label="Access log" page={50} rowKey={(l) => l.timestamp + l.message} rows={d.logs.filter((l) => l.access)} columns={[
					{ key: 'at', title: 'When', cell: (l) => <span class="nowrap">{dateTime(l.timestamp)}</span> },
					{ key: 'what', title: 'Request', grow: true, cell: (l) => <span class="mono">{l.access?.method} {l.access?.host}{l.access?.path}</span> },
					{ key: 'status', title: 'Status', cell: (l) => <Badge kind={(l.access?.status ?? 599) >= 500 ? 'bad' : (l.access?.status ?? 0) >= 400 ? 'warn' : 'good'}>{l.access?.status ?? 'none'}</Badge> },
					{ key: 'ms', title: 'Time', cell: (l) => `${l.access?.durationMs} ms${l.access?.wokeVm ? ', woke it' : ''}`, align: 'end', hideNarrow: true },
					{ key: 'out', title: 'Sent', cell: (l) => bytes(l.access?.bytesOut), align: 'end', hideNarrow: true },
					{ key: 'from', title: 'Client', cell: (l) => <span class="mono">{l.access?.client}</span>, hideNarrow: true },
				]} empty={<Empty title="No requests" commands={[{ title: 'Serve something on port 3000, then', code: `curl https://${vm.id}.<base domain>/` }]} />} />}</Loaded>
			</Card>
		</div>
	);
}
