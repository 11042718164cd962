// SPDX-License-Identifier: Apache-2.0
// The Git pages: files, history, diffs, search, a push that appears, triggers with redelivery, hostile names. No VM is needed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { still } from '../still.mjs';
import { api, KEY, openBrowser, until, URL_ } from './browser.mjs';

const EVIL = '<img src=x onerror=window.hacked=1><script>window.hacked=1</script>';
let b, repo, receiver;
const calls = [];
let answer = 500;

/** Git's client with the key in the address, without a terminal to ask at. */
const git = (cwd, ...words) => execFileSync('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.org', ...words], { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'],
	env: { ...process.env, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1', HOME: cwd } });
const address = (id) => `${URL_.replace('//', `//x-access-token:${KEY}@`)}/${id}`;

before(async () => {
	receiver = http.createServer((q, r) => {
		q.resume();
		q.on('end', () => {
			calls.push(q.headers['x-freestyle-signature']);
			r.statusCode = answer;
			r.end();
		});
	});
	await new Promise((ok) => receiver.listen(0, '127.0.0.1', ok));
	repo = (await api('POST', '/git/v1/repo', { name: 'pages', import: { type: 'files', commitMessage: `first ${EVIL}\n\nbody ${EVIL}`, authorName: EVIL, authorEmail: 'a@b.example', files: {
		'README.md': `# Pages ${EVIL}\n\n[bad](javascript:window.hacked=1) [good](src/main.py) **bold**\n`, 'src/main.py': 'def main():\n    print("hello")\n', [`${EVIL.slice(0, 40).replaceAll('/', '_')}.txt`]: `${EVIL}\n`,
	} } })).repoId;
	b = await openBrowser();
	await b.signIn();
});
after(async () => {
	await b?.close();
	receiver.close();
	await api('DELETE', `/git/v1/repo/${repo}`);
});

test('a list with the repository, and its README as text and links that do nothing bad', async () => {
	await b.go('/ui/git');
	await b.page.getByRole('link', { name: 'pages', exact: true }).click();
	await b.page.locator('.md').waitFor();
	assert.match(await b.page.locator('.md').innerText(), /<script>window\.hacked=1<\/script>/);
	assert.deepEqual(await b.page.locator('.md a').evaluateAll((all) => all.map((a) => a.textContent)), ['good']);
	await b.hurt();
	await b.accessible('repository');
	await b.shot('repository');
	await b.narrow('repository');
	await b.page.locator('.md a').click();
	await b.page.locator('.code-host .cm-line, .code-host').first().waitFor();
	await until('the file in the editor', () => b.page.evaluate(() => document.querySelector('.code-host')?.shadowRoot?.querySelector('.cm-content')?.textContent?.includes('def main')));
	await until('its colours, which come with the language', () => b.page.evaluate(() => document.querySelector('.code-host').shadowRoot.querySelectorAll('.cm-line span').length > 0));
	await b.hurt();
});

test('a push appears while the page is open, and its diff can be read', async () => {
	await b.go(`/ui/git/${repo}?tab=commits`);
	await b.page.locator('.commit-list li').first().waitFor();
	const work = mkdtempSync(path.join(os.tmpdir(), 'pando-push-'));
	let sha;
	try {
		git('/', 'clone', '-q', address(repo), work);
		writeFileSync(path.join(work, 'src/main.py'), `def main():\n    print("${EVIL.replaceAll('"', '')}")\n`);
		git(work, 'commit', '-q', '-a', '-m', `second ${EVIL}`);
		git(work, 'push', '-q');
		sha = git(work, 'rev-parse', 'HEAD').trim();
	} finally {
		rmSync(work, { recursive: true, force: true });
	}
	await b.page.locator('.commit-list li', { hasText: 'second' }).waitFor();
	await b.page.locator('.commit-list li', { hasText: 'second' }).getByRole('button').click();
	await b.page.locator('.diff .add').waitFor();
	assert.match(await b.page.locator('.diff .add .line').innerText(), /window\.hacked/);
	assert.equal(await b.page.locator('.diff .del .line').innerText(), '    print("hello")');
	assert.match(await b.page.locator('.commit-title').innerText(), /^second </);
	assert.ok(b.page.url().includes(sha));
	await b.hurt();
	await b.accessible('commit');
	await b.shot('commit');
	await b.narrow('commit');
});

test('search finds text, names and messages', async () => {
	await b.go(`/ui/git/${repo}?tab=search`);
	await b.page.getByRole('searchbox', { name: 'Search for' }).fill('hacked');
	await b.page.getByRole('button', { name: 'Search' }).click();
	await b.page.locator('.found-lines mark').first().waitFor();
	await b.page.getByLabel('Where').selectOption('/commits');
	await b.page.locator('.found', { hasText: 'second' }).waitFor();
	await b.hurt();
	await b.accessible('search');
});

test('a trigger made in the page is delivered, fails, and is delivered again', async () => {
	await b.go(`/ui/git/${repo}?tab=triggers`);
	await b.page.getByRole('button', { name: 'New trigger' }).click();
	await b.page.getByText('calls an address', { exact: true }).click();
	await b.page.getByRole('textbox', { name: 'Address' }).fill(`http://127.0.0.1:${receiver.address().port}/hook`);
	await b.page.getByRole('button', { name: 'Create' }).click();
	await b.page.getByRole('heading', { name: /^Call/ }).waitFor();
	await api('POST', `/git/v1/repo/${repo}/commits`, { message: 'third', files: [{ path: 'a', content: 'a' }] });
	await until('the first call', () => calls.length >= 1);
	await b.page.getByRole('button', { name: 'Redeliver' }).first().waitFor();
	answer = 200;
	const had = calls.length;
	await b.page.getByRole('button', { name: 'Redeliver' }).first().click();
	await until('the call again', () => calls.length > had);
	await b.page.getByText('HTTP 200').first().waitFor();
	assert.ok(calls.every((c) => c?.split('.').length === 3), 'each call is signed');
	await b.hurt();
	await b.accessible('triggers');
	await b.shot('triggers');
	await b.narrow('triggers');
});

test('a mirror: set up in the page, a conflict that says what diverged, and its end by a merge', async () => {
	/* The other side is a repository of the same server: it is fetched from and pushed to like any other. A branch has code for a name. */
	const bad = '<img/src=x/onerror=window.hacked=1>';
	const other = (await api('POST', '/git/v1/repo', { name: 'other side' })).repoId;
	const here = (await api('POST', '/git/v1/repo', { name: 'mirrored', import: { type: 'files', commitMessage: 'base', files: { a: 'base\n' } } })).repoId;
	await api('POST', `/git/v1/repo/${here}/branches`, { name: bad });
	await b.go(`/ui/git/${here}?tab=mirror`);
	await b.page.getByRole('textbox', { name: 'Repository there' }).fill(`${URL_}/${other}`);
	await b.page.getByLabel('Token').fill(KEY);
	await b.page.getByRole('button', { name: 'Mirror', exact: true }).click();
	await b.page.getByText('synced', { exact: true }).waitFor();
	assert.equal(git('/', 'ls-remote', address(other)), git('/', 'ls-remote', address(here)));
	/* Both sides go on by themselves. */
	for (const branch of ['main', bad])
		for (const [id, text] of [[here, 'ours\n'], [other, 'theirs\n']])
			await api('POST', `/git/v1/repo/${id}/commits`, { message: text, branch, files: [{ path: 'a', content: text }] });
	await b.page.getByRole('button', { name: 'Sync now' }).click();
	await b.page.getByText('conflict', { exact: true }).waitFor();
	const rows = b.page.getByRole('table', { name: 'Conflicts' }).getByRole('row');
	await rows.filter({ hasText: 'main' }).waitFor();
	await rows.filter({ hasText: bad }).waitFor();
	await b.hurt();
	await b.accessible('a mirror with conflicts');
	await b.shot('mirror-conflict');
	await b.narrow('mirror-conflict');
	/* As the page says: merge on either side and push. */
	const dir = mkdtempSync(path.join(os.tmpdir(), 'pando-mirror-'));
	try {
		for (const branch of ['main', bad]) {
			const work = path.join(dir, branch === 'main' ? 'one' : 'two');
			git(dir, 'clone', '-q', '-b', branch, address(here), work);
			git(work, 'fetch', '-q', address(other), branch);
			git(work, 'merge', '-q', '-s', 'ours', '-m', 'both', 'FETCH_HEAD');
			git(work, 'push', '-q', 'origin', branch);
		}
	} finally {
		rmSync(dir, { recursive: true, force: true });
	}
	await b.page.getByRole('button', { name: 'Sync now' }).click();
	await b.page.getByText('synced', { exact: true }).waitFor();
	await b.page.getByRole('table', { name: 'Conflicts' }).waitFor({ state: 'detached' });
	assert.equal(git('/', 'ls-remote', address(other)), git('/', 'ls-remote', address(here)));
	await b.page.getByRole('button', { name: 'Stop' }).click();
	await b.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
	await b.page.getByRole('textbox', { name: 'Repository there' }).waitFor();
	await b.hurt();
	for (const id of [here, other])
		await api('DELETE', `/git/v1/repo/${id}`);
});

test('branches, mirror and settings', async () => {
	await api('POST', `/git/v1/repo/${repo}/branches`, { name: 'topic/one' });
	for (const [tab, text] of [['refs', 'topic/one'], ['mirror', 'Keep in step'], ['settings', 'git clone']]) {
		await b.go(`/ui/git/${repo}?tab=${tab}`);
		await b.page.getByText(text).first().waitFor();
		await still(b.page, tab);
		await b.hurt();
		await b.accessible(tab);
		await b.narrow(`git-${tab}`);
	}
	await b.theme(true);
	await b.go(`/ui/git/${repo}`);
	await b.page.locator('.md').waitFor();
	await b.accessible('repository, dark');
	await b.shot('repository-dark');
	await b.theme(false);
});
