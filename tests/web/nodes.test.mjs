// SPDX-License-Identifier: Apache-2.0
// Two nodes on one database, as their operator sees them; run by tests/e2e/test_nodes.py, which kills the second one when it is asked to (PANDO_CONTROL).
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { accessible, api, close, fits, open, PATIENCE, quiet, shot, signedIn, stopServer, test, themed } from './kit.mjs';

let page;

before(async () => {
	await open();
	page = await signedIn();
}, { timeout: 2 * PATIENCE });
after(close, { timeout: 2 * PATIENCE });

const row = (name) => page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ has: page.getByText(name, { exact: true }) });

test('both nodes with their load; one is drained, and that is ended', async () => {
	await page.goto('/ui/operate');
	await page.getByRole('tab', { name: /^Nodes/ }).click();
	await row('one').getByText('(answers you)').waitFor();
	await row('two').getByText('alive').waitFor();
	for (const colorScheme of ['light', 'dark']) {
		await themed(page, colorScheme);
		await accessible(page, `nodes, ${colorScheme}`);
		await shot(page, `nodes-${colorScheme}`);
	}
	await themed(page, 'light');
	await page.setViewportSize({ width: 375, height: 780 });
	await fits(page, 'nodes at 375 pixels');
	await shot(page, 'nodes-narrow');
	await page.setViewportSize({ width: 1366, height: 850 });
	await row('two').getByRole('button', { name: 'Drain', exact: true }).click();
	await page.getByRole('dialog').getByRole('button', { name: 'Drain it' }).click();
	await row('two').getByText('drained').waitFor();
	assert.deepEqual((await api('GET', '/v1/cluster')).nodes.filter((n) => n.draining).map((n) => n.name), ['two']);
	await row('two').getByRole('button', { name: 'End draining' }).click();
	await row('two').getByRole('button', { name: 'Drain', exact: true }).waitFor();
	quiet(page);
});

test('a node that dies is shown as dead, and can be forgotten', async () => {
	await stopServer();
	await row('two').getByText(/^dead for /).waitFor();
	await accessible(page, 'a dead node');
	await shot(page, 'nodes-dead');
	await row('two').getByRole('button', { name: 'Forget' }).click();
	const ask = page.getByRole('dialog').getByRole('button', { name: 'Forget it' });
	assert.ok(await ask.isDisabled(), 'its name has to be typed');
	await page.getByRole('dialog').getByRole('textbox').fill('two');
	await ask.click();
	/* One is left: there is nothing to show any more. */
	await page.getByRole('tab', { name: /^Nodes/ }).waitFor({ state: 'detached' });
	await page.getByRole('tab', { name: 'Host', selected: true }).waitFor();
	assert.deepEqual((await api('GET', '/v1/cluster')).nodes.map((n) => n.name), ['one']);
	quiet(page);
});
