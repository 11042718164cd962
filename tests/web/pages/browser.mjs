// SPDX-License-Identifier: Apache-2.0
// A browser that is signed in, and what every test of these pages asks for.
//
// PANDO_API_URL and PANDO_API_KEY name the server. With PANDO_SHOTS, screenshots go to that folder. Whatever foreign text
// appears, no script of it may run: hostile texts set window.hacked or open a dialog, and hurt() looks for both. The browser's own refusals
// (Content-Security-Policy) and errors of the page are failures, too.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

export const URL_ = process.env.PANDO_API_URL;
export const KEY = process.env.PANDO_API_KEY;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const LONG = 180_000; // a guest may be emulated, and the host busy

export async function api(method, route, body) {
	const res = await fetch(URL_ + route, { method, headers: { authorization: `Bearer ${KEY}`, ...(body ? { 'content-type': 'application/json' } : {}) }, body: body ? JSON.stringify(body) : undefined });
	const text = await res.text();
	assert.ok(res.ok, `${method} ${route}: ${res.status} ${text.slice(0, 300)}`);
	return text ? JSON.parse(text) : null;
}

export async function until(what, check, ms = LONG) {
	const end = Date.now() + ms;
	for (;;) {
		const v = await check();
		if (v)
			return v;
		assert.ok(Date.now() < end, `not in time: ${what}`);
		await new Promise((ok) => setTimeout(ok, 200));
	}
}

export async function openBrowser() {
	const dir = mkdtempSync(path.join(os.tmpdir(), 'pando-chromium-'));
	const context = await chromium.launchPersistentContext(dir, {
		executablePath: '/usr/bin/chromium', headless: true, viewport: { width: 1280, height: 800 }, acceptDownloads: true,
		args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
	});
	const page = context.pages()[0] ?? await context.newPage();
	const complaints = [];
	page.setDefaultTimeout(LONG);
	page.on('pageerror', (e) => complaints.push(`error: ${e.message}`));
	page.on('dialog', (d) => {
		complaints.push(`a script ran: ${d.message()}`);
		void d.dismiss();
	});
	page.on('console', (m) => {
		if (m.type() === 'error' && /Content Security Policy/.test(m.text()))
			complaints.push(m.text());
	});
	const b = {
		page, context, complaints,
		async signIn() {
			const r = await context.request.post(`${URL_}/v1/session`, { data: { credential: KEY } });
			assert.ok(r.ok(), await r.text());
		},
		go: (to) => page.goto(URL_ + to),
		/** No script of somebody else's ran; `allowed` are refusals that a hostile document must cause. */
		async hurt(allowed = null) {
			const found = complaints.splice(0);
			assert.equal(await page.evaluate(() => window.hacked), undefined, 'foreign text ran as a script');
			assert.deepEqual(found.filter((c) => !allowed?.test(c)), []);
		},
		/** axe-core on the whole page; frames of foreign documents are not looked into. */
		async accessible(where) {
			/* What fades in has not got its colours yet. */
			await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime < Infinity).map((a) => a.finished)));
			await page.evaluate(axe + '; undefined').catch(async () => {
				await context.newCDPSession(page).then((s) => s.send('Runtime.evaluate', { expression: axe }));
			});
			const found = await page.evaluate(async () => (await window.axe.run(document, { iframes: false, resultTypes: ['violations'] })).violations
				.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`));
			assert.deepEqual(found, [], where);
		},
		/** Nothing sticks out of a narrow window, or of a wide one. */
		async narrow(where) {
			for (const [width, height, name] of [[375, 720, 'narrow'], [2560, 1200, 'wide']]) {
				await page.setViewportSize({ width, height });
				const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
				await b.shot(`${where}-${name}`);
				assert.ok(over <= 1, `${where}: ${over} px wider than ${width}`);
			}
			await page.setViewportSize({ width: 1280, height: 800 });
		},
		async shot(name) {
			if (process.env.PANDO_SHOTS)
				await page.screenshot({ path: path.join(process.env.PANDO_SHOTS, `${name}.png`) });
		},
		async theme(dark) {
			await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
			await page.waitForFunction((t) => document.documentElement.dataset.theme === t, dark ? 'dark' : 'light');
		},
		async close() {
			await context.close();
			rmSync(dir, { recursive: true, force: true });
		},
	};
	return b;
}
