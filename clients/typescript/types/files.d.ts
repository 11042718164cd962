/** @typedef {import("../common.js").Bytes} Bytes */
/** @typedef {{ type: "create" | "modify" | "delete" | "rename" | "overflow" | "error", path: string, message?: string }} FileEvent */
/** sandbox.files */
export class Files {
    /**
     * @param {import("../gen/api.js").Calls} calls
     * @param {{ vmId: string, linuxUser?: string }} at
     */
    constructor(calls: import("../gen/api.js").Calls, at: {
        vmId: string;
        linuxUser?: string;
    });
    /** @param {string} path @param {{ offset?: number, length?: number, signal?: AbortSignal }} [options] */
    read(path: string, options?: {
        offset?: number;
        length?: number;
        signal?: AbortSignal;
    }): Promise<Uint8Array<ArrayBuffer>>;
    /** @param {string} path */
    readText(path: string): Promise<string>;
    /**
     * A file of any size, in pieces.
     * @param {string} path
     * @param {{ offset?: number, length?: number, signal?: AbortSignal }} [options]
     * @returns {Promise<ReadableStream<Uint8Array>>}
     */
    stream(path: string, options?: {
        offset?: number;
        length?: number;
        signal?: AbortSignal;
    }): Promise<ReadableStream<Uint8Array>>;
    /**
     * The old file stays until the new one is whole; directories above it are made. Browsers collect a stream before they send it.
     * @param {string} path
     * @param {Bytes} data
     * @param {{ mode?: number, signal?: AbortSignal }} [options] mode: 0o755 and so on
     */
    write(path: string, data: Bytes, { mode, signal }?: {
        mode?: number;
        signal?: AbortSignal;
    }): Promise<void>;
    /**
     * The names in a directory.
     * @param {string} [path]
     * @returns {Promise<{ name: string, kind: string, path: string }[]>}
     */
    list(path?: string): Promise<{
        name: string;
        kind: string;
        path: string;
    }[]>;
    /** @param {string} path @param {{ recursive?: boolean }} [options] */
    remove(path: string, { recursive }?: {
        recursive?: boolean;
    }): Promise<void>;
    /**
     * A directory as a tar archive.
     * @param {string} path
     * @param {{ gzip?: boolean, signal?: AbortSignal }} [options]
     * @returns {Promise<ReadableStream<Uint8Array>>}
     */
    readTar(path: string, { gzip, signal }?: {
        gzip?: boolean;
        signal?: AbortSignal;
    }): Promise<ReadableStream<Uint8Array>>;
    /**
     * Unpacks a tar archive below a directory, which is made when it is missing. Nothing in it can write outside of that.
     * @param {string} path
     * @param {Bytes} archive
     * @param {{ gzip?: boolean, owners?: boolean, signal?: AbortSignal }} [options] owners: those of the archive
     */
    writeTar(path: string, archive: Bytes, { gzip, owners, signal }?: {
        gzip?: boolean;
        owners?: boolean;
        signal?: AbortSignal;
    }): Promise<void>;
    /**
     * Changes below a directory, as they happen; without one everywhere but in the system's own directories.
     * @param {string} [path]
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {AsyncGenerator<FileEvent, void, undefined>}
     */
    watch(path?: string, { signal }?: {
        signal?: AbortSignal;
    }): AsyncGenerator<FileEvent, void, undefined>;
    #private;
}
export type Bytes = import("../common.js").Bytes;
export type FileEvent = {
    type: "create" | "modify" | "delete" | "rename" | "overflow" | "error";
    path: string;
    message?: string;
};
