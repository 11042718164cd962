// SPDX-License-Identifier: Apache-2.0
// Lines over time on uPlot. Colours come from the theme's CSS variables, the width from the box, the height is given,
// so nothing moves when the data arrive. For screen readers a sentence says what the last values are.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { cssVar, effectiveTheme } from '../lib/theme';
import { axisRange, axisTexts, timeRange, timeTexts } from './axis';

export interface Series {
	label: string;
	/** One value per time; null leaves a gap. */
	values: (number | null)[];
	/** A CSS variable's name: '--plot-1'. */
	color?: string;
	fill?: boolean;
	/** On top of the series before it. */
	stacked?: boolean;
}
export interface PlotProps {
	label: string;
	/** Seconds since 1970. */
	times: number[];
	series: Series[];
	height?: number;
	format: (v: number) => string;
	min?: number;
	max?: number;
	/** The axis reaches at least to here. */
	least?: number;
	legend?: boolean;
}

function last(u: uPlot): void {
	const n = u.data[0].length;
	if (n)
		u.setLegend({ idx: n - 1 }, false);
}

export function Plot(p: PlotProps) {
	const box = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const height = p.height ?? 160;
	const theme = effectiveTheme.value;
	const data = useMemo<uPlot.AlignedData>(() => {
		const lines: (number | null)[][] = [];
		for (const s of p.series) {
			const below = s.stacked ? lines[lines.length - 1] : undefined;
			lines.push(below ? s.values.map((v, i) => v === null ? null : v + (below[i] ?? 0)) : s.values);
		}
		return [p.times, ...lines] as uPlot.AlignedData;
	}, [p.times, p.series]);
	const shape = p.series.map((s) => s.label + s.color + s.fill + s.stacked).join('|');
	useEffect(() => {
		const el = box.current as HTMLDivElement;
		const axis = { stroke: cssVar('--muted'), grid: { stroke: cssVar('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
		const u = new uPlot({
			width: Math.max(120, el.clientWidth),
			height,
			cursor: { y: false, points: { size: 6 } },
			legend: { show: p.legend ?? p.series.length > 1, live: true },
			padding: [8, 8, 0, 0],
			scales: { x: { range: (u, lo, hi) => timeRange(u.data[0], lo, hi) }, y: { range: (_u, lo, hi) => axisRange(lo, hi, p) } },
			axes: [{ ...axis, size: 26, space: 70, values: (_u, v) => timeTexts(v) }, { ...axis, size: 62, space: 34, values: (_u, v) => axisTexts(v, p.format) }],
			series: [{ label: 'Time', value: (_u, v) => v === null || v === undefined ? '' : new Date(v * 1000).toLocaleTimeString() }, ...p.series.map((s, i) => {
				const color = cssVar(s.color ?? `--plot-${i % 6 + 1}`);
				const raw = s.values;
				return { label: s.label, stroke: color, width: 1.5, fill: s.fill ? color + '26' : undefined, spanGaps: false, points: { show: false },
					value: (_u: uPlot, v: number | null, _si: number, idx: number | null) => {
						const own = s.stacked && idx !== null ? raw[idx] ?? v : v;
						return own === null || own === undefined ? '' : p.format(own);
					} };
			})],
			/* Without the mouse over it, the legend shows the last values. */
			hooks: { setCursor: [(u) => {
				if (u.cursor.idx === null || u.cursor.idx === undefined)
					last(u);
			}] },
			/* Stacked areas are drawn from the top one down, so that each shows only its own share. */
			bands: p.series.flatMap((s, i) => s.stacked ? [{ series: [i + 1, i] as [number, number] }] : []),
		}, data, el);
		plot.current = u;
		last(u);
		const ro = new ResizeObserver(() => u.setSize({ width: Math.max(120, el.clientWidth), height }));
		ro.observe(el);
		return () => {
			ro.disconnect();
			u.destroy();
			plot.current = null;
		};
	}, [theme, shape, height]);
	useEffect(() => {
		const u = plot.current;
		u?.setData(data);
		if (u && (u.cursor.idx === null || u.cursor.idx === undefined))
			last(u);
	}, [data]);
	const values = p.series.map((s) => {
		const v = s.values[s.values.length - 1];
		return `${s.label} ${v === null || v === undefined ? 'unknown' : p.format(v)}`;
	}).join(', ');
	const withLegend = p.legend ?? p.series.length > 1;
	return (
		<figure class="plot" style={{ minHeight: `${height + (withLegend ? 26 : 0)}px` }} role="img" aria-label={`${p.label}, now: ${values}`}>
			<div ref={box} aria-hidden="true" />
		</figure>
	);
}
