// SPDX-License-Identifier: Apache-2.0
/*
 * markdown.ts - what a README usually has, as a tree of plain nodes
 *
 * No HTML is ever made from foreign text: tags in it stay text, and a link's address must be http, https, mailto or relative.
 * Headings, paragraphs, lists, quotes, code, tables, rules, emphasis, links; the rest is shown as it is written.
 */

export type Inline =
	| { t: "text"; text: string }
	| { t: "code"; text: string }
	| { t: "strong" | "em" | "del"; of: Inline[] }
	| { t: "link"; href: string; of: Inline[] }
	| { t: "image"; alt: string };

export type Block =
	| { t: "heading"; level: number; of: Inline[] }
	| { t: "para"; of: Inline[] }
	| { t: "code"; lang: string; text: string }
	| { t: "quote"; of: Block[] }
	| { t: "list"; ordered: boolean; start: number; items: Block[][] }
	| { t: "table"; head: Inline[][]; rows: Inline[][][] }
	| { t: "rule" };

const MAX_DEPTH = 12;

/** An address that may be followed, or null. Controls and spaces are dropped first, as browsers do. */
export function safeHref(href: string): string | null {
	// eslint-disable-next-line no-control-regex
	const s = href.replace(/[\u0000-\u0020\u007f-\u009f]/g, "");
	if (/^(https?:|mailto:)/i.test(s))
		return s;
	if (/^[a-z][a-z0-9+.-]*:/i.test(s) || s.startsWith("//") || s.startsWith("\\") || s.startsWith("/\\"))
		return null;
	return s === "" ? null : s;
}

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|!\[([^\]\n]*)\]\([^)\n]*\)|\[((?:[^[\]\n]|\[[^[\]\n]*\]|!\[[^\]\n]*\]\([^)\n]*\))*)\]\(\s*<?([^\s)>]+)>?(?:\s+["'(][^)\n]*)?\)|<(https?:\/\/[^\s<>]+)>|(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])|\*\*(?=\S)([\s\S]*?\S)\*\*|__(?=\S)([\s\S]*?\S)__(?!\w)|\*(?=[^\s*])([^*\n]*[^\s*])\*|\b_(?=[^\s_])([^_\n]*[^\s_])_\b|~~(?=\S)([^~\n]*\S)~~|\\([!-/:-@[-`{-~])/;

export function inlines(src: string, depth = 0): Inline[] {
	const out: Inline[] = [];
	const text = (s: string): void => {
		const last = out[out.length - 1];
		if (s && last && last.t === "text")
			last.text += s;
		else if (s)
			out.push({ t: "text", text: s });
	};
	let rest = src;
	while (rest) {
		const m = depth < MAX_DEPTH ? INLINE.exec(rest) : null;
		if (!m) {
			text(rest);
			break;
		}
		text(rest.slice(0, m.index));
		rest = rest.slice(m.index + m[0].length);
		const [whole, , code, alt, label, href, auto, bare, b1, b2, e1, e2, del, esc] = m;
		const url = href ?? auto ?? bare;
		if (code !== undefined)
			out.push({ t: "code", text: code.trim() });
		else if (alt !== undefined)
			out.push({ t: "image", alt });
		else if (url !== undefined) {
			const safe = safeHref(url);
			if (safe === null)
				text(label ?? whole);
			else
				out.push({ t: "link", href: safe, of: label !== undefined ? inlines(label, depth + 1) : [{ t: "text", text: url }] });
		} else if (b1 !== undefined || b2 !== undefined)
			out.push({ t: "strong", of: inlines(b1 ?? b2 ?? "", depth + 1) });
		else if (e1 !== undefined || e2 !== undefined)
			out.push({ t: "em", of: inlines(e1 ?? e2 ?? "", depth + 1) });
		else if (del !== undefined)
			out.push({ t: "del", of: inlines(del, depth + 1) });
		else
			text(esc ?? whole);
	}
	return out;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;

function cells(line: string): string[] {
	return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\\|/g, "|"));
}

export function markdown(src: string, depth = 0): Block[] {
	const lines = src.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
	const out: Block[] = [];
	let i = 0;
	const para: string[] = [];
	const flush = (): void => {
		if (para.length)
			out.push({ t: "para", of: inlines(para.join("\n")) });
		para.length = 0;
	};
	while (i < lines.length) {
		const line = lines[i]!;
		const fence = FENCE.exec(line), item = ITEM.exec(line), head = /^ {0,3}(#{1,6})(?:\s+(.*?))?\s*#*\s*$/.exec(line);
		if (fence) {
			flush();
			const body: string[] = [];
			for (i++; i < lines.length && !lines[i]!.trim().startsWith(fence[1]!); i++)
				body.push(lines[i]!);
			i++;
			out.push({ t: "code", lang: fence[2] ?? "", text: body.join("\n") });
		} else if (head) {
			flush();
			out.push({ t: "heading", level: head[1]!.length, of: inlines(head[2] ?? "") });
			i++;
		} else if (para.length === 1 && /^ {0,3}(=+|-+)\s*$/.test(line)) {
			const level = line.trim().startsWith("=") ? 1 : 2;
			out.push({ t: "heading", level, of: inlines(para.pop()!) });
			i++;
		} else if (RULE.test(line)) {
			flush();
			out.push({ t: "rule" });
			i++;
		} else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
			flush();
			const body: string[] = [];
			for (; i < lines.length && /^ {0,3}>/.test(lines[i]!); i++)
				body.push(lines[i]!.replace(/^ {0,3}> ?/, ""));
			out.push({ t: "quote", of: markdown(body.join("\n"), depth + 1) });
		} else if (item && depth < MAX_DEPTH && (para.length === 0 || /[-*+]|1[.)]/.test(item[2]!))) {
			flush();
			i = list(lines, i, item, depth, out);
		} else if (line.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[i + 1] ?? "") && (lines[i + 1] ?? "").includes("|")) {
			flush();
			const headCells = cells(line).map((c) => inlines(c));
			const rows: Inline[][][] = [];
			for (i += 2; i < lines.length && lines[i]!.includes("|"); i++)
				rows.push(cells(lines[i]!).slice(0, headCells.length).map((c) => inlines(c)));
			out.push({ t: "table", head: headCells, rows });
		} else if (/^ {4}/.test(line) && para.length === 0 && line.trim()) {
			const body: string[] = [];
			for (; i < lines.length && (/^ {4}/.test(lines[i]!) || !lines[i]!.trim()); i++)
				body.push(lines[i]!.slice(4));
			out.push({ t: "code", lang: "", text: body.join("\n").replace(/\n+$/, "") });
		} else {
			if (line.trim())
				para.push(line.trim());
			else
				flush();
			i++;
		}
	}
	flush();
	return out;
}

function list(lines: string[], from: number, first: RegExpExecArray, depth: number, out: Block[]): number {
	const ordered = /\d/.test(first[2]!);
	const items: Block[][] = [];
	let i = from;
	while (i < lines.length) {
		const m = ITEM.exec(lines[i]!);
		if (!m || /\d/.test(m[2]!) !== ordered || RULE.test(lines[i]!))
			break;
		const indent = Math.max(2, Math.min(m[0].length, m[1]!.length + m[2]!.length + 1));
		const body = [lines[i]!.slice(m[0].length)];
		for (i++; i < lines.length; i++) {
			const l = lines[i]!;
			const inner = l.startsWith(" ".repeat(indent));
			if (!l.trim() ? !(lines[i + 1] ?? "").startsWith(" ".repeat(indent)) : !inner && (ITEM.test(l) || !body[body.length - 1]?.trim() || FENCE.test(l) || /^#/.test(l)))
				break;
			body.push(inner ? l.slice(indent) : l.trim());
		}
		items.push(markdown(body.join("\n"), depth + 1));
		while (i < lines.length && !lines[i]!.trim() && ITEM.test(lines[i + 1] ?? ""))
			i++;
	}
	out.push({ t: "list", ordered, start: ordered ? parseInt(first[2]!, 10) : 1, items });
	return i;
}
