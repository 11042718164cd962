// SPDX-License-Identifier: Apache-2.0
// One schedule: its times, how they went in the last day by the hour, and each execution with its attempts.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { query } from '../../lib/api';
import { count, plural, seconds } from '../../lib/format';
import { navigate } from '../../lib/route';
import { useData } from '../../lib/state';
import type { PageProps } from '../../routes';
import { Button } from '../../ui/Button';
import { Ago, Badge, Card, Empty, Failure, Loaded, PageHead, Skeleton } from '../../ui/parts';
import { Plot } from '../../ui/Plot';
import { Table } from '../../ui/Table';
import { pending } from '../../ui/Toast';
import { CodeView } from '../vm/CodeView';
import { Cron, removeSchedule, setActive } from './ScheduleList';
import { kindOf, runAt, scheduleName, schedulePath, stateText, type Execution, type Point, type Schedule } from './types';

const HOUR_MS = 3_600_000;
const PAGE = 50;

export default function SchedulePage({ params }: PageProps) {
	return <One key={params['schedule']} id={params['schedule'] as string} />;
}

/* Whole hours, so that the address, and with it what is remembered of the answer, changes once an hour. */
function LastDay({ id }: { id: string }) {
	const end = Math.ceil(Date.now() / HOUR_MS) * HOUR_MS;
	const data = useData<{ dataPoints: Point[] }>(query(`${schedulePath(id)}/metrics-timeline`, { start: new Date(end - 24 * HOUR_MS).toISOString(), end: new Date(end).toISOString(), bucketMinutes: 60 }), { on: ['cron.*'], every: 2000 });
	return <Loaded of={data} what="the last day" height={146}>{(d) => <DayPlot points={d.dataPoints} />}</Loaded>;
}

function DayPlot({ points }: { points: Point[] }) {
	const times = useMemo(() => points.map((p) => Date.parse(p.timestamp) / 1000), [points]);
	const series = useMemo(() => [{ label: 'Succeeded', values: points.map((p) => p.succeededCount), color: '--plot-1', fill: true }, { label: 'Failed', values: points.map((p) => p.failedCount), color: '--bad' }], [points]);
	return <Plot label="Executions by the hour, in the last day" height={120} times={times} series={series} format={(v) => count(Math.round(v))} min={0} least={4} />;
}

function Attempts({ x }: { x: Execution }) {
	const list = x.attemptHistory.filter((a) => a.instanceId);
	if (!list.length)
		return <>–</>;
	return <span class="row tight">{list.map((a) => <a key={a.id} href={runAt(a.instanceId as string)} title={a.error ?? a.status}>{list.length > 1 ? `attempt ${a.attemptNumber}` : 'its run'}</a>)}</span>;
}

function Executions({ id }: { id: string }) {
	const [limit, setLimit] = useState(PAGE);
	const data = useData<{ executions: Execution[]; total: number }>(query(`${schedulePath(id)}/executions`, { limit }), { on: ['cron.*', 'run.*'], every: 1000, poll: 20_000 });
	return (
		<Loaded of={data} what="its executions" lines={5}>{(d) => <>
			<Table label="Executions" rows={d.executions} rowKey={(x) => x.id} page={limit} empty={<Empty title="It has not run yet">Its next time is above.</Empty>} columns={[
				{ key: 'at', title: 'Time', cell: (x) => <Ago at={x.runAt} /> },
				{ key: 'state', title: 'State', cell: (x) => <Badge kind={kindOf(x.status)}>{stateText(x.status)}</Badge> },
				{ key: 'took', title: 'Took', align: 'end', cell: (x) => <span class="nowrap">{x.startedAt && x.completedAt ? seconds((Date.parse(x.completedAt) - Date.parse(x.startedAt)) / 1000) : '–'}</span> },
				{ key: 'n', title: 'Attempts', align: 'end', cell: (x) => `${x.attempts} of ${x.maxAttempts}` },
				{ key: 'why', title: 'Why it failed', grow: true, cell: (x) => x.lastError ? <span class="wrap">{x.lastError}{x.nextRetryAt && x.status === 'retry' && <> <span class="muted">(again <Ago at={x.nextRetryAt} />)</span></>}</span> : '–' },
				{ key: 'run', title: 'Logs and result', align: 'end', cell: (x) => <Attempts x={x} /> },
			]} />
			{d.total > d.executions.length && limit < 200 && <Button small onClick={() => setLimit(200)}>Show more ({d.total - d.executions.length} left)</Button>}
			{d.total > d.executions.length && limit >= 200 && <p class="muted small">The newest 200 of {count(d.total)} are shown.</p>}
		</>}</Loaded>
	);
}

function One({ id }: { id: string }) {
	const data = useData<{ schedule: Schedule }>(schedulePath(id), { on: ['cron.*'], every: 1000, poll: 30_000 });
	const s = data.data?.schedule;
	useEffect(() => {
		if (s)
			document.title = `${scheduleName(s)} · Pando`;
	}, [s?.name]);
	if (!s)
		return data.error ? (data.error.status === 404 ? <Empty icon="clock" title="There is no such schedule" action={<a class="button plain" href="/ui/runs?tab=schedules">All schedules</a>} />
			: <Failure error={data.error} retry={data.reload} what="the schedule" />) : <Skeleton lines={8} />;
	const code = s.runConfig?.code;
	const packages = Object.entries(s.runConfig?.nodeModules ?? {});
	const variables = Object.keys(s.runConfig?.envVars ?? {});
	const going = pending.value.has(`schedule:${s.id}`);
	return (
		<div class={going ? 'going-page' : ''}>
			<PageHead title={scheduleName(s)} sub={<div class="vm-facts">{s.active ? <Badge kind="good">active</Badge> : <Badge kind="warn">paused</Badge>}<Cron s={s} />{s.active && s.nextRunAt && <span>next <Ago at={s.nextRunAt} /></span>}</div>}>
				<Button icon={s.active ? 'suspend' : 'resume'} onClick={async () => {
					await setActive(s, !s.active);
					await data.reload();
				}}>{s.active ? 'Pause' : 'Resume'}</Button>
				<Button icon="trash" kind="danger" disabled={going} onClick={() => {
					navigate('/ui/runs?tab=schedules');
					removeSchedule(s, undefined, () => navigate(`/ui/runs/schedule/${encodeURIComponent(s.id)}`));
				}}>Delete</Button>
			</PageHead>
			<div class="stack">
				<Card title="The last day"><LastDay id={id} /></Card>
				<Card title="Executions"><Executions id={id} /></Card>
				<Card title="What it runs"><dl class="facts">
					<dt>Tries again</dt><dd>{s.retries ? plural(s.retries, 'time') : 'not'}</dd>
					<dt>Called with</dt><dd>{s.payload === null ? <span class="muted">nothing</span> : <code>{JSON.stringify(s.payload).slice(0, 500)}</code>}</dd>
					<dt>Variables</dt><dd>{variables.length ? variables.map((n, i) => <span key={n}>{i > 0 && ', '}<code>{n}</code></span>) : <span class="muted">none</span>}</dd>
					<dt>Packages</dt><dd>{packages.length ? packages.map(([n, v], i) => <span key={n}>{i > 0 && ', '}<code>{n} {v}</code></span>) : <span class="muted">none</span>}</dd>
					<dt>Id</dt><dd><code>{s.id}</code></dd>
					<dt>Created</dt><dd><Ago at={s.createdAt} /></dd>
				</dl></Card>
				{code && <Card title="Script"><div class="stack-s"><CodeView text={code} language="ts" readOnly grow lineNumbers label="The script" /></div></Card>}
			</div>
		</div>
	);
}
