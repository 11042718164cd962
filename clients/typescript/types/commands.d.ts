/** @typedef {string | readonly string[]} Command a line for the shell, or words, which are quoted */
/** @typedef {import("../common.js").ExecOptions} ExecOptions */
/** @typedef {import("../common.js").ExecEvent} ExecEvent */
/**
 * @typedef {object} CommandResult
 * @property {number} exitCode 128 and the signal's number when one ended it
 * @property {string} stdout
 * @property {string} stderr
 * @property {Uint8Array} stdoutBytes
 * @property {Uint8Array} stderrBytes
 * @property {number} durationMs
 * @property {string} [signal] SIGTERM and so on, when a signal ended it
 * @property {boolean} timedOut
 * @property {boolean} truncated an output was larger than what is kept
 */
/**
 * @typedef {object} RunOptions
 * @property {(text: string) => void} [onStdout] gets the output while the command runs
 * @property {(text: string) => void} [onStderr]
 * @property {boolean} [check] CommandFailed unless it ends with 0
 * @property {number} [maxOutput] bytes of each output that the result keeps
 */
/** @param {Command} command */
export function commandText(command: Command): string;
/**
 * @param {Command} command
 * @param {ExecOptions} options
 * @returns {import("../gen/api.js").ExecStream}
 */
export function execBody(command: Command, { stdin, env, cwd, timeoutMs }: ExecOptions): import("../gen/api.js").ExecStream;
/**
 * What a command says, as it comes. Characters that were split between two pieces come whole in 'text'.
 * @param {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>} events
 * @param {string} broken
 * @returns {AsyncGenerator<ExecEvent, void, undefined>}
 */
export function execEvents(events: AsyncGenerator<import("../common.js").ServerEvent, void, undefined>, broken: string): AsyncGenerator<ExecEvent, void, undefined>;
/**
 * @param {AsyncGenerator<ExecEvent, void, undefined>} events
 * @param {string} command
 * @param {RunOptions} options
 * @returns {Promise<CommandResult>}
 */
export function collect(events: AsyncGenerator<ExecEvent, void, undefined>, command: string, { onStdout, onStderr, check, maxOutput }: RunOptions): Promise<CommandResult>;
/** A command that runs by itself in a VM: it outlives this client, suspend and resume; forks have their own copy of it. */
export class Process {
    /**
     * @param {import("../gen/api.js").Calls} calls
     * @param {{ vmId: string, linuxUser?: string }} at
     * @param {string} id
     */
    constructor(calls: import("../gen/api.js").Calls, at: {
        vmId: string;
        linuxUser?: string;
    }, id: string);
    /** @type {string} */
    id: string;
    /** What it is and how it is: running, statusCode, stdoutBytes and more. */
    info(): Promise<import("../gen/api.js").Process>;
    /**
     * What it said from an offset on, while it runs and until it has ended.
     * @param {{ offset?: number, stream?: "stdout" | "stderr", signal?: AbortSignal }} [options]
     */
    follow({ offset, stream, signal }?: {
        offset?: number;
        stream?: "stdout" | "stderr";
        signal?: AbortSignal;
    }): AsyncGenerator<import("../common.js").ExecEvent, void, undefined>;
    /**
     * Its output so far: the newest 4 MiB.
     * @param {"stdout" | "stderr"} [stream]
     */
    output(stream?: "stdout" | "stderr"): Promise<Uint8Array<ArrayBuffer>>;
    /** Its exit code, when it has ended. @param {{ signal?: AbortSignal }} [options] */
    wait(options?: {
        signal?: AbortSignal;
    }): Promise<number>;
    /** To it and its group. @param {string | number} [signal] */
    signal(signal?: string | number): Promise<void>;
    /**
     * To its stdin, if it was spawned with openStdin.
     * @param {import("../common.js").Bytes} data
     * @param {{ eof?: boolean }} [options] eof: that was all
     */
    write(data: import("../common.js").Bytes, { eof }?: {
        eof?: boolean;
    }): Promise<void>;
    /** Removes a finished one from the list. */
    forget(): Promise<void>;
    #private;
}
/**
 * a line for the shell, or words, which are quoted
 */
export type Command = string | readonly string[];
export type ExecOptions = import("../common.js").ExecOptions;
export type ExecEvent = import("../common.js").ExecEvent;
export type CommandResult = {
    /**
     * 128 and the signal's number when one ended it
     */
    exitCode: number;
    stdout: string;
    stderr: string;
    stdoutBytes: Uint8Array;
    stderrBytes: Uint8Array;
    durationMs: number;
    /**
     * SIGTERM and so on, when a signal ended it
     */
    signal?: string | undefined;
    timedOut: boolean;
    /**
     * an output was larger than what is kept
     */
    truncated: boolean;
};
export type RunOptions = {
    /**
     * gets the output while the command runs
     */
    onStdout?: ((text: string) => void) | undefined;
    onStderr?: ((text: string) => void) | undefined;
    /**
     * CommandFailed unless it ends with 0
     */
    check?: boolean | undefined;
    /**
     * bytes of each output that the result keeps
     */
    maxOutput?: number | undefined;
};
