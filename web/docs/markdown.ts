// SPDX-License-Identifier: Apache-2.0
// Markdown to HTML: anchors, links between pages, code with highlighting and a copy button.
import MarkdownIt from 'markdown-it';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import http from 'highlight.js/lib/languages/http';
import ini from 'highlight.js/lib/languages/ini';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import path from 'node:path';
import { anchorMaker, esc, hrefOf, type Heading } from './html';
import { slugOf, type Page } from './pages';

for (const [name, lang] of Object.entries({ bash, c, http, ini, javascript, json, python }))
	hljs.registerLanguage(name, lang);
hljs.registerAliases(['sh', 'shell', 'console'], { languageName: 'bash' });
hljs.registerAliases(['js', 'ts'], { languageName: 'javascript' });
hljs.registerAliases(['toml', 'conf'], { languageName: 'ini' });

export type Section = { id: string; title: string; text: string };
export type Rendered = { html: string; headings: Heading[]; sections: Section[]; links: string[] };

/** A block of code; "text" is what a command printed. */
export function codeBlock(code: string, lang: string): string {
	const known = lang !== 'text' && hljs.getLanguage(lang);
	const inner = known ? hljs.highlight(code, { language: lang }).value : esc(code);
	if (lang === 'text')
		return `<pre class="output" tabindex="0"><code>${inner}</code></pre>\n`;
	return `<div class="code"><button type="button" class="copy" hidden>Copy</button><pre tabindex="0"><code>${inner}</code></pre></div>\n`;
}

/** Where a link of a page leads: a page of this site, or null if it is a file that only the repository has. */
export function resolve(from: string, href: string, files: Map<string, string>): string | null {
	if (/^[a-z]+:/.test(href) || href.startsWith('#') || href.startsWith('/'))
		return href;
	const [target = '', hash] = href.split('#');
	const file = path.posix.normalize(path.posix.join(path.posix.dirname(from), target)).replace(/\/$/, '');
	if (file.startsWith('docs/img/'))
		return `/${file}`;
	const found = files.get(file) ?? files.get(`${file}/README.md`) ?? [...files].find(([f]) => f.startsWith(`${file}/`))?.[1];
	return found === undefined ? null : hrefOf(found) + (hash ? `#${hash}` : '');
}

export function filesOf(pages: Page[]): Map<string, string> {
	return new Map(pages.flatMap((p) => p.file ? [[p.file, p.slug] as const] : []).concat([['README.md', '']]));
}

export function render(text: string, file: string, files: Map<string, string>): Rendered {
	const md = new MarkdownIt({ html: false, linkify: false, typographer: false });
	const anchor = anchorMaker();
	const out: Rendered = { html: '', headings: [], sections: [{ id: '', title: '', text: '' }], links: [] };
	const env = {};
	const tokens = md.parse(text, env);

	for (let i = 0; i < tokens.length; i++) {
		const t = tokens[i]!;
		if (t.type === 'heading_open') {
			const inline = tokens[i + 1]!;
			const words = (inline.children ?? []).map((x) => x.content).join('');
			const id = anchor(words);
			t.attrSet('id', id);
			out.headings.push({ level: Number(t.tag.slice(1)), id, text: words });
			out.sections.push({ id, title: words, text: '' });
		} else if (t.type === 'inline' && tokens[i - 1]?.type !== 'heading_open') {
			out.sections.at(-1)!.text += (t.children ?? []).map((x) => x.type === 'softbreak' ? ' ' : x.content).join('') + ' ';
		} else if (t.type === 'fence' || t.type === 'code_block') {
			out.sections.at(-1)!.text += t.content + ' ';
		}
		for (const x of t.children ?? [])
			if (x.type === 'link_open' || x.type === 'image') {
				const name = x.type === 'image' ? 'src' : 'href';
				const to = resolve(file, String(x.attrGet(name) ?? ''), files);
				if (to === null) {
					/* a file of the repository: its name is enough */
					x.tag = 'span';
					x.attrs = [['class', 'file']];
					x.meta = 'file';
				} else {
					x.attrSet(name, to);
					out.links.push(to);
				}
			}
	}
	let spans = 0;
	md.renderer.rules['link_open'] = (list, i, options, _env, self) => {
		spans += list[i]!.meta === 'file' ? 1 : 0;
		return self.renderToken(list, i, options);
	};
	md.renderer.rules['link_close'] = () => spans > 0 && spans-- ? '</span>' : '</a>';
	md.renderer.rules['fence'] = (list, i) => codeBlock(list[i]!.content, list[i]!.info.split(' ')[0] || 'text');
	md.renderer.rules['code_block'] = (list, i) => codeBlock(list[i]!.content, 'text');
	md.renderer.rules['heading_close'] = (list, i) => {
		const id = list[i - 2]?.attrGet('id') ?? '';
		return `<a class="anchor" href="#${esc(String(id))}" aria-label="Link to this heading">#</a></${list[i]!.tag}>\n`;
	};
	md.renderer.rules['table_open'] = () => '<div class="table" tabindex="0"><table>\n';
	md.renderer.rules['table_close'] = () => '</table></div>\n';
	out.html = md.renderer.render(tokens, md.options, env);
	return out;
}

/** The Markdown of a page for programs: links lead to the Markdown of other pages. */
export function plain(page: Page, files: Map<string, string>): string {
	const text = page.text.replace(/\]\(([^)\s]+)\)/g, (all, href: string) => {
		const to = page.file ? resolve(page.file, href, files) : href;
		if (to === null || /^[a-z]+:/.test(to) || to.startsWith('#'))
			return all;
		const [p = '', hash] = to.split('#');
		return `](${p === '/docs' ? '/docs/index' : p}.md${hash ? `#${hash}` : ''})`;
	});
	return `# ${page.title}\n${text}`;
}

export { slugOf };
