// SPDX-License-Identifier: Apache-2.0
// Debian's Chromium, without its requests to the world; a page that reports every error and every refusal of the policy.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

export async function open() {
	const dir = mkdtempSync(path.join(tmpdir(), 'pando-chromium-'));
	const context = await chromium.launchPersistentContext(dir, {
		executablePath: process.env.PANDO_CHROMIUM ?? '/usr/bin/chromium',
		args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
		headless: true,
	});
	return {
		context,
		async close() {
			await context.close();
			rmSync(dir, { recursive: true, force: true });
		},
		/** errors: what the console and the page complained about. */
		async page(options = {}) {
			const page = await context.newPage();
			const errors = [];
			page.on('console', (m) => m.type() === 'error' && errors.push(m.text()));
			page.on('pageerror', (e) => errors.push(String(e)));
			if (options.width)
				await page.setViewportSize({ width: options.width, height: options.height ?? 900 });
			if (options.dark !== undefined)
				await page.emulateMedia({ colorScheme: options.dark ? 'dark' : 'light' });
			return { page, errors };
		},
	};
}
