// SPDX-License-Identifier: Apache-2.0
/*
 * editor.ts - CodeMirror 6, loaded when a page first shows code
 *
 * It lives in a shadow root: there style-mod uses constructed style sheets, which `style-src 'self'` allows; in the document itself it
 * would add <style> elements. Colours are the page's own custom properties, which reach into shadow roots.
 */
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, defaultHighlightStyle, HighlightStyle, indentUnit, StreamLanguage, syntaxHighlighting, type LanguageSupport } from '@codemirror/language';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, placeholder } from '@codemirror/view';
import { tags as t } from '@lezer/highlight';

export type CodeLanguage = LanguageSupport | StreamLanguage<unknown>;

const legacy = (load: () => Promise<unknown>): (() => Promise<CodeLanguage>) =>
	async () => StreamLanguage.define(await load() as Parameters<typeof StreamLanguage.define>[0]);

const LOADERS: Record<string, () => Promise<CodeLanguage>> = {
	js: async () => (await import('@codemirror/lang-javascript')).javascript({ jsx: true }),
	ts: async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true }),
	tsx: async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true, jsx: true }),
	py: async () => (await import('@codemirror/lang-python')).python(),
	c: async () => (await import('@codemirror/lang-cpp')).cpp(),
	json: async () => (await import('@codemirror/lang-json')).json(),
	css: async () => (await import('@codemirror/lang-css')).css(),
	html: async () => (await import('@codemirror/lang-html')).html(),
	md: async () => (await import('@codemirror/lang-markdown')).markdown(),
	sh: legacy(async () => (await import('@codemirror/legacy-modes/mode/shell')).shell),
	yaml: legacy(async () => (await import('@codemirror/legacy-modes/mode/yaml')).yaml),
	toml: legacy(async () => (await import('@codemirror/legacy-modes/mode/toml')).toml),
	go: legacy(async () => (await import('@codemirror/legacy-modes/mode/go')).go),
	rust: legacy(async () => (await import('@codemirror/legacy-modes/mode/rust')).rust),
	ruby: legacy(async () => (await import('@codemirror/legacy-modes/mode/ruby')).ruby),
	docker: legacy(async () => (await import('@codemirror/legacy-modes/mode/dockerfile')).dockerFile),
	sql: legacy(async () => (await import('@codemirror/legacy-modes/mode/sql')).standardSQL),
	ini: legacy(async () => (await import('@codemirror/legacy-modes/mode/properties')).properties),
	xml: legacy(async () => (await import('@codemirror/legacy-modes/mode/xml')).xml),
	diff: legacy(async () => (await import('@codemirror/legacy-modes/mode/diff')).diff),
	java: legacy(async () => (await import('@codemirror/legacy-modes/mode/clike')).java),
};

const look = HighlightStyle.define([
	{ tag: [t.keyword, t.operatorKeyword, t.modifier, t.controlKeyword], color: 'var(--code-keyword)' },
	{ tag: [t.string, t.special(t.string), t.regexp], color: 'var(--code-string)' },
	{ tag: [t.number, t.bool, t.null, t.atom], color: 'var(--code-number)' },
	{ tag: [t.comment, t.meta], color: 'var(--code-comment)', fontStyle: 'italic' },
	{ tag: [t.function(t.variableName), t.function(t.propertyName), t.definition(t.variableName)], color: 'var(--code-name)' },
	{ tag: [t.typeName, t.className, t.namespace, t.tagName], color: 'var(--code-type)' },
	{ tag: [t.propertyName, t.attributeName], color: 'var(--code-name)' },
	{ tag: t.heading, fontWeight: 'bold' },
	{ tag: t.emphasis, fontStyle: 'italic' },
	{ tag: t.strong, fontWeight: 'bold' },
	{ tag: [t.link, t.url], textDecoration: 'underline' },
	{ tag: t.inserted, color: 'var(--code-string)' },
	{ tag: t.deleted, color: 'var(--code-keyword)' },
]);

const theme = EditorView.theme({
	'&': { color: 'var(--code-text)', backgroundColor: 'var(--code-bg)', fontSize: '13px', height: '100%' },
	'&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
	'.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
	'.cm-content': { caretColor: 'var(--code-text)' },
	'.cm-cursor': { borderLeftColor: 'var(--code-text)' },
	'.cm-gutters': { backgroundColor: 'var(--code-bg)', color: 'var(--code-comment)', border: 'none' },
	'.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--code-line)' },
	'&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': { backgroundColor: 'var(--code-select) !important' },
	'.cm-panels': { backgroundColor: 'var(--code-bg)', color: 'var(--code-text)' },
	'.cm-searchMatch': { backgroundColor: 'var(--code-match)' },
	'.cm-placeholder': { color: 'var(--code-comment)' },
});

export interface EditorOptions {
	text: string;
	/** A key of languageOf(), '' for none. */
	language: string;
	readOnly?: boolean;
	label: string;
	placeholder?: string;
	lineNumbers?: boolean;
	/** Grows with its text instead of filling its parent. */
	grow?: boolean;
	onChange?(text: string): void;
	/** Mod-s, and Shift-Enter where it is given. */
	onSave?(): void;
	onRun?(): void;
}

export interface Editor {
	text(): string;
	setText(text: string): void;
	setLanguage(language: string): void;
	focus(): void;
	goTo(line: number): void;
	destroy(): void;
}

export function makeEditor(host: HTMLElement, o: EditorOptions): Editor {
	const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
	const syntax = new Compartment();
	let wanted = '';
	const keys = [
		...(o.onRun ? [{ key: 'Shift-Enter', run: () => (o.onRun!(), true) }, { key: 'Mod-Enter', run: () => (o.onRun!(), true) }] : []),
		...(o.onSave ? [{ key: 'Mod-s', preventDefault: true, run: () => (o.onSave!(), true) }] : []),
	];
	const ext: Extension[] = [
		keymap.of(keys), history(), drawSelection(), bracketMatching(), search({ top: true }), highlightSelectionMatches(),
		indentUnit.of('    '), EditorState.tabSize.of(4), syntax.of([]), theme,
		syntaxHighlighting(look), syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
		// Tab indents; Escape first, then Tab, leaves the editor (CodeMirror's own rule).
		keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...(o.readOnly ? [] : [indentWithTab])]),
		EditorView.contentAttributes.of({ 'aria-label': o.label, ...(o.readOnly ? { tabindex: '0' } : {}) }),
	];
	if (o.lineNumbers !== false)
		ext.push(lineNumbers(), highlightActiveLine(), highlightActiveLineGutter());
	if (o.readOnly)
		ext.push(EditorState.readOnly.of(true), EditorView.editable.of(false));
	if (o.placeholder)
		ext.push(placeholder(o.placeholder));
	if (o.onChange)
		ext.push(EditorView.updateListener.of((u) => {
			if (u.docChanged)
				o.onChange!(u.state.doc.toString());
		}));
	if (o.grow)
		ext.push(EditorView.theme({ '&': { height: 'auto' }, '.cm-scroller': { overflow: 'auto', maxHeight: '32rem' } }));
	const view = new EditorView({ root, parent: root, state: EditorState.create({ doc: o.text, extensions: ext }) });
	const setLanguage = (name: string): void => {
		wanted = name;
		const load = LOADERS[name];
		if (!load) {
			view.dispatch({ effects: syntax.reconfigure([]) });
			return;
		}
		load().then((l) => {
			if (wanted === name)
				view.dispatch({ effects: syntax.reconfigure(l) });
		}).catch(() => undefined);
	};
	setLanguage(o.language);
	return {
		text: () => view.state.doc.toString(),
		setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
		setLanguage,
		focus: () => view.focus(),
		goTo: (line) => {
			const l = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
			view.dispatch({ selection: { anchor: l.from }, effects: EditorView.scrollIntoView(l.from, { y: 'center' }) });
		},
		destroy: () => view.destroy(),
	};
}
