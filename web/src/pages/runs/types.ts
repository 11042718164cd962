// SPDX-License-Identifier: Apache-2.0
/* types.ts - runs and schedules as the server describes them */
import type { Run, RunLog, Schedule } from '../../../../clients/typescript/gen/api';
import { url } from '../../lib/api';

/* What the API answers is described once, in the client's types, which are made from the server's description. */
export type { Attempt, Execution, Run, RunLog, Schedule, SchedulePoint as Point } from '../../../../clients/typescript/gen/api';

export interface RunOutput { status: string; result: unknown; error: string | null; logs: RunLog[] }
export interface RunDetail { metadata: Run; code: { code: string; nodeModules: Record<string, string> } | null }
export interface ListedSchedule extends Schedule { successRate: number | null; averageLatencyMs: number | null; executionCount: number }

export const runAt = (id: string): string => url`/ui/runs/run/${id}`;
export const scheduleAt = (id: string): string => url`/ui/runs/schedule/${id}`;
export const runPath = (id: string): string => url`/execute/v1/deployments/${id}`;
export const schedulePath = (id: string): string => url`/v1/cron/schedules/${id}`;
export const scheduleName = (s: { id: string; name: string | null }): string => s.name || s.id;

/** What became of a run, in a word. */
export function runState(r: Run): string {
	return r.state !== 'complete' ? r.state : r.failed ? 'failed' : 'succeeded';
}

/** A word of a run or an execution to the badge's colour. */
export function kindOf(state: string): 'good' | 'bad' | 'warn' | 'info' | 'plain' {
	return state === 'succeeded' ? 'good' : state === 'failed' ? 'bad' : state === 'retry' ? 'warn' : state === 'running' || state === 'starting' ? 'info' : 'plain';
}

/** The words of an execution's states that do not explain themselves. */
export function stateText(state: string): string {
	return state === 'retry' ? 'will be tried again' : state === 'queued' ? 'waits for its turn' : state;
}
