// SPDX-License-Identifier: Apache-2.0
// What the tests of pages share: one browser, signed-in pages, the API beside them, and checks that every page passes.
//
// From tests/e2e/test_web.py: PANDO_URL, PANDO_API_KEY (the operator's), PANDO_OTHER_KEY (another account's), PANDO_CONTROL (a
// file: see ask()), PANDO_SHOTS (where pictures go; none without it).
import assert from 'node:assert/strict';
import { test as nodeTest } from 'node:test';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

export { still } from './still.mjs';

export const URL_BASE = process.env.PANDO_URL;
export const KEY = process.env.PANDO_API_KEY;
export const OTHER_KEY = process.env.PANDO_OTHER_KEY;
export const PATIENCE = 120_000; // guests may be emulated, hosts busy
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser = null;
let profile = null;
const pages = new Set();

/** A test whose failure tells what the open pages showed. */
export function test(name, fn, options = {}) {
	nodeTest(name, options, async (t) => {
		try {
			await fn(t);
		} catch (e) {
			for (const page of pages) {
				const text = await page.locator('body').innerText({ timeout: 2000 }).catch((why) => String(why));
				e.message += `\n--- ${page.url()} ${JSON.stringify(page.complaints)}\n${text.slice(0, 1500)}\n${page.requests.slice(-12).join('\n')}`;
				await shot(page, `failed-${name.replace(/\W+/g, '-').slice(0, 50)}`).catch(() => undefined);
			}
			throw e;
		}
	});
}

export async function open() {
	if (!browser) {
		profile = mkdtempSync(path.join(os.tmpdir(), 'pando-web-'));
		browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-quic',
			'--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', `--crash-dumps-dir=${profile}`] });
	}
	return browser;
}

export async function close() {
	await browser?.close();
	browser = null;
	if (profile)
		rmSync(profile, { recursive: true, force: true });
}

export async function api(method, path, body, key = KEY) {
	const res = await fetch(URL_BASE + path, { method, headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'application/json' } : {}) }, body: body ? JSON.stringify(body) : undefined });
	const text = await res.text();
	const json = text ? JSON.parse(text) : null;
	if (!res.ok)
		throw new Error(`${method} ${path}: ${res.status} ${text}`);
	return json;
}

/** The VMs and snapshots that the tests left, of an account. */
export async function cleanUp(key = KEY) {
	const { vms } = await api('GET', '/v1/vms', undefined, key);
	await Promise.all(vms.map((v) => api('DELETE', `/v1/vms/${v.id}`, undefined, key)));
	const { snapshots } = await api('GET', '/v1/vms/snapshots', undefined, key);
	await Promise.all(snapshots.map((s) => api('DELETE', `/v1/vms/snapshots/${s.snapshotId}`, undefined, key)));
}

/** A page of its own context. Whatever it complains about ends up in page.complaints: errors of scripts, of the policy. */
export async function newPage(options = {}) {
	const context = await (await open()).newContext({ baseURL: URL_BASE, viewport: { width: 1366, height: 850 }, ...options });
	context.setDefaultTimeout(PATIENCE);
	const page = await context.newPage();
	page.complaints = [];
	page.requests = [];
	pages.add(page);
	page.on('close', () => pages.delete(page));
	const note = (line) => page.requests.push(`${new Date().toISOString().slice(11, 23)} ${line}`) > 50 && page.requests.shift();
	page.on('response', (r) => note(`${r.status()} ${r.request().method()} ${r.url()}`));
	page.on('requestfailed', (r) => note(`${r.failure()?.errorText} ${r.method()} ${r.url()}`));
	page.on('framenavigated', (f) => note(`at ${f.url()}`));
	/* VMs on this host come with interfaces, and browsers drop what is on its way whenever one appears. */
	const goto = page.goto.bind(page);
	page.goto = async (to, how) => {
		for (let i = 0; ; i++)
			try {
				return await goto(to, how);
			} catch (e) {
				/* "interrupted": a page whose script was lost loads itself again, and so does the browser's own page of an error. */
				if (i > 5 || !/ERR_NETWORK_CHANGED|ERR_ABORTED|chrome-error:|is interrupted by another navigation/.test(e.message))
					throw e;
				await page.waitForLoadState('load').catch(() => undefined); /* of the one that came between */
			}
	};
	page.on('pageerror', (e) => page.complaints.push(`error: ${e.message}`));
	page.on('console', (m) => {
		/* Failed requests are the page's business: it shows them. */
		if (m.type() === 'error' && !/Failed to load resource/.test(m.text()))
			page.complaints.push(m.text());
	});
	page.on('dialog', (d) => {
		page.complaints.push(`a dialog: ${d.message()}`);
		void d.dismiss();
	});
	return page;
}

export async function signIn(page, key = KEY, to = '/ui/') {
	await page.goto('/ui/login');
	await page.getByLabel('API key or identity token').fill(key);
	await page.getByRole('button', { name: 'Sign in', exact: true }).click();
	await page.getByRole('navigation', { name: 'Pages' }).waitFor();
	if (to !== '/ui/')
		await page.goto(to);
}

export async function signedIn(key = KEY, to = '/ui/', options = {}) {
	const page = await newPage(options);
	await signIn(page, key, to);
	return page;
}

/** No serious finding of axe-core on what is shown now. */
export async function accessible(page, what) {
	/* What fades in has not got its colours yet. */
	await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime < Infinity).map((a) => a.finished)));
	await page.evaluate(axeSource);
	const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
	const bad = found.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
	assert.deepEqual(bad.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`), [], `${what}: axe-core`);
}

/** The page has that theme, all of it. */
export async function themed(page, colorScheme, more = {}) {
	await page.emulateMedia({ colorScheme, ...more });
	await page.waitForFunction((t) => document.documentElement.dataset.theme === t, colorScheme);
}

export async function shot(page, name) {
	if (process.env.PANDO_SHOTS)
		await page.screenshot({ path: path.join(process.env.PANDO_SHOTS, `${name}.png`) });
}

/** Nothing is wider than the window. */
export async function fits(page, what) {
	const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
	assert.ok(over <= 0, `${what} is ${over} pixels wider than the window`);
}

export function quiet(page) {
	assert.deepEqual(page.complaints, [], 'the page complained');
}

/* The server's start and end are the business of whoever started it: tests/e2e/test_web.py does what the file says and
 * removes it. */
async function ask(word) {
	const file = process.env.PANDO_CONTROL;
	writeFileSync(file, word);
	for (let i = 0; existsSync(file); i++) {
		assert.ok(i < 1200, `nobody did "${word}"`);
		await new Promise((done) => setTimeout(done, 100));
	}
}
export const stopServer = () => ask('stop');
export const startServer = () => ask('start');
/** The server restarts, and all sessions are older than they may become. */
export const expireSessions = () => ask('expire');
