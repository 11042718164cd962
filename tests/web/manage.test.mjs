// SPDX-License-Identifier: Apache-2.0
// What an operator and an owner do in the pages: tunnels as file and code, names, keys, a build that is watched. Names are code where a person may choose them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { accessible, api, cleanUp, close, open, PATIENCE, quiet, shot, signedIn, test, URL_BASE } from './kit.mjs';

const HOSTILE = '<img src=x onerror=alert(1)>';
let page;
let vm;

before(async () => {
	await open();
	vm = (await api('POST', '/v1/vms', { name: 'served', idleTimeoutSeconds: null })).id;
	page = await signedIn();
}, { timeout: 2 * PATIENCE });
after(async () => {
	for (const v of (await api('GET', '/v1/vpcs')).vpcs)
		await api('DELETE', `/v1/vpcs/${v.vpcId}`);
	await cleanUp();
	await close();
}, { timeout: 2 * PATIENCE });

test('a private network and a tunnel into it: shown once, as a file and as a code', async () => {
	await page.goto('/ui/networks');
	await page.getByRole('button', { name: 'New network' }).first().click();
	await page.getByLabel('Name').fill(HOSTILE);
	await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
	const card = page.locator('.card').filter({ hasText: HOSTILE });
	await card.getByRole('button', { name: 'New tunnel' }).click();
	const dialog = page.getByRole('dialog');
	await dialog.getByRole('img', { name: /QR code/ }).waitFor();
	await accessible(page, 'a new tunnel');
	await shot(page, 'tunnel');
	const down = page.waitForEvent('download');
	await dialog.getByRole('button', { name: /^Download / }).click();
	const file = readFileSync(await (await down).path(), 'utf8');
	assert.match(file, /^\[Interface\]\n/);
	assert.match(file, /\nPrivateKey ?= ?[A-Za-z0-9+/]{43}=\n/);
	assert.equal((await dialog.locator('pre').innerText()).trimEnd(), file.trimEnd());
	await dialog.getByRole('button', { name: 'Close', exact: true }).click();
	await card.getByRole('table', { name: /^Tunnels/ }).getByText('not yet').waitFor();
	assert.ok(!(await page.locator('body').innerText()).includes(/PrivateKey ?= ?(\S+)/.exec(file)[1]), 'the key is not shown again');
	await card.getByRole('table', { name: /^Tunnels/ }).getByRole('button', { name: 'Close' }).click();
	await page.getByRole('dialog').getByRole('button', { name: 'Close it' }).click();
	await card.getByText('None is open').waitFor();
	/* Deleting waits for ten seconds, and can be taken back. */
	await card.getByRole('button', { name: 'Delete' }).click();
	await page.getByRole('button', { name: 'Undo' }).click();
	await card.getByRole('button', { name: 'New tunnel' }).waitFor();
	assert.equal((await api('GET', '/v1/vpcs')).vpcs.length, 1);
	quiet(page);
});

test('a name is mapped to a VM, and unmapped', async () => {
	await page.goto('/ui/networks?tab=domains');
	await page.getByRole('button', { name: 'Map a name' }).click();
	await page.getByRole('dialog').getByRole('textbox', { name: /^Name/ }).fill('pages-test.style.dev');
	await page.getByLabel('Port in the VM').fill('8080');
	await page.getByRole('button', { name: 'Map it' }).click();
	const row = page.getByRole('row').filter({ hasText: 'pages-test.style.dev' });
	await row.getByRole('link', { name: 'served' }).waitFor();
	await accessible(page, 'mapped names');
	await row.getByRole('button', { name: 'Unmap' }).click();
	await page.getByText('Unmapping pages-test.style.dev').waitFor();
	/* Nobody takes it back. */
	await row.waitFor({ state: 'detached' });
	assert.ok(!JSON.stringify(await api('GET', '/domains/v1/mappings')).includes('pages-test'));
	quiet(page);
});

test('a key is shown once, works, and does not after it was revoked', async () => {
	await page.goto('/ui/settings');
	await page.getByRole('button', { name: 'New key' }).click();
	await page.getByLabel('Name').fill(HOSTILE);
	await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
	await page.getByRole('heading', { name: 'Your new API key' }).waitFor();
	const key = (await page.getByRole('dialog').locator('pre').innerText()).trim();
	await accessible(page, 'a new key');
	await page.getByRole('button', { name: 'I have it' }).click();
	const row = page.getByRole('row').filter({ hasText: HOSTILE });
	await row.waitFor();
	await api('PATCH', `/v1/vms/${vm}`, { tags: ['by the new key'] }, key);
	/* Who did it is told by the key's name. */
	await page.goto(`/ui/vms/${vm}?tab=activity`);
	await page.getByRole('row').filter({ hasText: 'changed its settings' }).getByText(HOSTILE).waitFor();
	await page.goto('/ui/settings');
	await row.getByRole('button', { name: 'Revoke' }).click();
	await row.waitFor({ state: 'detached' });
	const refused = await fetch(`${URL_BASE}/v1/vms`, { headers: { authorization: `Bearer ${key}` } });
	assert.equal(refused.status, 401);
	quiet(page);
});

test('a build is watched: its steps, its output as it comes, its end', async () => {
	await page.goto('/ui/operate?tab=builds');
	const spec = { systemd: { services: [{ name: 'first', mode: 'oneshot', deleteAfterSuccess: true, timeoutSec: 600, exec: [`/bin/sh -c 'echo building "${HOSTILE}"; sleep 5; echo built it'`] }] } };
	const made = api('POST', '/v1/vms/snapshots', { name: 'built in a test', spec });
	const row = page.getByRole('table', { name: 'Builds' }).getByRole('row').nth(1);
	await row.getByText('running').waitFor();
	await row.getByRole('button', { name: 'Log' }).click();
	const dialog = page.getByRole('dialog');
	await dialog.getByText(`building ${HOSTILE}`).waitFor();
	await accessible(page, 'a build');
	await dialog.getByText('built it').waitFor();
	await made;
	/* The open window follows it to its end. */
	await dialog.getByText('succeeded', { exact: true }).waitFor();
	assert.equal(await dialog.getByRole('progressbar').count(), 0);
	await shot(page, 'build');
	await dialog.getByRole('button', { name: 'Close', exact: true }).click();
	quiet(page);
});
