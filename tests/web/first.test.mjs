// SPDX-License-Identifier: Apache-2.0
// What must work at the least, in make test: signing in, a tree that grows, names that are code, two accounts, a restart, a session that
// ends, the weight. The other tests of the pages are in dashboard.test.mjs and pages/.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { accessible, api, cleanUp, close, KEY, newPage, open, OTHER_KEY, PATIENCE, quiet, shot, signedIn, signIn, startServer, stopServer, test } from './kit.mjs';
import { weigh } from './weight.mjs';

const HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}';
const WEIGHT_MAX = 400 * 1024;
let page;
let vm;

before(async () => {
	await open();
	vm = (await api('POST', '/v1/vms', { name: 'web', idleTimeoutSeconds: null })).id;
}, { timeout: 2 * PATIENCE });
after(async () => {
	await cleanUp();
	await close();
}, { timeout: 2 * PATIENCE });

const nodes = () => page.evaluate(() => globalThis.pandoTree?.forest?.all.filter((n) => n.raw.type === 'vm').length ?? 0);

test('a wrong key is refused in words, the right one opens the tree', async () => {
	page = await newPage();
	await page.goto('/');
	await page.getByLabel('API key or identity token').fill('not a key');
	await page.getByRole('button', { name: 'Sign in', exact: true }).click();
	await page.getByRole('alert').filter({ hasText: /\w/ }).waitFor();
	await accessible(page, 'login');
	assert.equal(await page.locator('nav').count(), 0);
	quiet(page);
	await signIn(page);
	await page.locator('canvas.tree-canvas').waitFor();
	assert.equal(await page.evaluate(() => document.cookie), '', 'the cookie is out of reach of scripts');
	const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
	assert.ok(!kept.includes(KEY), 'the key is not kept');
	quiet(page);
});

test('the tree grows while VMs are forked', async () => {
	await page.waitForFunction(() => globalThis.pandoTree?.forest?.all.some((n) => n.raw.type === 'vm'));
	assert.equal(await nodes(), 1);
	await api('POST', `/v1/vms/${vm}/fork`, { count: 2 });
	await page.waitForFunction(() => globalThis.pandoTree.forest.all.filter((n) => n.raw.type === 'vm').length === 3);
	/* And a state changes without anything being loaded by hand. */
	await api('POST', `/v1/vms/${vm}/suspend`);
	await page.waitForFunction((id) => globalThis.pandoTree.forest.byId.get(id)?.raw.state === 'suspended', vm);
	await accessible(page, 'tree');
	await shot(page, 'tree');
	quiet(page);
});

test('names that are code run nothing', async () => {
	await api('PATCH', `/v1/vms/${vm}`, { name: HOSTILE.slice(0, 60) });
	for (const to of ['/ui/vms', `/ui/?node=${vm}`, '/ui/?view=list']) {
		await page.goto(to);
		await page.getByText('onerror=alert', { exact: false }).first().waitFor();
		assert.equal(await page.locator('img[src=x]').count(), 0);
	}
	await page.keyboard.press('Control+k');
	await page.getByRole('combobox', { name: 'Command' }).fill('img');
	await page.getByRole('option').first().waitFor();
	await page.keyboard.press('Escape');
	quiet(page);
	await api('PATCH', `/v1/vms/${vm}`, { name: 'web' });
});

test('two accounts in two contexts see only their own', async () => {
	const other = await signedIn(OTHER_KEY, '/ui/vms');
	await other.getByRole('heading', { name: 'No VMs yet' }).waitFor();
	await page.goto('/ui/vms');
	await page.getByRole('link', { name: 'web', exact: true }).first().waitFor();
	await other.goto('/ui/operate');
	assert.equal(await other.getByRole('tab', { name: 'Host' }).count(), 0, 'the host is the operator’s');
	quiet(other);
	await other.context().close();
});

test('two tabs of one browser: who signs in as somebody else in one is somebody else in both', async () => {
	const one = await signedIn(KEY, '/ui/vms');
	await one.getByRole('link', { name: 'web', exact: true }).first().waitFor();
	const two = await one.context().newPage();
	await two.goto('/ui/settings');
	await two.getByRole('button', { name: 'Account and theme' }).click();
	await two.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
	await one.getByLabel('API key or identity token').waitFor();
	await two.getByLabel('API key or identity token').fill(OTHER_KEY);
	await two.getByRole('button', { name: 'Sign in', exact: true }).click();
	/* The other tab goes back to where it was, as the other account: nothing of the first one is left on it. */
	await one.getByRole('heading', { name: 'No VMs yet' }).waitFor();
	assert.equal(await one.getByRole('link', { name: 'web', exact: true }).count(), 0);
	await one.getByRole('button', { name: 'Account and theme' }).filter({ hasText: 'other' }).waitFor();
	await one.locator('.live.is-live').waitFor();
	quiet(one);
	await one.context().close();
});

test('the server restarts in mid-session: the page says so and comes back', async () => {
	await page.goto('/ui/');
	await page.waitForFunction(() => globalThis.pandoTree?.forest);
	const count = await nodes();
	await stopServer();
	await page.getByText('The server is restarting').waitFor();
	await startServer();
	await page.getByText('The server is restarting').waitFor({ state: 'detached' });
	await page.locator('.live.is-live').waitFor();
	assert.equal(await nodes(), count);
	const made = await api('POST', '/v1/vms', { name: 'after the restart' });
	await page.waitForFunction((id) => globalThis.pandoTree.forest.byId.has(id), made.id);
	page.complaints = [];
});

test('an ended session leads to the login page and back to where one was', async () => {
	await page.goto('/ui/settings?tab=webhooks');
	await page.getByRole('tab', { name: 'Webhooks' }).waitFor();
	await page.locator('.live.is-live').waitFor();
	/* Somebody signs out everywhere, in another browser. */
	const elsewhere = await signedIn();
	await elsewhere.getByRole('button', { name: 'Account and theme' }).click();
	await elsewhere.getByRole('menuitem', { name: 'Sign out everywhere' }).click();
	await elsewhere.getByLabel('API key or identity token').waitFor();
	assert.equal(await elsewhere.getByText('Your session has ended').count(), 0, 'who signs out is not told that the session has ended');
	quiet(elsewhere);
	await elsewhere.context().close();
	/* Nobody touches the page: the end of its stream of events tells it. */
	await page.getByText('Your session has ended').waitFor();
	/* A page that is loaded after the end says so, too: its cookie is that of no session. */
	await page.reload();
	await page.getByText('Your session has ended').waitFor();
	await page.getByLabel('API key or identity token').fill(KEY);
	await page.getByRole('button', { name: 'Sign in', exact: true }).click();
	await page.getByRole('tab', { name: 'Webhooks', selected: true }).waitFor();
	assert.equal(new URL(page.url()).search, '?tab=webhooks');
	await page.locator('.live.is-live').waitFor();
	quiet(page);
});

test('page weight: everything but the editor within 400 KB', async () => {
	const { first, all } = await weigh();
	console.log(`# first view ${Math.round(first / 1024)} KB, all pages without the editor ${Math.round(all / 1024)} KB`);
	assert.ok(all < WEIGHT_MAX, `${all} bytes`);
});
