// SPDX-License-Identifier: Apache-2.0
/*
 * upload.ts - files to a VM, with progress
 *
 * XMLHttpRequest, because fetch tells nothing of a body on its way. The file itself is the body: it is never in the page's memory.
 */
import { ApiError } from '../../lib/api';
import { csrfToken } from '../../lib/session';

export interface Upload { done: Promise<void>; abort(): void }

export function upload(path: string, file: Blob, onProgress: (sent: number, total: number) => void, headers: Record<string, string> = {}): Upload {
	const x = new XMLHttpRequest();
	const done = new Promise<void>((yes, no) => {
		x.open('PUT', path);
		const token = csrfToken();
		if (token)
			x.setRequestHeader('x-pando-csrf', token);
		x.setRequestHeader('content-type', 'application/octet-stream');
		for (const [k, v] of Object.entries(headers))
			x.setRequestHeader(k, v);
		x.upload.onprogress = (e) => onProgress(e.loaded, e.lengthComputable ? e.total : file.size);
		x.onload = () => {
			if (x.status >= 200 && x.status < 300)
				return yes();
			let body: { code?: string; message?: string } = {};
			try {
				body = JSON.parse(x.responseText) as typeof body;
			} catch {
				/* a proxy's page */
			}
			no(new ApiError(x.status, body.code ?? `HTTP_${x.status}`, body.message ?? `The server answered ${x.status}`));
		};
		x.onerror = () => no(new ApiError(0, 'OFFLINE', 'The connection was lost during the upload; the old file, if there was one, is unchanged.'));
		x.onabort = () => no(new DOMException('stopped', 'AbortError'));
		x.send(file);
	});
	return { done, abort: () => x.abort() };
}

export interface Dropped { path: string; file: File }

interface Item { isFile: boolean; isDirectory: boolean; name: string; file?(ok: (f: File) => void, bad: (e: unknown) => void): void; createReader?(): { readEntries(ok: (e: Item[]) => void, bad: (e: unknown) => void): void } }

/** What was dropped, folders with everything in them: their paths below the place they were dropped on. */
export async function dropped(data: DataTransfer): Promise<Dropped[]> {
	const entries = [...data.items].map((i) => (i as unknown as { webkitGetAsEntry?(): Item | null }).webkitGetAsEntry?.() ?? null);
	const out: Dropped[] = [];
	const walk = async (e: Item, at: string): Promise<void> => {
		if (e.isFile && e.file) {
			out.push({ path: at + e.name, file: await new Promise<File>((ok, bad) => e.file!(ok, bad)) });
		} else if (e.createReader) {
			const reader = e.createReader();
			for (;;) {
				const some = await new Promise<Item[]>((ok, bad) => reader.readEntries(ok, bad));
				if (!some.length)
					return;
				for (const x of some)
					await walk(x, `${at}${e.name}/`);
			}
		}
	};
	if (entries.some((e) => e === null))
		return [...data.files].map((file) => ({ path: file.name, file }));
	for (const e of entries)
		if (e)
			await walk(e, '');
	return out;
}
