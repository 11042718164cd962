// SPDX-License-Identifier: Apache-2.0
/* samples.ts - figures of a VM over time: the server's hour, and the live stream behind it */

export interface Sample {
	at: string;
	cpuPercent: number | null;
	memoryBytes: number | null;
	diskReadBytesPerSec: number | null;
	diskWriteBytesPerSec: number | null;
	netRxBytesPerSec: number | null;
	netTxBytesPerSec: number | null;
	state?: string;
}

export interface RawStat {
	timestamp: string;
	state: string;
	cpu?: { percent: number; seconds: number };
	memory?: { rssBytes: number; privateBytes: number };
	disk?: { readBytes: number; writeBytes: number };
	network?: { rxBytes: number; txBytes: number };
}

const HOUR_MS = 3_600_000;

/** Rates between two lines of the stream; null if they tell nothing (no time between them, a deleted VM). */
export function toSample(a: RawStat, b: RawStat): Sample | null {
	const s = (Date.parse(b.timestamp) - Date.parse(a.timestamp)) / 1000;
	if (!(s > 0) || !a.cpu || !b.cpu || !a.disk || !b.disk || !a.network || !b.network)
		return null;
	const per = (x: number, y: number): number => Math.max(0, (y - x) / s);
	return {
		at: b.timestamp, state: b.state, cpuPercent: per(a.cpu.seconds, b.cpu.seconds) * 100, memoryBytes: b.memory?.rssBytes ?? null,
		diskReadBytesPerSec: per(a.disk.readBytes, b.disk.readBytes), diskWriteBytesPerSec: per(a.disk.writeBytes, b.disk.writeBytes),
		netRxBytesPerSec: per(a.network.rxBytes, b.network.rxBytes), netTxBytesPerSec: per(a.network.txBytes, b.network.txBytes),
	};
}

/** History, then what the stream has that is newer; nothing older than an hour. */
export function merge(history: Sample[], live: Sample[], now: number): Sample[] {
	const end = history.length ? Date.parse((history[history.length - 1] as Sample).at) : 0;
	return [...history, ...live.filter((s) => Date.parse(s.at) > end)].filter((s) => Date.parse(s.at) > now - HOUR_MS);
}
