// SPDX-License-Identifier: Apache-2.0
/* Processes.tsx - what runs in a VM: commands with their output, services with their journals, everything else */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { bytes, dateTime, seconds } from '../../lib/format';
import { useData } from '../../lib/state';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Menu } from '../../ui/Menu';
import { Ago, Badge, Card, Empty, Field, Loaded } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { confirmOnce, failed, notify, pending, undoable } from '../../ui/Toast';
import { AnsiText } from './AnsiText';
import { plainTitle } from './ansi';
import { runIn } from './Files';
import { awake, type Process, type Service, type Vm } from './types';

const KEPT = 300_000;

function unbase(data: string, encoding: string): string {
	return encoding === 'base64' ? new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0))) : data;
}

/** A process's output as it comes. */
function Output({ vmId, process, onClose }: { vmId: string; process: Process; onClose(): void }) {
	const [text, setText] = useState('');
	const [state, setState] = useState('following');
	const end = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const stop = new AbortController();
		let all = '', frame = 0;
		const draw = (): void => {
			frame = 0;
			const box = end.current?.parentElement;
			const low = !box || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
			setText(all);
			if (low)
				requestAnimationFrame(() => box?.scrollTo(0, box.scrollHeight));
		};
		api.stream(`/v1/vms/${encodeURIComponent(vmId)}/processes/${encodeURIComponent(process.processId)}/output?follow=true`, undefined, (e) => {
			if (e.event === 'stdout' || e.event === 'stderr') {
				const d = e.json<{ data: string; encoding: string }>();
				all = (all + unbase(d.data, d.encoding)).slice(-KEPT);
				frame ||= requestAnimationFrame(draw);
			}
		}, { signal: stop.signal }).then(() => setState('ended'), (e) => {
			setState('cut off');
			failed(e);
		});
		return () => stop.abort();
	}, []);
	return (
		<Dialog title={`Output of ${process.processId}`} onClose={onClose} wide>
			<p class="mono clip">{plainTitle(process.command, 200)}</p>
			<div class="log-box"><AnsiText text={text || (state === 'following' ? 'Nothing yet.' : 'No output.')} label="Output" /><div ref={end} /></div>
			<div class="dialog-actions"><span class="muted">{state}</span><span class="spacer" /><Button onClick={onClose}>Close</Button></div>
		</Dialog>
	);
}

const verb = (signal: string): string => signal === 'KILL' ? 'Kill' : 'End';

/* Of a service that systemd has not loaded it knows no state: it does not run. */
const stateOf = (s: Service): string => s.activeState ?? 'inactive';

interface LogLine { message: string; timestamp: string; priority?: number | null; unit?: string | null }

function Journal({ vmId, service, onClose }: { vmId: string; service: string; onClose(): void }) {
	const logs = useData<{ logs: LogLine[] }>(`/v1/vms/${encodeURIComponent(vmId)}/systemd/services/${encodeURIComponent(service)}/logs?lines=500`, { poll: 3000 });
	return (
		<Dialog title={`Journal of ${service}`} onClose={onClose} wide>
			<Loaded of={logs} what="the journal">{(d) => d.logs.length ? <div class="log-box" tabIndex={0} role="region" aria-label={`Journal of ${service}`}><LogLines lines={d.logs} /></div> : <Empty title="No lines" />}</Loaded>
		</Dialog>
	);
}

export function LogLines({ lines }: { lines: { message: string; timestamp: string; level?: string; priority?: number | null }[] }) {
	return <ol class="log-lines">{lines.map((l, i) => <li key={i} class={(l.priority ?? 6) <= 3 || l.level === 'error' ? 'bad' : (l.priority ?? 6) === 4 || l.level === 'warn' ? 'warn' : ''}>
		<time dateTime={l.timestamp}>{dateTime(l.timestamp)}</time><span>{l.message}</span></li>)}</ol>;
}

interface Ps { pid: string; user: string; cpu: string; mem: string; rss: number; time: string; command: string }

function parsePs(text: string): Ps[] {
	return text.trim().split('\n').slice(1).map((line) => {
		const [pid = '', user = '', cpu = '', mem = '', rss = '', time = '', ...rest] = line.trim().split(/\s+/);
		return { pid, user, cpu, mem, rss: Number(rss) * 1024, time, command: rest.join(' ') };
	});
}

function All({ vm }: { vm: Vm }) {
	const [list, setList] = useState<Ps[] | null>(null);
	const load = async (): Promise<void> => setList(parsePs((await runIn(vm.id, 'ps -eo pid,user,pcpu,pmem,rss,time,args --sort=-pcpu ww | head -300')).stdout));
	const kill = async (p: Ps, signal: string): Promise<void> => {
		if (signal !== 'INT' && !await confirmOnce(`${verb(signal)} process ${p.pid}?`, { text: plainTitle(p.command, 200), action: verb(signal), danger: true }))
			return;
		const r = await runIn(vm.id, `kill -${signal} ${Number(p.pid)}`);
		if (r.statusCode !== 0)
			throw new Error(r.stderr.trim() || 'The signal was not sent.');
		await load();
	};
	return (
		<Card title="All processes" actions={<Button small icon="refresh" onClick={load}>{list ? 'Again' : 'Show'}</Button>}>
			{list ? <Table label="All processes" rows={list} rowKey={(p) => p.pid} page={40} columns={[
				{ key: 'pid', title: 'PID', cell: (p) => <span class="mono">{p.pid}</span>, sort: (p) => Number(p.pid) },
				{ key: 'user', title: 'User', cell: (p) => p.user, sort: (p) => p.user, hideNarrow: true },
				{ key: 'cpu', title: 'CPU %', cell: (p) => p.cpu, sort: (p) => Number(p.cpu), align: 'end' },
				{ key: 'rss', title: 'Memory', cell: (p) => bytes(p.rss), sort: (p) => p.rss, align: 'end' },
				{ key: 'command', title: 'Command', cell: (p) => <span class="mono" title={p.command.slice(0, 1000)}>{p.command}</span>, grow: true },
				{ key: 'acts', title: '', cell: (p) => <Menu label={`Signal process ${p.pid}`} items={[
					{ label: 'Interrupt (SIGINT)', run: () => kill(p, 'INT') }, { label: 'End (SIGTERM)', run: () => kill(p, 'TERM') }, { label: 'Kill (SIGKILL)', danger: true, run: () => kill(p, 'KILL') }]} /> },
			]} /> : <p class="muted">Asks the guest once, with <code>ps</code>.</p>}
		</Card>
	);
}

function RunDialog({ vm, onClose, onDone }: { vm: Vm; onClose(): void; onDone(): Promise<void> }) {
	const [cmd, setCmd] = useState('');
	return (
		<Dialog title="Run in the background" onClose={onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				api.post(`/v1/vms/${encodeURIComponent(vm.id)}/exec`, { command: cmd, detach: true }, { headers: { accept: 'application/json' } }).then(async () => {
					onClose();
					await onDone();
				}).catch(failed);
			}}>
				<Field label="Command" hint="Runs in /bin/sh, as root. It goes on when this page is closed."><input class="mono" value={cmd} onInput={(e) => setCmd(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={!cmd.trim()}>Run</Button></div>
			</form>
		</Dialog>
	);
}

export function Processes({ vm, onWake }: { vm: Vm; onWake: () => Promise<unknown> }) {
	const base = `/v1/vms/${encodeURIComponent(vm.id)}`;
	const up = awake(vm);
	const list = useData<{ processes: Process[] }>(up ? `${base}/processes` : null, { poll: 3000 });
	const services = useData<{ services: Service[] }>(up ? `${base}/systemd/services` : null, { poll: 20_000 });
	const [following, setFollowing] = useState<Process | null>(null);
	const [journal, setJournal] = useState<string | null>(null);
	const [running, setRunning] = useState(false);
	const [every, setEvery] = useState(false);
	if (!up)
		return <Empty icon="list" title={`The VM is ${vm.state}`} action={<Button kind="primary" icon="resume" onClick={onWake}>{vm.state === 'stopped' ? 'Start it' : 'Resume it'}</Button>}>Its processes {vm.state === 'stopped' ? 'ended when it was stopped.' : 'go on when it is resumed.'}</Empty>;
	const signal = async (p: Process, name: string): Promise<void> => {
		if (name !== 'INT' && !await confirmOnce(`${verb(name)} ${p.processId}?`, { text: plainTitle(p.command, 200), action: verb(name), danger: true }))
			return;
		await api.post(`${base}/processes/${p.processId}/signal`, { signal: name });
		await list.reload();
	};
	const unit = async (verb: 'start' | 'stop' | 'restart', name: string): Promise<void> => {
		if (verb === 'stop' && !await confirmOnce(`Stop ${name}?`, { action: 'Stop', danger: true }))
			return;
		const r = await api.post<{ results: { success: boolean; message: string }[] }>(`${base}/systemd/${verb}`, { services: [{ id: name }] });
		const one = r.results[0];
		notify(`${name}: ${one?.message ?? 'done'}`, { kind: one?.success === false ? 'bad' : 'good' });
		await services.reload();
	};
	return (
		<div class="stack">
			<Card title="Commands" actions={<Button small icon="plus" onClick={() => setRunning(true)}>Run in the background</Button>}>
				<Loaded of={list} what="the processes">{(d) => <Table label="Commands" rows={d.processes} rowKey={(p) => p.processId} rowClass={(p) => pending.value.has(`process:${p.processId}`) ? 'going' : undefined} columns={[
					{ key: 'id', title: 'Id', cell: (p) => <span class="mono">{p.processId}</span> },
					{ key: 'state', title: 'State', cell: (p) => p.running ? <Badge kind="good">{p.attached ? 'running, attached' : 'running'}</Badge> : p.statusCode === 0 ? <Badge>done</Badge> : <Badge kind="bad">{p.signal ?? `exit ${p.statusCode}`}{p.timedOut ? ', timed out' : ''}</Badge> },
					{ key: 'command', title: 'Command', cell: (p) => <span class="mono" title={p.command.slice(0, 1000)}>{p.command}</span>, grow: true },
					{ key: 'out', title: 'Output', cell: (p) => bytes(p.stdoutBytes + p.stderrBytes), align: 'end', hideNarrow: true },
					{ key: 'time', title: 'Time', cell: (p) => p.running ? <Ago at={p.startedAt} /> : seconds(p.durationMs / 1000), hideNarrow: true },
					{ key: 'acts', title: '', cell: (p) => <div class="row end">
						<Button small onClick={() => setFollowing(p)}>Output</Button>
						<Menu label={`More for ${p.processId}`} items={p.running ? [{ label: 'Interrupt (SIGINT)', run: () => signal(p, 'INT') }, { label: 'End (SIGTERM)', run: () => signal(p, 'TERM') }, { label: 'Kill (SIGKILL)', danger: true, run: () => signal(p, 'KILL') }]
							: [{ label: 'Remove from the list', icon: 'trash', run: () => undoable(`Removing ${p.processId} and its output`, async () => {
								await api.del(`${base}/processes/${p.processId}`);
								await list.reload();
							}, { key: `process:${p.processId}` }) }]} /></div> },
				]} empty={<Empty title="No commands" commands={[{ title: 'Run one that outlives this page', code: `POST ${base}/exec {"command":"make -j4","detach":true}` }]}>Commands run with <code>exec</code> are here while they run, detached ones also after they ended.</Empty>} />}</Loaded>
			</Card>
			<Card title="Services" actions={<label class="check"><input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} /> inactive ones, too</label>}>
				<Loaded of={services} what="the services" lines={8}>{(d) => <Table label="Services" page={60} order="name" rowKey={(s) => s.name} rows={d.services.filter((s) => every || (stateOf(s) !== 'inactive' && s.loadState !== 'not-found'))} columns={[
					{ key: 'name', title: 'Service', cell: (s) => <b class={s.name.length < 40 ? 'nowrap' : 'wrap'}>{s.name}</b>, sort: (s) => s.name },
					{ key: 'state', title: 'State', cell: (s) => <Badge kind={s.activeState === 'active' ? 'good' : s.activeState === 'failed' ? 'bad' : 'plain'}>{stateOf(s)}{s.subState ? ` (${s.subState})` : ''}</Badge>, sort: stateOf },
					{ key: 'what', title: 'Description', cell: (s) => s.description, grow: true, hideNarrow: true },
					{ key: 'acts', title: '', cell: (s) => <div class="row end"><Button small onClick={() => setJournal(s.name)}>Journal</Button>
						<Menu label={`More for ${s.name}`} items={[s.activeState === 'active' ? { label: 'Restart', icon: 'refresh', run: () => unit('restart', s.name) } : { label: 'Start', icon: 'resume', run: () => unit('start', s.name) },
							s.activeState === 'active' && { label: 'Stop', icon: 'suspend', danger: true, run: () => unit('stop', s.name) }]} /></div> },
				]} empty={<Empty title="No service is active" commands={[{ title: 'Make one', code: `POST ${base}/systemd/services {"name":"web","exec":["python3 -m http.server 3000"]}` }]} />} />}</Loaded>
			</Card>
			<All vm={vm} />
			{following && <Output vmId={vm.id} process={following} onClose={() => setFollowing(null)} />}
			{journal !== null && <Journal vmId={vm.id} service={journal} onClose={() => setJournal(null)} />}
			{running && <RunDialog vm={vm} onClose={() => setRunning(false)} onDone={list.reload} />}
		</div>
	);
}
