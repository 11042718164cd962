// SPDX-License-Identifier: Apache-2.0
// What the pages weigh as they are sent: gzipped, the first view and everything but the editor.
import assert from 'node:assert/strict';
import { URL_BASE } from './kit.mjs';

/* The editor and what only it needs is loaded when a file is opened. */
const EDITOR = /\/editor-/;

export async function weigh() {
	const html = await (await fetch(URL_BASE + '/')).text();
	const first = new Set([...html.matchAll(/\/assets\/[\w.-]+/g)].map((m) => m[0]));
	const seen = new Map();
	const visit = async (name) => {
		if (seen.has(name))
			return;
		const res = await fetch(URL_BASE + name, { headers: { 'accept-encoding': 'gzip' } });
		assert.equal(res.status, 200, name);
		seen.set(name, Number(res.headers.get('content-length')));
		if (!name.endsWith('.js') || EDITOR.test(name))
			return;
		for (const [, file] of (await res.text()).matchAll(/["'](?:\.\/|\/assets\/)([\w.-]+\.(?:js|css))["']/g))
			await visit('/assets/' + file);
	};
	for (const f of first)
		await visit(f);
	const sum = (names) => names.reduce((n, f) => n + seen.get(f), 0);
	const rest = [...seen.keys()].filter((f) => !EDITOR.test(f));
	assert.ok(rest.length > first.size + 3, 'the pages were found');
	return { first: sum([...first]), all: sum(rest) };
}
