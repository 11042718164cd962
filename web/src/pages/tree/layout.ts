// SPDX-License-Identifier: Apache-2.0
// Where each node goes. Roots are at the left and the tree grows to the right, so that names can be read. Children
// stand below each other in the order in which they came to be. Many leaves of one parent would make a line longer than
// any screen: from GRID on they stand together as a block, like a crown.
//
// Subtrees are packed by their outlines: each knows how far up and down it reaches in every column of STEP pixels to the
// right of its root, and moves up as far as those of the sibling above allow. Outlines are kept from the far end to the
// root, so that a longer branch grows by pushing, and a smaller outline is merged into a larger one: about n log n in all.
// A family that would be taller than TALL is set in lines instead, like words: its subtrees stand side by side, line by
// line, and branches run along the lines. So 2,000 nodes fill a screen and not a strip of it.
// No recursion: trees of forks of forks are thousands of levels deep.
import type { Forest, Node } from './model';

export const ROW = 30;
export const CELL = 30;
const STEP = 30;
const GAP = 4; /* columns from a parent to its children */
const LABEL = 6; /* columns that a leaf takes with its name */
const GRID = 10;
const BETWEEN = 8;
const TREES = 40;
const TALL = 560;
const LINE = 16; /* room above a line for its branch */
const SIDE = 14; /* between neighbours in a line */
const SHAPE = 1.7; /* width to height */
const SPINE = 26; /* how far before the lines the branch divides */

export interface Block { x: number; y: number; w: number; h: number; parent: Node }
/** How a branch runs to a node (or block) that stands in a line: along y, from x on. */
export interface Way { x: number; y: number }
export interface Layout { width: number; height: number; blocks: Block[]; ways: Map<Node | Block, Way> }

/* Column b is at the index length - 1 - b; values count from the root's height, minus off. */
interface Outline { top: number[]; bot: number[]; off: number; min: number; max: number }
interface Plan {
	outline: Outline | null;
	leaves: Node[];
	cols: number;
	rows: number;
	/* From the parent's place: of the node, and of its block of leaves. */
	dx: number;
	dy: number;
	blockX: number;
	blockY: number;
	/* Its box from its own place, and where its branch runs; null: straight from the parent. */
	w: number;
	top: number;
	bot: number;
	line: number | null;
	blockLine: number | null;
}

function box(columns: number, top: number, bot: number): Outline {
	return { top: new Array<number>(columns).fill(top), bot: new Array<number>(columns).fill(bot), off: 0, min: top, max: bot };
}

/* How far below `a` the root of `c` has to be. */
function below(a: Outline, c: Outline, space: number): number {
	const n = Math.min(a.top.length, c.top.length);
	let d = -Infinity;
	for (let b = 1; b <= n; b++) {
		const need = (a.bot[a.bot.length - b] as number) + a.off - (c.top[c.top.length - b] as number) - c.off;
		if (need > d)
			d = need;
	}
	return d + space;
}

function merge(a: Outline, c: Outline): Outline {
	const [large, small] = a.top.length >= c.top.length ? [a, c] : [c, a];
	const shift = small.off - large.off;
	large.min = Math.min(large.min, small.min + shift);
	large.max = Math.max(large.max, small.max + shift);
	for (let b = 1; b <= small.top.length; b++) {
		const i = large.top.length - b;
		const j = small.top.length - b;
		large.top[i] = Math.min(large.top[i] as number, (small.top[j] as number) + shift);
		large.bot[i] = Math.max(large.bot[i] as number, (small.bot[j] as number) + shift);
	}
	return large;
}

/* The root in front of its children. */
function root(o: Outline, n: Node): void {
	o.min = Math.min(o.min, -n.r - 6 - o.off);
	o.max = Math.max(o.max, n.r + 19 - o.off);
	for (let b = 0; b < GAP; b++) {
		const near = b === GAP - 1 || b === GAP - 2;
		o.top.push(near ? -n.r - 6 - o.off : Infinity);
		o.bot.push(near ? n.r + 19 - o.off : -Infinity);
	}
}

/* Children below each other, packed by their outlines; null: too tall for that. */
function stack(n: Node, p: Plan, plans: Map<Node, Plan>): Outline | null {
	let all: Outline | null = null;
	let first = 0;
	let last = 0;
	const put = (o: Outline): number => {
		const d: number = all ? below(all, o, BETWEEN) : 0;
		o.off += d;
		if (!all)
			first = d;
		last = d;
		all = all ? merge(all, o) : o;
		return d;
	};
	const stems = n.children.filter((c) => c.children.length);
	const tall = stems.reduce((h, c) => h + (plans.get(c) as Plan).bot - (plans.get(c) as Plan).top, 0);
	if (stems.length > 1 && tall > TALL * 2)
		return null;
	for (const c of stems)
		(plans.get(c) as Plan).dy = put((plans.get(c) as Plan).outline as Outline);
	if (p.cols) {
		const half = p.rows * CELL / 2;
		p.blockY = put(box(p.cols, -half - 6, half + 6));
		p.blockX = GAP * STEP - CELL / 2;
	} else {
		for (const l of p.leaves)
			(plans.get(l) as Plan).dy = put(box(LABEL, -ROW / 2 + BETWEEN / 2, ROW / 2 - BETWEEN / 2));
	}
	const o = all as Outline | null;
	if (!o || n.children.length > 1 && o.max - o.min > TALL)
		return null;
	const mid = (first + last) / 2;
	o.off -= mid;
	p.blockY -= mid;
	for (const c of n.children) {
		(plans.get(c) as Plan).dx = GAP * STEP;
		(plans.get(c) as Plan).dy -= mid;
	}
	return o;
}

interface Item { w: number; top: number; bot: number; put: (x: number, y: number, line: number) => void }
interface Set { at: { x: number; y: number; line: number }[]; width: number; height: number }

/* Boxes in lines of the width that comes closest to a screen's shape. */
function arrange(items: Item[], above: number): Set {
	const area = items.reduce((a, i) => a + (i.w + SIDE) * (i.bot - i.top + above), 0);
	const least = items.reduce((w, i) => Math.max(w, i.w), 0);
	let best: Set | null = null;
	for (let k = 0.8; k < 14; k *= 1.35) {
		const wide = Math.max(least, Math.sqrt(area * k));
		const set: Set = { at: [], width: 0, height: 0 };
		for (let from = 0; from < items.length;) {
			let x = 0;
			let high = 0;
			let to = from;
			for (; to < items.length && (to === from || x + (items[to] as Item).w <= wide); to++) {
				const i = items[to] as Item;
				/* They hang from the line's branch: each begins right below it. */
				set.at.push({ x, y: set.height + above - i.top, line: set.height });
				high = Math.max(high, i.bot - i.top);
				x += i.w + SIDE;
			}
			set.width = Math.max(set.width, x);
			set.height += above + high;
			from = to;
		}
		if (!best || Math.max(set.width / SHAPE, set.height) < Math.max(best.width / SHAPE, best.height))
			best = set;
	}
	return best as Set;
}

/* Children in lines, each as its box. */
function lines(n: Node, p: Plan, plans: Map<Node, Plan>): Outline {
	const items: Item[] = n.children.filter((c) => c.children.length || !p.cols).map((c) => {
		const q = plans.get(c) as Plan;
		return { w: q.w, top: q.top, bot: q.bot, put: (x, y, line) => {
			q.dx = x;
			q.dy = y;
			q.line = line;
		} };
	});
	if (p.cols)
		items.push({ w: p.cols * CELL + 10, top: -p.rows * CELL / 2 - 6, bot: p.rows * CELL / 2 + 6, put: (x, y, line) => {
			p.blockX = x - CELL / 2;
			p.blockY = y;
			p.blockLine = line;
		} });
	const set = arrange(items, LINE);
	const left = GAP * STEP;
	const mid = set.height / 2;
	set.at.forEach((q, k) => (items[k] as Item).put(left + q.x, q.y - mid, q.line - mid + 4));
	return box(Math.max(1, Math.ceil(set.width / STEP)), -mid - 4, mid + 4);
}

function plan(n: Node, plans: Map<Node, Plan>, grid: number): Plan {
	const leaves = n.children.filter((c) => c.children.length === 0);
	const p: Plan = { outline: null, leaves, cols: 0, rows: 0, dx: GAP * STEP, dy: 0, blockX: 0, blockY: 0, w: LABEL * STEP, top: -ROW / 2, bot: ROW / 2, line: null, blockLine: null };
	if (!n.children.length) {
		p.outline = box(LABEL, p.top, p.bot);
		return p;
	}
	if (leaves.length >= grid) {
		p.cols = Math.max(Math.min(leaves.length, 3), Math.ceil(Math.sqrt(leaves.length * 1.5)));
		p.rows = Math.ceil(leaves.length / p.cols);
	}
	const o = stack(n, p, plans) ?? lines(n, p, plans);
	for (const c of n.children)
		(plans.get(c) as Plan).outline = null;
	root(o, n);
	p.outline = o;
	p.w = o.top.length * STEP;
	p.top = o.min + o.off;
	p.bot = o.max + o.off;
	return p;
}

export function layout(f: Forest): Layout {
	const plans = new Map<Node, Plan>();
	const ways = new Map<Node | Block, Way>();
	/* Where there are many, names give way to room. */
	const grid = f.all.length > 250 ? 3 : GRID;
	const order: Node[] = [];
	const stack = [...f.roots];
	while (stack.length) {
		const n = stack.pop() as Node;
		order.push(n);
		for (const c of n.children)
			stack.push(c);
	}
	for (let i = order.length - 1; i >= 0; i--)
		plans.set(order[i] as Node, plan(order[i] as Node, plans, grid));
	arrange(f.roots.map((r): Item => {
		const p = plans.get(r) as Plan;
		return { w: p.w, top: p.top, bot: p.bot, put: () => undefined };
	}), f.roots.length > 1 ? TREES : 0).at.forEach((q, i) => {
		const p = plans.get(f.roots[i] as Node) as Plan;
		p.dx = q.x;
		p.dy = q.y;
	});
	const blocks: Block[] = [];
	let top = Infinity;
	let bottom = -Infinity;
	let width = 0;
	/* Parents are before their children in this order. */
	for (const n of order) {
		const p = plans.get(n) as Plan;
		if (n.parent && !n.children.length && (plans.get(n.parent) as Plan).cols)
			continue; /* in its parent's block */
		n.x = (n.parent ? n.parent.x : 0) + p.dx;
		n.y = (n.parent ? n.parent.y : 0) + p.dy;
		if (n.parent && p.line !== null)
			ways.set(n, { x: n.parent.x + GAP * STEP - SPINE, y: n.parent.y + p.line });
		n.labelled = true;
		width = Math.max(width, n.x + (n.children.length ? 40 : 130));
		top = Math.min(top, n.y - ROW / 2);
		bottom = Math.max(bottom, n.y + ROW / 2);
		if (p.cols) {
			const b: Block = { x: n.x + p.blockX, y: n.y + p.blockY - p.rows * CELL / 2, w: p.cols * CELL, h: p.rows * CELL, parent: n };
			blocks.push(b);
			if (p.blockLine !== null)
				ways.set(b, { x: n.x + GAP * STEP - SPINE, y: n.y + p.blockLine });
			p.leaves.forEach((l, i) => {
				l.x = b.x + CELL / 2 + (i % p.cols) * CELL;
				l.y = b.y + CELL / 2 + Math.floor(i / p.cols) * CELL;
				l.labelled = false;
			});
			width = Math.max(width, b.x + b.w);
			top = Math.min(top, b.y);
			bottom = Math.max(bottom, b.y + b.h);
		}
	}
	if (!f.roots.length)
		return { width: 0, height: 0, blocks, ways };
	/* The top is 0. */
	for (const n of f.all)
		n.y -= top;
	for (const b of blocks)
		b.y -= top;
	for (const w of ways.values())
		w.y -= top;
	return { width, height: bottom - top, blocks, ways };
}
