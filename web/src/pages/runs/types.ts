// SPDX-License-Identifier: Apache-2.0
/* types.ts - runs and schedules as the server describes them */
import { url } from '../../lib/api';

export interface Run {
	/** The run's id, which the protocol calls so. */
	deployment: string;
	provisionedAt: string;
	startedAt: string | null;
	/** "1.234s", once it is over. */
	duration: string | null;
	state: 'starting' | 'running' | 'complete';
	envVars: Record<string, string>;
	tags: string[];
	failed: boolean;
	vmId: string | null;
	scheduleId: string | null;
}
export interface RunLog { message: string; type: 'log' | 'error' }
export interface RunOutput { status: string; result: unknown; error: string | null; logs: RunLog[] }
export interface RunDetail { metadata: Run; code: { code: string; nodeModules: Record<string, string> } | null }

export interface Schedule {
	id: string;
	name: string | null;
	cron: string;
	timezone: string;
	retries: number;
	payload: unknown;
	active: boolean;
	createdAt: string;
	nextRunAt: string | null;
	runConfig: { code?: string; nodeModules?: Record<string, string>; envVars?: Record<string, string>; timeout?: number } | null;
}
export interface ListedSchedule extends Schedule { successRate: number | null; averageLatencyMs: number | null; executionCount: number }
export interface Attempt { id: string; attemptNumber: number; status: string; instanceId: string | null; error: string | null; startedAt: string; completedAt: string | null }
export interface Execution {
	id: string;
	runAt: string;
	nextRetryAt: string | null;
	status: string;
	attempts: number;
	maxAttempts: number;
	lastError: string | null;
	instanceId: string | null;
	startedAt: string | null;
	completedAt: string | null;
	attemptHistory: Attempt[];
}
export interface Point { timestamp: string; succeededCount: number; failedCount: number }

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
