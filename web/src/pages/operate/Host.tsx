// SPDX-License-Identifier: Apache-2.0
// The host: what is wrong and what to do, load, memory split into what it is, pool, an hour of plots, latencies.
import { useMemo } from 'preact/hooks';
import { bytes, count, duration, percent, plural, rate, seconds } from '../../lib/format';
import { useData, type Data } from '../../lib/state';
import { Icon } from '../../ui/Icon';
import { Card, Loaded, Progress, Stat } from '../../ui/parts';
import { Plot } from '../../ui/Plot';

export interface Note { level: string; text: string; whatToDo?: string | null; link?: string | null }
interface HostInfo {
	cpu: { cores: number; percent: number; load: number[] };
	memory: { totalBytes: number; freeBytes: number; availableBytes?: number; sharedBytes: number; privateBytes: number; cacheBytes: number; otherBytes?: number;
		byState?: Record<string, { givenBytes: number; residentBytes: number; privateBytes: number }> };
	disk: { sizeBytes?: number; totalBytes?: number; freeBytes: number; layerBytes?: number; layers?: number; budgetBytes?: number; mustStayFreeBytes?: number; overBytes?: number };
	vms: { byState: Record<string, number>; runningMax?: number };
	pool: { ready: number; wanted?: number; memoryBytes?: number; blankProcesses?: number; given?: number; missed?: number; trouble?: string | null };
	uptimeSeconds: number;
	version: string;
	accel?: string;
	accelWhy?: string | null;
	walls?: string | null;
	notes: Note[];
}
interface Sample { at: string; [name: string]: number | string | null }
interface History { intervalSeconds: number; samples: Sample[] }
interface Verb { count: number; sumSeconds?: number; buckets: { leSeconds: number | null; count: number }[]; p50: number | null; p90: number | null; p99: number | null }
interface Latency { verbs: Record<string, Verb> }

const verbNames: Record<string, string> = { create: 'Create a VM', resume: 'Resume', fork: 'Fork', exec: 'Run a command', thaw: 'Thaw', boot: 'Boot', freezePause: 'Pause while freezing', suspend: 'Suspend', snapshot: 'Snapshot', wake: 'Wake on a request' };

function Notes({ notes }: { notes: Note[] }) {
	if (!notes.length)
		return <p class="note good" role="status"><Icon name="check" /><span>Nothing needs your attention.</span></p>;
	return <ul class="notes" aria-label="What needs attention">{notes.map((n, i) => (
		<li key={i} class={`note ${n.level === 'error' || n.level === 'critical' || n.level === 'bad' ? 'bad' : n.level === 'info' ? 'info' : 'warn'}`}>
			<Icon name={n.level === 'info' ? 'info' : 'warning'} /><span><b>{n.text}</b>{n.whatToDo && <> {n.whatToDo}</>}{n.link && n.link.startsWith('/docs') && <> <a href={n.link}>More</a></>}</span></li>
	))}</ul>;
}

/* Memory as it is: a bar of parts that add up to the machine. */
function MemorySplit({ m }: { m: HostInfo['memory'] }) {
	const parts = [
		{ key: 'private', title: 'Private to VMs', value: m.privateBytes, color: '--plot-2', hint: 'Pages that one VM has changed: only deleting or suspending it frees them' },
		{ key: 'shared', title: 'Shared between VMs', value: m.sharedBytes, color: '--plot-1', hint: 'Pages of layers that VMs have in common, counted once' },
		{ key: 'cache', title: 'Page cache', value: m.cacheBytes, color: '--plot-6', hint: 'Files the kernel keeps; it gives them up when memory is needed' },
		...(m.otherBytes !== undefined ? [{ key: 'other', title: 'Everything else', value: m.otherBytes, color: '--plot-3', hint: 'The server itself and other programs' }] : []),
		{ key: 'free', title: 'Free', value: m.freeBytes, color: '--line', hint: 'Not used by anything' },
	];
	const states = Object.entries(m.byState ?? {}).filter(([, v]) => v.givenBytes + v.residentBytes + v.privateBytes > 0);
	return (
		<>
			<div class="split" role="img" aria-label={'Memory: ' + parts.map((p) => `${p.title} ${bytes(p.value)}`).join(', ')}>
				{parts.map((p) => <div key={p.key} title={`${p.title}: ${bytes(p.value)}`} style={{ flexGrow: p.value, background: `var(${p.color})` }} />)}
			</div>
			<dl class="split-legend">{parts.map((p) => <div key={p.key} title={p.hint}><dt><i style={{ background: `var(${p.color})` }} aria-hidden="true" />{p.title}</dt><dd>{bytes(p.value)}</dd></div>)}</dl>
			{states.length > 0 && <table class="mini" aria-label="Memory by state"><thead><tr><th>VMs that are</th><th class="end">given</th><th class="end">resident</th><th class="end">private</th></tr></thead>
				<tbody>{states.map(([s, v]) => <tr key={s}><td>{s}</td><td class="end">{bytes(v.givenBytes)}</td><td class="end">{bytes(v.residentBytes)}</td><td class="end">{bytes(v.privateBytes)}</td></tr>)}</tbody></table>}
		</>
	);
}

function Plots({ history }: { history: Data<History> }) {
	return <Loaded of={history} what="the host's last hour" height={190}>{(h) => <HistoryPlots h={h} />}</Loaded>;
}

function HistoryPlots({ h }: { h: History }) {
	const d = useMemo(() => {
		const col = (name: string): (number | null)[] => h.samples.map((s) => typeof s[name] === 'number' ? s[name] as number : null);
		return { times: h.samples.map((s) => Date.parse(s.at) / 1000), col };
	}, [h]);
	const series = useMemo(() => ({
		cpu: [{ label: 'CPU', values: d.col('cpuPercent'), fill: true }],
		vms: [{ label: 'Running', values: d.col('running'), fill: true }],
		memory: [{ label: 'Private', values: d.col('memoryPrivateBytes'), color: '--plot-2', fill: true }, { label: 'Shared', values: d.col('memorySharedBytes'), color: '--plot-1', fill: true, stacked: true }, { label: 'Cache', values: d.col('memoryCacheBytes'), color: '--plot-6', fill: true, stacked: true }],
		disk: [{ label: 'Read', values: d.col('diskReadBytesPerSec') }, { label: 'Written', values: d.col('diskWriteBytesPerSec'), color: '--plot-3' }],
		net: [{ label: 'In', values: d.col('netRxBytesPerSec') }, { label: 'Out', values: d.col('netTxBytesPerSec'), color: '--plot-4' }],
	}), [d]);
	return (
		<div class="grid">
			<Card title="Processor"><Plot label="Processor load in the last hour" times={d.times} series={series.cpu} format={(v) => percent(v)} min={0} max={100} legend /></Card>
			<Card title="Memory"><Plot label="Memory in the last hour" times={d.times} series={series.memory} format={bytes} min={0} /></Card>
			<Card title="Running VMs"><Plot label="Running VMs in the last hour" times={d.times} series={series.vms} format={(v) => String(Math.round(v))} min={0} legend /></Card>
			<Card title="Disk"><Plot label="Disk traffic in the last hour" times={d.times} series={series.disk} format={rate} min={0} /></Card>
			<Card title="Network"><Plot label="Network traffic in the last hour" times={d.times} series={series.net} format={rate} min={0} /></Card>
		</div>
	);
}

/* One verb's times as bars; each bucket by itself, though the server counts them up. */
function Histogram({ name, v }: { name: string; v: Verb }) {
	const own = v.buckets.map((b, i) => ({ le: b.leSeconds, n: b.count - (i ? (v.buckets[i - 1] as { count: number }).count : 0) }));
	let from = own.findIndex((b) => b.n > 0);
	let to = own.length - 1;
	while (to > 0 && (own[to] as { n: number }).n <= 0)
		to--;
	from = Math.max(0, Math.min(from, to - 7) - 1);
	const shown = own.slice(from, to + 2);
	const most = Math.max(1, ...shown.map((b) => b.n));
	return (
		<section class="histogram">
			<header><h3>{verbNames[name] ?? name}</h3><span class="muted">{count(v.count)}×</span></header>
			{v.count ? <>
				<div class="bars" role="img" aria-label={`${verbNames[name] ?? name}: half within ${seconds(v.p50)}, 99 of 100 within ${seconds(v.p99)}`}>
					{shown.map((b, i) => <div key={i} title={`up to ${b.le === null ? 'any time' : seconds(b.le)}: ${count(b.n)}`}><i style={{ height: `${Math.max(b.n ? 3 : 0, b.n / most * 100)}%` }} /><span>{b.le === null ? '∞' : seconds(b.le).replace(' ', '')}</span></div>)}
				</div>
				<dl class="quantiles"><div><dt>half</dt><dd>{seconds(v.p50)}</dd></div><div><dt>90 %</dt><dd>{seconds(v.p90)}</dd></div><div><dt>99 %</dt><dd>{seconds(v.p99)}</dd></div></dl>
			</> : <p class="muted small">Has not happened since the server started.</p>}
		</section>
	);
}

function Latencies() {
	const latency = useData<Latency>('/v1/host/latency', { poll: 15_000 });
	return <Card title="How long things take, since the server started"><Loaded of={latency} what="latencies" height={180}>{(l) => (
		<div class="histograms">{Object.entries(l.verbs).map(([name, v]) => <Histogram key={name} name={name} v={v} />)}</div>
	)}</Loaded></Card>;
}

export function Host() {
	const host = useData<HostInfo>('/v1/host', { poll: 5000, on: ['vm.*'], every: 3000 });
	const history = useData<History>('/v1/host/history', { poll: 15_000 });
	/* What is below comes when the height of what is above is known: nothing is pushed down. */
	const above = host.data !== null || host.error !== null;
	const middle = above && (history.data !== null || history.error !== null);
	return (
		<div class="stack">
			<Loaded of={host} what="figures of the host" height={260}>{(h) => {
				const size = h.disk.sizeBytes ?? h.disk.totalBytes ?? 0;
				const states = Object.entries(h.vms.byState).filter(([, n]) => n);
				const tries = (h.pool.given ?? 0) + (h.pool.missed ?? 0);
				return (
					<>
						<Notes notes={h.notes ?? []} />
						<Card><div class="stats">
							<Stat label="Processor" value={percent(h.cpu.percent)} sub={`${plural(h.cpu.cores, 'core')}, load ${h.cpu.load.map((x) => x.toFixed(2)).join(' ')}`} />
							<Stat label="Memory free" value={bytes(h.memory.availableBytes ?? h.memory.freeBytes)} sub={`of ${bytes(h.memory.totalBytes)}`} />
							<Stat label="Disk free" value={bytes(h.disk.freeBytes)} sub={size ? `of ${bytes(size)}${h.disk.layerBytes !== undefined ? `, ${bytes(h.disk.layerBytes)} in ${plural(h.disk.layers ?? 0, 'layer')}` : ''}` : undefined} />
							<Stat label="VMs" value={count(h.vms.byState['running'] ?? 0)} sub={`running${h.vms.runningMax ? ` of ${h.vms.runningMax}` : ''}${states.filter(([s]) => s !== 'running').map(([s, n]) => `, ${n} ${s}`).join('')}`} />
							<Stat label="Ready in the pool" value={h.pool.wanted === 0 && !h.pool.ready ? 'none' : h.pool.wanted !== undefined ? `${h.pool.ready} of ${h.pool.wanted}` : h.pool.ready} sub={h.pool.trouble ?? (h.pool.wanted === 0 ? 'none are wanted' : tries ? `served ${percent((h.pool.given ?? 0) / tries * 100)} of ${count(tries)} creates` : 'no creates yet')} />
							<Stat label="Up" value={duration(h.uptimeSeconds)} sub={`${h.version}${h.accel ? `, ${h.accel}` : ''}`} />
						</div></Card>
						<div class="grid">
							<Card title="Memory"><MemorySplit m={h.memory} /></Card>
							<Card title="This server"><dl class="facts">
								<dt>Version</dt><dd>{h.version}</dd>
								<dt>Accelerator</dt><dd>{h.accel ?? '–'}{h.accelWhy && <> <span class="muted">({h.accelWhy})</span></>}</dd>
								<dt>Walls</dt><dd>{h.walls || 'none'}</dd>
								<dt>Disk used</dt><dd>{size ? <><Progress value={1 - h.disk.freeBytes / size} label="Disk used" /><small class="muted">{bytes(size - h.disk.freeBytes)} of {bytes(size)}</small></> : '–'}</dd>
								{!!h.disk.budgetBytes && <><dt>Layers’ budget</dt><dd><Progress value={(h.disk.layerBytes ?? 0) / h.disk.budgetBytes} label="Budget of layers used" /><small class="muted">{bytes(h.disk.layerBytes)} of {bytes(h.disk.budgetBytes)}</small></dd></>}
								<dt>Metrics</dt><dd><code>GET /metrics</code> for Prometheus, <code>/healthz</code>, <code>/readyz</code></dd>
							</dl></Card>
						</div>
					</>
				);
			}}</Loaded>
			{above && <Plots history={history} />}
			{middle && <Latencies />}
		</div>
	);
}
