// SPDX-License-Identifier: Apache-2.0
// Line icons, drawn for this page: 20 x 20, one stroke. Decoration only: the text next to one, or the label of its
// button, says what it means.

const paths = {
	tree: 'M10 18V9m0 5c0-3-5-2-5-6m5 4c0-3 5-2 5-6M10 9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M5 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4m10-2a2 2 0 1 0 0-4 2 2 0 0 0 0 4',
	vms: 'M3 4h14v5H3zM3 11h14v5H3zM6 6.500h.01M6 13.500h.01M9 6.500h5M9 13.500h5',
	git: 'M6 3v14M6 6.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4m0 11a2 2 0 1 0 0-4 2 2 0 0 0 0 4m8-9a2 2 0 1 0 0-4 2 2 0 0 0 0 4m0 0c0 4-8 2-8 5',
	runs: 'M4.500 3.500h8l3 3v10h-11zM8.500 8.500l4 2.500-4 2.500z', clock: 'M10 17.500a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15M10 5.500V10l3 2',
	network: 'M10 7a2 2 0 1 0 0-4 2 2 0 0 0 0 4M4.5 17a2 2 0 1 0 0-4 2 2 0 0 0 0 4m11 0a2 2 0 1 0 0-4 2 2 0 0 0 0 4M10 7v4m0 0-5 2.500M10 11l5 2.5',
	operate: 'M2.5 10H6l2-6 4 12 2-6h3.5',
	settings: 'M10 12.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5m0-10v2.500m0 10v2.500M2.5 10H5m10 0h2.500M4.700 4.700l1.800 1.800m7 7 1.800 1.800m0-10.600-1.800 1.800m-7 7-1.800 1.800',
	search: 'M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12m4.200-1.800L17.5 17.5',
	plus: 'M10 4v12M4 10h12', minus: 'M4 10h12', close: 'M5 5l10 10M15 5 5 15', check: 'M4 10.500l4 4 8-9', more: 'M4.5 10h.01M10 10h.01M15.5 10h.01',
	fork: 'M6 17V3m0 9c0-4 8-2 8-6M6 5l-2-2 2 0 2 2M14 6V3', snapshot: 'M3 6h3l1.5-2h5L14 6h3v10H3zM10 13.500a3 3 0 1 0 0-6 3 3 0 0 0 0 6',
	suspend: 'M7 4v12M13 4v12', resume: 'M6 4l10 6-10 6z', rewind: 'M4 5v5h5M4.5 10a6 6 0 1 1 1.5 4.5', diff: 'M5 4h10M10 2v4M5 14h10M3 9.500h14',
	trash: 'M4 6h12M8 6V4h4v2m-6 0 .7 10h6.600L14 6M8.5 9v4.500m3-4.500v4.5', open: 'M8 4H4v12h12v-4M11 4h5v5m0-5-7 7', copy: 'M7 7h9v9H7zM4 13V4h9',
	download: 'M10 3v10m-4-4 4 4 4-4M4 17h12', sun: 'M10 13.500a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M10 2v2m0 12v2M2 10h2m12 0h2M4.300 4.300l1.5 1.500m8.400 8.400 1.5 1.500m0-11.400-1.5 1.500m-8.400 8.400-1.5 1.5',
	moon: 'M16.5 12A7 7 0 0 1 8 3.500a7 7 0 1 0 8.5 8.5', system: 'M3 4h14v9H3zM7 17h6m-3-4v4', user: 'M10 9.500a3 3 0 1 0 0-6 3 3 0 0 0 0 6M4 17c.5-4 3-5 6-5s5.5 1 6 5',
	key: 'M7 13.500a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7m3.5-3.500H18m-3 0v3', warning: 'M10 3 2 17h16zM10 8v4m0 2.500v.01', info: 'M10 17.500a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15M10 9v5m0-7.500v.01',
	left: 'M12 4l-6 6 6 6', right: 'M8 4l6 6-6 6', up: 'M4 12l6-6 6 6', down: 'M4 8l6 6 6-6', fit: 'M3 7V3h4m6 0h4v4m0 6v4h-4m-6 0H3v-4', list: 'M7 5h10M7 10h10M7 15h10M3.5 5h.01M3.5 10h.01M3.5 15h.01',
	terminal: 'M3 4h14v12H3zM6 8l2.5 2L6 12m4.5 0H14', file: 'M5 2.500h6.500L15 6v11.500H5zM11.5 2.500V6H15', folder: 'M2.5 5h5l2 2h8v9h-15z', refresh: 'M16 5v4h-4m3.5 0a6 6 0 1 0 .5 4', signout: 'M12 4H4v12h8M9 10h8m-3-3 3 3-3 3',
	docs: 'M4 3h5c1 0 1 1 1 1v13s0-1-1-1H4zM16 3h-5c-1 0-1 1-1 1v13s0-1 1-1h5z', lock: 'M5 9h10v8H5zM7 9V6a3 3 0 0 1 6 0v3', keyboard: 'M2 5h16v10H2zM5 8h.01M8 8h.01M11 8h.01M14 8h.01M6 12h8',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
	return (
		<svg class="icon" width={size} height={size} viewBox="0 0 20 20" fill="none" stroke="currentColor"
			stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
			<path d={paths[name]} />
		</svg>
	);
}
