// SPDX-License-Identifier: Apache-2.0
// For whoever runs the server: how it is, what to do, and who did what. Accounts that are not the operator's see their
// own part: builds, events, audit log. Nodes are shown where there are several.
import { place, setQuery } from '../../lib/route';
import { isOperator } from '../../lib/session';
import { useData } from '../../lib/state';
import { PageHead } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { Accounts } from './Accounts';
import { Audit } from './Audit';
import { Builds } from './Builds';
import { Events } from './Events';
import { Host } from './Host';
import { Nodes, type Cluster } from './Nodes';

export default function Operate() {
	const op = isOperator.value;
	const cluster = useData<Cluster>(op ? '/v1/cluster' : null, { poll: 5000 });
	const several = (cluster.data?.nodes.length ?? 0) > 1;
	const tabs = [...(op ? [{ key: 'host', title: 'Host' }, { key: 'accounts', title: 'Accounts' }] : []), { key: 'builds', title: 'Builds' }, { key: 'events', title: 'Events' }, { key: 'audit', title: 'Audit log' },
		...(several ? [{ key: 'nodes', title: 'Nodes', count: cluster.data?.nodes.length }] : [])];
	const asked = place.value.query.get('tab');
	const tab = tabs.some((t) => t.key === asked) ? asked as string : (tabs[0] as { key: string }).key;
	return (
		<>
			<PageHead title="Operate" />
			<Tabs label="Operate" tabs={tabs} current={tab} onChange={(k) => setQuery({ tab: k })}>
				{tab === 'host' && <Host />}
				{tab === 'accounts' && <Accounts />}
				{tab === 'builds' && <Builds />}
				{tab === 'events' && <Events />}
				{tab === 'audit' && <Audit />}
				{tab === 'nodes' && <Nodes of={cluster} />}
			</Tabs>
		</>
	);
}
