// SPDX-License-Identifier: Apache-2.0
/* MarkdownView.tsx - Markdown as elements of this page; every text in it is a text node (markdown.ts) */
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { markdown, type Block, type Inline } from './markdown';

/** Where a relative link leads; null: it stays text. */
export type Resolve = (href: string) => string | null;

function inline(list: Inline[], to: Resolve): ComponentChildren {
	return list.map((n, i) => {
		switch (n.t) {
		case 'text': return n.text;
		case 'code': return <code key={i}>{n.text}</code>;
		case 'strong': return <strong key={i}>{inline(n.of, to)}</strong>;
		case 'em': return <em key={i}>{inline(n.of, to)}</em>;
		case 'del': return <del key={i}>{inline(n.of, to)}</del>;
		case 'image': return <span key={i} class="md-image">{n.alt || 'image'}</span>;
		case 'link': {
			const out = /^(https?:|mailto:)/i.test(n.href);
			const href = out ? n.href : to(n.href);
			return href === null ? <span key={i}>{inline(n.of, to)}</span> : <a key={i} href={href} {...(out ? { target: '_blank', rel: 'noopener noreferrer nofollow' } : {})}>{inline(n.of, to)}</a>;
		}
		}
	});
}

function block(b: Block, i: number, to: Resolve): ComponentChildren {
	switch (b.t) {
	case 'heading': {
		const H = `h${Math.min(6, b.level + 2)}` as 'h3';
		return <H key={i} class={`md-h${b.level}`}>{inline(b.of, to)}</H>;
	}
	case 'para': return <p key={i}>{inline(b.of, to)}</p>;
	case 'code': return <pre key={i} tabIndex={0}><code>{b.text}</code></pre>;
	case 'quote': return <blockquote key={i}>{b.of.map((x, k) => block(x, k, to))}</blockquote>;
	case 'rule': return <hr key={i} />;
	case 'list': {
		const items = b.items.map((x, k) => <li key={k}>{x.length === 1 && x[0]?.t === 'para' ? inline(x[0].of, to) : x.map((y, n) => block(y, n, to))}</li>);
		return b.ordered ? <ol key={i} start={b.start}>{items}</ol> : <ul key={i}>{items}</ul>;
	}
	case 'table':
		return <div key={i} class="md-table" tabIndex={0} role="region" aria-label="Table"><table><thead><tr>{b.head.map((c, k) => <th key={k} scope="col">{inline(c, to)}</th>)}</tr></thead>
			<tbody>{b.rows.map((r, k) => <tr key={k}>{r.map((c, n) => <td key={n}>{inline(c, to)}</td>)}</tr>)}</tbody></table></div>;
	}
}

export function MarkdownView({ text, resolve }: { text: string; resolve: Resolve }) {
	const blocks = useMemo(() => markdown(text.slice(0, 500_000)), [text]);
	return <div class="md">{blocks.map((b, i) => block(b, i, resolve))}</div>;
}
