// SPDX-License-Identifier: Apache-2.0
// Runs before anything is drawn, as a script of its own: puts the theme on <html>, so that nothing flashes. What it
// reads is written by lib/theme.ts.
(() => {
	let choice: string | null = null;
	try {
		choice = localStorage.getItem('pando.theme');
	} catch {
		/* no storage: as the system says */
	}
	const dark = choice === 'dark' || choice !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches;
	document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
})();

export {};
