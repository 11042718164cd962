// SPDX-License-Identifier: Apache-2.0
// Builds of specs: what runs now and what came of the last ones, with their steps and output.
import { useState } from 'preact/hooks';
import { query, url } from '../../lib/api';
import { duration, shortId } from '../../lib/format';
import { now, useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Empty, Loaded, Progress } from '../../ui/parts';
import { Table } from '../../ui/Table';

interface Build { id?: string; buildId?: string; state: string; phase?: string | null; reason?: string | null; failureReason?: string | null; plannedPhases?: unknown[]; startedAt?: string | null; createdAt?: string | null; endedAt?: string | null; finishedAt?: string | null; vmId?: string | null; snapshotId?: string | null }
const idOf = (b: Build): string => b.id ?? b.buildId ?? '';
const running = (b: Build): boolean => /^(running|building|pending|queued|started)$/.test(b.state);

interface Phases { phases?: { name?: string; phase?: string; state?: string; status?: string; startedAt?: string; endedAt?: string | null; output?: string | null; error?: string | null }[] }
interface Logs { logs?: { message?: string; text?: string; timestamp?: string; at?: string }[] }

function Detail({ build, onClose }: { build: Build; onClose: () => void }) {
	const poll = running(build) ? 1500 : undefined;
	const phases = useData<Phases>(url`/v1/vms/builds/${idOf(build)}/phases`, { poll });
	const logs = useData<Logs>(query('/observability/v1/logs', { buildId: idOf(build), pageSize: 500 }), { poll });
	return (
		<Dialog title={`Build ${shortId(idOf(build), 14)}`} onClose={onClose} wide>
			<div class="stack">
				<div class="row"><Badge kind={running(build) ? 'info' : build.state === 'failed' ? 'bad' : 'good'}>{build.state}</Badge>{(build.failureReason ?? build.reason) && <span>{build.failureReason ?? build.reason}</span>}</div>
				{running(build) && <Progress label="The build is running" />}
				<Loaded of={phases} what="its steps" lines={3}>{(p) => <ol class="phases">{(p.phases ?? []).map((x, i) => <li key={i}><b>{x.name ?? x.phase ?? `Step ${i + 1}`}</b> <span class="muted">{x.state ?? x.status ?? ''}</span>{x.error && <div class="field-error">{x.error}</div>}</li>)}</ol>}</Loaded>
				<Loaded of={logs} what="its log" lines={4}>{(l) => <pre class="log" tabIndex={0} aria-label="Log">{(l.logs ?? []).map((x) => x.message ?? x.text ?? '').join('\n') || 'No output.'}</pre>}</Loaded>
			</div>
		</Dialog>
	);
}

export function Builds() {
	const data = useData<{ builds: Build[] }>('/v1/vms/builds', { on: ['build.*'], poll: 10_000 });
	const [open, setOpen] = useState<Build | null>(null);
	return (
		<Card title="Builds">
			<Loaded of={data} what="a list of builds">{(d) => (
				<Table label="Builds" rows={d.builds} rowKey={idOf} empty={<Empty icon="plus" title="Nothing was built lately"
					commands={[{ title: 'In a terminal', code: 'pando vm create -f spec.json' }, { title: 'From TypeScript', code: 'await freestyle.vms.create({ spec: new VmSpec().aptDeps("nginx") });' }]}>A spec says what a VM contains; each of its layers is built once and kept.</Empty>} columns={[
					{ key: 'id', title: 'Build', cell: (b) => <button type="button" class="link mono" onClick={() => setOpen(b)}>{shortId(idOf(b), 14)}</button> },
					{ key: 'state', title: 'State', sort: (b) => b.state, cell: (b) => <Badge kind={running(b) ? 'info' : b.state === 'failed' ? 'bad' : 'good'}>{b.state}</Badge> },
					{ key: 'phase', title: 'Doing', grow: true, cell: (b) => running(b) ? b.phase ?? '' : b.failureReason ?? b.reason ?? '' },
					{ key: 'took', title: 'Took', align: 'end', cell: (b) => {
						const from = Date.parse(b.startedAt ?? b.createdAt ?? '');
						const to = running(b) ? now.value : Date.parse(b.endedAt ?? b.finishedAt ?? '');
						return Number.isFinite(to - from) ? duration((to - from) / 1000) : '–';
					} },
					{ key: 'at', title: 'Started', sort: (b) => b.startedAt ?? b.createdAt ?? null, cell: (b) => <Ago at={b.startedAt ?? b.createdAt} /> },
					{ key: 'log', title: '', align: 'end', cell: (b) => <Button small onClick={() => setOpen(b)}>Log</Button> },
				]} />
			)}</Loaded>
			{open && <Detail build={data.data?.builds.find((b) => idOf(b) === idOf(open)) ?? open} onClose={() => setOpen(null)} />}
		</Card>
	);
}
