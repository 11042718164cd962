// SPDX-License-Identifier: Apache-2.0
// Who did what: the audit log, newest first, a page at a time.
import { useState } from 'preact/hooks';
import { api, messageOf, query } from '../../lib/api';
import { dateTime, shortId } from '../../lib/format';
import { useKeyNames } from '../../lib/keynames';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Badge, Card, Empty, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { notify } from '../../ui/Toast';

interface Entry { id: number; at: string; accountId: string | null; keyId: string | null; identityId: string | null; method: string; route: string; target: string | null; status: number; code: string | null; remote: string; traceId: string; repeated?: number }
const PAGE = 100;

export function Audit() {
	const [target, setTarget] = useState('');
	const keyName = useKeyNames();
	const path = query('/v1/audit', { limit: PAGE, target: target.trim() });
	const data = useData<{ records: Entry[] }>(path, { poll: 20_000 });
	const [older, setOlder] = useState<{ path: string; records: Entry[]; end: boolean }>({ path: '', records: [], end: false });
	const extra = older.path === path ? older : { path, records: [], end: false };
	const more = async (): Promise<void> => {
		const all = [...data.data?.records ?? [], ...extra.records];
		const last = all[all.length - 1];
		if (!last)
			return;
		try {
			const r = await api.get<{ records: Entry[] }>(query('/v1/audit', { limit: PAGE, target: target.trim(), before: last.id }));
			setOlder({ path, records: [...extra.records, ...r.records], end: r.records.length < PAGE });
		} catch (e) {
			notify(messageOf(e), { kind: 'bad' });
		}
	};
	return (
		<Card title="Audit log" actions={<input type="search" class="audit-find" placeholder="Id of a VM, key, account…" aria-label="Target" value={target} onInput={(e) => setTarget(e.currentTarget.value)} />}>
			<Loaded of={data} what="the audit log">{(d) => {
				const seen = new Set(d.records.map((r) => r.id));
				const rows = [...d.records, ...extra.records.filter((r) => !seen.has(r.id))];
				return (
					<>
						<Table label="Audit log" rows={rows} page={2000} rowKey={(r) => String(r.id)} empty={<Empty title="Nothing was recorded">Each change through the API is recorded with who asked for it, and so is each refusal.</Empty>} columns={[
							{ key: 'at', title: 'When', cell: (r) => <span class="nowrap">{dateTime(r.at)}</span> },
							{ key: 'what', title: 'What', cell: (r) => <span class="mono audit-what" title={`${r.method} ${r.route}`}>{r.method} {r.route}</span> },
							{ key: 'target', title: 'Target', grow: true, cell: (r) => <span class="mono" title={r.target ?? undefined}>{r.target ?? '–'}</span> },
							{ key: 'status', title: 'Result', cell: (r) => <Badge kind={r.status < 400 ? 'good' : r.status < 500 ? 'warn' : 'bad'} title={r.traceId}>{r.status}{r.code ? ` ${r.code}` : ''}{r.repeated ? ` ×${r.repeated + 1}` : ''}</Badge> },
							{ key: 'who', title: 'Who', hideNarrow: true, cell: (r) => r.keyId && !r.identityId && keyName(r.keyId) !== r.keyId ? <span class="nowrap" title={r.keyId}>{keyName(r.keyId)}</span> : <span class="mono small" title={r.identityId ?? r.keyId ?? r.accountId ?? undefined}>{shortId(r.identityId ?? r.keyId ?? r.accountId ?? 'nobody', 14)}</span> },
							{ key: 'remote', title: 'From', hideNarrow: true, cell: (r) => <span class="mono small">{r.remote}</span> },
						]} />
						{d.records.length >= PAGE && !extra.end && <div class="row more-rows"><Button onClick={more}>Older</Button></div>}
					</>
				);
			}}</Loaded>
		</Card>
	);
}
