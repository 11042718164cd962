// SPDX-License-Identifier: Apache-2.0
// Events, the last 300: first those that the server keeps, then each as it arrives. A fixed amount, so that a page that is open all day
// does not grow.
import { effect, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { api, url } from '../../lib/api';
import { events, eventsState, type PandoEvent } from '../../lib/events';
import { currentAccount } from '../../lib/session';
import { Badge, Ago, Card, Empty, Skeleton } from '../../ui/parts';
import { Table } from '../../ui/Table';

const KEEP = 300;
const recent = signal<PandoEvent[]>([]);
/* Drawn at most ten times a second, however many arrive. */
let queue: PandoEvent[] = [];
let timer = 0;
events.on('*', (e) => {
	if (e.type === 'reload')
		return;
	queue.push(e);
	if (queue.length > 2 * KEEP)
		queue.splice(0, KEEP);
	timer ||= window.setTimeout(() => {
		timer = 0;
		add(queue);
		queue = [];
	}, 100);
});
/* Those of one account are not shown to the next. */
let whose: string | null = null;
effect(() => {
	const id = currentAccount.value?.id ?? null;
	if (id !== whose) {
		recent.value = [];
		queue = [];
	}
	whose = id;
});

/** Newest first, each once. */
function add(more: PandoEvent[]): void {
	const byId = new Map([...recent.peek(), ...more].map((e) => [e.id, e]));
	recent.value = [...byId.values()].sort((a, b) => b.id - a.id).slice(0, KEEP);
}

/** What the server keeps; a few thousand at the most. */
async function loadKept(signal: AbortSignal): Promise<void> {
	const account = whose;
	const kept: PandoEvent[] = [];
	await api.stream('/v1/events?after=0&follow=false', null, (e) => {
		if (e.event === 'hello' || e.event === 'gap')
			return;
		kept.push(e.json<PandoEvent>());
		if (kept.length > 2 * KEEP)
			kept.splice(0, KEEP);
	}, { signal });
	if (account === whose)
		add(kept);
}

function about(e: PandoEvent): { text: string; href?: string } {
	if (e.vm)
		return { text: e.vm.name ?? e.vm.id, href: url`/ui/vms/${e.vm.id}` };
	if (e.snapshot)
		return { text: e.snapshot.name ?? e.snapshot.id ?? e.snapshot.snapshotId ?? '' };
	if (e.push)
		return { text: `${e.push.repoName ?? e.push.repoId} ${e.push.ref ?? ''}`, href: url`/ui/git/${e.push.repoId}` };
	const repo = e.delivery ?? e.sync;
	if (repo)
		return { text: `${repo.repoId}: ${repo.state}`, href: url`/ui/git/${repo.repoId}` };
	if (e.run)
		return { text: e.run.id, href: url`/ui/runs/run/${e.run.id}` };
	if (e.execution)
		return { text: `${e.execution.scheduleId}: ${e.execution.status}`, href: url`/ui/runs/schedule/${e.execution.scheduleId}` };
	if (e.domain)
		return { text: e.domain.domain };
	if (e.vpc)
		return { text: `${e.vpc.name ?? e.vpc.id} ${e.vpc.reason ?? ''}` };
	if (e.quota)
		return { text: `${e.quota.name}: ${e.quota.current} of ${e.quota.limit}, ${e.quota.requested} more asked for` };
	if (e.build)
		return { text: e.build.id ?? e.build.buildId ?? '' };
	return { text: '' };
}

export function Events() {
	const [text, setText] = useState('');
	const [loading, setLoading] = useState(true);
	const account = currentAccount.value?.id;
	useEffect(() => {
		const stop = new AbortController();
		setLoading(true);
		loadKept(stop.signal).catch(() => undefined).finally(() => setLoading(false)); /* what arrives is shown all the same */
		return () => stop.abort();
	}, [account]);
	const rows = recent.value.filter((e) => !text || e.type.includes(text) || about(e).text.includes(text));
	return (
		<Card title="Events" actions={<input type="search" placeholder="Type or name" aria-label="Filter events" value={text} onInput={(e) => setText(e.currentTarget.value)} />}>
			{loading && !rows.length ? <Skeleton lines={9} /> : <Table label="Events" rows={rows} rowKey={(e) => String(e.id)} empty={
				<Empty icon="operate" title={eventsState.value === 'missing' ? 'This server sends no events' : text ? 'No event matches' : 'Waiting for something to happen'}
					commands={eventsState.value === 'missing' ? [] : [{ title: 'The same stream for your own programs', code: `curl -N -H "Authorization: Bearer $PANDO_API_KEY" ${location.origin}/v1/events` }]}>
					Nothing has happened in the last day. Events show up here as they happen.</Empty>} columns={[
				{ key: 'type', title: 'Event', cell: (e) => <Badge kind={/failed|crashed|lost|refused/.test(e.type) ? 'bad' : /created|succeeded|resumed|started/.test(e.type) ? 'good' : 'plain'}>{e.type}</Badge> },
				{ key: 'about', title: 'About', grow: true, cell: (e) => {
					const a = about(e);
					return a.href ? <a href={a.href}>{a.text}</a> : a.text;
				} },
				{ key: 'reason', title: 'Why', hideNarrow: true, cell: (e) => typeof e.vm?.['reason'] === 'string' ? e.vm['reason'] : e.vm?.state ?? '' },
				{ key: 'at', title: 'When', align: 'end', cell: (e) => <span class="nowrap"><Ago at={e.createdAt} /></span> },
			]} />}
		</Card>
	);
}
