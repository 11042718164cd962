// SPDX-License-Identifier: Apache-2.0
// Nothing jumps while a page loads.
import assert from 'node:assert/strict';

/** How much of what was shown has moved since the page was loaded, as browsers count it (cumulative layout shift); what follows a click does not count. */
export async function still(page, what) {
	const moved = await page.evaluate(() => new Promise((done) => {
		const all = [];
		const note = (list) => all.push(...list.getEntries().filter((e) => !e.hadRecentInput));
		const o = new PerformanceObserver(note);
		o.observe({ type: 'layout-shift', buffered: true });
		requestAnimationFrame(() => requestAnimationFrame(() => {
			note({ getEntries: () => o.takeRecords() });
			done({ sum: all.reduce((n, e) => n + e.value, 0), of: all.flatMap((e) => e.sources.map((s) => (s.node?.className || s.node?.nodeName) ?? '?')) });
		}));
	}));
	assert.ok(moved.sum < 0.1, `${what}: ${moved.sum.toFixed(3)} of the window moved: ${moved.of.join(', ')}`);
}
