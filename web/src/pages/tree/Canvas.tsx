// SPDX-License-Identifier: Apache-2.0
// The canvas: pan by dragging, zoom by wheel or two fingers, hover, select, keys. Draws only when something changed; while
// nodes move to new places it draws each frame.
import { useEffect, useRef } from 'preact/hooks';
import { effectiveTheme } from '../../lib/theme';
import { pending } from '../../ui/Toast';
import { draw, readColors, type Scene, type View } from './draw';
import type { Layout } from './layout';
import { ancestors, type Forest, type Node } from './model';

export interface TreeHandle {
	fit(): void;
	zoom(by: number): void;
	show(n: Node): void;
	/** For tests: what was drawn last, and how long it took. */
	stats: { frames: number; lastMs: number; drawn: number; scale: number };
	toScreen(n: Node): { x: number; y: number };
}
interface Props {
	forest: Forest;
	layout: Layout;
	selected: Node | null;
	found: ReadonlySet<Node> | null;
	label: string;
	onSelect: (n: Node | null) => void;
	onOpen: (n: Node) => void;
	onHover: (n: Node | null, at: { x: number; y: number } | null) => void;
	onKey: (e: KeyboardEvent) => void;
	handle: (h: TreeHandle) => void;
}

const MOVE_MS = 320;
const MIN = 0.012;
const MAX = 4;
const PANEL = 330;

export function Canvas(p: Props) {
	const ref = useRef<HTMLCanvasElement>(null);
	const props = useRef(p);
	props.current = p;
	const redraw = useRef<() => void>(() => undefined);
	const moved = useRef<() => void>(() => undefined);
	const uncover = useRef<(n: Node) => void>(() => undefined);

	useEffect(() => {
		const canvas = ref.current as HTMLCanvasElement;
		const g = canvas.getContext('2d') as CanvasRenderingContext2D;
		let colors = readColors();
		let view: View = { x: 0, y: 0, scale: 1 };
		let target: View | null = null;
		let width = 0;
		let height = 0;
		let hovered: Node | null = null;
		let focused = false;
		let frame = 0;
		let moveUntil = 0;
		let touched = false;
		const stats = { frames: 0, lastMs: 0, drawn: 0, scale: 1 };
		const still = matchMedia('(prefers-reduced-motion: reduce)');

		const scene = (now: number): Scene => {
			const q = props.current;
			const end = hovered ?? q.selected;
			return { forest: q.forest, layout: q.layout, view, width, height, selected: q.selected, hovered, found: q.found, going: pending.peek(), focused, now,
				path: new Set(end ? [end, ...ancestors(end)] : []) };
		};
		const tick = (now: number): void => {
			frame = 0;
			const t0 = performance.now();
			let busy = now < moveUntil;
			const step = still.matches ? 1 : 0.24;
			for (const n of props.current.forest.all) {
				if (Number.isNaN(n.nowX)) {
					n.nowX = n.parent && n.born ? n.parent.nowX : n.x;
					n.nowY = n.parent && n.born ? n.parent.nowY : n.y;
				}
				const dx = n.x - n.nowX;
				const dy = n.y - n.nowY;
				if (Math.abs(dx) + Math.abs(dy) > 0.3) {
					n.nowX += dx * step;
					n.nowY += dy * step;
					busy = true;
				} else {
					n.nowX = n.x;
					n.nowY = n.y;
				}
			}
			if (target) {
				const f = still.matches ? 1 : 0.28;
				view = { x: view.x + (target.x - view.x) * f, y: view.y + (target.y - view.y) * f, scale: view.scale + (target.scale - view.scale) * f };
				if (Math.abs(target.scale - view.scale) < 0.002 && Math.abs(target.x - view.x) + Math.abs(target.y - view.y) < 0.5) {
					view = target;
					target = null;
				} else {
					busy = true;
				}
			}
			stats.drawn = draw(g, scene(now), colors, devicePixelRatio || 1);
			stats.frames++;
			stats.scale = view.scale;
			stats.lastMs = performance.now() - t0;
			if (busy)
				ask();
		};
		const ask = (): void => {
			if (!frame)
				frame = requestAnimationFrame(tick);
		};
		redraw.current = ask;
		moved.current = () => {
			moveUntil = performance.now() + MOVE_MS;
			if (!touched)
				fit(false);
			ask();
		};
		const size = (): void => {
			const box = canvas.parentElement as HTMLElement;
			const first = !width;
			width = box.clientWidth;
			height = box.clientHeight;
			const ratio = devicePixelRatio || 1;
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(height * ratio);
			canvas.style.width = `${width}px`;
			canvas.style.height = `${height}px`;
			if (first || !touched)
				fit(false);
			ask();
		};
		const clamp = (s: number): number => Math.min(MAX, Math.max(MIN, s));
		function fit(slow = true): void {
			const l = props.current.layout;
			const pad = Math.min(70, Math.max(40, width * 0.07)); /* the first label is half as wide */
			const s = clamp(Math.min((width - 2 * pad) / Math.max(60, l.width), (height - 2 * pad) / Math.max(60, l.height), 1.35));
			const v = { scale: s, x: -pad / s - Math.max(0, (width - 2 * pad) / s - l.width) / 2, y: -(height / s - l.height) / 2 };
			touched = slow && touched;
			if (slow)
				target = v;
			else
				view = v;
			ask();
		}
		const zoomAt = (x: number, y: number, by: number): void => {
			touched = true;
			target = null;
			const s = clamp(view.scale * by);
			view = { scale: s, x: view.x + x / view.scale - x / s, y: view.y + y / view.scale - y / s };
			ask();
		};
		const show = (n: Node): void => {
			touched = true;
			const s = Math.max(view.scale, 0.8);
			target = { scale: s, x: n.x - width / s / 2, y: n.y - height / s / 2 };
			ask();
		};
		/* What was chosen must not lie under the panel that its choice opens. */
		uncover.current = (n: Node): void => {
			const right = width - (width > 700 ? PANEL : 0) - 60;
			const x = (n.x - view.x) * view.scale;
			if (right > 100 && x > right && x < width) {
				target = { ...view, x: view.x + (x - right) / view.scale };
				ask();
			}
		};
		p.handle({ fit: () => {
			touched = false;
			fit();
		}, zoom: (by) => zoomAt(width / 2, height / 2, by), show, stats, toScreen: (n) => ({ x: (n.nowX - view.x) * view.scale, y: (n.nowY - view.y) * view.scale }) });

		const hit = (x: number, y: number): Node | null => {
			const wx = x / view.scale + view.x;
			const wy = y / view.scale + view.y;
			const slack = 6 / view.scale;
			let best: Node | null = null;
			let least = Infinity;
			for (const n of props.current.forest.all) {
				const d = Math.hypot(n.nowX - wx, n.nowY - wy) - Math.max(n.r, 1.5 / view.scale);
				if (d < slack && d < least) {
					best = n;
					least = d;
				}
			}
			return best;
		};
		const at = (e: PointerEvent | WheelEvent | MouseEvent): { x: number; y: number } => {
			const b = canvas.getBoundingClientRect();
			return { x: e.clientX - b.left, y: e.clientY - b.top };
		};
		const fingers = new Map<number, { x: number; y: number }>();
		let dragged = 0;
		const down = (e: PointerEvent): void => {
			canvas.setPointerCapture(e.pointerId);
			fingers.set(e.pointerId, at(e));
			dragged = 0;
		};
		const move = (e: PointerEvent): void => {
			const now = at(e);
			const was = fingers.get(e.pointerId);
			if (was) {
				if (fingers.size === 2) {
					const other = [...fingers].find(([id]) => id !== e.pointerId)?.[1] as { x: number; y: number };
					const before = Math.hypot(was.x - other.x, was.y - other.y);
					zoomAt(other.x, other.y, Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, before));
				} else {
					const dx = now.x - was.x;
					const dy = now.y - was.y;
					dragged += Math.abs(dx) + Math.abs(dy);
					if (dragged > 4) {
						touched = true;
						target = null;
						view = { ...view, x: view.x - dx / view.scale, y: view.y - dy / view.scale };
						ask();
					}
				}
				fingers.set(e.pointerId, now);
			}
			const h = fingers.size && dragged > 4 ? null : hit(now.x, now.y);
			if (h !== hovered) {
				hovered = h;
				canvas.style.cursor = h ? 'pointer' : 'grab';
				ask();
			}
			props.current.onHover(h, h ? now : null);
		};
		const up = (e: PointerEvent): void => {
			const was = fingers.has(e.pointerId);
			fingers.delete(e.pointerId);
			if (was && dragged <= 4 && e.type === 'pointerup') {
				const n = at(e);
				props.current.onSelect(hit(n.x, n.y));
			}
		};
		const leave = (): void => {
			hovered = null;
			props.current.onHover(null, null);
			ask();
		};
		const wheel = (e: WheelEvent): void => {
			e.preventDefault();
			const q = at(e);
			zoomAt(q.x, q.y, Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : e.ctrlKey ? 0.01 : 0.0016)));
		};
		const dbl = (e: MouseEvent): void => {
			const q = at(e);
			const n = hit(q.x, q.y);
			if (n)
				props.current.onOpen(n);
		};
		const focus = (e: FocusEvent): void => {
			focused = e.type === 'focus';
			ask();
		};
		canvas.addEventListener('pointerdown', down);
		canvas.addEventListener('pointermove', move);
		canvas.addEventListener('pointerup', up);
		canvas.addEventListener('pointercancel', up);
		canvas.addEventListener('pointerleave', leave);
		canvas.addEventListener('wheel', wheel, { passive: false });
		canvas.addEventListener('dblclick', dbl);
		canvas.addEventListener('focus', focus);
		canvas.addEventListener('blur', focus);
		const ro = new ResizeObserver(size);
		ro.observe(canvas.parentElement as HTMLElement);
		const offTheme = effectiveTheme.subscribe(() => {
			colors = readColors();
			ask();
		});
		const offPending = pending.subscribe(ask);
		size();
		return () => {
			ro.disconnect();
			offTheme();
			offPending();
			cancelAnimationFrame(frame);
		};
	}, []);
	useEffect(() => moved.current(), [p.layout]);
	useEffect(() => redraw.current(), [p.selected, p.found, p.forest]);
	useEffect(() => {
		if (p.selected)
			uncover.current(p.selected);
	}, [p.selected?.id]);
	return <canvas ref={ref} class="tree-canvas" tabIndex={0} role="application" aria-label={p.label} aria-describedby="tree-help" onKeyDown={p.onKey} />;
}
