// SPDX-License-Identifier: Apache-2.0
/*
 * linediff.ts - the difference of two texts by lines, as hunks of a unified diff
 *
 * Myers' algorithm in its linear-space form is not needed here: what both texts begin and end with is cut off, and when more
 * than MAX_COST steps would be needed the rest is shown as replaced, so that two large foreign files do not stop the page.
 */

export type LineKind = " " | "+" | "-";

export interface DiffLine {
	kind: LineKind;
	text: string;
	/** Line numbers from 1, in the old and the new text; 0 where the line is not in it. */
	a: number;
	b: number;
}

export interface Hunk {
	lines: DiffLine[];
	aStart: number;
	aCount: number;
	bStart: number;
	bCount: number;
}

export interface TextDiff {
	hunks: Hunk[];
	added: number;
	removed: number;
	/** The texts differ in more places than were looked at. */
	coarse: boolean;
	/** "No newline at end of file" of either side. */
	aOpen: boolean;
	bOpen: boolean;
}

const MAX_COST = 3000;

export function splitLines(text: string): { lines: string[]; open: boolean } {
	if (text === "")
		return { lines: [], open: false };
	const lines = text.split("\n");
	const open = lines[lines.length - 1] !== "";
	if (!open)
		lines.pop();
	return { lines, open };
}

/** Pairs of equal lines between a[a0..a1) and b[b0..b1), by Myers' greedy search; null beyond MAX_COST edits. */
function matches(a: string[], b: string[]): [number, number][] | null {
	const n = a.length, m = b.length, max = Math.min(n + m, MAX_COST);
	const trace: Int32Array[] = [];
	let v = new Int32Array(2 * max + 3);
	const mid = max + 1;

	for (let d = 0; d <= max; d++) {
		trace.push(v.slice(mid - d - 1, mid + d + 2));
		for (let k = -d; k <= d; k += 2) {
			const down = k === -d || (k !== d && (v[mid + k - 1] ?? 0) < (v[mid + k + 1] ?? 0));
			let x = down ? (v[mid + k + 1] ?? 0) : (v[mid + k - 1] ?? 0) + 1;
			let y = x - k;
			while (x < n && y < m && a[x] === b[y]) {
				x++;
				y++;
			}
			v[mid + k] = x;
			if (x >= n && y >= m)
				return back(trace, d, n, m);
		}
	}
	v = new Int32Array(0);
	return null;
}

function back(trace: Int32Array[], cost: number, n: number, m: number): [number, number][] {
	const pairs: [number, number][] = [];
	let x = n, y = m;
	for (let d = cost; d >= 0; d--) {
		const v = trace[d]!, mid = d + 1, k = x - y;
		const down = k === -d || (k !== d && (v[mid + k - 1] ?? 0) < (v[mid + k + 1] ?? 0));
		const pk = down ? k + 1 : k - 1;
		const px = d === 0 ? 0 : (v[mid + pk] ?? 0), py = d === 0 ? 0 : px - pk;
		const sx = d === 0 ? 0 : down ? px : px + 1, sy = d === 0 ? 0 : down ? py + 1 : py;
		while (x > sx && y > sy)
			pairs.push([--x, --y]);
		x = px;
		y = py;
	}
	return pairs.reverse();
}

export function diffLines(aText: string, bText: string): { lines: DiffLine[]; coarse: boolean; aOpen: boolean; bOpen: boolean } {
	const A = splitLines(aText), B = splitLines(bText);
	const a = A.lines, b = B.lines;
	// The last line without its newline is another line than the one with it.
	const an = a.length, bn = b.length;
	const same = (i: number, j: number): boolean =>
		a[i] === b[j] && (i === an - 1 && A.open) === (j === bn - 1 && B.open);
	let head = 0, tail = 0;
	while (head < an && head < bn && same(head, head))
		head++;
	while (tail < an - head && tail < bn - head && same(an - 1 - tail, bn - 1 - tail))
		tail++;
	const mark = (l: string, i: number, end: number, open: boolean): string => (open && i === end - 1 ? l + "\0" : l);
	const am = a.slice(head, an - tail).map((l, i) => mark(l, head + i, an, A.open));
	const bm = b.slice(head, bn - tail).map((l, i) => mark(l, head + i, bn, B.open));
	const found = matches(am, bm);
	const out: DiffLine[] = [];
	const keep = (i: number, j: number): number => out.push({ kind: " ", text: a[i]!, a: i + 1, b: j + 1 });
	let x = 0, y = 0;
	for (let i = 0; i < head; i++)
		keep(i, i);
	for (const [i, j] of [...(found ?? []), [am.length, bm.length] as [number, number]]) {
		while (x < i) {
			out.push({ kind: "-", text: a[head + x]!, a: head + x + 1, b: 0 });
			x++;
		}
		while (y < j) {
			out.push({ kind: "+", text: b[head + y]!, a: 0, b: head + y + 1 });
			y++;
		}
		if (i < am.length && j < bm.length) {
			keep(head + i, head + j);
			x = i + 1;
			y = j + 1;
		}
	}
	for (let i = tail; i > 0; i--)
		keep(an - i, bn - i);
	return { lines: out, coarse: found === null, aOpen: A.open, bOpen: B.open };
}

export function textDiff(aText: string, bText: string, context = 3): TextDiff {
	const { lines, coarse, aOpen, bOpen } = diffLines(aText, bText);
	const hunks: Hunk[] = [];
	let at = 0;
	while (at < lines.length) {
		while (at < lines.length && lines[at]!.kind === " ")
			at++;
		if (at === lines.length)
			break;
		const from = Math.max(0, at - context);
		let end = at, quiet = 0;
		for (let i = at; i < lines.length && quiet <= 2 * context; i++) {
			quiet = lines[i]!.kind === " " ? quiet + 1 : 0;
			if (quiet === 0)
				end = i + 1;
		}
		const part = lines.slice(from, Math.min(lines.length, end + context));
		hunks.push({
			lines: part,
			aStart: part.find((l) => l.a)?.a ?? 0, aCount: part.filter((l) => l.kind !== "+").length,
			bStart: part.find((l) => l.b)?.b ?? 0, bCount: part.filter((l) => l.kind !== "-").length,
		});
		at = from + part.length;
	}
	return {
		hunks, coarse, aOpen, bOpen,
		added: lines.filter((l) => l.kind === "+").length, removed: lines.filter((l) => l.kind === "-").length,
	};
}

/** Rows for two columns: removed lines stand beside the added ones that took their place. */
export function sideBySide(lines: DiffLine[]): { left: DiffLine | null; right: DiffLine | null }[] {
	const rows: { left: DiffLine | null; right: DiffLine | null }[] = [];
	for (let i = 0; i < lines.length;) {
		if (lines[i]!.kind === " ") {
			rows.push({ left: lines[i]!, right: lines[i]! });
			i++;
			continue;
		}
		const gone: DiffLine[] = [], come: DiffLine[] = [];
		while (i < lines.length && lines[i]!.kind !== " ") {
			(lines[i]!.kind === "-" ? gone : come).push(lines[i]!);
			i++;
		}
		for (let k = 0; k < Math.max(gone.length, come.length); k++)
			rows.push({ left: gone[k] ?? null, right: come[k] ?? null });
	}
	return rows;
}
