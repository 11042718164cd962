// SPDX-License-Identifier: Apache-2.0
// Whether the server answers. Someone whose request failed calls connectionLost(); from then on this module asks
// /v1/health with growing pauses until it answers, and counts up `comeback`, on which pages load their data again.
import { signal } from '@preact/signals';

/** up, or since when it is down (ms). */
export const downSince = signal<number | null>(null);
/** Goes up by one each time that the server is back. */
export const comeback = signal(0);

let timer = 0;
let wait = 500;

export function connectionLost(): void {
	if (downSince.value !== null)
		return;
	downSince.value = Date.now();
	wait = 500;
	again();
}

export function connectionOk(): void {
	if (downSince.value === null)
		return;
	clearTimeout(timer);
	downSince.value = null;
	comeback.value++;
}

function again(): void {
	clearTimeout(timer);
	timer = window.setTimeout(async () => {
		try {
			const stop = new AbortController();
			const limit = window.setTimeout(() => stop.abort(), 5000);
			const res = await fetch('/v1/health', { cache: 'no-store', signal: stop.signal });
			clearTimeout(limit);
			/* 401 would be an answer, too; only "nobody there" is not */
			if (res.status < 500) {
				connectionOk();
				return;
			}
		} catch {
			/* still away */
		}
		wait = Math.min(wait * 1.5, 5000);
		if (downSince.value !== null)
			again();
	}, wait);
}

/** Ask at once (the banner's button, the browser says that it is online again). */
export function tryNow(): void {
	if (downSince.value !== null) {
		wait = 0;
		again();
		wait = 500;
	}
}
addEventListener('online', tryNow);
