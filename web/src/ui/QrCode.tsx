// SPDX-License-Identifier: Apache-2.0
// A QR code as SVG: dark on white in both themes, because readers expect that.
import { useMemo } from 'preact/hooks';
import qrcode from 'qrcode-generator';

const QUIET = 4; /* modules of white around it, as the standard has it */

export function QrCode({ text, label }: { text: string; label: string }) {
	const { n, path } = useMemo(() => {
		const qr = qrcode(0, 'M');
		qr.addData(text, 'Byte');
		qr.make();
		const n = qr.getModuleCount();
		let path = '';
		for (let y = 0; y < n; y++)
			for (let x = 0; x < n; x++)
				if (qr.isDark(y, x))
					path += `M${x + QUIET} ${y + QUIET}h1v1h-1z`;
		return { n: n + 2 * QUIET, path };
	}, [text]);
	return <svg class="qr" viewBox={`0 0 ${n} ${n}`} role="img" aria-label={label} shape-rendering="crispEdges"><rect width={n} height={n} fill="#fff" /><path d={path} fill="#000" /></svg>;
}
