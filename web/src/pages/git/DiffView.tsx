// SPDX-License-Identifier: Apache-2.0
/* DiffView.tsx - the difference of two texts, in one column or in two; large ones a part at a time */
import { useMemo, useState } from 'preact/hooks';
import { Button } from '../../ui/Button';
import { sideBySide, textDiff, type DiffLine, type TextDiff } from './linediff';

const FIRST = 800;

function row(l: DiffLine, key: number) {
	return <tr key={key} class={l.kind === '+' ? 'add' : l.kind === '-' ? 'del' : ''}>
		<td class="num">{l.a || ''}</td><td class="num">{l.b || ''}</td><td class="sign" aria-label={l.kind === '+' ? 'added' : l.kind === '-' ? 'removed' : undefined}>{l.kind}</td><td class="line">{l.text || ' '}</td></tr>;
}

function half(l: DiffLine | null, side: 'a' | 'b') {
	if (!l)
		return <><td class="num void" /><td class="line void" /></>;
	const cls = l.kind === '+' ? 'add' : l.kind === '-' ? 'del' : '';
	return <><td class={`num ${cls}`}>{l[side] || ''}</td><td class={`line ${cls}`}>{l.text || ' '}</td></>;
}

export function DiffView({ a, b, label, two = false }: { a: string; b: string; label: string; two?: boolean }) {
	const diff: TextDiff = useMemo(() => textDiff(a, b), [a, b]);
	const [shown, setShown] = useState(FIRST);
	if (!diff.hunks.length)
		return <p class="muted pad">The texts are the same{a === b ? '' : ' but for the newline at the end'}.</p>;
	let left = shown, total = 0;
	return (
		<div class={`diff ${two ? 'two' : ''}`} role="region" aria-label={label} tabIndex={0}>
			<table>
				<tbody>
					{diff.hunks.flatMap((h, i) => {
						total += h.lines.length;
						if (left <= 0)
							return [];
						const lines = h.lines.slice(0, left);
						left -= lines.length;
						return [<tr class="hunk" key={`h${i}`}><td colSpan={4}>@@ -{h.aStart},{h.aCount} +{h.bStart},{h.bCount} @@</td></tr>,
							...(two ? sideBySide(lines).map((r, k) => <tr key={`${i}-${k}`}>{half(r.left, 'a')}{half(r.right, 'b')}</tr>) : lines.map((l, k) => row(l, i * 1e6 + k)))];
					})}
				</tbody>
			</table>
			{total > shown && <div class="pad"><Button small onClick={() => setShown(shown + 5000)}>Show {total - shown} more lines</Button></div>}
			{diff.coarse && <p class="muted pad">They differ in so many places that the middle is shown as replaced.</p>}
			{diff.aOpen !== diff.bOpen && <p class="muted pad">{diff.bOpen ? 'The new text does not end with a newline.' : 'The old text did not end with a newline.'}</p>}
		</div>
	);
}
