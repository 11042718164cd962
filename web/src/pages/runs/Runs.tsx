// SPDX-License-Identifier: Apache-2.0
// Scripts that run without anybody keeping a VM for them: those that ran, and those that run at set times.
import { place, setQuery } from '../../lib/route';
import { PageHead } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { RunList } from './RunList';
import { ScheduleList } from './ScheduleList';

const TABS = [{ key: 'runs', title: 'Runs' }, { key: 'schedules', title: 'Schedules' }];

export default function Runs() {
	const asked = place.value.query.get('tab');
	const tab = TABS.some((t) => t.key === asked) ? asked as string : 'runs';
	return (
		<>
			<PageHead title="Runs" />
			<Tabs label="Runs" tabs={TABS} current={tab} onChange={(k) => setQuery({ tab: k === 'runs' ? null : k, from: null })}>
				{tab === 'runs' && <RunList />}
				{tab === 'schedules' && <ScheduleList />}
			</Tabs>
		</>
	);
}
