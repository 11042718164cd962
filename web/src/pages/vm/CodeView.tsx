// SPDX-License-Identifier: Apache-2.0
/* CodeView.tsx - the editor as a component; its code is loaded when the first one is shown */
import { useEffect, useRef, useState } from 'preact/hooks';
import { failed } from '../../ui/Toast';
import type { Editor, EditorOptions } from './editor';

export interface CodeViewProps extends Omit<EditorOptions, 'text'> {
	/** The text to begin with; a change of `version` puts it there again. */
	text: string;
	version?: unknown;
	line?: number;
	autoFocus?: boolean;
	class?: string;
}

export function CodeView(p: CodeViewProps) {
	const host = useRef<HTMLDivElement>(null);
	const editor = useRef<Editor | null>(null);
	const latest = useRef(p);
	const [ready, setReady] = useState(false);
	latest.current = p;
	useEffect(() => {
		let gone = false;
		import('./editor').then(({ makeEditor }) => {
			if (gone || !host.current)
				return;
			const now = latest.current;
			editor.current = makeEditor(host.current, {
				...now,
				onChange: now.onChange ? (t) => latest.current.onChange?.(t) : undefined,
				onSave: now.onSave ? () => latest.current.onSave?.() : undefined,
				onRun: now.onRun ? () => latest.current.onRun?.() : undefined,
			});
			setReady(true);
			if (now.line)
				editor.current.goTo(now.line);
			if (now.autoFocus)
				editor.current.focus();
		}).catch(failed);
		return () => {
			gone = true;
			editor.current?.destroy();
			editor.current = null;
		};
	}, []);
	useEffect(() => {
		if (ready && editor.current && editor.current.text() !== p.text)
			editor.current.setText(p.text);
	}, [p.version]);
	useEffect(() => {
		if (ready)
			editor.current?.setLanguage(p.language);
	}, [p.language]);
	return (
		<div class={`code-view ${p.grow ? 'grow' : 'fill'} ${p.class ?? ''}`}>
			<div ref={host} class="code-host cm-editor" />
			{!ready && <pre class="code-wait" aria-hidden="true">{p.text.slice(0, 20_000)}</pre>}
		</div>
	);
}
