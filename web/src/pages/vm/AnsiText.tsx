// SPDX-License-Identifier: Apache-2.0
/* AnsiText.tsx - output with colour escapes, as text nodes */
import { useMemo } from 'preact/hooks';
import { ansiRuns } from './ansi';

export function AnsiText({ text, class: cls, label }: { text: string; class?: string; label?: string }) {
	const runs = useMemo(() => ansiRuns(text), [text]);
	return <pre class={`ansi ${cls ?? ''}`} tabIndex={0} role={label ? 'region' : undefined} aria-label={label}>{runs.map((r, i) => r.cls ? <span key={i} class={r.cls}>{r.text}</span> : r.text)}</pre>;
}
