// SPDX-License-Identifier: Apache-2.0
// The pages beside programs and time: an SDK script that forks, pando login --web, a session that expires. PANDO_COMMAND is the pando
// command, PANDO_SDK a folder with the freestyle package installed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { accessible, api, cleanUp, close, expireSessions, fits, KEY, open, PATIENCE, quiet, shot, signedIn, test, URL_BASE } from './kit.mjs';

let page;
const vmNodes = () => page.evaluate(() => globalThis.pandoTree?.forest?.all.filter((n) => n.raw.type === 'vm').length ?? 0);

before(async () => {
	await open();
	page = await signedIn();
}, { timeout: 2 * PATIENCE });
after(async () => {
	await cleanUp();
	await close();
}, { timeout: 2 * PATIENCE });

test('the tree grows from nothing while a script of the SDK creates, forks and deletes', async () => {
	await page.goto('/ui/');
	await page.getByRole('heading', { name: 'A forest with nothing in it yet' }).waitFor();
	await accessible(page, 'an empty tree');
	await shot(page, 'tree-empty');
	/* It goes on when it is told to, a line at a time. */
	const script = spawn(process.execPath, ['--experimental-websocket', '--input-type=module', '-e', `
		import { freestyle } from 'freestyle';
		import { createInterface } from 'node:readline/promises';
		const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
		const { vm } = await freestyle.vms.create({ name: 'sdk', idleTimeoutSeconds: null });
		await lines.next();
		const { forks } = await vm.fork({ count: 3 });
		await lines.next();
		await forks[0].vm.delete();
		process.exit(0);`], { cwd: process.env.PANDO_SDK, env: { ...process.env, FREESTYLE_API_URL: URL_BASE, FREESTYLE_API_KEY: KEY }, stdio: ['pipe', 'inherit', 'inherit'] });
	const ended = new Promise((done) => script.on('close', done));
	try {
		for (const [count, then] of [[1, 'fork\n'], [4, 'delete\n'], [3, '']]) {
			await page.waitForFunction((n) => globalThis.pandoTree?.forest?.all.filter((m) => m.raw.type === 'vm').length === n, count);
			if (then)
				script.stdin.write(then);
		}
		assert.equal(await ended, 0);
	} finally {
		script.kill();
	}
	assert.equal(await vmNodes(), 3);
	quiet(page);
});

test('hovering a node shows its figures; fork and compare from its panel', async () => {
	const at = await page.evaluate(() => {
		const n = globalThis.pandoTree.forest.all.find((m) => m.raw.name === 'sdk' && m.raw.type === 'vm');
		const box = document.querySelector('.tree-canvas').getBoundingClientRect();
		const p = globalThis.pandoTree.handle.toScreen(n);
		return { x: p.x + box.left, y: p.y + box.top };
	});
	await page.mouse.move(at.x - 1, at.y);
	await page.mouse.move(at.x, at.y);
	const tip = page.locator('.tree-tip');
	await tip.getByText('sdk', { exact: true }).waitFor();
	assert.match(await tip.innerText(), /\d (MB|GB|KB)/);
	await page.mouse.click(at.x, at.y);
	const panel = page.getByRole('complementary');
	await panel.getByRole('button', { name: 'Fork' }).click();
	await page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click();
	await page.waitForFunction(() => globalThis.pandoTree.forest.all.filter((n) => n.raw.type === 'vm').length === 4);
	await panel.getByRole('button', { name: 'Compare' }).click();
	await page.getByRole('dialog').waitFor();
	await accessible(page, 'what to compare with');
	await page.keyboard.press('Escape');
	await page.getByRole('dialog').waitFor({ state: 'detached' });
	quiet(page);
});

/** pando login --web in a home of its own; the page and the code that it shows, and how it ended. */
async function login(home) {
	const p = spawn(process.env.PANDO_COMMAND, ['login', '--web', URL_BASE], { env: { PATH: process.env.PATH, HOME: home }, stdio: ['ignore', 'pipe', 'pipe'] });
	let text = '';
	p.stdout.on('data', (d) => text += d);
	const ended = new Promise((done) => p.on('close', (code) => done({ code, text })));
	const code = await new Promise((done, failed) => {
		p.stderr.on('data', (d) => {
			const found = /^\s*code (\S+)/m.exec(text += d);
			if (found)
				done(found[1]);
		});
		void ended.then((r) => failed(new Error(r.text)));
	});
	return { code, ended, kill: () => p.kill() };
}

test('pando login --web: the page shows who asks, and somebody turns it away or signs it in', async () => {
	const home = mkdtempSync(path.join(os.tmpdir(), 'pando-web-login-'));
	let asks = null;
	try {
		asks = await login(home);
		await page.goto('/ui/confirm');
		await page.getByLabel('Code').fill(asks.code.toLowerCase());
		await page.getByRole('button', { name: 'Next' }).click();
		await page.getByRole('heading', { name: 'A program wants to be signed in' }).waitFor();
		await page.getByText('pando on ').waitFor();
		await accessible(page, 'a program asks');
		await shot(page, 'confirm-asks');
		await page.setViewportSize({ width: 375, height: 780 });
		await fits(page, 'a program asks, at 375 pixels');
		await page.setViewportSize({ width: 1366, height: 850 });
		await page.getByRole('button', { name: 'Turn it away' }).click();
		await page.getByRole('heading', { name: 'It was turned away' }).waitFor();
		assert.notEqual((await asks.ended).code, 0);
		asks = await login(home);
		await page.goto(`/ui/confirm/${asks.code}`);
		assert.equal(await page.getByLabel('Code').innerText(), asks.code);
		await page.getByRole('button', { name: 'Sign it in' }).click();
		await page.getByRole('heading', { name: 'It is signed in' }).waitFor();
		const r = await asks.ended;
		assert.equal(r.code, 0, r.text);
		assert.match(r.text, /logged in to/);
		/* Its key is in the list. */
		await page.goto('/ui/settings');
		await page.getByRole('row').filter({ hasText: 'pando on ' }).waitFor();
	} finally {
		asks?.kill();
		rmSync(home, { recursive: true, force: true });
		for (const k of (await api('GET', '/v1/keys')).keys)
			if (k.name.startsWith('pando on '))
				await api('DELETE', `/v1/keys/${k.id}`);
	}
	quiet(page);
});

test('a session that expired: the page says so, and goes on where it was after signing in', async () => {
	await page.goto('/ui/operate?tab=audit');
	await page.locator('.live.is-live').waitFor();
	await expireSessions();
	await page.getByText('Your session has ended').waitFor();
	await page.getByLabel('API key or identity token').fill(KEY);
	await page.getByRole('button', { name: 'Sign in', exact: true }).click();
	await page.getByRole('tab', { name: 'Audit log', selected: true }).waitFor();
	await page.locator('.live.is-live').waitFor();
});
