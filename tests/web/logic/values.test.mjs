// SPDX-License-Identifier: Apache-2.0
// What the pages compute from texts, file names, diffs and figures.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { load } from './load.mjs';

const ansi = await load('vm/ansi.ts');
const cells = await load('vm/notebook.ts');
const paths = await load('vm/paths.ts');
const diff = await load('git/linediff.ts');
const md = await load('git/markdown.ts');
const egress = await load('vm/egress.ts');
const samples = await load('vm/samples.ts');
const types = await load('vm/types.ts');
const git = await load('git/types.ts');
const axis = await load('../ui/axis.ts');
const model = await load('tree/model.ts');

test('ansi: colours become classes, everything else stays text', () => {
	assert.deepEqual(ansi.ansiRuns('a\x1b[1;31mred\x1b[0mb'), [{ text: 'a', cls: '' }, { text: 'red', cls: 'a-1 a-bold' }, { text: 'b', cls: '' }]);
	assert.deepEqual(ansi.ansiRuns('\x1b[38;5;196mx'), [{ text: 'x', cls: 'a-9' }]);
	assert.deepEqual(ansi.ansiRuns('<script>alert(1)</script>'), [{ text: '<script>alert(1)</script>', cls: '' }]);
	assert.equal(ansi.ansiRuns('\x1b]0;title\x07\x1b[2Jtext\x00\x08').map((r) => r.text).join(''), 'text');
	assert.ok(!ansi.ansiRuns('\x1b[31;"onclick=x"mz').some((r) => /[^a-z0-9 -]/.test(r.cls)));
});
test('ansi: a carriage return writes over the line; CRLF is a newline', () => {
	assert.equal(ansi.ansiRuns('10%\r20%\r30%\ndone\r\n').map((r) => r.text).join(''), '30%\ndone\n');
});
test('titles are one short line', () => {
	assert.equal(ansi.plainTitle('a\n\x1b[31mb\x07'), 'a b');
	assert.equal([...ansi.plainTitle('😀'.repeat(100), 10)].length, 10);
});

test('cells: events become pieces, output of a kind is one piece', () => {
	let c = cells.newCell('python', 'x');
	for (const [e, d] of [['started', { contextId: 'ctx-1' }], ['stdout', { data: 'a', encoding: 'utf8' }], ['stdout', { data: 'Yg==', encoding: 'base64' }], ['stderr', { data: 'w' }],
		['result', { 'text/plain': '1', 'image/png': 'iVBO' }], ['end', { executionCount: 4, durationMs: 12, files: [{ path: '/x', size: 1, mime: 'a/b' }], timedOut: true }]])
		c = cells.applyEvent(c, e, d);
	assert.deepEqual(c.pieces.map((p) => p.kind), ['stdout', 'stderr', 'result', 'note', 'file']);
	assert.equal(c.pieces[0].text, 'ab');
	assert.deepEqual([c.running, c.count, c.durationMs], [false, 4, 12]);
	assert.deepEqual(cells.applyEvent(c, 'unknown', {}), c);
});
test('cells: an error has its traceback; a lost VM is an error too', () => {
	let c = cells.applyEvent(cells.newCell('python'), 'end', { error: { name: 'E', value: 'v', traceback: 't' } });
	assert.deepEqual(c.pieces[0], { kind: 'error', name: 'E', value: 'v', traceback: 't' });
	c = cells.applyEvent(cells.newCell('bash'), 'error', { code: 'VM_SUSPENDED', message: 'm' });
	assert.equal(c.pieces[0].name, 'VM_SUSPENDED');
});
test('cells: output without end is bounded', () => {
	let c = cells.newCell('python');
	for (let i = 0; i < 40; i++)
		c = cells.applyEvent(c, 'stdout', { data: 'x'.repeat(9999) + '\n' });
	assert.ok(c.pieces[0].text.length <= cells.TEXT_KEPT + 100);
	assert.match(c.pieces[0].text, /^\[earlier output/);
});
test('cells: pictures only from base64, SVG only as an address', () => {
	assert.equal(cells.imageSource('image/png', 'iVBO\nRw=='), 'data:image/png;base64,iVBORw==');
	assert.equal(cells.imageSource('image/png', '"><script>'), null);
	assert.ok(cells.imageSource('image/svg+xml', '<svg onload="alert(1)"/>').startsWith('data:image/svg+xml;charset=utf-8,%3Csvg'));
	assert.equal(cells.richest({ 'text/plain': '', 'text/html': '', 'image/png': '' }), 'image/png');
});
test('cells: kept per VM, and damaged storage is no obstacle', () => {
	const m = new Map();
	const store = { getItem: (k) => m.get(k) ?? null, setItem: (k, v) => m.set(k, v) };
	cells.saveCells(store, 'vm1', [{ ...cells.newCell('bash', 'ls'), running: true, pieces: [{ kind: 'stdout', text: 'x' }] }]);
	const [c] = cells.loadCells(store, 'vm1');
	assert.deepEqual([c.code, c.running, c.pieces.length], ['ls', false, 1]);
	assert.deepEqual(cells.loadCells(store, 'vm2'), []);
	m.set('pando.cells.vm3', '{"x":1}');
	assert.deepEqual(cells.loadCells(store, 'vm3'), []);
	m.set('pando.cells.vm3', '[null, {"id":"a","code":"c","language":"cobol"}]');
	assert.deepEqual(cells.loadCells(store, 'vm3'), []);
});

test('paths: every byte survives the way to an address and back', () => {
	const all = Array.from({ length: 255 }, (_, i) => String.fromCharCode(i + 1)).join('');
	assert.equal(paths.fromAddress(paths.inAddress(all)), all);
	assert.equal(paths.segment('/a b/\xff'), '%2Fa%20b%2F%FF');
	assert.equal(paths.shown('\xff\n\xe2\x80\xae'), '\ufffd\\n\\u{202e}');
	assert.equal(paths.normal('/a/../../b/./c//'), '/b/c');
	assert.equal(paths.parent('/a'), '/');
	assert.equal(paths.parent('/a/b'), '/a');
	assert.deepEqual(paths.crumbs('/a/b').map((c) => c.path), ['/', '/a', '/a/b']);
});
test('paths: commands name files of any bytes, in a real shell', () => {
	const dir = mkdtempSync(path.join(os.tmpdir(), 'pando-names-'));
	try {
		const names = ['plain', 'a b', "it's", '-rf', '$(touch pwned)', '`x`', 'new\nline', 'tail\n', '\xff\xfe', '"', '\\', '*', '<script>alert(1)<', '.hidden', "');x('"];
		for (const n of names)
			execFileSync('/bin/sh', ['-c', paths.command('touch --', `${dir}/${n}`)]);
		assert.deepEqual(readdirSync(dir, { encoding: 'latin1' }).sort(), [...names].sort());
		const out = execFileSync('/bin/sh', ['-c', paths.listCommand(dir)]).toString();
		const list = paths.parseListing(out);
		assert.deepEqual(list.map((e) => e.raw).sort(), [...names].sort());
		assert.ok(list.every((e) => e.kind === 'file' && e.size === 0));
		execFileSync('/bin/sh', ['-c', paths.command('mv -nT --', `${dir}/new\nline`, `${dir}/x\xf0`)]);
		execFileSync('/bin/sh', ['-c', paths.command('mkdir --', `${dir}/d ir`)]);
		execFileSync('ln', ['-s', 'd ir', `${dir}/link`]);
		const again = paths.parseListing(execFileSync('/bin/sh', ['-c', paths.listCommand(dir)]).toString());
		assert.ok(again.some((e) => e.raw === 'x\xf0'));
		const link = again.find((e) => e.raw === 'link');
		assert.deepEqual([link.kind, link.toDirectory, link.target], ['symlink', true, 'd ir']);
		assert.throws(() => execFileSync('/bin/sh', ['-c', paths.listCommand(`${dir}/none`)], { stdio: 'pipe' }));
	} finally {
		rmSync(dir, { recursive: true });
	}
});
test('paths: directories first, names as people count, hidden ones only if asked', () => {
	const e = (raw, kind = 'file', size = 1) => ({ raw, kind, size, mtimeMs: 0, mode: '', owner: '', target: '', toDirectory: false });
	const list = [e('b10'), e('b9'), e('.h'), e('z', 'directory'), e('A', 'file', 9)];
	assert.deepEqual(paths.sorted(list, 'name', false, false).map((x) => x.raw), ['z', 'A', 'b9', 'b10']);
	assert.deepEqual(paths.sorted(list, 'size', true, true).map((x) => x.raw), ['z', 'A', '.h', 'b9', 'b10']);
	assert.equal(paths.badName('a/b') !== '', true);
	assert.equal(paths.badName('ä'.repeat(128)) !== '', true);
	assert.equal(paths.badName('a b'), '');
});
test('paths: text or not', () => {
	assert.equal(paths.decodeText(new Uint8Array([65, 0])), null);
	assert.equal(paths.decodeText(new Uint8Array([0xff])), null);
	assert.equal(paths.decodeText(new TextEncoder().encode('ä')), 'ä');
});

/* Applies what a diff says to the old text: must give the new one. */
function applied(a, b) {
	const { lines } = diff.diffLines(a, b);
	assert.deepEqual(lines.filter((l) => l.kind !== '+').map((l) => l.text), diff.splitLines(a).lines);
	assert.deepEqual(lines.filter((l) => l.kind !== '-').map((l) => l.text), diff.splitLines(b).lines);
	return lines;
}
test('diff: as few lines as git finds, for random texts', () => {
	const dir = mkdtempSync(path.join(os.tmpdir(), 'pando-diff-'));
	let seed = 42;
	const rnd = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
	try {
		for (let i = 0; i < 60; i++) {
			const make = () => Array.from({ length: rnd(30) }, () => 'abcd'[rnd(4)]).join('\n') + (rnd(3) ? '\n' : '');
			const a = make(), b = rnd(5) ? make() : a;
			const lines = applied(a, b);
			writeFileSync(path.join(dir, 'a'), a);
			writeFileSync(path.join(dir, 'b'), b);
			let out = '';
			try {
				execFileSync('git', ['diff', '--no-index', '--minimal', '--no-color', '-U0', 'a', 'b'], { cwd: dir, stdio: 'pipe' });
			} catch (e) {
				out = e.stdout.toString();
			}
			const body = out.split('\n').slice(4);
			const count = (c) => body.filter((l) => l.startsWith(c)).length;
			assert.equal(lines.filter((l) => l.kind !== ' ').length, count('+') + count('-'), JSON.stringify([a, b, out]));
		}
	} finally {
		rmSync(dir, { recursive: true });
	}
});
test('diff: hunks with context, numbers and sides', () => {
	const a = Array.from({ length: 40 }, (_, i) => `l${i}`).join('\n') + '\n';
	const b = a.replace('l5\n', 'five\n').replace('l30\n', '');
	const d = diff.textDiff(a, b);
	assert.equal(d.hunks.length, 2);
	assert.deepEqual([d.added, d.removed], [1, 2]);
	assert.deepEqual([d.hunks[0].aStart, d.hunks[0].aCount, d.hunks[0].bStart, d.hunks[0].bCount], [3, 7, 3, 7]);
	const rows = diff.sideBySide(d.hunks[0].lines);
	assert.deepEqual(rows[3].left.text + rows[3].right.text, 'l5five');
	assert.equal(diff.textDiff(a, a).hunks.length, 0);
	assert.equal(diff.textDiff('x', 'x\n').hunks.length, 1);
	assert.equal(diff.textDiff('', 'a\nb\n').added, 2);
});
test('diff: two large foreign texts do not take forever', () => {
	const a = Array.from({ length: 20000 }, (_, i) => `a${i}`).join('\n'), b = Array.from({ length: 20000 }, (_, i) => `b${i}`).join('\n');
	const d = diff.textDiff(a, b);
	assert.ok(d.coarse);
	assert.equal(d.added, 20000);
});

test('markdown: addresses that run something are no links', () => {
	for (const bad of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'java\nscript:alert(1)', '\u0001javascript:x', 'data:text/html,x', 'vbscript:x', '//evil.example', '\\\\evil', ' javascript:x'])
		assert.equal(md.safeHref(bad), null, bad);
	for (const good of ['https://a.example/x', 'http://a', 'mailto:a@b', 'docs/x.md', '#top', '/abs'])
		assert.equal(md.safeHref(good), good);
	const flat = JSON.stringify(md.markdown('[x](javascript:alert(1)) ![i](javascript:x) <a href="javascript:x">y</a> [a](<javascript:x>)'));
	assert.ok(!/"href"/.test(flat), flat);
});
test('markdown: blocks and marks', () => {
	const b = md.markdown('# T\n\npara **b** `c` _e_ ~~d~~\n\n- a\n- b\n  - c\n\n1. x\n\n> q\n\n```js\n<b>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n');
	assert.deepEqual(b.map((x) => x.t), ['heading', 'para', 'list', 'list', 'quote', 'code', 'table', 'rule']);
	assert.deepEqual(b[1].of.map((x) => x.t), ['text', 'strong', 'text', 'code', 'text', 'em', 'text', 'del']);
	assert.equal(b[2].items.length, 2);
	assert.equal(b[5].text, '<b>');
	assert.equal(md.markdown('<script>alert(1)</script>')[0].of[0].text, '<script>alert(1)</script>');
});
test('markdown: hostile depth and length end', () => {
	md.markdown('>'.repeat(5000) + ' x');
	md.markdown('- '.repeat(2000) + 'x');
	md.markdown('[a]('.repeat(3000));
	md.markdown('*'.repeat(20000));
});

test('egress: rules as lines, and back', () => {
	const text = 'allow *.example.org 443 8000-8080\ndeny 203.0.113.0/24\nallow 2001:db8::/32\nallow *';
	const { rules, error } = egress.parseRules(text + '\n\n# a note');
	assert.equal(error, '');
	assert.deepEqual(rules, [{ action: 'allow', domain: '*.example.org', ports: [443, '8000-8080'] }, { action: 'deny', cidr: '203.0.113.0/24' }, { action: 'allow', cidr: '2001:db8::/32' }, { action: 'allow' }]);
	assert.equal(rules.map(egress.ruleLine).join('\n'), text);
	assert.match(egress.parseRules('permit x').error, /Line 1/);
	assert.match(egress.parseRules('allow x y').error, /port/);
});

test('samples: rates between two lines, history before the stream', () => {
	const s = (t, sec) => ({ timestamp: new Date(t).toISOString(), state: 'running', cpu: { percent: 0, seconds: sec }, memory: { rssBytes: 5, privateBytes: 1 }, disk: { readBytes: 0, writeBytes: t }, network: { rxBytes: 0, txBytes: 0 } });
	const r = samples.toSample(s(1000, 1), s(3000, 2));
	assert.deepEqual([r.cpuPercent, r.diskWriteBytesPerSec, r.memoryBytes], [50, 1000, 5]);
	assert.equal(samples.toSample(s(1000, 1), s(1000, 1)), null);
	assert.equal(samples.toSample(s(1000, 1), { timestamp: 'x', state: 'deleted' }), null);
	const now = 7_200_000, at = (t) => ({ at: new Date(t).toISOString() });
	assert.deepEqual(samples.merge([at(1), at(now - 5000)], [at(now - 6000), at(now - 1000)], now).map((x) => Date.parse(x.at)), [now - 5000, now - 1000]);
});

test('tree: the snapshots a VM can go back to, and whom it can be compared with', () => {
	const tree = { roots: ['t'], nodes: [{ id: 't', type: 'point', kind: 'template', parent: null }, { id: 'p1', type: 'point', kind: 'snapshot', parent: 't', snapshots: [{ snapshotId: 'sc-1', name: 'one', createdAt: '' }] },
		{ id: 'p2', type: 'point', kind: 'snapshot', parent: 'p1', snapshots: [{ snapshotId: 'sc-2', name: null, createdAt: '' }] }, { id: 'v', type: 'vm', kind: 'vm', parent: 'p2', name: 'v' }, { id: 'w', type: 'vm', kind: 'vm', parent: 'p1', name: 'w', state: 'running' }] };
	assert.deepEqual(types.ancestors(tree, 'v').map((s) => s.snapshotId), ['sc-2', 'sc-1']);
	assert.deepEqual(types.ancestors(tree, 'w').map((s) => s.snapshotId), ['sc-1']);
	assert.deepEqual(types.relatives(tree, 'v').map((r) => r.id), ['sc-1', 'sc-2', 'w']);
});
test('git: messages, listings, READMEs', () => {
	assert.deepEqual(git.subject('a\n\nb\nc\n'), { title: 'a', body: 'b\nc' });
	assert.deepEqual(git.filesOf({ entries: [{ type: 'dir', entries: [{ type: 'file', path: 'a/b' }] }, { type: 'file', path: 'c' }] }).map((f) => f.path), ['a/b', 'c']);
	assert.equal(git.readmeOf([{ type: 'file', name: 'readme.txt' }, { type: 'file', name: 'README.md' }]).name, 'README.md');
	assert.equal(git.inPath('a b/<c>'), 'a%20b/%3Cc%3E');
});
test('commands to copy: a name that a shell would read otherwise is not put in them', () => {
	assert.equal(types.word({ id: 'x1', name: 'web-1' }), 'web-1');
	for (const name of ['$(reboot)', 'a; b', '-rf', '<img>', '', null, 'a b', '`x`'])
		assert.equal(types.word({ id: 'x1', name }), 'x1');
});

test('an axis: no two lines with one name, and noise near zero is no mountain', () => {
	assert.deepEqual(axis.axisRange(0, 0.4, { min: 0, least: 1000 }), [0, 1000]);
	assert.deepEqual(axis.axisRange(0, 0, { min: 0 }), [0, 1]);
	assert.deepEqual(axis.axisRange(null, null, {}), [0, 1]);
	assert.deepEqual(axis.axisRange(20, 30, { min: 0, max: 100 }), [0, 100]);
	assert.deepEqual(axis.axisRange(20, 130, { min: 0, max: 100 }), [0, 130]);
	assert.deepEqual(axis.axisTexts([0, 0.5, 1, 1.5, 2], (v) => `${v.toFixed(0)} B/s`), ['0 B/s', '1 B/s', '', '2 B/s', '']);
});
test('the tree: a point without a name is called after its VM, and the forest knows when nothing moved', () => {
	const at = new Date(2026, 10, 18, 14, 2).getTime();
	const vm = { id: 'a'.repeat(20), type: 'vm', kind: 'vm', parent: 'pt-1', name: 'web', state: 'running' };
	const fork = { id: 'pt-1', type: 'point', kind: 'fork', parent: 'pt-0', name: null, createdAt: new Date(at).toISOString(), sourceVmId: vm.id };
	assert.equal(model.labelOf(fork, vm, at), 'fork of web, 14:02');
	assert.equal(model.labelOf(fork, vm, at + 86_400_000), 'fork of web, Nov 18');
	assert.equal(model.labelOf(fork, null, at), 'fork point, 14:02');
	assert.equal(model.labelOf({ ...fork, kind: 'suspend' }, { ...vm, name: null }, at), 'aaaaaaaa… suspended, 14:02');
	assert.equal(model.labelOf({ ...fork, name: 'mine' }, vm, at), 'mine');
	const root = { id: 'pt-0', type: 'point', kind: 'template', parent: null };
	const tree = (nodes) => ({ roots: ['pt-0'], nodes, totals: { memoryBytes: 0, diskBytes: 0 } });
	const first = model.build(tree([root, fork, vm]), null, 0);
	assert.equal(first.same, false);
	assert.match(first.byId.get('pt-1').label, /^fork of web, /);
	const second = model.build(tree([root, fork, { ...vm, state: 'suspended' }]), first, 1);
	assert.equal(second.same, true);
	assert.equal(second.byId.get(vm.id), first.byId.get(vm.id), 'nodes stay what they are');
	assert.equal(second.byId.get(vm.id).raw.state, 'suspended');
	assert.equal(model.build(tree([root, vm]), second, 2).same, false);
	assert.equal(model.build(tree([root, fork, { ...vm, parent: 'pt-0' }]), model.build(tree([root, fork, vm]), null, 0), 2).same, false);
});

test('times of a plot: minutes, and seconds where minutes would be the same', () => {
	const at = (h, m, s) => new Date(2026, 0, 5, h, m, s).getTime() / 1000;
	assert.deepEqual(axis.timeTexts([at(9, 0, 0), at(9, 15, 0)]), ['09:00', '09:15']);
	assert.deepEqual(axis.timeTexts([at(9, 0, 0), at(9, 0, 30), at(9, 1, 0)]), ['09:00:00', '09:00:30', '09:01:00']);
	/* One value, for which uPlot asks for the day after it. */
	assert.deepEqual(axis.timeRange([1000], 1000, 87400), [880, 1000]);
	assert.deepEqual(axis.timeRange([1000, 1010], 1000, 1010), [890, 1010]);
	assert.deepEqual(axis.timeRange([1000, 4600], 1000, 4600), [1000, 4600]);
});
