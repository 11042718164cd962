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
	/* A script that did not arrive (a restart, a change of networks) leaves an empty page: load it again, a few times. */
	addEventListener('error', (e) => {
		const lost = e.target instanceof HTMLScriptElement || e.target instanceof HTMLLinkElement;
		const tries = Number(new URLSearchParams(location.hash.slice(1)).get('again') ?? 0);
		if (lost && tries < 5)
			setTimeout(() => {
				location.hash = `again=${tries + 1}`;
				location.reload();
			}, 400 * (tries + 1));
	}, true);
	document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
})();

export {};
