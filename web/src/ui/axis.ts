// SPDX-License-Identifier: Apache-2.0
// The vertical axis of plots: how far it reaches, and what its lines are called.

/** From min to what is shown; at least to `least`, so that noise near zero is not drawn as mountains. */
export function axisRange(lo: number | null, hi: number | null, o: { min?: number; max?: number; least?: number }): [number, number] {
	const min = o.min ?? lo ?? 0;
	const top = Math.max(o.max ?? hi ?? min, hi ?? min);
	const max = Math.max(top > min ? top * (o.max === undefined ? 1.08 : 1) : min, o.least ?? min);
	return [min, max > min ? max : min + 1];
}

const two = (n: number): string => String(n).padStart(2, '0');
/** Times of day; with seconds where minutes would not tell the lines apart. */
export function timeTexts(at: number[]): string[] {
	const seconds = at.some((t) => Math.round(t) % 60 !== 0);
	return at.map((t) => {
		const d = new Date(t * 1000);
		return `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? ':' + two(d.getSeconds()) : ''}`;
	});
}

const LEAST_S = 120;
/** Two minutes at the least. One value alone has no width: uPlot would give it the day that follows. */
export function timeRange(times: ArrayLike<number>, lo: number, hi: number): [number, number] {
	const end = times.length === 1 ? times[0] as number : hi;
	return [Math.min(lo, end - LEAST_S), end];
}

/** Two lines never have the same name: of those that would, the first keeps it. */
export function axisTexts(values: number[], format: (v: number) => string): string[] {
	const seen = new Set<string>();
	return values.map((v) => {
		const t = format(v);
		if (seen.has(t))
			return '';
		seen.add(t);
		return t;
	});
}
