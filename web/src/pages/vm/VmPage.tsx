// SPDX-License-Identifier: Apache-2.0
/*
 * VmPage.tsx - one VM: what it is, what can be done with it, and tabs for everything inside
 *
 * The tab is part of the address (?tab=). Nothing on this page wakes a VM that rests, unless somebody asks for it.
 */
import { useEffect, useState } from 'preact/hooks';
import { events } from '../../lib/events';
import { duration, mib, shortId, vmName } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { now, useData } from '../../lib/state';
import type { PageProps } from '../../routes';
import { Button, CopyButton } from '../../ui/Button';
import { Menu } from '../../ui/Menu';
import { useCommands } from '../../ui/Palette';
import { Ago, Badge, Empty, Failure, PageHead, Progress, Skeleton, StateBadge } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { failed, pending } from '../../ui/Toast';
import { ActionDialog, kill, remove, stop, suspend, wake, type DialogName } from './actions';
import { Activity } from './Activity';
import { Cells } from './Cells';
import { Files } from './Files';
import { Metrics } from './Metrics';
import { Network } from './Network';
import { Processes } from './Processes';
import { Settings } from './Settings';
import { Terminals } from './Terminals';
import { awake, type Vm } from './types';

const TABS = [
	{ key: 'terminals', title: 'Terminals' }, { key: 'code', title: 'Code' }, { key: 'files', title: 'Files' }, { key: 'processes', title: 'Processes' },
	{ key: 'metrics', title: 'Metrics' }, { key: 'network', title: 'Network' }, { key: 'settings', title: 'Settings' }, { key: 'activity', title: 'Activity' },
];
const CHANGING: Record<string, string> = { starting: 'Starting', suspending: 'Suspending', stopping: 'Stopping', building: 'Building', creating: 'Creating', resuming: 'Resuming' };

export function useVm(id: string) {
	const vm = useData<Vm>(`/v1/vms/${encodeURIComponent(id)}`, { poll: 10_000 });
	useEffect(() => {
		let timer = 0;
		const off = events.on('vm.*', (e) => {
			if (e.vm?.id !== id)
				return;
			const state = e.vm.state;
			if (state)
				vm.set((old) => ({ ...old, state }));
			clearTimeout(timer);
			timer = window.setTimeout(() => void vm.reload(), 150);
		});
		return () => {
			clearTimeout(timer);
			off();
		};
	}, [id]);
	return vm;
}

export default function VmPage({ params }: PageProps) {
	return <One key={params['id']} id={params['id'] as string} />;
}

function One({ id }: { id: string }) {
	const data = useVm(id);
	const vm = data.data;
	const [dialog, setDialog] = useState<DialogName | null>(null);
	const [doing, setDoing] = useState('');
	const tab = TABS.some((t) => t.key === place.value.query.get('tab')) ? place.value.query.get('tab') as string : 'terminals';
	useEffect(() => {
		if (vm)
			document.title = `${vmName(vm)} · Pando`;
	}, [vm?.name, tab]);
	const run = async (what: string, f: (vm: Vm) => Promise<unknown>): Promise<void> => {
		if (!vm)
			return;
		setDoing(what);
		try {
			await f(vm);
		} catch (e) {
			failed(e);
		} finally {
			setDoing('');
			await data.reload();
		}
	};
	const up = !!vm && awake(vm);
	useCommands(vm ? [
		up ? { title: `Suspend ${vmName(vm)}`, icon: 'suspend', group: 'This VM', run: () => run('Suspending', suspend) } : { title: `Resume ${vmName(vm)}`, icon: 'resume', group: 'This VM', run: () => run('Resuming', wake) },
		{ title: `Fork ${vmName(vm)}`, icon: 'fork', group: 'This VM', run: () => setDialog('fork') },
		{ title: `Snapshot of ${vmName(vm)}`, icon: 'snapshot', group: 'This VM', run: () => setDialog('snapshot') },
		...TABS.map((t) => ({ title: `${t.title} of ${vmName(vm)}`, group: 'This VM', run: () => setQuery({ tab: t.key }) })),
	] : [], [vm?.name, vm?.state]);

	if (!vm)
		return data.error ? (data.error.status === 404 || data.error.status === 410
			? <Empty icon="vms" title="There is no such VM" commands={[{ title: 'See what there is', code: 'pando vm list' }]}><code>{id}</code> was deleted, or belongs to another account.</Empty>
			: <Failure error={data.error} retry={data.reload} what="the VM" />) : <Skeleton lines={8} />;
	const gone = data.error && (data.error.status === 404 || data.error.status === 410);
	const busy = doing || CHANGING[vm.state] || '';
	const onWake = (): Promise<void> => run(vm.state === 'stopped' ? 'Starting' : 'Resuming', wake);
	return (
		<div class="vm-page">
			<PageHead title={<span class="vm-title"><span>{vmName(vm)}</span> <StateBadge state={vm.state} /></span>} sub={<div class="vm-facts">
				<span class="row tight"><code>{shortId(vm.id, 20)}</code><CopyButton text={vm.id} label="Copy the id" /></span>
				<span>{vm.sizing.vcpuCount} vCPU · {mib(vm.sizing.memSizeMib)} · {mib(vm.sizing.rootfsSizeMb)} disk</span>
				<span>{up ? <>ran for {duration(vm.usage.wallSeconds)}</> : <>{vm.state}</>}, created <Ago at={vm.createdAt} /></span>
				{vm.deleteAt && <Badge kind="warn">deleted in {duration((Date.parse(vm.deleteAt) - now.value) / 1000)}</Badge>}
				{vm.parentVmId && <a href={`/ui/compare/${encodeURIComponent(vm.parentVmId)}/${encodeURIComponent(vm.id)}`}>beside its parent</a>}
				{vm.tags.map((t) => <Badge key={t}>{t}</Badge>)}
			</div>}>
				{up ? <Button icon="suspend" busy={doing === 'Suspending'} onClick={() => run('Suspending', suspend)}>Suspend</Button>
					: <Button icon="resume" kind="primary" busy={doing === 'Resuming' || doing === 'Starting'} onClick={onWake} disabled={vm.state === 'lost'}>{vm.state === 'stopped' ? 'Start' : 'Resume'}</Button>}
				<Button icon="fork" onClick={() => setDialog('fork')}>Fork</Button>
				<Button icon="snapshot" onClick={() => setDialog('snapshot')}>Snapshot</Button>
				<Menu label="More" kind="plain" items={[
					{ label: 'Compare…', icon: 'diff', run: () => setDialog('compare') },
					{ label: 'Rewind…', icon: 'rewind', run: () => setDialog('rewind') },
					{ label: 'Resize…', icon: 'fit', run: () => setDialog('resize') },
					{ label: 'Name and tags…', icon: 'settings', run: () => setDialog('rename') },
					vm.state !== 'stopped' && { label: 'Stop…', icon: 'suspend', danger: true, run: () => run('Stopping', stop) },
					vm.state !== 'stopped' && { label: 'Kill…', icon: 'close', danger: true, run: () => run('Ending', kill) },
					{ label: 'Delete', icon: 'trash', danger: true, run: () => remove(vm) },
				]} />
			</PageHead>
			<div class="vm-busy" aria-live="polite">{busy && <Progress label={`${busy} ${vmName(vm)}`} />}</div>
			{gone && <p class="note warn" role="alert">This VM was deleted. What you see is what it was.</p>}
			{pending.value.has(`vm:${vm.id}`) && <p class="note warn">It is about to be deleted.</p>}
			<Tabs label="Parts of the VM" tabs={TABS} current={tab} onChange={(key) => setQuery({ tab: key === 'terminals' ? null : key })}>
				{/* Terminals stay attached while another tab is looked at. */}
				<div hidden={tab !== 'terminals'}><Keep shown={tab === 'terminals'}><Terminals vm={vm} onWake={onWake} /></Keep></div>
				<div hidden={tab !== 'code'}><Keep shown={tab === 'code'}><Cells vm={vm} /></Keep></div>
				{tab === 'files' && <Files vm={vm} onWake={onWake} />}
				{tab === 'processes' && <Processes vm={vm} onWake={onWake} />}
				{tab === 'metrics' && <Metrics vm={vm} />}
				{tab === 'network' && <Network vm={vm} />}
				{tab === 'settings' && <Settings vm={vm} reload={data.reload} />}
				{tab === 'activity' && <Activity vm={vm} />}
			</Tabs>
			{dialog && <ActionDialog name={dialog} vm={vm} onClose={() => setDialog(null)} reload={data.reload} />}
		</div>
	);
}

/** Made when first shown, kept from then on. */
function Keep({ shown, children }: { shown: boolean; children: preact.ComponentChildren }) {
	const [made, setMade] = useState(shown);
	useEffect(() => {
		if (shown)
			setMade(true);
	}, [shown]);
	return made || shown ? <>{children}</> : null;
}
