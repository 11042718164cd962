// SPDX-License-Identifier: Apache-2.0
// The only way to the server. Adds the CSRF header, turns error replies into ApiError, and tells session.ts and
// connection.ts what it sees: a 401 ends the session in the page, a failed fetch or a 502/503/504 without our error
// format means that the server is away.
import { connectionLost, connectionOk, downSince } from './connection';
import { csrfToken, sessionEnded, sessionEpoch } from './session';
import { readEvents, type ServerEvent } from './sse';

export class ApiError extends Error {
	constructor(
		readonly status: number,
		readonly code: string,
		message: string,
		readonly traceId: string | null = null,
		readonly body: unknown = null,
	) {
		super(message);
		this.name = 'ApiError';
	}
	/** The route does not exist on this server (older, or a part that is not built in). */
	get missing(): boolean {
		return this.status === 405 || this.status === 404 && this.code === 'NOT_FOUND' && this.message.startsWith('there is no route');
	}
	get offline(): boolean {
		return this.code === 'OFFLINE';
	}
}

let leaving = false;
/** Requests from now on outlive the page: used when it closes with undoable acts still waiting. */
export function pageLeaves(): void {
	leaving = true;
}

/** twice: it does no harm if the server does it more than once, as with every GET and PUT. */
type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string>; quiet?: boolean; twice?: boolean };

/** A request with cookie and CSRF header; the reply as it is, error replies too. Throws ApiError only if there is none. */
async function send(path: string, init: Init = {}): Promise<Response> {
	const method = (init.method ?? 'GET').toUpperCase();
	const headers: Record<string, string> = { ...init.headers };
	if (method !== 'GET' && method !== 'HEAD') {
		const token = csrfToken();
		if (token)
			headers['x-pando-csrf'] = token;
	}
	let res: Response;
	const ask = (): Promise<Response> => fetch(path, { ...init, method, headers, credentials: 'same-origin', cache: 'no-store', keepalive: leaving });
	try {
		/* What may be done twice is tried again: browsers drop what is on its way whenever an interface comes or goes, on the host
		 * itself one does with every VM, and they notice the same change up to two times, a second or two apart. */
		const again = (wait: number) => (e: unknown): Promise<Response> => {
			if (!(init.twice ?? (method === 'GET' || method === 'HEAD' || method === 'PUT')) || init.signal?.aborted || downSince.peek() !== null)
				throw e;
			return new Promise<Response>((done) => setTimeout(() => done(ask()), wait));
		};
		res = await ask().catch(again(250)).catch(again(1000));
	} catch (e) {
		if (init.signal?.aborted)
			throw e;
		if (!init.quiet)
			connectionLost();
		throw new ApiError(0, 'OFFLINE', 'The server does not answer.');
	}
	connectionOk();
	return res;
}

export async function errorOf(res: Response): Promise<ApiError> {
	let body: unknown = null;
	const text = await res.text().catch(() => '');
	try {
		body = JSON.parse(text);
	} catch {
		/* not ours: a proxy's page */
	}
	const o = (body && typeof body === 'object' ? body : {}) as Record<string, unknown>;
	const code = typeof o['code'] === 'string' ? o['code'] : 'HTTP_' + res.status;
	const message = typeof o['message'] === 'string' ? o['message']
		: typeof o['error'] === 'string' ? o['error'] : `The server answered ${res.status} ${res.statusText}`;
	const trace = typeof o['traceId'] === 'string' ? o['traceId'] : res.headers.get('x-trace-id');
	return new ApiError(res.status, code, message, trace, body);
}

async function checked(path: string, init: Init): Promise<Response> {
	const epoch = sessionEpoch();
	const res = await send(path, init);
	if (res.ok)
		return res;
	const err = await errorOf(res);
	if (res.status === 401 && path !== '/v1/session')
		sessionEnded(epoch);
	throw err;
}

async function call<T>(method: string, path: string, body?: unknown, init: Init = {}): Promise<T> {
	const i: Init = { ...init, method };
	if (body !== undefined) {
		i.body = JSON.stringify(body);
		i.headers = { 'content-type': 'application/json', ...init.headers };
	}
	const res = await checked(path, i);
	if (res.status === 204)
		return undefined as T;
	const text = await res.text();
	if (!text)
		return undefined as T;
	try {
		return JSON.parse(text) as T;
	} catch {
		throw new ApiError(res.status, 'BAD_REPLY', 'The server sent something that is not JSON.');
	}
}

export const api = {
	get: <T>(path: string, init?: Init): Promise<T> => call<T>('GET', path, undefined, init),
	post: <T = unknown>(path: string, body: unknown = {}, init?: Init): Promise<T> => call<T>('POST', path, body, init),
	put: <T = unknown>(path: string, body: unknown = {}, init?: Init): Promise<T> => call<T>('PUT', path, body, init),
	patch: <T = unknown>(path: string, body: unknown = {}, init?: Init): Promise<T> => call<T>('PATCH', path, body, init),
	del: <T = unknown>(path: string, body?: unknown, init?: Init): Promise<T> => call<T>('DELETE', path, body, init),
	/** The reply itself (downloads, uploads); throws ApiError for error replies. */
	raw: (path: string, init?: Init): Promise<Response> => checked(path, init ?? {}),
	/**
	 * Server-sent events over fetch: GET without a body, POST with one. Resolves when the server ends the stream; throws
	 * ApiError for an error reply; ends at once, without an error, when the signal is aborted.
	 */
	stream: async (path: string, body: unknown, onEvent: (e: ServerEvent) => void, init: Init = {}): Promise<void> => {
		const i: Init = { ...init, headers: { accept: 'text/event-stream', ...init.headers } };
		if (body !== undefined && body !== null) {
			i.method = init.method ?? 'POST';
			i.body = JSON.stringify(body);
			i.headers = { 'content-type': 'application/json', ...i.headers };
		}
		try {
			const res = await checked(path, i);
			await readEvents(res, onEvent);
		} catch (e) {
			if (!init.signal?.aborted)
				throw e;
		}
	},
};

/** Builds "/a/b?x=1" with every value escaped; undefined, null and "" are left out. */
export function url(strings: TemplateStringsArray, ...values: (string | number)[]): string {
	return strings.reduce((all, s, i) => all + s + (i < values.length ? encodeURIComponent(String(values[i])) : ''), '');
}
export function query(path: string, q: Record<string, string | number | boolean | null | undefined>): string {
	const parts = Object.entries(q).filter(([, v]) => v !== undefined && v !== null && v !== '')
		.map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(String(v))}`);
	return parts.length ? `${path}?${parts.join('&')}` : path;
}

/** What to show a person. */
export function messageOf(e: unknown): string {
	if (e instanceof ApiError || e instanceof Error)
		return e.message;
	return String(e);
}
