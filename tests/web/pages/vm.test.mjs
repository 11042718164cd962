// SPDX-License-Identifier: Apache-2.0
// The VM page and the fork side by side, with a real VM: terminals over reload, suspend and wake; cells with a picture, an error
// and hostile output; files up, down and edited; two forks and a file that differs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after, before } from 'node:test';
import { still } from '../still.mjs';
import { api, openBrowser, until } from './browser.mjs';

const EVIL = '<img src=x onerror=window.hacked=1><script>window.hacked=1</script>';
let b, vm, fork;

const here = (tab) => `/ui/vms/${vm}${tab ? `?tab=${tab}` : ''}`;
const OPEN = '.terminal-panel:not([hidden]) .terminal[data-state=open]';
const screen = () => b.page.locator('.terminal-panel:not([hidden]) .xterm-rows').innerText();
const shows = (text) => until(`the terminal shows ${text}`, async () => (await screen()).includes(text));
const exec = async (id, command) => (await api('POST', `/v1/vms/${id}/exec-await`, { command })).stdout;

before(async () => {
	vm = (await api('POST', '/v1/vms', { name: `pages ${EVIL}`.slice(0, 60), tags: [EVIL.slice(0, 40)], idleTimeoutSeconds: null })).id;
	b = await openBrowser();
	await b.signIn();
});
after(async () => {
	await b?.close();
	for (const id of [fork, vm])
		if (id)
			await api('DELETE', `/v1/vms/${id}`);
});

test('typing in a terminal; its title is text', async () => {
	await b.go(here());
	await b.page.getByRole('button', { name: 'New terminal' }).first().click();
	await b.page.locator(OPEN).waitFor();
	await b.page.keyboard.type('echo six times seven is $((6 * 7))\n');
	await shows('seven is 42');
	await b.page.keyboard.type(`printf '\\033]0;${EVIL.replaceAll("'", '')}\\007'\n`);
	await b.page.getByRole('tab', { name: /<img src=x/ }).waitFor();
	await b.page.keyboard.type("printf '\\033[38;2;255;0;0mred\\033[0m and \\033[32mgreen\\033[0m\\n'\n");
	await shows('red and green');
	const colour = await b.page.evaluate(() => [...document.querySelectorAll('.xterm-rows span')].filter((s) => s.textContent.trim() === 'red').map((s) => getComputedStyle(s).color));
	assert.ok(colour.some((c) => /rgb\((2[0-9]{2}|1[0-9]{2}), [0-9]{1,2}, [0-9]{1,2}\)/.test(c)), `a colour of its own under the policy: ${colour}`);
	await b.hurt();
	await b.accessible('terminals');
	await b.shot('terminal');
	await b.narrow('terminal');
});

test('a reload attaches to the same session again', async () => {
	const session = new URL(b.page.url()).searchParams.get('session');
	assert.match(session, /^pty-/);
	await b.page.keyboard.type('export KEPT=still-here\n');
	await b.page.reload();
	await b.page.locator(OPEN).waitFor();
	await shows('seven is 42');
	await b.page.locator('.terminal-panel:not([hidden]) .xterm-helper-textarea').focus();
	await b.page.keyboard.type('echo it is $KEPT\n');
	await shows('it is still-here');
	assert.equal(new URL(b.page.url()).searchParams.get('session'), session);
});

test('suspend while attached: the page says so, wakes nothing, and goes on after the wake', async () => {
	await b.page.getByRole('button', { name: 'Suspend' }).click();
	await b.page.locator('.terminal[data-state=asleep]').waitFor();
	await b.shot('terminal-asleep');
	assert.equal((await api('GET', `/v1/vms/${vm}`)).state, 'suspended');
	await b.page.getByRole('button', { name: 'Resume the VM' }).click();
	await b.page.locator(OPEN).waitFor();
	await b.page.locator('.terminal-panel:not([hidden]) .xterm-helper-textarea').focus();
	await b.page.keyboard.type('echo awake and $KEPT\n');
	await shows('awake and still-here');
	await b.hurt();
});

async function cell(language, code) {
	const n = await b.page.locator('.cell').count();
	await b.page.getByRole('button', { name: language, exact: true }).first().click();
	await until('the new cell', async () => await b.page.locator('.cell').count() === n + 1);
	const c = b.page.locator('.cell').nth(n);
	await until('its editor', () => c.locator('.code-host').evaluate((h) => !!h.shadowRoot?.querySelector('.cm-content')));
	await c.locator('.code-host').locator('.cm-content').click();
	await b.page.keyboard.insertText(code);
	await b.page.keyboard.press('Shift+Enter');
	return c;
}

test('cells: a plot, a table, an error, and output that tries to run', async () => {
	await b.go(here('code'));
	let c = await cell('Python', 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); plt.show()');
	await c.locator('img').waitFor();
	assert.ok(await c.locator('img').evaluate((i) => i.decode().then(() => i.naturalWidth > 100)), 'a picture that the browser can draw');
	c = await cell('Python', `import pandas as pd\npd.set_option("display.max_colwidth", None)\nprint("${EVIL}")\npd.DataFrame({"a": ["${EVIL}", "x"]})`);
	await c.locator('.cell-table td').first().waitFor();
	assert.equal(await c.locator('.cell-table td').first().innerText(), EVIL);
	c = await cell('Python', 'KEPT = 7\n1 / 0');
	await c.locator('.cell-error', { hasText: 'ZeroDivisionError' }).waitFor();
	await b.hurt();
	await b.shot('cells');
	await b.accessible('cells');
	await b.narrow('cells');
	c = await cell('Python', `from IPython.display import HTML\nHTML("<h1>hello</h1>${EVIL.replace('window.', 'parent.')}<a href='javascript:parent.hacked=1'>x</a>")`);
	await c.locator('iframe').waitFor();
	assert.equal(await c.locator('iframe').getAttribute('sandbox'), '');
	await c.frameLocator('iframe').locator('h1').waitFor();
	await b.page.waitForTimeout(500);
	await b.hurt(/Content Security Policy|sandboxed/);
	await b.page.reload();
	await until('the cells after a reload', async () => await b.page.locator('.cell').count() === 4);
	c = await cell('Python', 'KEPT * 6');
	await c.locator('.cell-out', { hasText: '42' }).waitFor();
	await b.hurt(/Content Security Policy|sandboxed/); // the frame, drawn again
});

test('files: up, hostile names, edited with a conflict, down, deleted with undo', async () => {
	await exec(vm, `mkdir -p /root/box && cd /root/box && touch '${EVIL.replaceAll('/', '_')}' .hidden && ln -s /etc etc-link && printf 'a\\377' | xargs touch`);
	await b.go(`/ui/vms/${vm}?tab=files&path=/root/box`);
	await b.page.getByText('<img src=x onerror').first().waitFor();
	await b.page.getByText('→ /etc').waitFor();
	assert.equal(await b.page.getByText('.hidden', { exact: true }).count(), 0);
	await b.page.locator('input[type=file]').setInputFiles({ name: 'up "quoted" ä.txt', mimeType: 'text/plain', buffer: Buffer.from('one\n') });
	await b.page.getByRole('button', { name: 'up "quoted" ä.txt', exact: true }).waitFor();
	assert.equal(await exec(vm, 'cat "/root/box/up \\"quoted\\" ä.txt"'), 'one\n');
	await b.accessible('files');
	await b.shot('files');
	await b.narrow('files');
	await b.page.getByRole('button', { name: 'up "quoted" ä.txt', exact: true }).click();
	await until('the editor', () => b.page.evaluate(() => !!document.querySelector('.code-host')?.shadowRoot?.querySelector('.cm-content')));
	await b.page.locator('.code-host .cm-content').click();
	await b.page.keyboard.press('Control+End');
	await b.page.keyboard.insertText('two\n');
	await b.page.keyboard.press('Control+s');
	await until('the file was saved', async () => await exec(vm, 'cat "/root/box/up \\"quoted\\" ä.txt"') === 'one\ntwo\n');
	await exec(vm, 'sleep 1; echo other > "/root/box/up \\"quoted\\" ä.txt"');
	await b.page.keyboard.insertText('three\n');
	await b.page.getByRole('button', { name: 'Save' }).click();
	await b.page.getByRole('heading', { name: /was changed meanwhile/ }).waitFor();
	await b.page.getByRole('button', { name: 'Cancel' }).click();
	assert.equal(await exec(vm, 'cat "/root/box/up \\"quoted\\" ä.txt"'), 'other\n');
	const down = b.page.waitForEvent('download');
	await b.page.getByRole('link', { name: 'Download' }).click();
	assert.equal(readFileSync(await (await down).path(), 'utf8'), 'other\n');
	await b.page.getByRole('button', { name: 'Back' }).click();
	await b.page.getByRole('button', { name: 'Discard' }).click();
	await b.page.getByRole('button', { name: 'More for up "quoted" ä.txt' }).click();
	await b.page.getByRole('menuitem', { name: 'Delete' }).click();
	await b.page.getByRole('button', { name: 'Undo' }).click();
	await b.page.getByRole('button', { name: 'up "quoted" ä.txt', exact: true }).waitFor();
	await b.hurt();
});

test('the other tabs', async () => {
	await api('PUT', `/v1/vms/${vm}/egress`, { mode: 'rules', rules: [{ action: 'allow', domain: '*.example.org', ports: [443] }] });
	await exec(vm, 'getent hosts refused.example.net; :');
	for (const [tab, text] of [['processes', 'systemd-journald'], ['metrics', 'Memory on the host'], ['network', 'refused.example.net'], ['settings', 'When idle'], ['activity', 'changed what it may reach']]) {
		await b.go(here(tab));
		await b.page.getByText(text).first().waitFor();
		await still(b.page, tab);
		await b.hurt();
		await b.accessible(tab);
		await b.shot(`vm-${tab}`);
		await b.narrow(`vm-${tab}`);
	}
});

test('looking at a VM that rests wakes it on no tab, also when nobody knows its sessions', async () => {
	const [rests] = (await api('POST', `/v1/vms/${vm}/fork`, { count: 1 })).forks;
	try {
		await api('POST', `/v1/vms/${rests.id}/suspend`);
		for (const tab of ['', 'code', 'files', 'processes', 'metrics', 'network', 'settings', 'activity']) {
			await b.go(`/ui/vms/${rests.id}${tab ? `?tab=${tab}` : ''}`);
			await b.page.getByRole('tab', { selected: true }).first().waitFor();
			await b.page.waitForLoadState('load');
			await until('its data', () => b.page.evaluate(() => !document.querySelector('main .skeleton')));
			if (!tab)
				await b.page.getByRole('heading', { name: 'The VM rests' }).waitFor();
			assert.equal((await api('GET', `/v1/vms/${rests.id}`)).state, 'suspended', `the tab ${tab || 'terminals'} woke it`);
			await b.hurt();
			await b.accessible(`${tab || 'terminals'} of a VM that rests`);
		}
		/* And when somebody asks for it, its terminal is there: it was its parent's. */
		await b.go(`/ui/vms/${rests.id}`);
		await b.page.getByRole('button', { name: 'Resume it' }).click();
		await b.page.locator(OPEN).waitFor();
		await shows('still-here');
	} finally {
		await api('DELETE', `/v1/vms/${rests.id}`);
	}
});

test('a fork beside its parent: both terminals, and the text that differs', async () => {
	await b.go(here());
	await b.page.getByRole('button', { name: 'Fork' }).click();
	await b.page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click();
	await b.page.getByRole('button', { name: 'Side by side' }).click();
	await b.page.waitForURL(/\/ui\/compare\//);
	fork = new URL(b.page.url()).pathname.split('/')[4];
	await until('both terminals', async () => await b.page.locator('.terminal[data-state=open]').count() === 2);
	await exec(vm, 'printf "same\\nparent\\n" > /root/differs.txt');
	await exec(fork, 'printf "same\\nchild\\n" > /root/differs.txt');
	await b.page.locator('button[aria-busy=false]', { hasText: 'Compare again' }).click();
	await b.page.locator('.change-list button', { hasText: '/root/differs.txt' }).click();
	await b.page.locator('.diff .add .line').waitFor();
	assert.equal(await b.page.locator('.diff .add .line').innerText(), 'parent');
	assert.equal(await b.page.locator('.diff .del .line').innerText(), 'child');
	const kept = await b.page.locator('.beside .xterm-rows').allInnerTexts();
	assert.ok(kept.every((t) => t.includes('still-here')), 'the fork has the terminal of its parent');
	await b.hurt();
	await b.accessible('side by side');
	await b.shot('side-by-side');
	await b.narrow('side-by-side');
	await b.theme(true);
	await b.accessible('side by side, dark');
	await b.shot('side-by-side-dark');
	await b.theme(false);
});
