// SPDX-License-Identifier: Apache-2.0
// Light, dark or as the system says. Only the choice is kept in the browser, under "pando.theme".
import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'pando.theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

function storedTheme(): Theme {
	try {
		const t = localStorage.getItem(KEY);
		return t === 'light' || t === 'dark' ? t : 'system';
	} catch {
		return 'system';
	}
}

/** The choice, and what it comes to now. */
export const theme = signal<Theme>(storedTheme());
export const effectiveTheme = signal<'light' | 'dark'>('light');

function applyTheme(t: Theme): void {
	const now = t === 'system' ? (dark.matches ? 'dark' : 'light') : t;
	document.documentElement.dataset['theme'] = now;
	effectiveTheme.value = now;
}

export function setTheme(t: Theme): void {
	theme.value = t;
	try {
		if (t === 'system')
			localStorage.removeItem(KEY);
		else
			localStorage.setItem(KEY, t);
	} catch {
		/* private window without storage: the choice lasts as long as the page */
	}
	applyTheme(t);
}

dark.addEventListener('change', () => applyTheme(theme.value));
applyTheme(theme.value);

/** A CSS variable's value now, for canvases and plots. */
export function cssVar(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
