/**
 * @typedef {object} PtyOptions
 * @property {number} [cols] 80
 * @property {number} [rows] 24
 * @property {number} [reconnectMs] how long a lost connection is tried again: 60 000; 0: never
 */
/** @typedef {{ vmId: string, linuxUser?: string }} At */
/** A terminal session; made by sandbox.pty() and sandbox.attachPty(). Iterate over it for its output. */
export class Pty {
    /**
     * @param {import("./transport.js").Transport} transport
     * @param {import("../gen/api.js").Calls} calls
     * @param {At} at
     * @param {PtyOptions} options
     */
    constructor(transport: import("./transport.js").Transport, calls: import("../gen/api.js").Calls, at: At, { cols, rows, reconnectMs }: PtyOptions);
    /** Of the session: what sandbox.attachPty() takes. */
    id: string;
    /** Once the program has ended. @type {number | undefined} */
    exitCode: number | undefined;
    /** How often the connection was made again. */
    reconnects: number;
    /** Bytes that nobody read in time. */
    dropped: number;
    /** Called after the connection was made again: the output goes on with a picture of the whole terminal. @type {(() => void) | null} */
    onReconnect: (() => void) | null;
    /**
     * @internal
     * @param {{ attach?: string, command?: string, sessionId?: string }} what
     */
    open({ attach, command, sessionId }: {
        attach?: string;
        command?: string;
        sessionId?: string;
    }): Promise<this>;
    /** The next output; undefined when there is none any more. @returns {Promise<Uint8Array | undefined>} */
    read(): Promise<Uint8Array | undefined>;
    /**
     * All output up to a text, and that text.
     * @param {string} text
     * @param {{ timeoutMs?: number }} [options]
     */
    expect(text: string, { timeoutMs }?: {
        timeoutMs?: number;
    }): Promise<string>;
    /** Types. @param {string | Uint8Array} data */
    write(data: string | Uint8Array): void;
    /** @param {number} cols @param {number} rows */
    resize(cols: number, rows: number): void;
    /** ^C, or the end of its program. @param {"SIGINT" | "SIGKILL"} [signal] */
    signal(signal?: "SIGINT" | "SIGKILL"): void;
    /** Leaves it running. */
    detach(): void;
    /** Its exit code, when its program has ended. Output goes on waiting for who reads it. */
    wait(): Promise<number | undefined>;
    /** Ends all of its programs. */
    close(): Promise<number | undefined>;
    [Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBufferLike>, void, unknown>;
    #private;
}
export type PtyOptions = {
    /**
     * 80
     */
    cols?: number | undefined;
    /**
     * 24
     */
    rows?: number | undefined;
    /**
     * how long a lost connection is tried again: 60 000; 0: never
     */
    reconnectMs?: number | undefined;
};
export type At = {
    vmId: string;
    linuxUser?: string;
};
