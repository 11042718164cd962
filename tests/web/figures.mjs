// SPDX-License-Identifier: Apache-2.0
// Figures of the pages for bench/page.py: a line of JSON for each, {"figure", "value"}. Run by it with PANDO_URL and PANDO_API_KEY.
//
// An hour of events is EVENTS of them (five a second for an hour: a busy account), real ones of real VMs, made as fast as the server
// takes them: the page has them all, in order, in a few minutes instead of an hour. Half of them are followed by the tree, half by the
// list of events, in one document that is never loaded again.
import assert from 'node:assert/strict';
import { forest } from './forest.mjs';
import { api, cleanUp, close, KEY, newPage, open, PATIENCE, signedIn, URL_BASE } from './kit.mjs';
import { weigh } from './weight.mjs';

const EVENTS = Number(process.env.PANDO_EVENTS ?? 18000);
const AT_ONCE = 12;
const CATCH_UP = 4000; // the server keeps 4096
const FIRST_VIEWS = 5;

const tell = (figure, value) => console.log(JSON.stringify({ figure, value }));
const middle = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

/** That many events, by renaming VMs; resolves with the seconds it took when all are written. */
async function happen(vms, count) {
	const begin = performance.now();
	let left = count;
	await Promise.all(Array.from({ length: AT_ONCE }, async (_, i) => {
		while (left-- > 0)
			await api('PATCH', `/v1/vms/${vms[i % vms.length]}`, { name: `busy ${left}` });
	}));
	return (performance.now() - begin) / 1000;
}

const seen = (page) => page.evaluate(() => globalThis.pandoEvents.count);
async function caughtUp(page, count) {
	await page.waitForFunction((n) => globalThis.pandoEvents.count >= n, count, { timeout: PATIENCE, polling: 20 });
}

/** Memory of the page that garbage collection leaves, in MB, and its elements. */
async function memory(page) {
	const cdp = await page.context().newCDPSession(page);
	await cdp.send('HeapProfiler.enable');
	await cdp.send('HeapProfiler.collectGarbage');
	await cdp.send('HeapProfiler.collectGarbage');
	await cdp.send('Performance.enable');
	const { metrics } = await cdp.send('Performance.getMetrics');
	await cdp.detach();
	const of = (name) => metrics.find((m) => m.name === name).value;
	return { mb: of('JSHeapUsedSize') / 1e6, nodes: of('Nodes') };
}

/** From the request of the page, with nothing in the browser's cache, to a tree on the canvas. */
async function firstView() {
	const page = await newPage();
	await page.request.post(`${URL_BASE}/v1/session`, { data: { credential: KEY } });
	await page.goto('/ui/');
	const ms = await page.waitForFunction(() => globalThis.pandoTree?.handle?.stats.frames > 0 && performance.now(), undefined, { polling: 'raf' });
	tell('page.first', await ms.jsonValue());
	const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
	if (paint)
		tell('page.paint', paint);
	await page.context().close();
}

/** How long a picture of all nodes takes, while it is moved. */
async function drawing(size) {
	const page = await signedIn();
	await page.route('**/v1/tree', (r) => r.fulfill({ json: forest(size) }));
	await page.goto('/ui/');
	await page.waitForFunction((n) => globalThis.pandoTree?.forest?.all.length === n && globalThis.pandoTree.handle?.stats.frames > 2, size);
	await page.mouse.move(700, 450);
	const took = [];
	for (let i = 0; i < 30; i++) {
		const before = await page.evaluate(() => globalThis.pandoTree.handle.stats.frames);
		await page.mouse.wheel(i % 2 ? 12 : -12, 0);
		await page.mouse.wheel(0, i % 2 ? 12 : -12);
		await page.waitForFunction((n) => globalThis.pandoTree.handle.stats.frames > n, before);
		took.push(await page.evaluate(() => globalThis.pandoTree.handle.stats.lastMs));
	}
	tell(`page.frame.${size}`, middle(took));
	await page.context().close();
}

async function anHour(vms) {
	const page = await signedIn();
	await page.waitForFunction(() => globalThis.pandoTree?.handle?.stats.frames > 0);
	await page.locator('.live.is-live').waitFor();
	const half = Math.round(EVENTS / 2);
	/* What is made once (the list of events, compiled code) is there before the first look. */
	await page.getByRole('link', { name: 'Operate' }).click();
	await page.getByRole('tab', { name: 'Events' }).click();
	let count = await seen(page) + 400;
	await happen(vms, 400);
	await caughtUp(page, count);
	await page.getByRole('link', { name: 'Tree' }).click();
	await page.locator('canvas.tree-canvas').waitFor();
	const before = await memory(page);
	for (const where of ['Tree', 'Operate']) {
		await page.getByRole('link', { name: where }).click();
		if (where === 'Operate')
			await page.getByRole('tab', { name: 'Events' }).click();
		count = await seen(page) + half;
		const s = await happen(vms, half);
		const made = performance.now();
		await caughtUp(page, count);
		tell(`page.lag.${where.toLowerCase()}`, performance.now() - made);
		tell('page.live', half / s);
	}
	assert.ok(await page.getByRole('table', { name: 'Events' }).getByRole('row').count() <= 301, 'the list has an end');
	await page.getByRole('link', { name: 'Tree' }).click();
	await page.locator('canvas.tree-canvas').waitFor();
	const after = await memory(page);
	tell('page.heap.before', before.mb);
	tell('page.heap.hour', after.mb);
	tell('page.nodes.hour', after.nodes);
	/* A page that was away is given everything at once: as fast as it can. */
	/* A browser that is told to be offline keeps a stream that it has; it gets no other one when it is back, until all has happened. */
	await page.route('**/v1/events', (r) => r.abort('connectionreset'));
	await page.context().setOffline(true);
	await page.getByText('The server is restarting or cannot be reached').waitFor();
	await page.context().setOffline(false);
	await page.locator('.live.is-live').waitFor({ state: 'detached' });
	count = await seen(page);
	await happen(vms, CATCH_UP);
	/* From when the page asks for them to when it has dealt with the last one. */
	const rate = page.evaluate(([from, n]) => new Promise((done) => {
		let asked = 0;
		const fetch = globalThis.fetch;
		globalThis.fetch = (what, how) => {
			if (what === '/v1/events')
				asked = performance.now();
			return fetch(what, how);
		};
		const look = () => {
			if (globalThis.pandoEvents.count >= from + n)
				done(n / (performance.now() - asked) * 1000);
			else
				setTimeout(look, 1);
		};
		look();
	}), [count, CATCH_UP]);
	await page.unroute('**/v1/events');
	tell('page.catchup', await rate);
	await page.context().close();
}

try {
	await open();
	const first = (await api('POST', '/v1/vms', { name: 'busy', idleTimeoutSeconds: null })).id;
	const { forks } = await api('POST', `/v1/vms/${first}/fork`, { count: 3 });
	const vms = [first, ...forks.map((f) => f.id)];
	const weight = await weigh();
	tell('page.weight.first', weight.first / 1024);
	tell('page.weight.all', weight.all / 1024);
	for (let i = 0; i < FIRST_VIEWS; i++)
		await firstView();
	for (const size of [500, 2000])
		await drawing(size);
	await anHour(vms);
} finally {
	await cleanUp();
	await close();
}
