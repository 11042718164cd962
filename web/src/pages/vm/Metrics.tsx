// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics.tsx - CPU, memory, disk and network of a VM
 *
 * The last hour is the server's (GET .../history); the newest values come from stats/stream and are put behind it. Neither wakes the VM.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { bytes, duration, percent, rate } from '../../lib/format';
import { useData } from '../../lib/state';
import { Card, Empty, Failure, Skeleton, Stat } from '../../ui/parts';
import { Plot } from '../../ui/Plot';
import { merge, toSample, type RawStat, type Sample } from './samples';
import { type Vm, word } from './types';

export function useLive(vmId: string): Sample[] {
	const [live, setLive] = useState<Sample[]>([]);
	useEffect(() => {
		const stop = new AbortController();
		let before: RawStat | null = null, timer = 0;
		const follow = async (): Promise<void> => {
			try {
				const res = await api.raw(`/v1/vms/${encodeURIComponent(vmId)}/stats/stream?interval_ms=2000`, { signal: stop.signal, quiet: true });
				const reader = (res.body as ReadableStream<Uint8Array>).getReader();
				const decoder = new TextDecoder();
				let rest = '';
				for (;;) {
					const { value, done } = await reader.read();
					if (done)
						break;
					const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
					rest = lines.pop() as string;
					for (const l of lines) {
						const raw = JSON.parse(l) as RawStat;
						const s = before && toSample(before, raw);
						before = raw;
						if (s)
							setLive((all) => [...all.slice(-600), s]);
					}
				}
			} catch {
				/* the connection's state is shown by the frame; this only tries again */
			}
			if (!stop.signal.aborted)
				timer = window.setTimeout(() => void follow(), 3000);
		};
		void follow();
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, [vmId]);
	return live;
}

export function Metrics({ vm }: { vm: Vm }) {
	const history = useData<{ intervalSeconds: number; samples: Sample[] }>(`/v1/vms/${encodeURIComponent(vm.id)}/history`, { poll: 60_000 });
	const live = useLive(vm.id);
	const all = useMemo(() => merge(history.data?.samples ?? [], live, Date.now()), [history.data, live]);
	const times = useMemo(() => all.map((s) => Date.parse(s.at) / 1000), [all]);
	const of = (f: (s: Sample) => number | null | undefined): (number | null)[] => all.map((s) => f(s) ?? null);
	const cpu = useMemo(() => [{ label: 'CPU', values: of((s) => s.cpuPercent), fill: true }], [all]);
	const memory = useMemo(() => [{ label: 'Memory', values: of((s) => s.memoryBytes), fill: true, color: '--plot-2' }], [all]);
	const disk = useMemo(() => [{ label: 'Read', values: of((s) => s.diskReadBytesPerSec), color: '--plot-1' }, { label: 'Written', values: of((s) => s.diskWriteBytesPerSec), color: '--plot-3' }], [all]);
	const net = useMemo(() => [{ label: 'Received', values: of((s) => s.netRxBytesPerSec), color: '--plot-2' }, { label: 'Sent', values: of((s) => s.netTxBytesPerSec), color: '--plot-4' }], [all]);
	const last = all[all.length - 1];
	return (
		<div class="stack">
			{history.error && !history.error.missing && <Failure error={history.error} retry={history.reload} what="the last hour" />}
			<Card title="Now">
				<div class="stats">
					<Stat label="CPU" value={percent(vm.state === 'running' ? last?.cpuPercent : 0)} sub={`of ${vm.sizing.vcpuCount * 100} %`} />
					<Stat label="Memory on the host" value={bytes(vm.state === 'running' ? last?.memoryBytes : 0)} sub={`of ${bytes(vm.sizing.memSizeMib * 1048576)}`} />
					<Stat label="Received" value={rate(vm.state === 'running' ? last?.netRxBytesPerSec : 0)} sub={`${bytes(vm.usage.networkInBytes)} in all`} />
					<Stat label="Sent" value={rate(vm.state === 'running' ? last?.netTxBytesPerSec : 0)} sub={`${bytes(vm.usage.networkOutBytes)} in all`} />
					<Stat label="Ran for" value={duration(vm.usage.wallSeconds)} sub={`${duration(vm.usage.cpuSeconds)} of CPU`} />
				</div>
			</Card>
			{!all.length && history.loading && !history.data ? <Skeleton height={480} /> : !all.length ? <Card><Empty icon="operate" title="Nothing in the last hour" commands={[{ title: 'On the command line', code: `pando vm stats ${word(vm)}` }]}>{vm.state === 'running' ? 'The first values come within seconds.' : 'It did not run. Plots begin when it does, and go back an hour.'}</Empty></Card> : <div class="plots">
				<Card title="CPU"><Plot label="CPU over the last hour" times={times} series={cpu} format={percent} min={0} max={vm.sizing.vcpuCount * 100} legend={false} /></Card>
				<Card title="Memory"><Plot label="Memory over the last hour" times={times} series={memory} format={bytes} min={0} legend={false} /></Card>
				<Card title="Disk"><Plot label="Disk traffic over the last hour" times={times} series={disk} format={rate} min={0} least={1000} /></Card>
				<Card title="Network"><Plot label="Network traffic over the last hour" times={times} series={net} format={rate} min={0} least={1000} /></Card>
			</div>}
		</div>
	);
}
