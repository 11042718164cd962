// SPDX-License-Identifier: Apache-2.0
// Private networks with their members and tunnels, and names: domains, where they lead, certificates.
import { place, setQuery } from '../../lib/route';
import { PageHead } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { Certs } from './Certs';
import { Domains } from './Domains';
import { Vpcs } from './Vpcs';

const tabs = [{ key: 'vpcs', title: 'Private networks' }, { key: 'domains', title: 'Domains' }, { key: 'certs', title: 'Certificates' }];

export default function Networks() {
	const asked = place.value.query.get('tab');
	const tab = tabs.some((t) => t.key === asked) ? asked as string : 'vpcs';
	return (
		<>
			<PageHead title="Networks" />
			<Tabs label="Networks" tabs={tabs} current={tab} onChange={(k) => setQuery({ tab: k })}>
				{tab === 'vpcs' && <Vpcs />}
				{tab === 'domains' && <Domains />}
				{tab === 'certs' && <Certs />}
			</Tabs>
		</>
	);
}
