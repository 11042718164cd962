// SPDX-License-Identifier: Apache-2.0
// load('vm/pty.ts'): a module of web/src/pages, bundled for this Node.
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const pages = fileURLToPath(new URL('../../../web/src/pages/', import.meta.url));

export async function load(name) {
	const dir = await mkdtemp(path.join(os.tmpdir(), 'pando-web-'));
	try {
		const out = path.join(dir, 'module.mjs');
		await build({ entryPoints: [path.join(pages, name)], outfile: out, bundle: true, format: 'esm', platform: 'node', logLevel: 'error' });
		return await import(pathToFileURL(out).href);
	} finally {
		await rm(dir, { recursive: true });
	}
}
