// SPDX-License-Identifier: Apache-2.0
/*
 * xterm_csp.ts - xterm.js under `style-src 'self'`
 *
 * xterm's DOM renderer makes <style> elements and style attributes, which the page's Content-Security-Policy refuses. It makes
 * all of its elements through one document, which can be given to it (documentOverride). This one is the page's document but
 * for one thing: a <style> that is asked for is an inert element whose text goes to a constructed style sheet. styleCells() has the style of
 * cells set through the CSSOM. Both are what the policy allows; tests/web/pages looks at a colour that comes this way. The canvas renderer is gone from xterm 6, and
 * WebGL is not everywhere, is limited to a few terminals per page and can be read by no screen reader, so this stays with the DOM.
 */

type Create = (tag: string) => HTMLElement;

function styleElement(create: Create): HTMLElement {
	const sheet = new CSSStyleSheet();
	const el = create('xterm-style');
	let text = '';
	document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
	Object.defineProperty(el, 'textContent', {
		get: () => text,
		set: (v: string) => {
			text = v;
			sheet.replaceSync(v);
		},
	});
	el.remove = () => {
		document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
		Element.prototype.remove.call(el);
	};
	el.hidden = true;
	return el;
}

function createElement(tag: string): HTMLElement {
	return tag === 'style' ? styleElement((t) => document.createElement(t)) : document.createElement(tag);
}

interface Inside { _core?: { _renderService?: { _renderer?: { value?: { _rowFactory?: { _addStyle?(el: HTMLElement, style: string): void } } } } } }

/** Cells of any colour: xterm sets their style attribute as text, which the policy refuses; the CSSOM does the same. */
export function styleCells(term: object): void {
	const rows = (term as Inside)._core?._renderService?._renderer?.value?._rowFactory;
	if (rows?._addStyle)
		rows._addStyle = (el, style) => {
			el.style.cssText += style;
		};
}

/**
 * Runs what makes a terminal's elements. One of xterm's <style> elements (that of the scroll bar) is made by the page's own document whatever
 * it was given, so for this moment that document does the same.
 */
export function withoutStyles(open: () => void): void {
	const real = document.createElement.bind(document);
	document.createElement = ((tag: string, options?: ElementCreationOptions) => tag === 'style' ? styleElement(real) : real(tag, options)) as typeof document.createElement;
	try {
		open();
	} finally {
		delete (document as Partial<Document>).createElement;
	}
}

let made: Document | undefined;

/** The document to give to a Terminal. */
export function cspDocument(): Document {
	made ??= new Proxy(document, {
		get(target, name): unknown {
			if (name === 'createElement')
				return createElement;
			const v: unknown = Reflect.get(target, name, target);
			return typeof v === 'function' ? (v as (...a: unknown[]) => unknown).bind(target) : v;
		},
		set: (target, name, value) => Reflect.set(target, name, value, target),
	});
	return made;
}
