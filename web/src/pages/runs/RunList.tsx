// SPDX-License-Identifier: Apache-2.0
// Scripts that ran, newest first, a page of them at a time.
import { query } from '../../lib/api';
import { count, duration, seconds } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { now, useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Ago, Badge, Card, Empty, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { kindOf, runAt, runState, scheduleAt, scheduleName, type ListedSchedule, type Run } from './types';

const PAGE = 100;

export function took(r: Run): string {
	if (r.duration)
		return seconds(parseFloat(r.duration));
	return r.startedAt ? duration((now.value - Date.parse(r.startedAt)) / 1000) : '–';
}

export function RunList() {
	const from = Math.max(0, Number(place.value.query.get('from')) || 0);
	const data = useData<{ entries: Run[]; total: number }>(query('/execute/v1/deployments', { limit: PAGE, offset: from || null }), { on: ['run.*'], every: 1000, poll: 30_000 });
	const schedules = useData<{ schedules: ListedSchedule[] }>('/v1/cron/schedules');
	const names = new Map((schedules.data?.schedules ?? []).map((s) => [s.id, scheduleName(s)]));
	return (
		<Loaded of={data} what="runs" lines={9}>{(d) => !d.total ? (
			<Empty icon="runs" title="No script has run yet" commands={[
				{ title: 'In a terminal', code: "echo 'export default () => 6 * 7' | pando script run -" },
				{ title: 'From TypeScript', code: 'const { result } = await freestyle.serverless.runs.create({ code: "export default () => 6 * 7" });' }]}>
				A run executes a script in a VM of its own, answers with what the script returned, and leaves nothing behind but its log.</Empty>
		) : (
			<Card>
				<Table label="Runs" rows={d.entries} rowKey={(r) => r.deployment} page={PAGE} columns={[
					{ key: 'id', title: 'Run', grow: true, cell: (r) => <span><a href={runAt(r.deployment)} class="mono">{r.deployment}</a>{r.tags.length > 0 && <span class="tags">{r.tags.slice(0, 3).map((t) => <Badge key={t}>{t}</Badge>)}</span>}</span> },
					{ key: 'state', title: 'State', sort: runState, cell: (r) => <Badge kind={kindOf(runState(r))}>{runState(r)}</Badge> },
					{ key: 'by', title: 'Schedule', hideNarrow: true, cell: (r) => r.scheduleId ? <a href={scheduleAt(r.scheduleId)}>{names.get(r.scheduleId) ?? 'deleted meanwhile'}</a> : '–' },
					{ key: 'took', title: 'Took', align: 'end', cell: (r) => <span class="nowrap">{took(r)}</span> },
					{ key: 'at', title: 'Asked for', cell: (r) => <Ago at={r.provisionedAt} /> },
				]} empty={<Empty title="Nothing that far back" action={<Button onClick={() => setQuery({ from: null })}>To the newest</Button>} />} />
				{d.total > PAGE && <div class="row pager"><Button small icon="left" disabled={!from} onClick={() => setQuery({ from: from > PAGE ? String(from - PAGE) : null })}>Newer</Button>
					<span class="muted">{count(Math.min(from + 1, d.total))} to {count(Math.min(from + PAGE, d.total))} of {count(d.total)}</span>
					<Button small icon="right" disabled={from + PAGE >= d.total} onClick={() => setQuery({ from: String(from + PAGE) })}>Older</Button></div>}
			</Card>
		)}</Loaded>
	);
}
