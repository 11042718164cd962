// SPDX-License-Identifier: Apache-2.0
// Events as they arrive, the last 300: a fixed amount, so that a page that is open all day does not grow.
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { url } from '../../lib/api';
import { events, eventsState, type PandoEvent } from '../../lib/events';
import { Badge, Ago, Card, Empty } from '../../ui/parts';
import { Table } from '../../ui/Table';

const KEEP = 300;
const recent = signal<PandoEvent[]>([]);
events.on('*', (e) => {
	if (e.type !== 'reload')
		recent.value = [e, ...recent.value.slice(0, KEEP - 1)];
});

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
	if (e.domain)
		return { text: e.domain.domain };
	if (e.vpc)
		return { text: `${e.vpc.name ?? e.vpc.id} ${e.vpc.reason ?? ''}` };
	if (e.build)
		return { text: e.build.id ?? e.build.buildId ?? '' };
	return { text: '' };
}

export function Events() {
	const [text, setText] = useState('');
	const rows = recent.value.filter((e) => !text || e.type.includes(text) || about(e).text.includes(text));
	return (
		<Card title="Events" actions={<input type="search" placeholder="Type or name" aria-label="Filter events" value={text} onInput={(e) => setText(e.currentTarget.value)} />}>
			<Table label="Events" rows={rows} rowKey={(e) => String(e.id)} empty={
				<Empty icon="operate" title={eventsState.value === 'missing' ? 'This server sends no events' : text ? 'No event matches' : 'Waiting for something to happen'}
					commands={eventsState.value === 'missing' ? [] : [{ title: 'The same stream for your own programs', code: `curl -N -H "Authorization: Bearer $PANDO_API_KEY" ${location.origin}/v1/events` }]}>
					Events show up here as they happen, from when this page was opened.</Empty>} columns={[
				{ key: 'type', title: 'Event', cell: (e) => <Badge kind={/failed|crashed|lost/.test(e.type) ? 'bad' : /created|succeeded|resumed|started/.test(e.type) ? 'good' : 'plain'}>{e.type}</Badge> },
				{ key: 'about', title: 'About', grow: true, cell: (e) => {
					const a = about(e);
					return a.href ? <a href={a.href}>{a.text}</a> : a.text;
				} },
				{ key: 'reason', title: 'Why', hideNarrow: true, cell: (e) => typeof e.vm?.['reason'] === 'string' ? e.vm['reason'] : e.vm?.state ?? '' },
				{ key: 'at', title: 'When', align: 'end', cell: (e) => <span class="nowrap"><Ago at={e.createdAt} /></span> },
			]} />
		</Card>
	);
}
