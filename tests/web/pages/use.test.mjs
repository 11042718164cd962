// SPDX-License-Identifier: Apache-2.0
// A VM's page in use, with a real VM: a terminal that is resized and watched, a command in the background and its output, files that are
// dropped, a kernel that is interrupted and restarted.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { api, LONG, openBrowser, until } from './browser.mjs';

let b, vm;

const here = (tab) => `/ui/vms/${vm}${tab ? `?tab=${tab}` : ''}`;
const OPEN = '.terminal-panel:not([hidden]) .terminal[data-state=open]';
const screen = (page) => page.locator('.terminal-panel:not([hidden]) .xterm-rows').innerText();
const shows = (page, text) => until(`the terminal shows ${text}`, async () => (await screen(page)).includes(text));
const exec = async (command) => (await api('POST', `/v1/vms/${vm}/exec-await`, { command })).stdout;
let asked = 0;

/** Rows and columns as the shell sees them. */
async function size(page) {
	const mark = `size${++asked}`;
	await page.locator('.terminal-panel:not([hidden]) .xterm-helper-textarea').focus();
	await page.keyboard.type(`echo ${mark}=$(stty size | tr ' ' x)=\n`);
	const found = await until(`the size ${mark}`, async () => new RegExp(`${mark}=(\\d+)x(\\d+)=`).exec(await screen(page)));
	return { rows: Number(found[1]), cols: Number(found[2]) };
}

before(async () => {
	vm = (await api('POST', '/v1/vms', { name: 'in use', idleTimeoutSeconds: null })).id;
	b = await openBrowser();
	await b.signIn();
});
after(async () => {
	await b?.close();
	if (vm)
		await api('DELETE', `/v1/vms/${vm}`);
});

test('a terminal has the size of its window', async () => {
	await b.go(here());
	await b.page.getByRole('button', { name: 'New terminal' }).first().click();
	await b.page.locator(OPEN).waitFor();
	const wide = await size(b.page);
	await b.page.setViewportSize({ width: 800, height: 520 });
	const small = await until('the shell knows the new size', async () => {
		const s = await size(b.page);
		return s.cols < wide.cols && s.rows < wide.rows ? s : null;
	});
	assert.ok(small.cols >= 20 && small.rows >= 5, JSON.stringify(small));
	await b.page.setViewportSize({ width: 1280, height: 800 });
	await until('and it grows again', async () => {
		const s = await size(b.page);
		return s.rows === wide.rows && Math.abs(s.cols - wide.cols) <= 2; /* lines to scroll back to have a scroll bar */
	});
	await b.hurt();
});

test('watch only: what is typed elsewhere is seen, what is typed here goes nowhere, the size stays', async () => {
	const before = await size(b.page);
	const watcher = await b.context.newPage();
	watcher.setDefaultTimeout(LONG);
	await watcher.setViewportSize({ width: 700, height: 420 });
	await watcher.goto(b.page.url());
	await watcher.getByRole('button', { name: 'Watch only' }).click();
	await watcher.locator('.terminal.watching[data-state=open]').waitFor();
	await until('the size of the one who types counts', async () => JSON.stringify(await size(b.page)) === JSON.stringify(before));
	await watcher.locator('.terminal-panel:not([hidden]) .terminal-box').click();
	await watcher.keyboard.type('echo intruder\n');
	await b.page.bringToFront();
	await b.page.locator('.terminal-panel:not([hidden]) .xterm-helper-textarea').focus();
	await b.page.keyboard.type('echo seen by $((1 + 1))\n');
	await shows(b.page, 'seen by 2');
	await shows(watcher, 'seen by 2');
	assert.ok(!(await screen(b.page)).includes('intruder'), 'a watcher cannot type');
	assert.deepEqual(await size(b.page), before);
	await watcher.close();
	await b.hurt();
});

test('a command in the background: its output as it comes, and its end', async () => {
	await b.go(here('processes'));
	await b.page.getByRole('button', { name: 'Run in the background' }).click();
	await b.page.getByLabel('Command').fill('for i in 1 2 3; do echo "line <b>$i</b>"; sleep 1; done; exec sleep 3000');
	await b.page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
	const row = b.page.getByRole('table', { name: 'Commands' }).getByRole('row').filter({ hasText: 'sleep 3000' });
	await row.getByRole('button', { name: 'Output' }).click();
	const dialog = b.page.getByRole('dialog');
	await dialog.getByText('line <b>3</b>').waitFor();
	await dialog.getByText('following').waitFor();
	await b.accessible('output of a command');
	await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
	await row.getByRole('button', { name: /^More for/ }).click();
	await b.page.getByRole('menuitem', { name: 'End (SIGTERM)' }).click();
	await b.page.getByRole('dialog').getByRole('button', { name: 'End', exact: true }).click();
	await row.getByText('SIGTERM').waitFor();
	await row.getByRole('button', { name: 'Output' }).click();
	await b.page.getByRole('dialog').getByText('ended').waitFor();
	assert.match(await b.page.getByRole('dialog').innerText(), /line <b>1<\/b>\s+line <b>2<\/b>\s+line <b>3<\/b>/);
	await b.hurt();
});

test('journals, processes and outputs are text, whatever is in them', async () => {
	const evil = '<img src=x onerror=window.hacked=1><script>window.hacked=1</script>';
	await exec(`cat > /etc/systemd/system/talks.service <<'END'
[Unit]
Description=${evil}
[Service]
ExecStart=/bin/sh -c 'echo "${evil}"; echo "<3>${evil} badly"; exec -a "${evil.replaceAll('=', '-')}" sleep 3000'
END
sed -i 's|/bin/sh -c|/bin/bash -c|' /etc/systemd/system/talks.service
systemctl daemon-reload && systemctl start talks`);
	await b.go(here('processes'));
	const row = b.page.getByRole('table', { name: 'Services' }).getByRole('row').filter({ hasText: 'talks' });
	await row.getByText('active (running)').waitFor();
	await row.getByRole('button', { name: 'Journal' }).click();
	const dialog = b.page.getByRole('dialog');
	await dialog.getByText(evil, { exact: true }).waitFor();
	assert.equal(await dialog.locator('li.bad span').innerText(), `${evil} badly`);
	await b.accessible('a journal');
	await b.shot('journal');
	await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
	await b.page.getByRole('button', { name: 'Show', exact: true }).click();
	await b.page.getByRole('table', { name: 'All processes' }).getByText('<img src-x').waitFor();
	assert.equal(await b.page.locator('img[src=x]').count(), 0);
	await b.hurt();
	await row.getByRole('button', { name: /^More for/ }).click();
	await b.page.getByRole('menuitem', { name: 'Stop' }).click();
	await b.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
	await until('the service has ended', async () => (await exec('systemctl is-active talks; :')).trim() !== 'active');
	await row.waitFor({ state: 'detached' });
	await b.accessible('processes');
	await b.hurt();
});

test('files that are dropped on the page are uploaded', async () => {
	await exec('mkdir -p /root/drop');
	await b.go(`/ui/vms/${vm}?tab=files&path=/root/drop`);
	await b.page.getByText('Nothing here').waitFor();
	const data = await b.page.evaluateHandle(() => {
		const d = new DataTransfer();
		d.items.add(new File(['one\n'], 'one.txt'));
		d.items.add(new File(['two\n'], 'two <b>.txt'));
		return d;
	});
	await b.page.dispatchEvent('.files', 'dragover', { dataTransfer: data });
	await b.page.locator('.drop-here', { hasText: 'Upload to /root/drop' }).waitFor();
	await b.page.dispatchEvent('.files', 'drop', { dataTransfer: data });
	await b.page.getByRole('button', { name: 'two <b>.txt', exact: true }).waitFor();
	assert.equal(await b.page.locator('.drop-here').count(), 0);
	assert.equal(await exec('cat /root/drop/*'), 'one\ntwo\n');
	/* Once more: it asks before it replaces. */
	await b.page.dispatchEvent('.files', 'drop', { dataTransfer: data });
	await b.page.getByRole('heading', { name: 'Replace 2 files?' }).waitFor();
	await b.page.getByRole('button', { name: 'Cancel' }).click();
	await b.hurt();
});

async function cell(code) {
	const n = await b.page.locator('.cell').count();
	await b.page.getByRole('button', { name: 'Bash', exact: true }).first().click();
	await until('the new cell', async () => await b.page.locator('.cell').count() === n + 1);
	const c = b.page.locator('.cell').nth(n);
	await until('its editor', () => c.locator('.code-host').evaluate((h) => !!h.shadowRoot?.querySelector('.cm-content')));
	await c.locator('.code-host').locator('.cm-content').click();
	await b.page.keyboard.insertText(code);
	await b.page.keyboard.press('Shift+Enter');
	return c;
}

test('a kernel is interrupted, keeps its variables, and loses them when it is restarted', async () => {
	await b.go(here('code'));
	let c = await cell('KEPT=41; echo begun; sleep 3000');
	await c.locator('.cell-out', { hasText: 'begun' }).waitFor();
	await c.getByRole('button', { name: 'Interrupt' }).click();
	await c.getByRole('button', { name: 'Run' }).waitFor();
	await c.locator('.cell-out', { hasText: /interrupted/i }).waitFor();
	c = await cell('echo "it is ${KEPT:-gone}"');
	await c.locator('.cell-out', { hasText: 'it is 41' }).waitFor();
	await c.getByRole('button', { name: /^More for cell/ }).click();
	await b.page.getByRole('menuitem', { name: 'Restart kernel' }).click();
	await b.page.getByRole('dialog').getByRole('button', { name: 'Restart' }).click();
	await b.page.getByText('has a new kernel').waitFor();
	c = await cell('echo "now it is ${KEPT:-gone}"');
	await c.locator('.cell-out', { hasText: 'now it is gone' }).waitFor();
	await b.hurt();
});
