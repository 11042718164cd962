// SPDX-License-Identifier: Apache-2.0
// A table that sorts by its columns and, on narrow screens, shows each row as a card with the column names.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Icon } from './Icon';

export interface Column<T> {
	key: string;
	title: string;
	/** What a cell shows. */
	cell: (row: T) => ComponentChildren;
	/** What it sorts by; a column without it does not sort. */
	sort?: (row: T) => string | number | null;
	align?: 'end';
	/** Takes what room is left; long text in it is cut off. */
	grow?: boolean;
	hideNarrow?: boolean;
}
export interface TableProps<T> {
	label: string;
	columns: Column<T>[];
	rows: T[];
	rowKey: (row: T) => string;
	rowClass?: (row: T) => string | undefined;
	empty?: ComponentChildren;
	/** Column key, with a leading "-" for descending. */
	order?: string;
	select?: { chosen: ReadonlySet<string>; onChange: (chosen: Set<string>) => void };
	/** How many rows are drawn at first; a button shows more. */
	page?: number;
}

export function Table<T>(p: TableProps<T>) {
	const [order, setOrder] = useState(p.order ?? '');
	const [shown, setShown] = useState(p.page ?? 200);
	const desc = order.startsWith('-');
	const by = desc ? order.slice(1) : order;
	const rows = useMemo(() => {
		const f = p.columns.find((c) => c.key === by)?.sort;
		if (!f)
			return p.rows;
		return [...p.rows].sort((a, b) => {
			const x = f(a);
			const y = f(b);
			if (x === y)
				return 0;
			if (x === null || x === undefined)
				return 1;
			if (y === null || y === undefined)
				return -1;
			return (x < y ? -1 : 1) * (desc ? -1 : 1);
		});
	}, [p.rows, by, desc]);
	if (!p.rows.length && p.empty)
		return <>{p.empty}</>;
	const visible = rows.slice(0, shown);
	const all = p.select && rows.length > 0 && rows.every((r) => p.select?.chosen.has(p.rowKey(r)));
	return (
		<div class="table-box">
			<table class="table" aria-label={p.label}>
				<thead><tr>
					{p.select && <th class="check"><input type="checkbox" aria-label="Select all" checked={!!all} onChange={() =>
						p.select?.onChange(all ? new Set() : new Set(rows.map(p.rowKey)))} /></th>}
					{p.columns.map((c) => (
						<th key={c.key} class={[c.align === 'end' && 'end', c.grow && 'grow', c.hideNarrow && 'hide-narrow'].filter(Boolean).join(' ')}
							aria-sort={by === c.key ? (desc ? 'descending' : 'ascending') : undefined}>
							{c.sort ? <button type="button" class="sort" onClick={() => setOrder(by === c.key && !desc ? '-' + c.key : c.key)}>
								{c.title}{by === c.key && <Icon name={desc ? 'down' : 'up'} size={12} />}</button> : c.title}
						</th>
					))}
				</tr></thead>
				<tbody>
					{visible.map((r) => {
						const k = p.rowKey(r);
						return (
							<tr key={k} class={p.rowClass?.(r)}>
								{p.select && <td class="check"><input type="checkbox" aria-label={`Select ${k}`} checked={p.select.chosen.has(k)} onChange={(e) => {
									const s = new Set(p.select?.chosen);
									if (e.currentTarget.checked)
										s.add(k);
									else
										s.delete(k);
									p.select?.onChange(s);
								}} /></td>}
								{p.columns.map((c) => (
									<td key={c.key} data-title={c.title} class={[c.align === 'end' && 'end', c.grow && 'grow', c.hideNarrow && 'hide-narrow'].filter(Boolean).join(' ')}>{c.cell(r)}</td>
								))}
							</tr>
						);
					})}
				</tbody>
			</table>
			{rows.length > shown && <button type="button" class="button plain more-rows" onClick={() => setShown(shown + 500)}>
				<span>Show more ({rows.length - shown} left)</span></button>}
		</div>
	);
}
