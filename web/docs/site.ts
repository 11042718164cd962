// SPDX-License-Identifier: Apache-2.0
// make(): reads the repository's Markdown and openapi.json, writes the site. A link that leads nowhere is an error.
//
//     OUT/index.html, OUT/PAGE.html    the pages, OUT/PAGE.md the same as Markdown
//     OUT/llms.txt, llms-full.txt      for agents
//     OUT/_/search.json, style.css, site.js, theme.js
import { createHash } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { apiPages, type OpenApi } from './api';
import { framed, hrefOf, type Heading } from './html';
import { filesOf, plain, render, type Rendered } from './markdown';
import { readPages, type Page } from './pages';
import { makeIndex, type Entry } from './search';

/* Pages of llms-full.txt: what one needs to use Pando. */
const FULL = new Set(['Start', 'Guides', 'VMs', 'Networks and Git', 'Reference', 'API', 'Operate']);

/** The first sentence or two of a page. */
function summaryOf(text: string): string {
	const para = text.split(/\n\s*\n/).map((p) => p.trim()).find((p) => /^[A-Za-z*`[]/.test(p)) ?? '';
	const words = para.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[*`]/g, '').replace(/\s+/g, ' ');
	return words.length > 200 ? words.slice(0, 197).replace(/ [^ ]*$/, '') + ' ...' : words;
}

function startPage(pages: Page[], about: string): string {
	const groups = [...new Set(pages.map((p) => p.group))].filter((g) => g !== 'Decisions');
	return `${about}\n\n` + groups.map((g) => `## ${g}\n\n` + pages.filter((p) => p.group === g && !p.slug.startsWith('api/'))
		.map((p) => `- [${p.title}](${hrefOf(p.slug)})${p.text ? `: ${summaryOf(p.text)}` : ''}`).join('\n')).join('\n\n') + '\n';
}

/* Where links lead, against what there is. */
function checkLinks(made: Map<string, Rendered>): void {
	const ids = new Map([...made].map(([slug, r]) =>
		[hrefOf(slug), new Set([...r.html.matchAll(/ id="([^"]+)"/g)].map((m) => m[1]))]));
	const outside = new Set(['/openapi.json', '/ui', '/docs/llms.txt', '/docs/llms-full.txt']);
	const wrong: string[] = [];
	for (const [slug, r] of made)
		for (const m of r.html.matchAll(/ (?:href|src)="([^"]*)"/g)) {
			const link = m[1]!;
			if (/^[a-z]+:/.test(link) || outside.has(link) || link.startsWith('/docs/img/'))
				continue;
			const [to, hash] = link.startsWith('#') ? [hrefOf(slug), link.slice(1)] : link.split('#') as [string, string?];
			const there = ids.get(to!);
			if (!there)
				wrong.push(`${slug || 'index'}: ${link}: no such page`);
			else if (hash && !there.has(hash))
				wrong.push(`${slug || 'index'}: ${link}: no such heading`);
		}
	if (wrong.length)
		throw new Error(`links that lead nowhere:\n  ${wrong.join('\n  ')}`);
}

function llms(pages: Page[], about: string): string {
	const groups = [...new Set(pages.map((p) => p.group))];
	return `# Pando\n\n> ${about}\n\nEvery page below is Markdown. The API is described in [openapi.json](/openapi.json) (OpenAPI 3.1); ` +
		'all pages one needs to use it are in [llms-full.txt](/docs/llms-full.txt).\n' + groups.map((g) => {
			const title = g === 'Inside' || g === 'Decisions' ? `Optional: ${g}` : g;
			return `\n## ${title}\n\n` + pages.filter((p) => p.group === g).map((p) =>
				`- [${p.title}](${hrefOf(p.slug)}.md)${p.text ? `: ${summaryOf(p.text)}` : ''}\n`).join('');
		}).join('');
}

export async function make(root: string, out: string, browser: { name: string; text: string }[]): Promise<void> {
	const api = JSON.parse(await readFile(path.join(root, 'docs/openapi.json'), 'utf8')) as OpenApi;
	const fromApi = apiPages(api);
	const pages = (await readPages(root)).flatMap((p) => p.file !== null ? [p]
		: fromApi.map((a) => ({ slug: a.slug, file: null, title: a.title, group: p.group, text: a.markdown })));
	const files = filesOf(pages);
	const readme = await readFile(path.join(root, 'README.md'), 'utf8');
	const about = /\*\*(.+?)\*\*/s.exec(readme)?.[1]?.replace(/\s+/g, ' ') ?? 'Pando';
	const made = new Map<string, Rendered>();
	const text = new Map<string, string>();

	for (const p of pages) {
		const a = fromApi.find((x) => x.slug === p.slug);
		made.set(p.slug, a ?? render(p.text, p.file!, files));
		text.set(p.slug, plain(p, files));
	}
	const start: Page = { slug: '', file: null, title: 'Documentation', group: '', text: startPage(pages, about) };
	made.set('', render(start.text, 'docs/index.md', files));
	text.set('', `# Documentation\n\n${start.text.replace(/\]\((\/docs\/[^)]+)\)/g, ']($1.md)')}`);
	checkLinks(made);

	const entries: Entry[] = pages.filter((p) => p.group !== 'Decisions').flatMap((p) => made.get(p.slug)!.sections
		.filter((s) => s.text.trim() || s.title)
		.map((s) => ({ page: hrefOf(p.slug), title: p.title, heading: s.title, id: s.id, text: s.text })));
	const index = JSON.stringify(makeIndex(entries));
	const stamp = createHash('sha256').update(browser.map((f) => f.text).join('') + index).digest('hex').slice(0, 8);

	await rm(out, { recursive: true, force: true });
	await mkdir(path.join(out, '_'), { recursive: true });
	if (existsSync(path.join(root, 'docs/img')))
		await cp(path.join(root, 'docs/img'), path.join(out, 'img'), { recursive: true });
	for (const p of [start, ...pages]) {
		const r = made.get(p.slug)!;
		const headings: Heading[] = r.headings;
		const file = path.join(out, p.slug || 'index');
		await mkdir(path.dirname(file), { recursive: true });
		await writeFile(`${file}.html`, framed({ pages, slug: p.slug, title: p.title, summary: summaryOf(p.text) || about, body: r.html, headings,
			markdown: true, stamp }));
		await writeFile(`${file}.md`, text.get(p.slug)!);
	}
	await writeFile(path.join(out, 'llms.txt'), llms(pages, about));
	await writeFile(path.join(out, 'llms-full.txt'), pages.filter((p) => FULL.has(p.group) && !p.slug.startsWith('api/')).map((p) => text.get(p.slug)!).join('\n\n---\n\n'));
	await writeFile(path.join(out, '_/search.json'), index);
	for (const f of browser)
		await writeFile(path.join(out, '_', f.name), f.text);
}
