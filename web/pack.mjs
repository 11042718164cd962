// SPDX-License-Identifier: Apache-2.0
// pack.mjs DIST OUT: makes OUT/web.blob, all files of DIST one after the other, as gzip where that is smaller, and
// OUT/web_data.c, the table of them for server/web. "@BLOB@" in it stands for the blob's path.
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

const [dist, out] = process.argv.slice(2);
const types = {
	'.css': 'text/css; charset=utf-8', '.html': 'text/html; charset=utf-8', '.ico': 'image/x-icon', '.js': 'text/javascript; charset=utf-8',
	'.json': 'application/json', '.md': 'text/markdown; charset=utf-8', '.png': 'image/png', '.svg': 'image/svg+xml',
	'.txt': 'text/plain; charset=utf-8', '.webmanifest': 'application/manifest+json', '.woff2': 'font/woff2', '.xml': 'application/xml',
	'.yaml': 'application/yaml; charset=utf-8',
};
const skipped = new Set(['meta.json']);

async function* walk(dir) {
	for (const e of await readdir(dir, { withFileTypes: true }))
		if (e.isDirectory())
			yield* walk(path.join(dir, e.name));
		else
			yield path.join(dir, e.name);
}

const names = [];
for await (const f of walk(dist))
	if (!skipped.has(path.relative(dist, f)))
		names.push(path.relative(dist, f));
/* By bytes, as strcmp() has it. */
names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

const c = (s) => JSON.stringify(s);
const blob = [];
const rows = [];
let off = 0;
for (const name of names) {
	if (!/^[A-Za-z0-9._/-]+$/.test(name))
		throw new Error(`${name}: a file's name may have letters, digits, '.', '_' and '-'`);
	const type = types[path.extname(name)];
	if (!type)
		throw new Error(`${name}: no content type is known for it; add one in web/pack.mjs`);
	const raw = await readFile(path.join(dist, name));
	const packed = gzipSync(raw, { level: 9 });
	const gzip = packed.length < raw.length * 0.95;
	const body = gzip ? packed : raw;
	const etag = `"${createHash('sha256').update(raw).digest('base64url').slice(0, 22)}"`;
	const immutable = /^assets\/.*-[0-9A-Z]{8}\.[a-z0-9]+$/.test(name);
	rows.push(`\t{ ${c(name)}, ${c(type)}, ${c(etag)}, ${off}u, ${body.length}u, ${raw.length}u, ${gzip}, ${immutable} },`);
	blob.push(body);
	off += body.length;
}
const all = Buffer.concat(blob);
await writeFile(path.join(out, 'web.blob'), all);
await writeFile(path.join(out, 'web_data.c'), `/* SPDX-License-Identifier: Apache-2.0 */
/* web_data.c - made by web/pack.mjs; web.blob is ${createHash('sha256').update(all).digest('hex')} */
#include "web/web.h"

__asm__(".pushsection .rodata\\n"
        ".balign 64\\n"
        "web_blob:\\n"
        ".incbin \\"@BLOB@\\"\\n"
        ".byte 0\\n"
        ".popsection\\n");
extern const unsigned char web_blob[] __attribute__((visibility("hidden")));

static const struct web_file files[] = {
${rows.join('\n')}
};

const struct web web_site = { files, sizeof(files) / sizeof(files[0]), web_blob };
`);
