// SPDX-License-Identifier: Apache-2.0
// Bundles the dashboard into OUT (default: dist/): index.html, assets/NAME-HASH.{js,css} and the files of static/.
//
//     node build.mjs [--out DIR] [--check] [--watch]
//
// Names in assets/ carry a hash of what they hold, so a browser may keep them forever; index.html names the ones of
// this build. --check runs the type checker first. docs/, if it is there, makes DIR/docs (docs/build.mjs).

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as esbuild from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const out = path.resolve(args.includes('--out') ? args[args.indexOf('--out') + 1] : path.join(here, 'dist'));

if (args.includes('--check')) {
	const tsc = path.join(here, 'node_modules/typescript/bin/tsc');
	for (const project of [here, path.join(here, 'docs')]) {
		const r = spawnSync(process.execPath, [tsc, '--noEmit', '-p', project], { stdio: 'inherit' });
		if (r.status !== 0)
			process.exit(1);
	}
}

const options = {
	absWorkingDir: here,
	entryPoints: { main: 'src/main.tsx' },
	outdir: path.join(out, 'assets'),
	entryNames: '[name]-[hash]',
	chunkNames: '[name]-[hash]',
	assetNames: '[name]-[hash]',
	publicPath: '/assets',
	bundle: true,
	splitting: true,
	format: 'esm',
	target: ['chrome100', 'firefox100', 'safari15.4'],
	jsx: 'automatic',
	jsxImportSource: 'preact',
	loader: { '.svg': 'file', '.woff2': 'file' },
	minify: !args.includes('--watch'),
	legalComments: 'none',
	metafile: true,
	logLevel: 'warning',
};

/* index.html with the names of this build's files; the same names again for whoever embeds them. */
async function writeIndex(meta) {
	const outputs = Object.entries(meta.outputs);
	const entryOf = (source) => outputs.find(([, o]) => o.entryPoint === source);
	const base = (file) => '/assets/' + path.basename(file);
	const [mainFile, main] = entryOf('src/main.tsx');
	/* Not a module: it has to run before the first paint. */
	const theme = await esbuild.build({ ...options, entryPoints: { theme: 'src/theme.ts' }, splitting: false, format: 'iife' });
	const [themeFile] = Object.keys(theme.metafile.outputs);
	/* What the first view needs: the entry and all that it imports at once. */
	const first = new Set();
	const walk = (file) => {
		for (const i of meta.outputs[file].imports)
			if (i.kind === 'import-statement' && !first.has(i.path)) {
				first.add(i.path);
				walk(i.path);
			}
	};
	walk(mainFile);
	const icon = await readFile(path.join(here, 'static/icon.svg'));
	const iconName = `icon-${createHash('sha256').update(icon).digest('hex').slice(0, 8).toUpperCase()}.svg`;
	await writeFile(path.join(out, 'assets', iconName), icon);
	const html = (await readFile(path.join(here, 'src/index.html'), 'utf8'))
		.replace('{{icon}}', `/assets/${iconName}`)
		.replace('{{theme}}', base(themeFile))
		.replace('{{main}}', base(mainFile))
		.replace('{{css}}', base(main.cssBundle))
		.replace('{{preload}}', [...first].map((f) => `<link rel="modulepreload" href="${base(f)}">`).join('\n\t'));
	await writeFile(path.join(out, 'index.html'), html);
	await writeFile(path.join(out, 'meta.json'), JSON.stringify({
		first: [mainFile, themeFile, main.cssBundle, ...first].map((f) => path.basename(f)),
		files: Object.fromEntries(outputs.map(([f, o]) => [path.basename(f), {
			bytes: o.bytes, entry: o.entryPoint ?? null,
			inputs: Object.entries(o.inputs).sort((a, b) => b[1].bytesInOutput - a[1].bytesInOutput)
				.slice(0, 8).map(([n, i]) => [n, i.bytesInOutput]),
		}])),
	}, null, '\t'));
}

await rm(out, { recursive: true, force: true });
await mkdir(path.join(out, 'assets'), { recursive: true });
if (existsSync(path.join(here, 'static')))
	await cp(path.join(here, 'static'), out, { recursive: true });
if (args.includes('--watch')) {
	const ctx = await esbuild.context({ ...options, plugins: [{
		name: 'index', setup: (b) => b.onEnd((r) => r.metafile && writeIndex(r.metafile)) }] });
	await ctx.watch();
} else {
	await writeIndex((await esbuild.build(options)).metafile);
	const docs = path.join(here, 'docs/build.mjs');
	if (existsSync(docs))
		await (await import(pathToFileURL(docs))).build(path.join(out, 'docs'));
}
