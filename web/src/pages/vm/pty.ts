// SPDX-License-Identifier: Apache-2.0
/*
 * pty.ts - the client of one terminal session, without a view
 *
 * A browser cannot send headers with a WebSocket, so every connection begins with a ticket (docs/PTY.md).
 * The first binary message after each attach is a picture of the whole terminal; what follows is output.
 * When the connection ends, its reason decides: the program ended (exited), the key was revoked (failed),
 * the VM rests (asleep: nothing is woken until somebody wants it), or the network or the server failed
 * (waiting: tries again, at growing distances). Times and sockets come from outside, for the tests.
 */

export type PtyState = "idle" | "connecting" | "open" | "waiting" | "asleep" | "exited" | "failed" | "closed";

export interface PtySocket {
	binaryType: string;
	readyState: number;
	onopen: ((e: unknown) => void) | null;
	onmessage: ((e: { data: unknown }) => void) | null;
	onclose: ((e: { code: number; reason: string }) => void) | null;
	onerror: ((e: unknown) => void) | null;
	send(data: string | Uint8Array): void;
	close(code?: number): void;
}

export interface PtyDeps {
	/** A ticket's address, for a session or (undefined) for a new one. */
	ticket(sessionId: string | undefined): Promise<string>;
	socket(url: string): PtySocket;
	/** The VM's state now: attaching to a VM that rests would wake it. */
	vmState(): string;
	/** Does the session still exist? Asked when a connection failed before it was open. */
	exists(sessionId: string): Promise<boolean>;
	later(fn: () => void, ms: number): () => void;
	random(): number;
}

export interface PtyEvents {
	/** `picture`: the bytes draw the whole terminal; clear it first. */
	data(bytes: Uint8Array, picture: boolean): void;
	state(state: PtyState, note: string): void;
	session(id: string): void;
}

export interface PtyWish {
	sessionId?: string;
	exec?: string;
	cols: number;
	rows: number;
	/** Input and size of this client are not sent. */
	watch: boolean;
}

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;
const CHUNK = 64 * 1024;
const SLEEPING = new Set(["suspended", "suspending", "stopped", "stopping", "lost"]);

/** The n-th wait, from 0: doubled each time, a quarter of it by chance. */
export function backOff(n: number, random: number): number {
	const ms = Math.min(FIRST_WAIT_MS * 2 ** Math.min(n, 10), LONGEST_WAIT_MS);
	return Math.round(ms * (0.75 + 0.25 * random));
}

/** A ticket's address with the members of the first request. */
export function ptyUrl(ticketUrl: string, base: string, wish: PtyWish, attach: boolean): string {
	const from = new URL(ticketUrl, base);
	const here = new URL(base);
	const url = new URL(from.pathname + from.search, base);
	url.protocol = here.protocol === "https:" ? "wss:" : "ws:";
	url.searchParams.set("cols", String(wish.cols));
	url.searchParams.set("rows", String(wish.rows));
	if (!attach && wish.exec)
		url.searchParams.set("exec", wish.exec);
	return url.href;
}

export class PtyClient {
	sessionId: string | undefined;
	exitCode: number | undefined;
	state: PtyState = "idle";
	note = "";
	private socket: PtySocket | undefined;
	private tries = 0;
	private cancel: (() => void) | undefined;
	private picture = true;
	private run = 0;
	private cols: number;
	private rows: number;
	private held: Uint8Array[] = [];

	constructor(private wish: PtyWish, private base: string, private deps: PtyDeps, private on: PtyEvents) {
		this.sessionId = wish.sessionId;
		this.cols = wish.cols;
		this.rows = wish.rows;
	}

	private become(state: PtyState, note = ""): void {
		this.state = state;
		this.note = note;
		this.on.state(state, note);
	}

	/** Attaches, but wakes nobody for it: a session of a VM that rests waits until somebody types or the VM runs. */
	begin(): void {
		if (this.sessionId !== undefined && SLEEPING.has(this.deps.vmState()))
			this.become("asleep", "the VM rests");
		else
			void this.connect();
	}

	/** Connects, or connects again now instead of later. */
	async connect(): Promise<void> {
		if (this.state === "connecting" || this.state === "open" || this.state === "closed" || this.state === "exited")
			return;
		const run = ++this.run;
		this.cancel?.();
		this.cancel = undefined;
		this.become("connecting");
		let url: string;
		try {
			url = await this.deps.ticket(this.sessionId);
		} catch (e) {
			if (run === this.run)
				this.refused(e);
			return;
		}
		if (run !== this.run)
			return;
		const wish = { ...this.wish, cols: this.cols, rows: this.rows };
		const s = this.deps.socket(ptyUrl(url, this.base, wish, this.sessionId !== undefined));
		let opened = false;
		s.binaryType = "arraybuffer";
		this.socket = s;
		this.picture = true;
		s.onmessage = (e) => {
			if (run !== this.run)
				return;
			if (typeof e.data === "string") {
				this.word(e.data);
				opened = opened || this.state === "open";
			} else {
				const first = this.picture;
				this.picture = false;
				this.on.data(new Uint8Array(e.data as ArrayBuffer), first);
			}
		};
		s.onclose = (e) => {
			if (run === this.run)
				void this.ended(e.code, e.reason, opened);
		};
		s.onerror = null;
	}

	private word(text: string): void {
		let m: { type?: unknown; sessionId?: unknown; exitCode?: unknown };
		try {
			m = JSON.parse(text) as typeof m;
		} catch {
			return;
		}
		if (m.type === "sessionInfo" && typeof m.sessionId === "string") {
			this.sessionId = m.sessionId;
			this.tries = 0;
			this.become("open");
			this.on.session(m.sessionId);
			for (const bytes of this.held.splice(0))
				this.socket?.send(bytes);
		} else if (m.type === "exited") {
			this.exitCode = typeof m.exitCode === "number" ? m.exitCode : -1;
			this.become("exited", `ended with ${this.exitCode}`);
		}
	}

	private refused(e: unknown): void {
		const { status, code, message } = e as { status?: number; code?: string; message?: string };
		if (code === "SESSION_NOT_FOUND" || code === "SESSION_EXPIRED")
			this.become("exited", "the session is gone");
		else if (status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 409 && status !== 429)
			this.become("failed", message ?? "refused");
		else
			this.again(message ?? "no connection");
	}

	private async ended(code: number, reason: string, opened: boolean): Promise<void> {
		this.socket = undefined;
		if (this.state === "exited" || this.state === "closed")
			return;
		if (code === 1008)
			return this.become("failed", reason || "access was revoked");
		if (SLEEPING.has(this.deps.vmState()))
			return this.become("asleep", "the VM rests");
		// Opening once more might make a second session, if the first one came about after all.
		if (!opened && this.sessionId === undefined)
			return this.become("failed", "The VM did not answer in time.");
		if (!opened && this.sessionId !== undefined) {
			const run = this.run;
			const there = await this.deps.exists(this.sessionId).catch(() => true);
			if (run !== this.run)
				return;
			if (!there)
				return this.become("exited", "the session is gone");
		}
		this.again(code === 1001 ? "the VM or the server went away" : "the connection was lost");
	}

	private again(note: string): void {
		if (SLEEPING.has(this.deps.vmState()))
			return this.become("asleep", "the VM rests");
		const ms = backOff(this.tries++, this.deps.random());
		this.become("waiting", note);
		this.cancel = this.deps.later(() => void this.connect(), ms);
	}

	/** The VM's state changed: one that runs again is attached to at once. */
	vmChanged(): void {
		const resting = SLEEPING.has(this.deps.vmState());
		if (!resting && (this.state === "asleep" || this.state === "waiting")) {
			this.tries = 0;
			this.state = "idle";
			void this.connect();
		} else if (resting && this.state === "waiting") {
			this.cancel?.();
			this.become("asleep", "the VM rests");
		}
	}

	/** Keys. Those typed into a sleeping session are kept, and wake it. */
	send(text: string | Uint8Array): void {
		if (this.wish.watch || this.state === "exited" || this.state === "closed" || this.state === "failed")
			return;
		const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
		const parts: Uint8Array[] = [];
		for (let i = 0; i < bytes.length; i += CHUNK)
			parts.push(bytes.subarray(i, i + CHUNK));
		if (this.state === "open" && this.socket) {
			for (const p of parts)
				this.socket.send(p);
			return;
		}
		if (this.held.length < 64)
			this.held.push(...parts);
		if (this.state === "asleep") {
			this.state = "idle";
			void this.connect();
		}
	}

	resize(cols: number, rows: number): void {
		if (this.wish.watch || (cols === this.cols && rows === this.rows))
			return;
		this.cols = cols;
		this.rows = rows;
		if (this.state === "open")
			this.socket?.send(JSON.stringify({ type: "resize", cols, rows }));
	}

	signal(signal: "SIGINT" | "SIGKILL"): void {
		if (this.state === "open" && !this.wish.watch)
			this.socket?.send(JSON.stringify({ type: "signal", signal }));
	}

	/** Watch only, or not. Takes effect at once; the size is sent when input is. */
	setWatch(watch: boolean): void {
		this.wish = { ...this.wish, watch };
	}

	/** Detaches; the session goes on in the VM. */
	close(): void {
		this.run++;
		this.cancel?.();
		const s = this.socket;
		this.socket = undefined;
		this.state = "closed";
		s?.close(1000);
	}
}
