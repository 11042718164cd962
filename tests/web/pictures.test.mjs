// SPDX-License-Identifier: Apache-2.0
// The pictures of docs/img, of real VMs: PANDO_SHOTS/docs. Each page is checked as the other tests do; then look at them and copy them.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';
import { forest } from './forest.mjs';
import { accessible, api, cleanUp, close, fits, open, PATIENCE, quiet, shot, signedIn, test, themed } from './kit.mjs';

let page;
let web;
let schedule;
const vm = async (body) => (await api('POST', '/v1/vms', { idleTimeoutSeconds: null, ...body })).id;
const fork = async (id, names) => {
	const { forks } = await api('POST', `/v1/vms/${id}/fork`, { count: names.length });
	await Promise.all(forks.map((f, i) => api('PATCH', `/v1/vms/${f.id}`, { name: names[i] })));
	return forks.map((f) => f.id);
};
const exec = (id, command) => api('POST', `/v1/vms/${id}/exec-await`, { command });

async function picture(name) {
	await page.waitForFunction(() => !document.querySelector('main .skeleton') && !document.querySelector('.toast'));
	await accessible(page, name);
	await shot(page, path.join('docs', name));
}
async function narrow(name) {
	await page.setViewportSize({ width: 375, height: 780 });
	await fits(page, name);
	await picture(name);
	await page.setViewportSize({ width: 1366, height: 850 });
}
async function dark(name) {
	await themed(page, 'dark', { reducedMotion: 'reduce' });
	await picture(name);
	await themed(page, 'light', { reducedMotion: 'reduce' });
}

before(async () => {
	if (process.env.PANDO_SHOTS)
		mkdirSync(path.join(process.env.PANDO_SHOTS, 'docs'), { recursive: true });
	await open();
	web = await vm({ name: 'web', tags: ['prod'] });
	await exec(web, 'mkdir -p /srv/app && cd /srv/app && printf "import json\\n\\ndef total(rows):\\n    return sum(r[\\"n\\"] for r in rows)\\n" > app.py && python3 -c "open(\'/dev/shm/cache\', \'wb\').write(b\'x\' * 60000000)"');
	const { snapshotId } = await api('POST', `/v1/vms/${web}/snapshot`, { name: 'before upgrade' });
	const [one, two] = await fork(web, ['web-1', 'web-2', 'web-3']);
	await exec(one, 'python3 -c "open(\'/dev/shm/more\', \'wb\').write(b\'y\' * 40000000)"');
	const [three] = await fork(one, ['web-1-1', 'web-1-2']);
	const { vpcId } = await api('POST', '/v1/vpcs', { name: 'backend' });
	const db = await vm({ name: 'postgres', tags: ['prod', 'db'], nics: [{ vpc: vpcId }] });
	const tried = await vm({ name: 'try it', snapshotId });
	for (const id of [two, three])
		await api('POST', `/v1/vms/${id}/suspend`);
	await api('POST', `/v1/vms/${tried}/stop`);
	schedule = (await api('POST', '/v1/cron/schedules', { name: 'every morning', cron: '0 7 * * *', timezone: 'Europe/Berlin', run: { code: 'export default () => 6 * 7;\n' } })).schedule.id;
	await api('POST', '/execute/v3/script', { executionId: 'report-7', script: "export default async () => {\n\tconsole.log('reading 3 files');\n\treturn { files: 3, lines: 1284 };\n};\n" });
	await api('POST', '/execute/v3/script', { executionId: 'report-8', script: "export default () => { throw new Error('no such table: orders'); };\n" }).catch(() => undefined);
	await exec(db, 'true');
	page = await signedIn();
	await page.emulateMedia({ reducedMotion: 'reduce' });
}, { timeout: 4 * PATIENCE });
after(async () => {
	await close();
	if (schedule)
		await api('DELETE', `/v1/cron/schedules/${schedule}`);
	await cleanUp();
	for (const v of (await api('GET', '/v1/vpcs')).vpcs)
		await api('DELETE', `/v1/vpcs/${v.vpcId}`);
}, { timeout: 2 * PATIENCE });

test('the tree, light, dark and narrow', async () => {
	await page.goto('/ui/');
	await page.waitForFunction(() => globalThis.pandoTree?.handle?.stats.frames > 2);
	await picture('tree');
	await dark('tree-dark');
	await narrow('tree-narrow');
	quiet(page);
});

test('2,000 nodes', async () => {
	await page.route('**/v1/tree', (r) => r.fulfill({ json: forest(2000) }));
	await page.goto('/ui/');
	await page.waitForFunction(() => globalThis.pandoTree?.forest?.all.length === 2000 && globalThis.pandoTree.handle?.stats.frames > 2);
	await picture('tree-2000');
	await page.unroute('**/v1/tree');
	quiet(page);
});

test('a terminal', async () => {
	await page.goto(`/ui/vms/${web}`);
	await page.getByRole('button', { name: 'New terminal' }).first().click();
	await page.locator('.terminal-panel:not([hidden]) .terminal[data-state=open]').waitFor();
	await page.waitForFunction(() => document.querySelector('.terminal-panel:not([hidden]) .xterm-rows').innerText.includes('#'));
	for (const [line, shows] of [['cd /srv/app; ls --color -la /srv /srv/app', 'app.py'], ['cat app.py', 'return sum'], ['python3 -c "import app; print(app.total([{\'n\': 40}, {\'n\': 2}]))"', '\n42']]) {
		await page.keyboard.type(`${line}\n`);
		await page.waitForFunction((t) => document.querySelector('.terminal-panel:not([hidden]) .xterm-rows').innerText.replaceAll('\u00a0', ' ').includes(t), shows);
	}
	await picture('terminal');
	await dark('terminal-dark');
	quiet(page);
});

test('VMs, runs, networks, operate', async () => {
	await page.goto('/ui/vms');
	await page.getByRole('link', { name: 'postgres', exact: true }).first().waitFor();
	await narrow('vms-narrow');
	await page.goto('/ui/runs');
	await page.getByRole('link', { name: 'report-8' }).waitFor();
	await picture('runs');
	await page.goto('/ui/networks');
	await page.getByText('backend').first().waitFor();
	await dark('networks-dark');
	await page.goto('/ui/operate');
	await page.getByRole('heading', { name: 'How long things take, since the server started' }).waitFor();
	await picture('operate');
	await dark('operate-dark');
	await narrow('operate-narrow');
	assert.equal(await page.getByText('This server does not offer').count(), 0);
	quiet(page);
});
