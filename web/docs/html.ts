// SPDX-License-Identifier: Apache-2.0
// The frame around a page. No inline script and no inline style: the server's policy refuses both.
import type { Page } from './pages';

export type Heading = { level: number; id: string; text: string };

export function esc(s: string): string {
	return s.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

export function hrefOf(slug: string): string {
	return slug === '' ? '/docs' : `/docs/${slug}`;
}

/** As GitHub makes them; the n-th of the same name gets "-n". */
export function anchorMaker(): (text: string) => string {
	const seen = new Map<string, number>();
	return (text) => {
		const base = text.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
		const n = seen.get(base) ?? 0;
		seen.set(base, n + 1);
		return n ? `${base}-${n}` : base;
	};
}

function navigation(pages: Page[], current: string): string {
	const groups = new Map<string, Page[]>();
	for (const p of pages)
		groups.set(p.group, [...(groups.get(p.group) ?? []), p]);
	let html = '';
	for (const [name, list] of groups) {
		const items = list.map((p) =>
			`<li><a href="${hrefOf(p.slug)}"${p.slug === current ? ' aria-current="page"' : ''}>${esc(p.title.split(': ')[0]!)}</a></li>`).join('');
		/* long lists are folded unless they have the page */
		html += (list.length > 12 || name === 'API') && !list.some((p) => p.slug === current)
			? `<details><summary>${esc(name)}</summary><ul>${items}</ul></details>`
			: `<h2>${esc(name)}</h2><ul>${items}</ul>`;
	}
	return html;
}

function contents(headings: Heading[]): string {
	const all = headings.filter((h) => h.level === 2 || h.level === 3);
	const shown = all.length > 40 ? all.filter((h) => h.level === 2) : all;
	if (shown.length < 2)
		return '<div class="toc"></div>';
	const items = shown.map((h) => `<li class="l${h.level}"><a href="#${esc(h.id)}">${esc(h.text)}</a></li>`).join('');
	return `<nav class="toc" aria-label="On this page"><h2>On this page</h2><ul>${items}</ul></nav>`;
}

function neighbours(pages: Page[], current: string): string {
	const at = pages.findIndex((p) => p.slug === current);
	if (at < 0)
		return '';
	const link = (p: Page | undefined, rel: string, word: string) =>
		p ? `<a rel="${rel}" class="${rel}" href="${hrefOf(p.slug)}"><small>${word}</small>${esc(p.title)}</a>` : '<span></span>';
	return `<nav class="around" aria-label="Neighbouring pages">${link(pages[at - 1], 'prev', 'Previous')}${link(pages[at + 1], 'next', 'Next')}</nav>`;
}

export function framed(o: { pages: Page[]; slug: string; title: string; summary: string; body: string; headings: Heading[]; markdown: boolean; stamp: string }): string {
	const asText = o.markdown ? `<link rel="alternate" type="text/markdown" href="${hrefOf(o.slug || 'index')}.md">` : '';
	const source = o.markdown ? `<p class="source"><a href="${hrefOf(o.slug || 'index')}.md">This page as Markdown</a></p>` : '';
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${esc(o.title)} · Pando</title>
<meta name="description" content="${esc(o.summary)}">
<script src="/docs/_/theme.js?${o.stamp}"></script>
<link rel="stylesheet" href="/docs/_/style.css?${o.stamp}">
<link rel="icon" href="/favicon.ico">
${asText}
<script src="/docs/_/site.js?${o.stamp}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header>
<button type="button" class="menu" aria-expanded="false" aria-controls="nav">Menu</button>
<a class="brand" href="/docs"><b>Pando</b> docs</a>
<button type="button" class="find" aria-haspopup="dialog"><span>Search</span><kbd>/</kbd></button>
<a class="app" href="/ui">Dashboard</a>
<button type="button" class="theme" aria-label="Light or dark"></button>
</header>
<div class="frame">
<nav class="side" id="nav" aria-label="Pages">${navigation(o.pages, o.slug)}</nav>
<main id="content" tabindex="-1">
<article${o.slug.startsWith('api/') ? ' class="api"' : ''}>
<h1>${esc(o.title)}</h1>
${o.body}
</article>
${neighbours(o.pages, o.slug)}
${source}
</main>
${contents(o.headings)}
</div>
</body>
</html>
`;
}
