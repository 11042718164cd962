// SPDX-License-Identifier: Apache-2.0
// Certificates by when they end: the first row is the one to look after.
import { ago, dateTime } from '../../lib/format';
import { now, useData } from '../../lib/state';
import { Badge, Card, Empty, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';

interface Cert { name: string; source: string; notBefore: string | null; notAfter: string | null; state: string }
const DAY = 86_400_000;

function Ends({ c }: { c: Cert }) {
	if (!c.notAfter)
		return <span class="muted">–</span>;
	const left = Date.parse(c.notAfter) - now.value;
	return <span class="nowrap"><Badge kind={left < 0 ? 'bad' : left < 14 * DAY ? 'warn' : 'good'} title={dateTime(c.notAfter)}>{left < 0 ? 'expired ' : ''}{ago(c.notAfter, now.value)}</Badge></span>;
}

export function Certs() {
	const data = useData<{ certs: Cert[] }>('/domains/v1/certs', { on: ['domain.*'], poll: 60_000 });
	return (
		<Card title="Certificates">
			<Loaded of={data} what="a list of certificates">{(d) => (
				<Table label="Certificates" rows={d.certs} rowKey={(c) => `${c.name} ${c.source}`} order="end" empty={<Empty icon="lock" title="No certificates yet">One is made when a name is first asked for over HTTPS: by ACME if that is set up, else by this server’s own CA.</Empty>} columns={[
					{ key: 'name', title: 'Name', grow: true, sort: (c) => c.name, cell: (c) => <b>{c.name}</b> },
					{ key: 'source', title: 'From', sort: (c) => c.source, cell: (c) => c.source },
					{ key: 'state', title: 'State', sort: (c) => c.state, cell: (c) => <Badge kind={/valid|ready|ok/.test(c.state) ? 'good' : /expir|fail/.test(c.state) ? 'bad' : 'warn'}>{c.state}</Badge> },
					{ key: 'end', title: 'Ends', sort: (c) => c.notAfter, cell: (c) => <Ends c={c} /> },
				]} />
			)}</Loaded>
		</Card>
	);
}
