// SPDX-License-Identifier: Apache-2.0
// Scripts that run at the times of a cron expression: when next, and how they went in the last day.
import { api } from '../../lib/api';
import { count, percent, seconds } from '../../lib/format';
import { useData } from '../../lib/state';
import { Menu } from '../../ui/Menu';
import { Ago, Badge, Card, Empty, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { notify, pending, undoable } from '../../ui/Toast';
import { scheduleAt, scheduleName, schedulePath, type ListedSchedule, type Schedule } from './types';

/** Pauses or resumes it. */
export async function setActive(s: Schedule, active: boolean): Promise<void> {
	await api.patch(schedulePath(s.id), { active });
	notify(active ? `${scheduleName(s)} runs again, at its next time.` : `${scheduleName(s)} is paused. Times that pass meanwhile are not made up for.`, { kind: 'good' });
}

/** Deletes it with its executions, after the time to take it back. */
export function removeSchedule(s: Schedule, gone?: () => unknown, back?: () => void): void {
	undoable(`Deleting the schedule ${scheduleName(s)}`, async () => {
		await api.del(schedulePath(s.id));
		await gone?.();
	}, { key: `schedule:${s.id}`, onUndo: back });
}

export function Cron({ s }: { s: Schedule }) {
	return <span class="nowrap"><code>{s.cron}</code> <span class="muted">{s.timezone}</span></span>;
}

export function ScheduleList() {
	const data = useData<{ schedules: ListedSchedule[] }>('/v1/cron/schedules', { on: ['cron.*'], every: 1000, poll: 30_000 });
	const act = async (s: Schedule, active: boolean): Promise<void> => {
		await setActive(s, active);
		await data.reload();
	};
	return (
		<Loaded of={data} what="schedules" lines={6}>{(d) => !d.schedules.length ? (
			<Empty icon="clock" title="No schedules yet" commands={[
				{ title: 'In a terminal', code: "pando cron create '0 7 * * *' report.ts --timezone Europe/Berlin" },
				{ title: 'From TypeScript', code: 'await freestyle.cron.schedule({ name: "every morning", cron: "0 7 * * *", run: { code: "export default () => 6 * 7" } });' }]}>
				A schedule runs a script at the times of a cron expression, each time once, and tries again what failed.</Empty>
		) : (
			<Card>
				<Table label="Schedules" rows={d.schedules} rowKey={(s) => s.id} order="name" rowClass={(s) => pending.value.has(`schedule:${s.id}`) ? 'going' : undefined} columns={[
					{ key: 'name', title: 'Name', grow: true, sort: (s) => scheduleName(s).toLowerCase(), cell: (s) => <a href={scheduleAt(s.id)}><b>{scheduleName(s)}</b></a> },
					{ key: 'cron', title: 'Times', cell: (s) => <Cron s={s} /> },
					{ key: 'next', title: 'Next', sort: (s) => s.nextRunAt, cell: (s) => s.active ? s.nextRunAt ? <Ago at={s.nextRunAt} /> : <span class="muted">never</span> : <Badge kind="warn">paused</Badge> },
					{ key: 'n', title: 'Last day', align: 'end', sort: (s) => s.executionCount, cell: (s) => count(s.executionCount) },
					{ key: 'good', title: 'Succeeded', align: 'end', sort: (s) => s.successRate, cell: (s) => percent(s.successRate === null ? null : s.successRate * 100) },
					{ key: 'took', title: 'Took', align: 'end', hideNarrow: true, sort: (s) => s.averageLatencyMs, cell: (s) => <span class="nowrap">{seconds(s.averageLatencyMs === null ? null : s.averageLatencyMs / 1000)}</span> },
					{ key: 'acts', title: '', align: 'end', cell: (s) => <Menu label={`Acts on ${scheduleName(s)}`} items={[
						s.active ? { label: 'Pause', icon: 'suspend', run: () => act(s, false) } : { label: 'Resume', icon: 'resume', run: () => act(s, true) },
						{ label: 'Delete', icon: 'trash', danger: true, run: () => removeSchedule(s, data.reload) },
					]} /> },
				]} />
			</Card>
		)}</Loaded>
	);
}
