// SPDX-License-Identifier: Apache-2.0
// The docs site: build(OUT) makes OUT/** from docs/*.md, docs/openapi.json and the files here.
//
//     node docs/build.mjs OUT
//
// The generator is TypeScript (site.ts); it is bundled in memory and run.
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import * as esbuild from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));

export async function build(out) {
	const made = await esbuild.build({
		entryPoints: [path.join(here, 'site.ts')], bundle: true, write: false, platform: 'node', format: 'esm', target: 'node18',
		packages: 'external', logLevel: 'warning',
	});
	/* beside the sources, so that it finds the packages */
	const dir = await mkdtemp(path.join(here, '.site-'));
	try {
		const file = path.join(dir, 'site.mjs');
		await writeFile(file, made.outputFiles[0].contents);
		const site = await import(pathToFileURL(file).href);
		await site.make(path.resolve(here, '../..'), out, await browserFiles());
	} finally {
		await rm(dir, { recursive: true, force: true });
	}
}

/* What the pages load: one style sheet, one script, and the theme's, which runs before anything is drawn. */
async function browserFiles() {
	const made = await esbuild.build({
		entryPoints: { site: path.join(here, 'client/site.ts'), theme: path.join(here, '../src/theme.ts'), style: path.join(here, 'style.css') },
		outdir: '/', entryNames: '[name]', bundle: true, write: false, format: 'iife', target: ['chrome100', 'firefox100', 'safari15.4'],
		minify: true, legalComments: 'none', logLevel: 'warning',
	});
	return made.outputFiles.map((f) => ({ name: path.basename(f.path), text: f.text }));
}

if (process.argv[1] === fileURLToPath(import.meta.url))
	await build(path.resolve(process.argv[2] ?? 'dist/docs'));
