/**
 * @param {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>} events
 * @returns {AsyncGenerator<CellEvent, void, undefined>}
 */
export function cellEvents(events: AsyncGenerator<import("../common.js").ServerEvent, void, undefined>): AsyncGenerator<CellEvent, void, undefined>;
/**
 * @param {AsyncGenerator<CellEvent, void, undefined>} events
 * @param {{ onStdout?: (text: string) => void, onStderr?: (text: string) => void, onResult?: (result: RichResult) => void }} hear
 * @returns {Promise<Cell>}
 */
export function cellOf(events: AsyncGenerator<CellEvent, void, undefined>, { onStdout, onStderr, onResult }: {
    onStdout?: (text: string) => void;
    onStderr?: (text: string) => void;
    onResult?: (result: RichResult) => void;
}): Promise<Cell>;
/** @typedef {"python" | "javascript" | "typescript" | "bash" | "ruby" | "js" | "ts" | "sh" | "rb"} Language */
/**
 * @typedef {object} CellOptions
 * @property {Language} [language] python
 * @property {Context | string} [context] in place of the language's default one
 * @property {number} [timeoutMs] then the cell is interrupted
 * @property {AbortSignal} [signal] leaving interrupts the cell
 */
/**
 * @typedef {{ type: "started", contextId: string }
 *   | { type: "stdout" | "stderr", text: string }
 *   | { type: "result", result: RichResult }
 *   | { type: "file", file: { path: string, size: number, mime: string } }
 *   | { type: "end", cell: Cell }} CellEvent
 */
/** One thing that a cell showed, in every form that it has. */
export class RichResult {
    /** @param {Record<string, any>} data */
    constructor(data: Record<string, any>);
    /** By media type; binary ones as base64. @type {Readonly<Record<string, any>>} */
    data: Readonly<Record<string, any>>;
    /** @returns {string | undefined} */
    get text(): string | undefined;
    /** @returns {string | undefined} */
    get html(): string | undefined;
    /** @returns {string | undefined} */
    get svg(): string | undefined;
    get json(): any;
    /** @returns {Uint8Array | undefined} */
    get png(): Uint8Array | undefined;
}
/** The outcome of a cell. */
export class Cell {
    stdout: string;
    stderr: string;
    /** What it showed, and the value of its last expression. @type {RichResult[]} */
    results: RichResult[];
    /** How it failed. @type {{ name: string, value: string, traceback: string } | undefined} */
    error: {
        name: string;
        value: string;
        traceback: string;
    } | undefined;
    /** Made or changed while it ran. @type {{ path: string, size: number, mime: string }[]} */
    files: {
        path: string;
        size: number;
        mime: string;
    }[];
    contextId: string;
    language: string;
    executionCount: number;
    durationMs: number;
    timedOut: boolean;
    interrupted: boolean;
    /** Variables from before are gone. */
    kernelRestarted: boolean;
    truncated: boolean;
    get ok(): boolean;
    /** The last result as text: the value of the last expression. */
    get text(): string | undefined;
    /** The first picture. */
    get png(): Uint8Array<ArrayBufferLike> | undefined;
    /** Itself, or CellFailed if it has an error. */
    check(): this;
}
/** @typedef {CellOptions & Parameters<typeof cellOf>[1]} RunCellOptions */
/** sandbox.code */
export class Code {
    /**
     * @param {import("../gen/api.js").Calls} calls
     * @param {{ vmId: string, linuxUser?: string }} at
     */
    constructor(calls: import("../gen/api.js").Calls, at: {
        vmId: string;
        linuxUser?: string;
    });
    /**
     * A cell's output and results as they come; the last event has the whole cell.
     * @param {string} code
     * @param {CellOptions} [options]
     * @returns {AsyncGenerator<CellEvent, void, undefined>}
     */
    stream(code: string, { language, context, timeoutMs, signal }?: CellOptions): AsyncGenerator<CellEvent, void, undefined>;
    /**
     * Runs a cell. Its failure is 'error' of the cell, not an exception: check() makes it one.
     * @param {string} code
     * @param {RunCellOptions} [options]
     */
    run(code: string, options?: RunCellOptions): Promise<Cell>;
    /**
     * A kernel of its own, next to the default one.
     * @param {Language} language
     * @param {{ cwd?: string, env?: Record<string, string> }} [options]
     */
    createContext(language: Language, options?: {
        cwd?: string;
        env?: Record<string, string>;
    }): Promise<Context>;
    contexts(): Promise<Context[]>;
    #private;
}
/** A kernel: variables, imports, open files. */
export class Context {
    /**
     * @param {import("../gen/api.js").Calls} calls
     * @param {{ vmId: string, linuxUser?: string }} at
     * @param {Code} code
     * @param {import("../gen/api.js").CodeContext} info
     */
    constructor(calls: import("../gen/api.js").Calls, at: {
        vmId: string;
        linuxUser?: string;
    }, code: Code, info: import("../gen/api.js").CodeContext);
    /** @type {string} */
    id: string;
    /** As it was when it was asked for. @type {import("../gen/api.js").CodeContext} */
    info: import("../gen/api.js").CodeContext;
    /**
     * @param {string} code
     * @param {Omit<RunCellOptions, "context" | "language">} [options]
     */
    run(code: string, options?: Omit<RunCellOptions, "context" | "language">): Promise<Cell>;
    /**
     * @param {string} code
     * @param {Omit<CellOptions, "context" | "language">} [options]
     */
    stream(code: string, options?: Omit<CellOptions, "context" | "language">): AsyncGenerator<CellEvent, void, undefined>;
    /** A new kernel: variables are lost. */
    restart(): Promise<void>;
    /** Interrupts the running cell. */
    interrupt(): Promise<void>;
    delete(): Promise<void>;
    #private;
}
export type Language = "python" | "javascript" | "typescript" | "bash" | "ruby" | "js" | "ts" | "sh" | "rb";
export type CellOptions = {
    /**
     * python
     */
    language?: Language | undefined;
    /**
     * in place of the language's default one
     */
    context?: string | Context | undefined;
    /**
     * then the cell is interrupted
     */
    timeoutMs?: number | undefined;
    /**
     * leaving interrupts the cell
     */
    signal?: AbortSignal | undefined;
};
export type CellEvent = {
    type: "started";
    contextId: string;
} | {
    type: "stdout" | "stderr";
    text: string;
} | {
    type: "result";
    result: RichResult;
} | {
    type: "file";
    file: {
        path: string;
        size: number;
        mime: string;
    };
} | {
    type: "end";
    cell: Cell;
};
export type RunCellOptions = CellOptions & Parameters<typeof cellOf>[1];
