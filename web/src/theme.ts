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
	/* A script that did not arrive (a restart, a change of networks) leaves an empty page: load it again, a few times. Of what else is lost,
	 * only the style is asked for again, in place: the page may be in use by then. A module that was to be loaded ahead comes back as its script. */
	addEventListener('error', (e) => {
		const lost = e.target;
		if (lost instanceof HTMLLinkElement && lost.rel === 'stylesheet') {
			const again = lost.cloneNode() as HTMLLinkElement;
			const tries = Number(lost.dataset['tries'] ?? 0) + 1;
			again.dataset['tries'] = String(tries);
			if (tries < 6)
				setTimeout(() => lost.replaceWith(again), 400 * tries);
		} else if (lost instanceof HTMLScriptElement) {
			const tries = Number(new URLSearchParams(location.hash.slice(1)).get('again') ?? 0);
			if (tries < 5)
				setTimeout(() => {
					location.hash = `again=${tries + 1}`;
					location.reload();
				}, 400 * (tries + 1));
		}
	}, true);
	document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
})();

export {};
