// SPDX-License-Identifier: Apache-2.0
// Runs and schedules in the pages, with scripts that really run: live from the start to the end, logs, results, failures, executions, pause and
// resume, delete with undo. Whatever a script prints, returns or is called is text.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { accessible, api as ask, cleanUp, close, fits, open, OTHER_KEY, PATIENCE, quiet, shot, signedIn, test, themed } from './kit.mjs';

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>';
/* An account in which nothing has run yet. */
const api = (method, path, body) => ask(method, path, body, OTHER_KEY);
let page;
let schedule;

before(async () => {
	await open();
	page = await signedIn(OTHER_KEY);
}, { timeout: 2 * PATIENCE });
after(async () => {
	for (const s of (await api('GET', '/v1/cron/schedules')).schedules)
		await api('DELETE', `/v1/cron/schedules/${s.id}`);
	await cleanUp(OTHER_KEY);
	await close();
}, { timeout: 2 * PATIENCE });

/** Both themes, a telephone's width and a large screen. */
async function looks(name) {
	await page.waitForFunction(() => !document.querySelector('main .skeleton'));
	for (const colorScheme of ['light', 'dark']) {
		await themed(page, colorScheme, { reducedMotion: 'reduce' });
		await accessible(page, `${name}, ${colorScheme}`);
		await shot(page, `${name}-${colorScheme}`);
	}
	await themed(page, 'light', { reducedMotion: 'no-preference' });
	await page.setViewportSize({ width: 375, height: 780 });
	await fits(page, `${name} at 375 pixels`);
	await shot(page, `${name}-narrow`);
	await page.setViewportSize({ width: 2560, height: 1200 });
	await fits(page, `${name} at 2560 pixels`);
	await page.setViewportSize({ width: 1366, height: 850 });
	assert.equal(await page.locator('img[src=x]').count(), 0, `${name}: foreign text became an element`);
}

test('nothing has run: the page says what fills it', async () => {
	await page.goto('/ui/runs');
	await page.getByRole('heading', { name: 'No script has run yet' }).waitFor();
	await looks('runs-empty');
	await page.getByRole('tab', { name: 'Schedules' }).click();
	await page.getByRole('heading', { name: 'No schedules yet' }).waitFor();
	await looks('schedules-empty');
	quiet(page);
});

test('a run appears when it begins, and its page follows it to its result', async () => {
	await page.goto('/ui/runs');
	await page.getByRole('heading', { name: 'No script has run yet' }).waitFor();
	const script = `export default async () => {
	console.log(${JSON.stringify(HOSTILE)});
	console.error('and a warning');
	await new Promise((done) => setTimeout(done, 4000));
	return { answer: 42, text: ${JSON.stringify(HOSTILE)} };
};`;
	const made = api('POST', '/execute/v3/script', { script, executionId: 'watched', config: { envVars: { TOKEN: 'not-to-be-seen' }, tags: [HOSTILE] } });
	const row = page.getByRole('table', { name: 'Runs' }).getByRole('row').filter({ hasText: 'watched' });
	await row.getByText(/^(starting|running)$/).waitFor();
	await row.getByRole('link', { name: 'watched' }).click();
	await page.getByRole('progressbar', { name: 'The script is running' }).waitFor();
	await page.getByText('It is shown when the run is over.').waitFor();
	await made;
	await page.getByRole('heading', { name: 'Result' }).waitFor();
	assert.equal(await page.getByRole('progressbar').count(), 0);
	assert.deepEqual(JSON.parse(await page.locator('.card').filter({ has: page.getByRole('heading', { name: 'Result' }) }).locator('pre').innerText()), { answer: 42, text: HOSTILE });
	const log = page.getByRole('region', { name: 'Log' });
	assert.deepEqual(await log.locator('li').allInnerTexts(), [HOSTILE, 'and a warning']);
	assert.equal(await log.locator('li.bad').innerText(), 'and a warning');
	await page.getByText('TOKEN').waitFor();
	assert.ok(!(await page.locator('body').innerText()).includes('not-to-be-seen'), 'values of variables are not shown');
	await page.waitForFunction(() => document.querySelector('.code-host')?.shadowRoot?.querySelector('.cm-content')?.textContent.includes('export default'));
	await looks('run');
	quiet(page);
});

test('a script that fails says why, with its log', async () => {
	await api('POST', '/execute/v3/script', { script: `export default () => { console.log('so far'); throw new Error(${JSON.stringify(HOSTILE)}); };`, executionId: 'fails' }).then(() => assert.fail('it succeeded'), (e) => assert.match(e.message, /EXECUTION_ERROR/));
	await page.goto('/ui/runs');
	const row = page.getByRole('table', { name: 'Runs' }).getByRole('row').filter({ hasText: 'fails' });
	await row.getByText('failed', { exact: true }).waitFor();
	await looks('runs');
	await row.getByRole('link', { name: 'fails' }).click();
	await page.getByRole('heading', { name: 'Why it failed' }).waitFor();
	assert.ok((await page.locator('pre.field-error').innerText()).includes(HOSTILE));
	await page.getByRole('region', { name: 'Log' }).getByText('so far').waitFor();
	assert.equal(await page.getByRole('heading', { name: 'Result' }).count(), 0);
	await looks('run-failed');
	quiet(page);
});

test('a schedule: paused and resumed, from the list and from its page', async () => {
	schedule = (await api('POST', '/v1/cron/schedules', { name: HOSTILE, cron: '* * * * *', timezone: 'Europe/Berlin', retries: 1, payload: { who: HOSTILE },
		run: { code: 'export default (p) => { console.log("tick", p.who); return "done"; }', envVars: { A: 'b' } } })).schedule.id;
	await page.goto('/ui/runs?tab=schedules');
	const row = page.getByRole('table', { name: 'Schedules' }).getByRole('row').filter({ hasText: 'Europe/Berlin' });
	await row.getByRole('button', { name: /^Acts on/ }).click();
	await page.getByRole('menuitem', { name: 'Pause' }).click();
	await row.getByText('paused').waitFor();
	assert.equal((await api('GET', `/v1/cron/schedules/${schedule}`)).schedule.active, false);
	await looks('schedules');
	await row.getByRole('link', { name: HOSTILE }).click();
	await page.getByRole('heading', { name: 'Executions' }).waitFor();
	await page.getByRole('button', { name: 'Resume' }).click();
	await page.getByText('active', { exact: true }).waitFor();
	assert.equal((await api('GET', `/v1/cron/schedules/${schedule}`)).schedule.active, true);
	quiet(page);
});

test('an execution appears when its time has come, and leads to its log', async () => {
	const row = page.getByRole('table', { name: 'Executions' }).getByRole('row').filter({ hasText: 'succeeded' }).first();
	await row.waitFor(); /* a minute at most, and what the script takes */
	await looks('schedule');
	await row.getByRole('link', { name: 'its run' }).click();
	await page.getByRole('region', { name: 'Log' }).getByText(`tick ${HOSTILE}`).waitFor();
	await page.getByRole('link', { name: 'a schedule' }).click();
	await page.getByRole('heading', { name: HOSTILE }).waitFor();
	/* Events name it, and lead there. */
	await page.goto('/ui/operate?tab=events');
	await page.getByRole('table', { name: 'Events' }).getByRole('row').filter({ hasText: 'cron.execution' }).getByRole('link').first().click();
	await page.getByRole('heading', { name: HOSTILE }).waitFor();
	quiet(page);
});

test('deleting a schedule can be taken back; leaving the page does it', async () => {
	await page.getByRole('button', { name: 'Delete' }).click();
	await page.getByText('Deleting the schedule').waitFor();
	await page.getByRole('table', { name: 'Schedules' }).locator('tr.going').waitFor();
	await page.getByRole('button', { name: 'Undo' }).click();
	await page.getByRole('heading', { name: HOSTILE }).waitFor();
	assert.equal((await api('GET', `/v1/cron/schedules/${schedule}`)).schedule.id, schedule);
	await page.goto('/ui/runs?tab=schedules');
	await page.getByRole('table', { name: 'Schedules' }).getByRole('button', { name: /^Acts on/ }).click();
	await page.getByRole('menuitem', { name: 'Delete' }).click();
	await page.getByText('Deleting the schedule').waitFor();
	await page.goto('/ui/vms');
	for (let i = 0; (await api('GET', '/v1/cron/schedules')).schedules.length; i++) {
		assert.ok(i < 600, 'it is still there');
		await new Promise((done) => setTimeout(done, 100));
	}
	quiet(page);
});
