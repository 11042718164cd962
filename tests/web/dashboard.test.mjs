// SPDX-License-Identifier: Apache-2.0
// The dashboard's frame, tree, operate, networks and settings pages against a real server with real VMs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { forest } from './forest.mjs';
import { accessible, api, close, fits, KEY, killServer, newPage, open, OTHER_KEY, PATIENCE, quiet, shot, signedIn, signIn, URL_BASE } from './kit.mjs';

const HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}';
const WEIGHT_MAX = 400 * 1024;
let page;
let vm;

before(async () => {
	await open();
	vm = (await api('POST', '/v1/vms', { name: 'web', idleTimeoutSeconds: null })).id;
}, { timeout: PATIENCE });
after(async () => {
	const { vms } = await api('GET', '/v1/vms');
	await Promise.all(vms.map((v) => api('DELETE', `/v1/vms/${v.id}`)));
	const { snapshots } = await api('GET', '/v1/vms/snapshots');
	await Promise.all(snapshots.map((s) => api('DELETE', `/v1/vms/snapshots/${s.snapshotId}`)));
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

test('acts on a node: panel, snapshot, delete with undo', async () => {
	await page.goto(`/ui/?node=${vm}`);
	const panel = page.getByRole('complementary');
	await panel.getByRole('button', { name: 'Resume' }).click();
	await panel.getByRole('button', { name: 'Suspend' }).waitFor();
	await panel.getByRole('button', { name: 'Snapshot' }).click();
	await page.getByLabel('Name').fill('before');
	await page.getByRole('button', { name: 'Take it' }).click();
	await page.waitForFunction(() => globalThis.pandoTree.forest.all.some((n) => n.raw.kind === 'snapshot' && n.raw.name === 'before'));
	await panel.getByRole('button', { name: 'Rewind' }).waitFor();
	await panel.getByRole('button', { name: 'Delete' }).click();
	await page.getByRole('button', { name: 'Undo' }).click();
	await page.getByText('Deleting web').waitFor({ state: 'detached' });
	assert.equal((await api('GET', `/v1/vms/${vm}`)).id, vm);
	quiet(page);
});

test('the tree by keyboard, and as a list', async () => {
	await page.goto('/ui/');
	await page.locator('canvas.tree-canvas').focus();
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('ArrowRight');
	await page.getByRole('complementary').waitFor();
	await page.keyboard.press('Escape');
	await page.getByRole('button', { name: 'As a list' }).click();
	const tree = page.getByRole('tree');
	await tree.getByRole('treeitem').first().click();
	await page.keyboard.press('ArrowDown');
	assert.equal(await tree.locator('[aria-selected=true]').count(), 1);
	await accessible(page, 'tree as a list');
	quiet(page);
});

test('the command palette finds a VM and goes there', async () => {
	await page.goto('/ui/vms');
	await page.getByRole('table', { name: 'VMs' }).waitFor();
	await page.keyboard.press('Control+k');
	await page.getByRole('combobox', { name: 'Command' }).fill('operate');
	await page.getByRole('option', { name: /Operate/ }).first().waitFor();
	await accessible(page, 'palette');
	await page.keyboard.press('Enter');
	await page.waitForURL('**/ui/operate');
	quiet(page);
});

test('names that are code run nothing', async () => {
	await api('PATCH', `/v1/vms/${vm}`, { name: HOSTILE.slice(0, 60) });
	for (const to of ['/ui/vms', `/ui/?node=${vm}`, '/ui/?view=list', '/ui/operate?tab=audit']) {
		await page.goto(to);
		await page.getByText('onerror=alert', { exact: false }).first().waitFor({ timeout: to.includes('audit') ? 1000 : PATIENCE }).catch((e) => {
			if (!to.includes('audit'))
				throw e;
		});
		assert.equal(await page.locator('img[src=x]').count(), 0);
	}
	await page.keyboard.press('Control+k');
	await page.getByRole('combobox', { name: 'Command' }).fill('img');
	await page.getByRole('option').first().waitFor();
	await page.keyboard.press('Escape');
	quiet(page);
	await api('PATCH', `/v1/vms/${vm}`, { name: 'web' });
});

test('every page: no serious finding of axe-core, in both themes, wide and narrow', async () => {
	const pages = ['/ui/vms', '/ui/operate', '/ui/operate?tab=accounts', '/ui/operate?tab=builds', '/ui/operate?tab=events', '/ui/operate?tab=audit', '/ui/networks', '/ui/networks?tab=domains', '/ui/networks?tab=certs',
		'/ui/settings', '/ui/settings?tab=identities', '/ui/settings?tab=webhooks', '/ui/settings?tab=sessions', '/ui/settings?tab=look', '/ui/nothing-here', '/ui/confirm'];
	await api('POST', '/v1/vpcs', { name: 'backend' });
	for (const colorScheme of ['light', 'dark']) {
		await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
		for (const to of pages) {
			await page.setViewportSize({ width: 1366, height: 850 });
			await page.goto(to);
			await page.locator('main h1, main h2').first().waitFor();
			await page.waitForFunction(() => !document.querySelector('main .skeleton'));
			await accessible(page, `${to} ${colorScheme}`);
			await page.setViewportSize({ width: 375, height: 780 });
			await fits(page, `${to} at 375 pixels`);
			const name = `${to.replace('/ui/', '').replace(/\W+/g, '-')}`;
			await shot(page, `${name}-${colorScheme}-narrow`);
			await page.setViewportSize({ width: 2560, height: 1200 });
			await fits(page, `${to} at 2560 pixels`);
			await page.setViewportSize({ width: 1366, height: 850 });
			await shot(page, `${name}-${colorScheme}`);
		}
	}
	await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'no-preference' });
	quiet(page);
	for (const v of (await api('GET', '/v1/vpcs')).vpcs)
		await api('DELETE', `/v1/vpcs/${v.vpcId}`);
});

test('2,000 nodes: laid out without overlaps, drawn quickly', async () => {
	const big = await signedIn();
	await big.route('**/v1/tree', (r) => r.fulfill({ json: forest(2000) }));
	await big.goto('/ui/');
	await big.waitForFunction(() => globalThis.pandoTree?.forest?.all.length === 2000 && globalThis.pandoTree.handle?.stats.frames > 2);
	const overlaps = await big.evaluate(() => {
		const all = [...globalThis.pandoTree.forest.all].sort((a, b) => a.x - b.x);
		let n = 0;
		for (let i = 0; i < all.length; i++)
			for (let j = i + 1; j < all.length && all[j].x - all[i].x < 26; j++)
				if (Math.hypot(all[i].x - all[j].x, all[i].y - all[j].y) < Math.min(20, all[i].r + all[j].r - 8))
					n++;
		return n;
	});
	assert.equal(overlaps, 0);
	/* Seconds are not compared; a picture that takes a whole second is broken on any machine. */
	await big.mouse.move(700, 450);
	for (let i = 0; i < 10; i++)
		await big.mouse.wheel(0, -60);
	const stats = await big.evaluate(() => globalThis.pandoTree.handle.stats);
	assert.ok(stats.frames > 3 && stats.lastMs < 1000, JSON.stringify(stats));
	await shot(big, 'tree-2000');
	quiet(big);
	await big.context().close();
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

test('the operator acts as another account and comes back', async () => {
	await page.goto('/ui/operate?tab=accounts');
	await page.getByRole('button', { name: /^Acts on other/ }).click();
	await page.getByRole('menuitem', { name: 'Act as' }).click();
	await page.getByText('You act as').waitFor();
	await page.goto('/ui/vms');
	await page.getByRole('heading', { name: 'No VMs yet' }).waitFor();
	await page.getByRole('button', { name: 'Back to my account' }).click();
	await page.getByRole('link', { name: 'web', exact: true }).first().waitFor();
	quiet(page);
});

test('the server restarts in mid-session: the page says so and comes back', async () => {
	await page.goto('/ui/');
	await page.waitForFunction(() => globalThis.pandoTree?.forest);
	const count = await nodes();
	killServer();
	await page.getByText('The server is restarting').waitFor();
	await page.getByText('The server is restarting').waitFor({ state: 'detached' });
	await page.locator('.live.live').waitFor();
	assert.equal(await nodes(), count);
	const made = await api('POST', '/v1/vms', { name: 'after the restart' });
	await page.waitForFunction((id) => globalThis.pandoTree.forest.byId.has(id), made.id);
	page.complaints = [];
});

test('an ended session leads to the login page and back to where one was', async () => {
	await page.goto('/ui/settings?tab=webhooks');
	await page.getByRole('tab', { name: 'Webhooks' }).waitFor();
	/* Elsewhere: sign out everywhere. */
	const elsewhere = await signedIn();
	await elsewhere.evaluate(async () => {
		const s = await (await fetch('/v1/session')).json();
		await fetch('/v1/sessions', { method: 'DELETE', headers: { 'x-pando-csrf': s.csrf } });
	});
	await elsewhere.context().close();
	/* The end of the event stream may have told the page already. */
	await page.getByRole('tab', { name: 'API keys' }).click({ timeout: 3000 }).catch(() => undefined);
	await page.getByText('Your session has ended').waitFor();
	await page.getByLabel('API key or identity token').fill(KEY);
	await page.getByRole('button', { name: 'Sign in', exact: true }).click();
	await page.waitForURL('**/ui/settings**');
	quiet(page);
});

test('page weight: everything but the editor within 400 KB', async () => {
	const html = await (await fetch(URL_BASE + '/')).text();
	const first = new Set([...html.matchAll(/\/assets\/[\w.-]+/g)].map((m) => m[0]));
	const seen = new Map();
	const visit = async (name) => {
		if (seen.has(name))
			return;
		const res = await fetch(URL_BASE + name, { headers: { 'accept-encoding': 'gzip' } });
		assert.equal(res.status, 200, name);
		seen.set(name, Number(res.headers.get('content-length')));
		if (!name.endsWith('.js'))
			return;
		for (const [, file] of (await res.text()).matchAll(/["']\.\/([\w-]+\.(?:js|css))["']/g))
			await visit('/assets/' + file);
	};
	for (const f of first)
		await visit(f);
	const sum = (names) => names.reduce((n, f) => n + seen.get(f), 0);
	const firstView = sum([...first]);
	/* The editor is what is loaded for it alone: its chunks carry its name. */
	const rest = [...seen.keys()].filter((f) => !/editor|codemirror|lang-/i.test(f));
	console.log(`# first view ${Math.round(firstView / 1024)} KB, all pages without the editor ${Math.round(sum(rest) / 1024)} KB, with it ${Math.round(sum([...seen.keys()]) / 1024)} KB`);
	assert.ok(sum(rest) < WEIGHT_MAX, `${sum(rest)} bytes`);
});
