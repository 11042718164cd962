// SPDX-License-Identifier: Apache-2.0
// Draws the forest on a canvas. Only what can be seen is drawn; labels only where there is room for them. States differ
// by shape as well as by colour: running is filled, suspended a ring with a filled centre, stopped an empty ring, lost a
// cross. The dark arc around a node is what it shares with others, the gap what is its own.
import { cssVar } from '../../lib/theme';
import type { Layout, Way } from './layout';
import { CELL } from './layout';
import { ownMemory, type Forest, type Node } from './model';

export interface View { x: number; y: number; scale: number }
export interface Scene {
	forest: Forest;
	layout: Layout;
	view: View;
	width: number;
	height: number;
	selected: Node | null;
	hovered: Node | null;
	path: ReadonlySet<Node>;
	/** Nodes that a search found; null: no search. */
	found: ReadonlySet<Node> | null;
	going: ReadonlySet<string>;
	focused: boolean;
	now: number;
}

const STATES = ['running', 'suspended', 'stopped', 'lost'];
export interface Colors { [name: string]: string }
export function readColors(): Colors {
	const c: Colors = {};
	for (const n of ['bg', 'surface', 'line', 'line-strong', 'text', 'muted', 'accent', 'focus', 'running', 'suspended', 'stopped', 'changing', 'lost', 'template', 'snapshot', 'point', 'warn-soft', 'sunken'])
		c[n] = cssVar('--' + n);
	return c;
}

export function colorOf(n: Node, c: Colors): string {
	if (n.raw.type === 'vm')
		return c[STATES.includes(n.raw.state ?? '') ? n.raw.state as string : 'changing'] as string;
	return c[n.raw.kind === 'template' ? 'template' : n.raw.kind === 'snapshot' ? 'snapshot' : 'point'] as string;
}

/** Branches are as thick as what they carry. */
function thickness(n: Node): number {
	return 1.2 + Math.min(7, Math.log2(1 + n.vms) * 0.95);
}

function branch(g: CanvasRenderingContext2D, a: Node, x: number, y: number, way: Way | undefined): void {
	g.moveTo(a.nowX, a.nowY);
	if (!way) {
		const mid = a.nowX + (x - a.nowX) * 0.5;
		g.bezierCurveTo(mid, a.nowY, mid, y, x, y);
		return;
	}
	/* To the spine, along it, along the line, and down into the node. */
	const turn = Math.min(14, Math.abs(way.y - a.nowY) / 2);
	const down = way.y > a.nowY ? 1 : -1;
	g.lineTo(way.x - turn, a.nowY);
	g.quadraticCurveTo(way.x, a.nowY, way.x, a.nowY + turn * down);
	g.lineTo(way.x, way.y - turn * down);
	g.quadraticCurveTo(way.x, way.y, way.x + turn, way.y);
	const end = Math.max(way.x + turn, x - 20);
	g.lineTo(end, way.y);
	g.bezierCurveTo(end + 14, way.y, x - 16, y, x, y);
}

function edge(g: CanvasRenderingContext2D, a: Node, b: Node, l: Layout): void {
	branch(g, a, b.nowX, b.nowY, l.ways.get(b));
}

function shape(g: CanvasRenderingContext2D, n: Node, r: number): void {
	const x = n.nowX;
	const y = n.nowY;
	g.beginPath();
	if (n.raw.kind === 'template')
		g.roundRect(x - r, y - r, 2 * r, 2 * r, r * 0.35);
	else if (n.raw.kind === 'snapshot') {
		g.moveTo(x, y - r * 1.2);
		g.lineTo(x + r * 1.2, y);
		g.lineTo(x, y + r * 1.2);
		g.lineTo(x - r * 1.2, y);
		g.closePath();
	} else
		g.arc(x, y, r, 0, 2 * Math.PI);
}

function node(g: CanvasRenderingContext2D, s: Scene, n: Node, c: Colors): void {
	const age = n.born ? Math.min(1, (s.now - n.born) / 450) : 1;
	const r = Math.max(n.r, 1.5 / s.view.scale) * (0.3 + 0.7 * age);
	const color = colorOf(n, c);
	const vm = n.raw.type === 'vm';
	const state = n.raw.state;
	shape(g, n, r);
	g.fillStyle = c['bg'] as string;
	g.fill();
	g.lineWidth = vm ? 2.2 : 1.6;
	g.strokeStyle = color;
	if (!vm) {
		g.fillStyle = color;
		g.fill();
	} else if (state === 'running') {
		g.fillStyle = color;
		g.fill();
	} else if (state === 'lost') {
		g.stroke();
		g.beginPath();
		g.moveTo(n.nowX - r * 0.4, n.nowY - r * 0.4);
		g.lineTo(n.nowX + r * 0.4, n.nowY + r * 0.4);
		g.moveTo(n.nowX + r * 0.4, n.nowY - r * 0.4);
		g.lineTo(n.nowX - r * 0.4, n.nowY + r * 0.4);
		g.stroke();
	} else if (state === 'stopped') {
		g.stroke();
	} else {
		g.stroke();
		g.beginPath();
		g.arc(n.nowX, n.nowY, r * 0.45, 0, 2 * Math.PI);
		g.fillStyle = color;
		g.fill();
	}
	const own = ownMemory(n.raw);
	const shared = n.raw.memory?.sharedBytes ?? 0;
	if (shared > 0 && s.view.scale > 0.55 && (vm || n.raw.kind === 'snapshot')) {
		const part = shared / (own + shared);
		g.beginPath();
		g.arc(n.nowX, n.nowY, r + 3.6 + (n.raw.kind === 'snapshot' ? 2 : 0), -Math.PI / 2, -Math.PI / 2 + part * 2 * Math.PI);
		g.lineWidth = 1.3;
		g.strokeStyle = c['line-strong'] as string;
		g.stroke();
	}
}

function ring(g: CanvasRenderingContext2D, n: Node, color: string, width: number): void {
	g.beginPath();
	g.arc(n.nowX, n.nowY, n.r + 7, 0, 2 * Math.PI);
	g.lineWidth = width;
	g.strokeStyle = color;
	g.stroke();
}

function cut(g: CanvasRenderingContext2D, text: string, width: number): string {
	if (g.measureText(text).width <= width)
		return text;
	/* When a point was made can be seen in its figures: better the name alone than half a time. */
	const alone = text.replace(/, \d\d:\d\d$/, '');
	if (alone !== text)
		return cut(g, alone, width);
	let n = Math.max(1, Math.floor(text.length * width / Math.max(1, g.measureText(text).width)) - 1);
	while (n > 1 && g.measureText(text.slice(0, n) + '…').width > width)
		n--;
	return text.slice(0, n) + '…';
}

function labels(g: CanvasRenderingContext2D, s: Scene, seen: Node[], c: Colors): void {
	const k = s.view.scale;
	if (k < 0.3)
		return;
	g.textBaseline = 'middle';
	/* Never smaller than a person can read; what then has no room is left out. */
	const size = k < 1 ? Math.max(12, 10.5 / k) : 12 / Math.max(1, k * 0.9);
	g.font = `${size}px system-ui, sans-serif`;
	const taken: { x: number; y: number; w: number }[] = [];
	const free = (x: number, y: number, w: number, must: boolean | undefined): boolean => {
		if (!must && k < 1 && taken.some((t) => Math.abs(t.y - y) < size && t.x < x + w && x < t.x + t.w))
			return false;
		taken.push({ x, y, w });
		return true;
	};
	/* A rim in the colour of the page: text stays readable where a branch runs under it. */
	g.strokeStyle = c['bg'] as string;
	g.lineWidth = 4 / Math.max(1, k);
	g.lineJoin = 'round';
	const write = (text: string, x: number, y: number): void => {
		g.strokeText(text, x, y);
		g.fillText(text, x, y);
	};
	for (const n of seen) {
		const special = n === s.selected || n === s.hovered || s.found?.has(n);
		const point = n.raw.kind === 'fork' || n.raw.kind === 'suspend';
		if (!special && (point && k < 1.2 || s.found && !s.found.has(n)))
			continue;
		if (!n.labelled && k < 1.7 && !special)
			continue;
		g.fillStyle = c[n.raw.type === 'vm' || special ? 'text' : 'muted'] as string;
		const inner = n.children.length > 0;
		if (!n.labelled || inner) {
			const room = n.labelled ? 112 : CELL - 3;
			g.textAlign = 'center';
			const text = cut(g, n.label, special ? 180 : room);
			const y = n.nowY + n.r + (n.labelled ? (n === s.selected || n.raw.kind === 'snapshot' ? 11 : 6) + size / 2 : 5);
			const w = g.measureText(text).width;
			if (free(n.nowX - w / 2, y, w, special))
				write(text, n.nowX, y);
		} else {
			g.textAlign = 'left';
			const text = cut(g, n.label, 150);
			if (free(n.nowX + n.r + 12, n.nowY, g.measureText(text).width, special))
				write(text, n.nowX + n.r + 12, n.nowY);
		}
	}
}

export function draw(g: CanvasRenderingContext2D, s: Scene, c: Colors, ratio: number): number {
	const { x, y, scale } = s.view;
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	g.clearRect(0, 0, s.width, s.height);
	g.setTransform(ratio * scale, 0, 0, ratio * scale, -x * scale * ratio, -y * scale * ratio);
	const left = x - 60;
	const top = y - 40;
	const right = x + s.width / scale + 60;
	const bottom = y + s.height / scale + 40;
	const inView = (n: Node): boolean => n.nowX > left - 160 && n.nowX < right && n.nowY > top && n.nowY < bottom;
	g.lineCap = 'round';
	/* Branches, the same thickness in one path: few calls, many lines. */
	const byWidth = new Map<number, Node[]>();
	const grid = new Set<Node>();
	for (const b of s.layout.blocks) {
		grid.add(b.parent);
		if (b.x + b.w < left || b.x > right && b.parent.nowX > right || b.y + b.h < top && b.parent.nowY < top || b.y > bottom && b.parent.nowY > bottom)
			continue;
		g.beginPath();
		g.roundRect(b.x, b.y, b.w, b.h, 9);
		g.fillStyle = c['sunken'] as string;
		g.globalAlpha = 0.65;
		g.fill();
		g.globalAlpha = 1;
		g.beginPath();
		branch(g, b.parent, b.x, b.y + b.h / 2, s.layout.ways.get(b));
		g.strokeStyle = c['line-strong'] as string;
		g.lineWidth = 1.2 + Math.min(7, Math.log2(1 + b.w * b.h / CELL / CELL) * 0.95);
		g.lineWidth = Math.max(g.lineWidth, 0.7 / scale);
		g.stroke();
	}
	const seen: Node[] = [];
	for (const n of s.forest.all) {
		const visible = inView(n);
		if (visible)
			seen.push(n);
		const p = n.parent;
		if (!p || !n.labelled)
			continue;
		if (!visible && !inView(p)) {
			const lo = Math.min(p.nowY, n.nowY);
			const hi = Math.max(p.nowY, n.nowY);
			if (n.nowX < left || p.nowX > right || hi < top || lo > bottom)
				continue;
		}
		const w = Math.round(thickness(n) * 2) / 2;
		let list = byWidth.get(w);
		if (!list)
			byWidth.set(w, list = []);
		list.push(n);
	}
	g.strokeStyle = c['line-strong'] as string;
	g.globalAlpha = s.found ? 0.4 : 1;
	for (const [w, list] of byWidth) {
		g.beginPath();
		for (const n of list)
			edge(g, n.parent as Node, n, s.layout);
		g.lineWidth = Math.max(w, 0.7 / scale);
		g.stroke();
	}
	g.globalAlpha = 1;
	if (s.path.size) {
		g.beginPath();
		for (const n of s.path)
			if (n.parent && s.path.has(n.parent))
				edge(g, n.parent, n, s.layout);
		g.strokeStyle = c['accent'] as string;
		g.lineWidth = 2.2;
		g.stroke();
	}
	for (const n of seen) {
		g.globalAlpha = s.going.has(`${n.raw.type}:${n.id}`) ? 0.25 : s.found && !s.found.has(n) ? 0.18 : 1;
		node(g, s, n, c);
	}
	g.globalAlpha = 1;
	if (s.hovered && s.hovered !== s.selected)
		ring(g, s.hovered, c['muted'] as string, 1.4);
	if (s.selected)
		ring(g, s.selected, c[s.focused ? 'focus' : 'accent'] as string, 2.2);
	labels(g, s, seen, c);
	return seen.length;
}
