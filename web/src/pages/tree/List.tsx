// SPDX-License-Identifier: Apache-2.0
// The tree as a list, for screen readers and for those who like to read: the ARIA tree pattern, flattened. Arrow keys
// move, right and left open and close, Enter opens the VM, Space selects.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bytes } from '../../lib/format';
import { Badge, StateBadge } from '../../ui/parts';
import { kindName, ownMemory, type Forest, type Node } from './model';

interface Row { n: Node; level: number }

/* Depth first, in the order of the reply; no recursion, trees can be thousands of levels deep. */
function rowsOf(f: Forest, closed: ReadonlySet<string>, found: ReadonlySet<Node> | null): Row[] {
	const rows: Row[] = [];
	if (found) {
		for (const n of f.all)
			if (found.has(n))
				rows.push({ n, level: 1 });
		return rows;
	}
	const stack: Row[] = [...f.roots].reverse().map((n) => ({ n, level: 1 }));
	while (stack.length) {
		const r = stack.pop() as Row;
		rows.push(r);
		if (!closed.has(r.n.id))
			for (let i = r.n.children.length - 1; i >= 0; i--)
				stack.push({ n: r.n.children[i] as Node, level: r.level + 1 });
	}
	return rows;
}

export function List(p: { forest: Forest; selected: Node | null; found: ReadonlySet<Node> | null; onSelect: (n: Node) => void; onOpen: (n: Node) => void; onKey: (e: KeyboardEvent) => void }) {
	const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
	const [limit, setLimit] = useState(400);
	const box = useRef<HTMLUListElement>(null);
	const rows = useMemo(() => rowsOf(p.forest, closed, p.found), [p.forest, closed, p.found]);
	const at = Math.max(0, rows.findIndex((r) => r.n === p.selected));
	const toggle = (n: Node, open: boolean): void => {
		const s = new Set(closed);
		if (open)
			s.delete(n.id);
		else
			s.add(n.id);
		setClosed(s);
	};
	const go = (i: number): void => {
		const r = rows[Math.max(0, Math.min(rows.length - 1, i))];
		if (r) {
			if (i >= limit)
				setLimit(i + 200);
			p.onSelect(r.n);
		}
	};
	useEffect(() => {
		if (box.current?.contains(document.activeElement))
			box.current.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
	}, [p.selected]);
	const keys = (e: KeyboardEvent): void => {
		const n = rows[at]?.n;
		if (!n)
			return;
		if (e.key === 'ArrowDown')
			go(at + 1);
		else if (e.key === 'ArrowUp')
			go(at - 1);
		else if (e.key === 'Home')
			go(0);
		else if (e.key === 'End')
			go(rows.length - 1);
		else if (e.key === 'ArrowRight' && n.children.length)
			closed.has(n.id) ? toggle(n, true) : go(at + 1);
		else if (e.key === 'ArrowLeft')
			n.children.length && !closed.has(n.id) ? toggle(n, false) : n.parent && p.onSelect(n.parent);
		else if (e.key === ' ')
			p.onSelect(n);
		else {
			p.onKey(e);
			return;
		}
		e.preventDefault();
	};
	return (
		<div class="tree-list">
			<ul role="tree" aria-label="Points and VMs" ref={box} onKeyDown={keys}>
				{rows.slice(0, limit).map((r, i) => {
					const n = r.n;
					const inner = n.children.length > 0 && !p.found;
					return (
						<li key={n.id} role="treeitem" aria-level={r.level} aria-selected={n === p.selected} aria-expanded={inner ? !closed.has(n.id) : undefined} tabIndex={i === at ? 0 : -1}
							style={{ paddingLeft: `${8 + Math.min(r.level - 1, 14) * 18}px` }} onClick={() => p.onSelect(n)} onDblClick={() => p.onOpen(n)}>
							<span class="twist" aria-hidden="true" onClick={(e) => {
								e.stopPropagation();
								if (inner)
									toggle(n, closed.has(n.id));
							}}>{inner ? (closed.has(n.id) ? '▸' : '▾') : ''}</span>
							<span class="tree-list-name">{n.label}</span>
							{n.raw.type === 'vm' ? <StateBadge state={n.raw.state} /> : <Badge>{kindName(n.raw)}</Badge>}
							<span class="tree-list-size">{n.raw.memory ? `${bytes(ownMemory(n.raw))} own, ${bytes(n.raw.memory.sharedBytes)} shared` : ''}</span>
						</li>
					);
				})}
			</ul>
			{rows.length > limit && <button type="button" class="button plain more-rows" onClick={() => setLimit(limit + 1000)}><span>Show more ({rows.length - limit} left)</span></button>}
		</div>
	);
}
