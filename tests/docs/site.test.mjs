// SPDX-License-Identifier: Apache-2.0
// The docs site as the server sends it, under its policy, in Chromium.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { open } from './browser.mjs';

const base = process.env.PANDO_URL;
const axe = createRequire(import.meta.url).resolve('axe-core');
let browser;

before(async () => browser = await open());
after(async () => browser?.close());

const linksOf = (html) => [...html.matchAll(/ (?:href|src)="(\/[^"]*)"/g)].map((m) => m[1].replaceAll('&amp;', '&'));

test('every link leads somewhere, headings included', async () => {
	const pages = new Map();
	const queue = ['/docs'];
	const wanted = [];
	while (queue.length) {
		const path = queue.pop();
		if (pages.has(path))
			continue;
		const r = await fetch(base + path);
		assert.equal(r.status, 200, path);
		const text = await r.text();
		pages.set(path, text);
		if (!r.headers.get('content-type').startsWith('text/html') || !path.startsWith('/docs'))
			continue;
		for (const link of linksOf(text)) {
			const [to, hash] = link.split('#');
			wanted.push([path, to, hash]);
			queue.push(to);
		}
	}
	for (const [from, to, hash] of wanted)
		assert.ok(!hash || pages.get(to).includes(` id="${hash}"`), `${from} leads to ${to}#${hash}`);
	assert.ok(pages.size > 100, `${pages.size} pages`);
});

test('search finds a phrase, and the keyboard goes there', async () => {
	const { page, errors } = await browser.page({ width: 1280 });
	await page.goto(`${base}/docs`);
	await page.keyboard.press('/');
	await page.keyboard.type('a point never changes');
	await page.waitForSelector('#found li[aria-selected="true"]');
	assert.match(await page.textContent('#found li'), /Concepts/);
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/docs\/concepts#/);
	assert.match(await page.textContent('article'), /A point never changes/);
	await page.keyboard.press('/');
	await page.keyboard.type('zzzzzzzz');
	await page.waitForSelector('dialog p:has-text("Nothing has")');
	assert.deepEqual(errors, []);
	await page.close();
});

test('light, dark and narrow; the menu; no layout wider than the screen', async () => {
	const { page, errors } = await browser.page({ width: 375, height: 800, dark: true });
	for (const path of ['/docs', '/docs/guides/code-interpreter', '/docs/api/vms', '/docs/settings']) {
		await page.goto(base + path);
		assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 375, path);
	}
	assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
	await page.click('button.theme');
	await page.reload();
	assert.equal(await page.getAttribute('html', 'data-theme'), 'light');
	await page.click('button.menu');
	await page.click('nav.side a[href="/docs/quickstart"]');
	await page.waitForURL(/quickstart/);
	assert.deepEqual(errors, []);
	await page.close();
});

test('a code block is copied', async () => {
	await browser.context.grantPermissions(['clipboard-read', 'clipboard-write']);
	const { page, errors } = await browser.page({ width: 1280 });
	await page.goto(`${base}/docs/guides/code-interpreter`);
	await page.hover('.code');
	await page.click('.code .copy');
	await page.waitForSelector('.copy:has-text("Copied")');
	assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "pando code -e 'sum(range(10))'\n");
	assert.deepEqual(errors, []);
	await page.close();
});

test('nothing serious for axe', async () => {
	for (const dark of [false, true]) {
		const { page } = await browser.page({ width: 1280, dark });
		/* the policy refuses scripts of others: axe is for the test, so it goes in past it */
		const source = (await import('node:fs')).readFileSync(axe, 'utf8');
		for (const path of ['/docs/quickstart', '/docs/api/vms']) {
			await page.goto(base + path);
			await page.evaluate((d) => document.documentElement.dataset.theme = d ? 'dark' : 'light', dark);
			await page.evaluate(source);
			const { violations } = await page.evaluate(() => globalThis.axe.run(document));
			const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
			assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' | ')}`), [], `${path} dark=${dark}`);
		}
		await page.close();
	}
});

test('llms.txt leads to Markdown', async () => {
	const text = await (await fetch(`${base}/docs/llms.txt`)).text();
	assert.match(text, /^# Pando\n\n> /);
	const links = [...text.matchAll(/\]\((\/docs\/[^)]+)\)/g)].map((m) => m[1]);
	assert.ok(links.length > 50);
	for (const link of links) {
		const r = await fetch(base + link);
		assert.equal(r.status, 200, link);
		assert.match(r.headers.get('content-type'), /^text\/(markdown|plain)/, link);
	}
});
