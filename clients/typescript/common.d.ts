// SPDX-License-Identifier: Apache-2.0
// common.d.ts - types that both the generated and the written part use

/** What can be sent as the body of a request or the content of a file. */
export type Bytes = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** For one call. */
export interface CallOptions {
  /** Ends the call: what it was waiting for rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Milliseconds for the whole reply; of a stream, for its beginning. 0: no limit. */
  timeoutMs?: number;
  /** How often a call that can be repeated without harm is repeated. */
  retries?: number;
  headers?: Record<string, string>;
}

/** One server-sent event. */
export interface ServerEvent {
  event: string;
  id?: string;
  /** Parsed when it is JSON, else text. */
  data: any;
}

export interface TransportOptions {
  /** The server's address; PANDO_URL, FREESTYLE_API_URL or http://127.0.0.1:8787. In a page without one: the page's own server. */
  url?: string;
  /** An API key, or an identity's token; PANDO_API_KEY or FREESTYLE_API_KEY. */
  key?: string;
  /** In place of the runtime's own. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Milliseconds for a reply: 900 000. */
  timeoutMs?: number;
  /** Milliseconds between two pieces of a stream before it counts as broken: 120 000. */
  silenceMs?: number;
  /** 2. Only calls that can be repeated without harm are. */
  retries?: number;
  /** Hears of members of a request that the server does not know; without it console.warn does. */
  onWarning?: (warning: string, call: string) => void;
}

export type ExecEvent =
  | { type: "started"; processId: string; pid: number }
  | { type: "stdout" | "stderr"; data: Uint8Array; text: string }
  | { type: "exit"; exitCode: number; durationMs: number; signal?: string; timedOut: boolean };

export interface ExecOptions {
  stdin?: string | Uint8Array;
  env?: Record<string, string>;
  cwd?: string;
  /** The command is ended after so many milliseconds. */
  timeoutMs?: number;
  /** The Linux user; root without it. */
  user?: string;
  /** Leaving ends the command. */
  signal?: AbortSignal;
}
