/**
 * fetch() over a Unix socket, as far as the transport uses it.
 * @param {string} socketPath
 * @returns {(url: string, init: RequestInit) => Promise<Response>}
 */
export function unixFetch(socketPath: string): (url: string, init: RequestInit) => Promise<Response>;
/** @typedef {{ role: "parent", id: string, children: Child[] } | { role: "child", id: string, parent: string, index: number, count: number }} ForkSide */
/** @typedef {{ role: "original", id: string, snapshotId: string } | { role: "restored", id: string, snapshot: string }} SnapshotSide */
/** The VM that this program runs in. */
export class Self {
    /** @param {{ socketPath?: string }} [options] */
    constructor({ socketPath }?: {
        socketPath?: string;
    });
    /** Who this VM is, and what it may. */
    info(): Promise<import("../gen/api.js").SelfVm>;
    /**
     * Returns in this VM and in each copy, as fork(2) does.
     * @param {number} [count]
     * @param {{ inherit?: boolean }} [options] inherit (true): the copies have self access, too
     * @returns {Promise<ForkSide>}
     */
    fork(count?: number, options?: {
        inherit?: boolean;
    }): Promise<ForkSide>;
    /**
     * Returns in this VM, and in whatever is made from the snapshot, as setjmp(3) does.
     * @param {string} [name]
     * @returns {Promise<SnapshotSide>}
     */
    snapshot(name?: string): Promise<SnapshotSide>;
    /** Returns when the VM runs again. */
    suspend(): Promise<import("../gen/api.js").Id>;
    /**
     * The VM goes back: this program is no more. Rejects when it was refused.
     * @param {string | null} snapshotId null: to its newest point
     * @param {{ keep?: boolean }} [options] keep (true): the present becomes a snapshot
     */
    rewind(snapshotId: string | null, { keep }?: {
        keep?: boolean;
    }): Promise<void>;
    /** A copy whose id is known. @param {string} id */
    child(id: string): Child;
    /** Copies that it made, and theirs. */
    children(): Promise<Child[]>;
    #private;
}
/** A copy of the VM that this program runs in. */
export class Child {
    /** @param {import("../gen/api.js").Calls} calls @param {string} id */
    constructor(calls: import("../gen/api.js").Calls, id: string);
    /** @type {string} */
    id: string;
    info(): Promise<import("../gen/api.js").SelfVm>;
    /** @param {import("./commands.js").Command} command @param {Omit<import("../common.js").ExecOptions, "user">} [options] */
    execStream(command: import("./commands.js").Command, options?: Omit<import("../common.js").ExecOptions, "user">): AsyncGenerator<import("../common.js").ExecEvent, void, undefined>;
    /** @param {import("./commands.js").Command} command @param {Omit<import("../common.js").ExecOptions, "user"> & import("./commands.js").RunOptions} [options] */
    exec(command: import("./commands.js").Command, options?: Omit<import("../common.js").ExecOptions, "user"> & import("./commands.js").RunOptions): Promise<import("./commands.js").CommandResult>;
    /** @param {string} path */
    read(path: string): Promise<Uint8Array<ArrayBuffer>>;
    /** @param {string} path @param {import("../common.js").Bytes} data */
    write(path: string, data: import("../common.js").Bytes): Promise<void>;
    start(): Promise<void>;
    suspend(): Promise<void>;
    /** Until its machine ends: suspended, stopped, deleted and so on. @returns {Promise<string>} */
    wait(): Promise<string>;
    delete(): Promise<void>;
    #private;
}
export type ForkSide = {
    role: "parent";
    id: string;
    children: Child[];
} | {
    role: "child";
    id: string;
    parent: string;
    index: number;
    count: number;
};
export type SnapshotSide = {
    role: "original";
    id: string;
    snapshotId: string;
} | {
    role: "restored";
    id: string;
    snapshot: string;
};
