// SPDX-License-Identifier: Apache-2.0
/*
 * ansi.ts - text with colour escapes, as runs of text with class names
 *
 * For tracebacks, logs and build output: SGR colours are read, every other sequence is dropped. Lines that a
 * carriage return writes over (progress bars) end as their last form. The result is only ever put in text nodes.
 */

export interface Run {
	text: string;
	/** Class names, "" for plain text. */
	cls: string;
}

// ESC [ ... final, ESC ] ... BEL or ESC \, ESC and one character; then other controls but tab and newline.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

interface Look {
	fg: string;
	bold: boolean;
	dim: boolean;
	italic: boolean;
	under: boolean;
	bg: string;
}

const PLAIN: Look = { fg: "", bold: false, dim: false, italic: false, under: false, bg: "" };

function classes(l: Look): string {
	const c: string[] = [];
	if (l.fg)
		c.push(`a-${l.fg}`);
	if (l.bg)
		c.push(`a-on-${l.bg}`);
	if (l.bold)
		c.push("a-bold");
	if (l.dim)
		c.push("a-dim");
	if (l.italic)
		c.push("a-italic");
	if (l.under)
		c.push("a-under");
	return c.join(" ");
}

/** One of the sixteen names nearest to a colour of the 256. */
function of256(n: number): string {
	if (n < 16)
		return String(n);
	if (n >= 232)
		return n < 240 ? "8" : n < 250 ? "7" : "15";
	const c = n - 16;
	return nearest(Math.floor(c / 36) * 51, (Math.floor(c / 6) % 6) * 51, (c % 6) * 51);
}

function nearest(r: number, g: number, b: number): string {
	const top = Math.max(r, g, b);
	if (top < 48)
		return "8";
	const bits = (r > top * 0.6 ? 1 : 0) | (g > top * 0.6 ? 2 : 0) | (b > top * 0.6 ? 4 : 0);
	return String(top > 200 && bits !== 7 ? bits + 8 : bits);
}

function sgr(look: Look, params: string): Look {
	const p = params.replace(/:/g, ";").split(";").map((s) => (s === "" ? 0 : Number(s)));
	let l = { ...look };
	for (let i = 0; i < p.length; i++) {
		const n = p[i] ?? 0;
		if (n === 0)
			l = { ...PLAIN };
		else if (n === 1)
			l.bold = true;
		else if (n === 2)
			l.dim = true;
		else if (n === 3)
			l.italic = true;
		else if (n === 4)
			l.under = true;
		else if (n === 22)
			l.bold = l.dim = false;
		else if (n === 23)
			l.italic = false;
		else if (n === 24)
			l.under = false;
		else if (n >= 30 && n <= 37)
			l.fg = String(n - 30);
		else if (n >= 90 && n <= 97)
			l.fg = String(n - 90 + 8);
		else if (n === 39)
			l.fg = "";
		else if (n >= 40 && n <= 47)
			l.bg = String(n - 40);
		else if (n >= 100 && n <= 107)
			l.bg = String(n - 100 + 8);
		else if (n === 49)
			l.bg = "";
		else if (n === 38 || n === 48) {
			let c = "";
			if (p[i + 1] === 5) {
				c = of256(p[i + 2] ?? 0);
				i += 2;
			} else if (p[i + 1] === 2) {
				c = nearest(p[i + 2] ?? 0, p[i + 3] ?? 0, p[i + 4] ?? 0);
				i += 4;
			}
			if (n === 38)
				l.fg = c;
			else
				l.bg = c;
		}
	}
	return l;
}

/** What a carriage return wrote over is dropped, line by line; "\r\n" is a line's end. */
function overwrite(text: string): string {
	if (!text.includes("\r"))
		return text;
	return text.replace(/\r+\n/g, "\n").split("\n").map((line) => {
		const at = line.replace(/\r+$/, "").lastIndexOf("\r");
		return line.slice(at + 1).replace(/\r/g, "");
	}).join("\n");
}

export function ansiRuns(text: string): Run[] {
	const runs: Run[] = [];
	let look = PLAIN, at = 0;
	const src = overwrite(text);
	const add = (s: string): void => {
		if (!s)
			return;
		const cls = classes(look), last = runs[runs.length - 1];
		if (last && last.cls === cls)
			last.text += s;
		else
			runs.push({ text: s, cls });
	};
	for (const m of src.matchAll(ESCAPES)) {
		add(src.slice(at, m.index));
		at = m.index + m[0].length;
		if (m[2] === "m")
			look = sgr(look, m[1] ?? "");
	}
	add(src.slice(at));
	return runs;
}

/** The text alone, on one line and not too long: for titles of tabs. */
export function plainTitle(text: string, max = 60): string {
	const s = text.replace(ESCAPES, "").replace(/\s+/g, " ").trim();
	return [...s].length > max ? [...s].slice(0, max - 1).join("") + "…" : s;
}
