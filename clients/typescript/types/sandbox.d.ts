/** @typedef {Parameters<Calls["vmCreate"]>[0]["body"]} VmOptions */
/**
 * A repetition does not make a second one.
 * @param {Transport} transport
 * @param {Calls} calls
 * @param {VmOptions} body
 */
export function createVm(transport: Transport, calls: Calls, body: VmOptions): Promise<Sandbox>;
/** A VM. Any use of a suspended one resumes it, any use of a stopped one boots it. */
export class Sandbox {
    [x: symbol]: () => Promise<void>;
    /**
     * @param {Transport} transport
     * @param {Calls} calls
     * @param {string} id
     * @param {string} [user]
     */
    constructor(transport: Transport, calls: Calls, id: string, user?: string);
    /** @type {string} */
    id: string;
    /** @type {Files} */
    files: Files;
    /** @type {Code} */
    code: Code;
    /** @type {EgressOfVm} */
    egress: EgressOfVm;
    /** The same VM; commands, files, code and terminals are those of another Linux user. @param {string} user */
    asUser(user: string): Sandbox;
    /** What it is and how it is. Does not wake it. */
    info(): Promise<import("../gen/api.js").Vm>;
    /** running, suspended, stopped and so on. */
    state(): Promise<import("../gen/api.js").VmState>;
    /** Name, tags, metadata, timeouts, self access. @param {import("../gen/api.js").VmChange} change */
    change(change: import("../gen/api.js").VmChange): Promise<import("../gen/api.js").Vm>;
    /** Resumes a suspended one, boots a stopped one. @param {import("../gen/api.js").VmStart} [options] */
    start(options?: import("../gen/api.js").VmStart): Promise<void>;
    /** Freezes it with its memory. */
    suspend(): Promise<void>;
    /** Shuts it down; its disk stays. */
    stop(): Promise<void>;
    /** Stops it at once. */
    kill(): Promise<void>;
    /** For good. */
    delete(): Promise<void>;
    /**
     * Until its machine ends: stopped, killed, suspended, deleted, exited.
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {Promise<string>}
     */
    waitForExit({ signal }?: {
        signal?: AbortSignal;
    }): Promise<string>;
    /** A running one is booted anew, a suspended one loses its memory. @param {import("../gen/api.js").VmResize} size */
    resize(size: import("../gen/api.js").VmResize): Promise<void>;
    /**
     * CPU, memory, disk and network, as they change.
     * @param {{ intervalMs?: number, signal?: AbortSignal }} [options]
     * @returns {AsyncGenerator<import("../gen/api.js").Stats, void, undefined>}
     */
    stats({ intervalMs, signal }?: {
        intervalMs?: number;
        signal?: AbortSignal;
    }): AsyncGenerator<import("../gen/api.js").Stats, void, undefined>;
    /**
     * Copies that run, with the same memory: processes, variables, open files. Each goes its own way from here.
     * @param {number} [count]
     * @param {Omit<import("../gen/api.js").VmFork, "count">} [options]
     * @returns {Promise<Sandbox[]>}
     */
    fork(count?: number, options?: Omit<import("../gen/api.js").VmFork, "count">): Promise<Sandbox[]>;
    /**
     * The VM runs on.
     * @param {string} [name]
     * @param {Omit<import("../gen/api.js").SnapshotNew, "name">} [options]
     */
    snapshot(name?: string, options?: Omit<import("../gen/api.js").SnapshotNew, "name">): Promise<Snapshot>;
    /**
     * Memory and disk go back to one of its earlier snapshots.
     * @param {Snapshot | string | null} snapshot null: its newest point
     * @param {{ keep?: boolean }} [options] keep (true): the present becomes a snapshot, which is returned
     */
    rewind(snapshot: Snapshot | string | null, { keep }?: {
        keep?: boolean;
    }): Promise<Snapshot | undefined>;
    /** Its family: points and VMs, with parents and sizes. */
    tree(): Promise<import("../gen/api.js").Tree>;
    /**
     * Files that differ from those of a related VM or snapshot.
     * @param {Sandbox | Snapshot | string} other
     * @param {{ path?: string, ignore?: readonly string[], signal?: AbortSignal }} [options]
     */
    diff(other: Sandbox | Snapshot | string, { path, ignore, signal }?: {
        path?: string;
        ignore?: readonly string[];
        signal?: AbortSignal;
    }): AsyncGenerator<import("../gen/api.js").FileDiff, void, unknown>;
    /**
     * What a command says, as it comes. Leaving the loop ends the command.
     * @param {Command} command
     * @param {import("../common.js").ExecOptions} [options]
     */
    execStream(command: Command, options?: import("../common.js").ExecOptions): AsyncGenerator<import("../common.js").ExecEvent, void, undefined>;
    /**
     * Runs a command to its end.
     * @param {Command} command
     * @param {import("../common.js").ExecOptions & import("./commands.js").RunOptions} [options]
     */
    exec(command: Command, options?: import("../common.js").ExecOptions & import("./commands.js").RunOptions): Promise<import("./commands.js").CommandResult>;
    /**
     * Starts a command and leaves it running, also when this client ends.
     * @param {Command} command
     * @param {import("../common.js").ExecOptions & { openStdin?: boolean }} [options]
     */
    spawn(command: Command, options?: import("../common.js").ExecOptions & {
        openStdin?: boolean;
    }): Promise<Process>;
    /** Those that were spawned, and commands that run. */
    processes(): Promise<Process[]>;
    /**
     * Opens a terminal, with the login shell or a command in it.
     * @param {import("./pty.js").PtyOptions & { command?: string, sessionId?: string }} [options]
     */
    pty(options?: import("./pty.js").PtyOptions & {
        command?: string;
        sessionId?: string;
    }): Promise<Pty>;
    /**
     * An existing one: also in a fork, after a suspend, or beside others.
     * @param {string} sessionId
     * @param {import("./pty.js").PtyOptions} [options]
     */
    attachPty(sessionId: string, options?: import("./pty.js").PtyOptions): Promise<Pty>;
    ptySessions(): Promise<import("../gen/api.js").PtySession[]>;
    #private;
}
/** A point to go back to, and to make VMs from. */
export class Snapshot {
    /**
     * @param {Transport} transport
     * @param {Calls} calls
     * @param {string} id
     * @param {string} [name]
     */
    constructor(transport: Transport, calls: Calls, id: string, name?: string);
    /** @type {string} */
    id: string;
    /** @type {string | undefined} */
    name: string | undefined;
    info(): Promise<import("../gen/api.js").Snapshot>;
    /**
     * A new VM that goes on from here.
     * @param {VmOptions} [options]
     */
    create(options?: VmOptions): Promise<Sandbox>;
    /** @param {string} name */
    rename(name: string): Promise<void>;
    delete(): Promise<void>;
    #private;
}
/** sandbox.egress: what the VM may reach. */
export class EgressOfVm {
    /** @param {Calls} calls @param {string} vmId */
    constructor(calls: Calls, vmId: string);
    get(): Promise<import("../gen/api.js").EgressShown>;
    /** At once, also for a VM that runs. @param {import("../gen/api.js").Egress} policy */
    set(policy: import("../gen/api.js").Egress): Promise<import("../gen/api.js").EgressShown>;
    /** What it tried to reach and was not let. */
    blocked(): Promise<import("../gen/api.js").Blocked[]>;
    #private;
}
export type VmOptions = Parameters<Calls["vmCreate"]>[0]["body"];
export type Calls = import("../gen/api.js").Calls;
export type Transport = import("./transport.js").Transport;
export type Command = import("./commands.js").Command;
import { Files } from "./files.js";
import { Code } from "./code.js";
import { Process } from "./commands.js";
import { Pty } from "./pty.js";
