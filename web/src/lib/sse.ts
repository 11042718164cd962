// SPDX-License-Identifier: Apache-2.0
// Reads a text/event-stream reply: the parts of the format that servers use (id, event, data over several lines,
// comments), in whatever pieces the network delivers.

export interface ServerEvent {
	id: string | null;
	event: string;
	/** The data lines, joined by newlines; json() parses them. */
	data: string;
	json<T = unknown>(): T;
}

export async function readEvents(res: Response, onEvent: (e: ServerEvent) => void, onAlive?: () => void): Promise<void> {
	const reader = res.body?.getReader();
	if (!reader)
		return;
	const decoder = new TextDecoder();
	let rest = '';
	let id: string | null = null;
	let event = '';
	let data: string[] = [];
	const line = (l: string): void => {
		if (l === '') {
			if (data.length) {
				const text = data.join('\n');
				onEvent({ id, event: event || 'message', data: text, json: <T>() => JSON.parse(text) as T });
			}
			event = '';
			data = [];
			return;
		}
		const colon = l.indexOf(':');
		if (colon === 0)
			return;
		const name = colon < 0 ? l : l.slice(0, colon);
		const value = colon < 0 ? '' : l.slice(l[colon + 1] === ' ' ? colon + 2 : colon + 1);
		if (name === 'data')
			data.push(value);
		else if (name === 'event')
			event = value;
		else if (name === 'id')
			id = value;
	};
	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			return;
		onAlive?.();
		rest += decoder.decode(value, { stream: true });
		let from = 0;
		for (;;) {
			const nl = rest.indexOf('\n', from);
			if (nl < 0)
				break;
			line(rest.slice(from, rest[nl - 1] === '\r' ? nl - 1 : nl));
			from = nl + 1;
		}
		rest = rest.slice(from);
	}
}
