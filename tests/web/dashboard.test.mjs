// SPDX-License-Identifier: Apache-2.0
// The dashboard's frame, tree, operate, networks and settings pages against a real server with real VMs.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { forest } from './forest.mjs';
import { accessible, api, cleanUp, close, fits, KEY, newPage, open, PATIENCE, quiet, shot, signedIn, signIn, still, test, themed } from './kit.mjs';

let page;
let vm;

before(async () => {
	await open();
	vm = (await api('POST', '/v1/vms', { name: 'web', idleTimeoutSeconds: null })).id;
	await api('POST', `/v1/vms/${vm}/fork`, { count: 2 });
	page = await signedIn();
}, { timeout: 2 * PATIENCE });
after(async () => {
	await cleanUp();
	await close();
}, { timeout: 2 * PATIENCE });

test('acts on a node: panel, snapshot, delete with undo', async () => {
	await page.goto(`/ui/?node=${vm}`);
	const panel = page.getByRole('complementary');
	await panel.getByRole('button', { name: 'Suspend' }).click();
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

test('a rewind goes back to a snapshot, and Undo takes it back', async () => {
	const sh = async (command) => (await api('POST', `/v1/vms/${vm}/exec-await`, { command })).stdout.trim();
	await sh('echo later > /root/when');
	await page.goto(`/ui/?node=${vm}`);
	await page.getByRole('complementary').getByRole('button', { name: 'Rewind' }).click();
	const dialog = page.getByRole('dialog');
	await dialog.getByText('before').first().waitFor();
	await accessible(page, 'rewind');
	await dialog.getByRole('button', { name: 'Rewind' }).click();
	const undo = page.getByRole('button', { name: 'Undo' });
	await undo.hover(); /* it stays as long as somebody points at it */
	assert.equal(await sh('cat /root/when 2>/dev/null; :'), '', 'the file of after the snapshot is gone');
	await undo.click();
	for (let i = 0; await sh('cat /root/when 2>/dev/null; :') !== 'later'; i++) {
		assert.ok(i < 120, 'Undo brought the file back');
		await new Promise((done) => setTimeout(done, 500));
	}
	quiet(page);
});

test('points without a name are called after their VM', async () => {
	await page.goto('/ui/?view=list');
	await page.getByRole('treeitem', { name: /fork of web, \d\d:\d\d/ }).first().waitFor();
	assert.equal(await page.getByRole('treeitem', { name: /pt-/ }).count(), 0);
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

test('every page: no serious finding of axe-core, in both themes, wide and narrow', async () => {
	const pages = ['/ui/', '/ui/?view=list', '/ui/git', '/ui/runs', '/ui/runs?tab=schedules', '/ui/vms', '/ui/operate', '/ui/operate?tab=accounts', '/ui/operate?tab=builds', '/ui/operate?tab=events', '/ui/operate?tab=audit', '/ui/networks', '/ui/networks?tab=domains', '/ui/networks?tab=certs',
		'/ui/settings', '/ui/settings?tab=identities', '/ui/settings?tab=webhooks', '/ui/settings?tab=sessions', '/ui/settings?tab=look', '/ui/nothing-here', '/ui/confirm'];
	await api('POST', '/v1/vpcs', { name: 'backend' });
	for (const colorScheme of ['light', 'dark']) {
		await themed(page, colorScheme, { reducedMotion: 'reduce' });
		/* Colours are the same on all pages: of the dark ones the main ones do. */
		for (const to of colorScheme === 'light' ? pages : ['/ui/', '/ui/vms', '/ui/runs', '/ui/operate', '/ui/networks', '/ui/settings']) {
			await page.setViewportSize({ width: 1366, height: 850 });
			await page.goto(to);
			await page.locator('main h1, main h2').first().waitFor();
			await page.waitForFunction(() => !document.querySelector('main .skeleton'));
			await still(page, to);
			await accessible(page, `${to} ${colorScheme}`);
			await page.setViewportSize({ width: 375, height: 780 });
			await fits(page, `${to} at 375 pixels`);
			if (colorScheme === 'light')
				await accessible(page, `${to} at 375 pixels`);
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

test('500 nodes: shapes that can be told apart, and what is searched for has its name', async () => {
	const big = await signedIn();
	await big.route('**/v1/tree', (r) => r.fulfill({ json: forest(500) }));
	await big.goto('/ui/');
	await big.waitForFunction(() => globalThis.pandoTree?.forest?.all.length === 500 && globalThis.pandoTree.handle?.stats.frames > 2);
	const least = await big.evaluate(() => Math.min(...globalThis.pandoTree.forest.all.filter((n) => n.raw.type === 'vm').map((n) => 2 * n.r * globalThis.pandoTree.handle.stats.scale)));
	assert.ok(least >= 3, `all of it in view: the smallest VM is ${least} pixels wide`);
	await shot(big, 'tree-500');
	const one = await big.evaluate(() => globalThis.pandoTree.forest.all.find((n) => n.raw.type === 'vm' && n.raw.name).raw.name);
	await big.getByRole('searchbox', { name: 'Find in the tree' }).fill(one);
	await big.getByRole('searchbox', { name: 'Find in the tree' }).press('Enter');
	await big.getByRole('complementary').getByRole('heading', { name: one, exact: true }).waitFor();
	/* It was brought into view, large enough to read, and not under the panel. */
	await big.waitForFunction((name) => {
		const n = globalThis.pandoTree.forest.all.find((m) => m.raw.name === name);
		const at = globalThis.pandoTree.handle.toScreen(n);
		const panel = document.querySelector('.tree-panel').getBoundingClientRect();
		const box = document.querySelector('.tree-canvas').getBoundingClientRect();
		return globalThis.pandoTree.handle.stats.scale >= 0.79 && at.x > 0 && at.x + box.left < panel.left && at.y > 0 && at.y < box.height;
	}, one);
	await shot(big, 'tree-500-found');
	quiet(big);
	await big.context().close();
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

test('one browser is signed out from another', async () => {
	const elsewhere = await signedIn(KEY, '/ui/settings', { userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0' });
	await elsewhere.getByRole('tab', { name: 'API keys' }).waitFor();
	await page.goto('/ui/settings?tab=sessions');
	const row = page.getByRole('row').filter({ hasText: 'Firefox 128 on Linux' });
	await row.getByRole('button', { name: /^Sign out Firefox 128 on Linux at / }).click();
	await accessible(page, 'sign a browser out');
	await page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
	await row.waitFor({ state: 'detached' });
	await elsewhere.getByText('Your session has ended').waitFor();
	await page.getByRole('row').filter({ hasText: 'this one' }).waitFor();
	quiet(page);
	await elsewhere.context().close();
});

test('what the browser drops is sent again: signing in and out', async () => {
	/* As when an interface comes: the first tries do not arrive, or their answers do not. */
	const there = await newPage();
	const lose = async (path, method, times, arrives) => there.route(path, async (r) => {
		if (r.request().method() !== method || times-- <= 0)
			return r.continue();
		if (arrives)
			await r.fetch();
		return r.abort('connectionreset');
	});
	await lose('**/v1/session', 'POST', 2, false);
	await lose('**/v1/session', 'DELETE', 1, true);
	await signIn(there);
	await there.locator('.live.is-live').waitFor();
	await there.getByRole('button', { name: 'Account and theme' }).click();
	await there.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
	await there.getByLabel('API key or identity token').waitFor();
	assert.equal(await there.getByText('Your session has ended').count(), 0);
	quiet(there);
	await there.context().close();
});

test('files that are lost on their way: the style comes again, in place; without its script the page loads again; what is typed stays', async () => {
	const there = await newPage();
	const lost = new Map();
	const lose = (name, pattern) => there.route(pattern, (r) => {
		lost.set(name, (lost.get(name) ?? 0) + 1);
		return lost.get(name) > 1 ? r.continue() : r.abort('connectionreset');
	});
	await lose('style', /\/assets\/main-\w+\.css$/);
	await lose('icon', /\/assets\/icon-\w+\.svg$/);
	await there.goto('/ui/login');
	await there.evaluate(() => globalThis.same = true);
	await there.getByLabel('API key or identity token').fill(KEY);
	await there.waitForFunction(() => getComputedStyle(document.querySelector('.login-box')).borderTopLeftRadius !== '0px');
	assert.equal(lost.get('style'), 2);
	assert.equal(await there.evaluate(() => globalThis.same), true, 'the page was not loaded again');
	assert.equal(await there.getByLabel('API key or identity token').inputValue(), KEY);
	await lose('script', /\/assets\/main-\w+\.js$/);
	await there.goto('/ui/login').catch(() => undefined);
	await there.getByLabel('API key or identity token').waitFor();
	assert.equal(lost.get('script'), 2);
	assert.equal(new URL(there.url()).hash, '');
	quiet(there);
	await there.context().close();
});

test('an identity sees the VM that it was granted, and what it may not do says so', async () => {
	const identity = await api('POST', '/identity/v1/identities', {});
	await api('POST', `/identity/v1/identities/${identity.id}/permissions/vm/${vm}`, {});
	const { token } = await api('POST', `/identity/v1/identities/${identity.id}/tokens`);
	const member = await signedIn(token, `/ui/vms/${vm}`);
	await member.getByRole('heading', { name: 'web' }).waitFor();
	await accessible(member, 'a VM as an identity sees it');
	for (const to of ['/ui/vms', '/ui/', '/ui/operate', '/ui/networks', '/ui/settings', '/ui/git']) {
		await member.goto(to);
		await member.locator('main h1, main h2').first().waitFor();
		await member.waitForFunction(() => !document.querySelector('main .skeleton'));
		assert.ok(new URL(member.url()).pathname.startsWith(to === '/ui/' ? '/ui/' : to), `${to} stays where it is, and nobody is signed out`);
		await shot(member, `identity${to.replaceAll('/', '-')}`);
	}
	assert.equal(await member.getByText('You act as').count(), 0);
	quiet(member);
	await member.context().close();
	await api('DELETE', `/identity/v1/identities/${identity.id}`);
});

test('through the edge, as dashboard.<base domain>: signing in, live, a secure cookie', async () => {
	const edge = `https://dashboard.pando.localhost:${process.env.PANDO_EDGE_PORT}`;
	const there = await newPage({ baseURL: edge, ignoreHTTPSErrors: true });
	await there.goto('/');
	await there.getByLabel('API key or identity token').fill(KEY);
	await there.getByRole('button', { name: 'Sign in', exact: true }).click();
	await there.locator('.live.is-live').waitFor();
	const [cookie] = await there.context().cookies();
	assert.deepEqual([cookie.name, cookie.secure, cookie.httpOnly, cookie.sameSite], ['__Host-pando_session', true, true, 'Strict']);
	await there.waitForFunction((id) => globalThis.pandoTree?.forest?.byId.has(id), vm);
	await there.goto('/ui/vms');
	await there.getByRole('link', { name: 'web', exact: true }).first().waitFor();
	/* The certificate that this took, and when it ends. */
	await there.goto('/ui/networks?tab=certs');
	await there.getByRole('table', { name: 'Certificates' }).getByRole('row').filter({ hasText: '*.pando.localhost' }).getByText(/^in \d+ d/).waitFor();
	await accessible(there, 'certificates');
	await shot(there, 'certs');
	quiet(there);
	await there.context().close();
});
