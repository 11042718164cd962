export { API_VERSION } from "../gen/api.js";
export { Process } from "./commands.js";
export { Files } from "./files.js";
export { Pty } from "./pty.js";
/**
 * @typedef {object} PandoEvent
 * @property {number} id
 * @property {string} type vm.suspended and so on; 'hello' first, 'gap' when some are not kept any more
 * @property {any} data
 */
/** A server, as one key sees it. */
export class Pando {
    /** @param {import("../common.js").TransportOptions} [options] */
    constructor(options?: import("../common.js").TransportOptions);
    /** Every call of the API. @type {import("../gen/api.js").Calls} */
    calls: import("../gen/api.js").Calls;
    /** @type {Transport} */
    transport: Transport;
    /**
     * A VM, from the base image, a snapshot or a spec.
     * @param {import("./sandbox.js").VmOptions} [options]
     */
    create(options?: import("./sandbox.js").VmOptions): Promise<Sandbox>;
    /** A VM whose id is known; nothing is asked. @param {string} id */
    sandbox(id: string): Sandbox;
    /** The same, if there is one: else ApiError VM_NOT_FOUND. @param {string} id */
    connect(id: string): Promise<Sandbox>;
    /** @param {Parameters<import("../gen/api.js").Calls["vmList"]>[0]} [query] */
    list(query?: Parameters<import("../gen/api.js").Calls["vmList"]>[0]): Promise<Sandbox[]>;
    /** @param {string} id */
    snapshot(id: string): Snapshot;
    snapshots(): Promise<Snapshot[]>;
    /** All points and VMs of the account. */
    tree(): Promise<import("../gen/api.js").Tree>;
    /**
     * One cell in a VM that is made for it and deleted after it.
     * @param {string} code
     * @param {Omit<import("./code.js").RunCellOptions, "context">} [options]
     */
    runOnce(code: string, options?: Omit<import("./code.js").RunCellOptions, "context">): Promise<import("./code.js").Cell>;
    /**
     * What happens to the account's VMs, snapshots, builds, repositories and networks. A lost connection is made again, and goes on after the
     * last event that came: none is missed, none comes twice.
     * @param {{ types?: readonly string[], after?: number, follow?: boolean, signal?: AbortSignal }} [options] after: an event's id, 0: all that
     *   are kept; without it those from now on. follow: false ends with what is there
     * @returns {AsyncGenerator<PandoEvent, void, undefined>}
     */
    events({ types, after, follow, signal }?: {
        types?: readonly string[];
        after?: number;
        follow?: boolean;
        signal?: AbortSignal;
    }): AsyncGenerator<PandoEvent, void, undefined>;
    /**
     * Lines of logs, oldest first; with follow those that come, too. All that are there are read before the first is given: startTime bounds them.
     * @param {Parameters<import("../gen/api.js").Calls["logs"]>[0] & { follow?: boolean }} [query]
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {AsyncGenerator<import("../gen/api.js").LogLine, void, undefined>}
     */
    logs({ follow, ...query }?: Parameters<import("../gen/api.js").Calls["logs"]>[0] & {
        follow?: boolean;
    }, { signal }?: {
        signal?: AbortSignal;
    }): AsyncGenerator<import("../gen/api.js").LogLine, void, undefined>;
    /** @param {import("../gen/api.js").RepoNew} [options] */
    createRepo(options?: import("../gen/api.js").RepoNew): Promise<Repo>;
    /** @param {string} id */
    repo(id: string): Repo;
    /** @param {Parameters<import("../gen/api.js").Calls["repoList"]>[0]} [query] */
    repos(query?: Parameters<import("../gen/api.js").Calls["repoList"]>[0]): Promise<Repo[]>;
}
export type PandoEvent = {
    id: number;
    /**
     * vm.suspended and so on; 'hello' first, 'gap' when some are not kept any more
     */
    type: string;
    data: any;
};
import { Repo } from "./repo.js";
import { Sandbox } from "./sandbox.js";
import { Snapshot } from "./sandbox.js";
import { Transport } from "./transport.js";
export { Repo, Sandbox, Snapshot, Transport };
export { Cell, Code, Context, RichResult } from "./code.js";
export { ApiError, CellFailed, CommandFailed, ConnectionFailed, PandoError, StreamBroken } from "./errors.js";
