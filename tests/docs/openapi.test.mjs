// SPDX-License-Identifier: Apache-2.0
// openapi.json as the server sends it, for a stock validator.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';

const base = process.env.PANDO_URL;

test('a stock validator accepts it', async () => {
	const doc = await (await fetch(`${base}/openapi.json`)).json();
	const validator = new Validator();
	const result = await validator.validate(structuredClone(doc));
	assert.equal(result.valid, true, JSON.stringify(result.errors, null, 1));
	assert.equal(validator.version, '3.1');
	/* and it does look */
	doc.paths['/v1/vms'].get.responses = 7;
	assert.equal((await new Validator().validate(doc)).valid, false);
});

test('operations have names, sections, and parameters for their paths', async () => {
	const doc = await (await fetch(`${base}/openapi.json`)).json();
	const tags = new Set(doc.tags.map((t) => t.name));
	const ids = new Set();
	for (const [path, methods] of Object.entries(doc.paths))
		for (const op of Object.values(methods)) {
			assert.match(op.operationId, /^[a-z][A-Za-z0-9]+$/);
			assert.ok(!ids.has(op.operationId), op.operationId);
			ids.add(op.operationId);
			assert.ok(tags.has(op.tags[0]), path);
			const named = (op.parameters ?? []).filter((p) => p.in === 'path').map((p) => p.name);
			assert.deepEqual(named, [...path.matchAll(/\{(\w+)\}/g)].map((m) => m[1]), path);
		}
	assert.ok(ids.size > 190);
});
