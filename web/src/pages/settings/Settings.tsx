// SPDX-License-Identifier: Apache-2.0
// What belongs to the account: API keys, identities, webhooks, the browsers that are signed in, and how the page looks.
import { place, setQuery } from '../../lib/route';
import { currentAccount, session } from '../../lib/session';
import { setTheme, theme, type Theme } from '../../lib/theme';
import { Button } from '../../ui/Button';
import { Card, PageHead } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { Identities } from './Identities';
import { Keys } from './Keys';
import { Sessions } from './Sessions';
import { Webhooks } from './Webhooks';

const tabs = [{ key: 'keys', title: 'API keys' }, { key: 'identities', title: 'Identities' }, { key: 'webhooks', title: 'Webhooks' }, { key: 'sessions', title: 'Sessions' }, { key: 'look', title: 'Appearance' }];

function Look() {
	const themes: [Theme, string, 'system' | 'sun' | 'moon'][] = [['system', 'As the system', 'system'], ['light', 'Light', 'sun'], ['dark', 'Dark', 'moon']];
	return <Card title="Theme"><div class="row" role="group" aria-label="Theme">{themes.map(([t, name, icon]) => <Button key={t} icon={icon} pressed={theme.value === t} onClick={() => setTheme(t)}>{name}</Button>)}</div></Card>;
}

export default function Settings() {
	const asked = place.value.query.get('tab');
	const tab = tabs.some((t) => t.key === asked) ? asked as string : 'keys';
	const who = currentAccount.value;
	return (
		<>
			<PageHead title="Settings" sub={<>Account <b>{who?.name ?? who?.id}</b>{session.value?.identity && <>, signed in as the identity <span class="mono">{session.value.identity.id}</span></>}</>} />
			<Tabs label="Settings" tabs={tabs} current={tab} onChange={(k) => setQuery({ tab: k })}>
				{tab === 'keys' && <Keys />}
				{tab === 'identities' && <Identities />}
				{tab === 'webhooks' && <Webhooks />}
				{tab === 'sessions' && <Sessions />}
				{tab === 'look' && <Look />}
			</Tabs>
		</>
	);
}
