/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms: number, signal?: AbortSignal): Promise<void>;
export class Transport {
    /** @param {import("../common.js").TransportOptions} [options] */
    constructor(options?: import("../common.js").TransportOptions);
    /** Without a slash at its end. @type {string} */
    url: string;
    /**
     * The address of a request.
     * @param {Pick<Request, "path" | "query">} r
     */
    address({ path, query }: Pick<Request, "path" | "query">): string;
    /**
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     * @returns {Promise<string>}
     */
    text(r: Request, options?: import("../common.js").CallOptions): Promise<string>;
    /**
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     * @returns {Promise<any>}
     */
    json(r: Request, options?: import("../common.js").CallOptions): Promise<any>;
    /**
     * The reply as fetch() gives it: its body is read by the caller, at the caller's pace.
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     */
    response(r: Request, options?: import("../common.js").CallOptions): Promise<Response>;
    /**
     * The pieces of a reply. Leaving the loop closes the connection, and the server ends what it was doing for it.
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     * @returns {AsyncGenerator<Uint8Array, void, undefined>}
     */
    pieces(r: Request, options?: import("../common.js").CallOptions): AsyncGenerator<Uint8Array, void, undefined>;
    /**
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     */
    events(r: Request, options?: import("../common.js").CallOptions): AsyncGenerator<import("../common.js").ServerEvent, void, undefined>;
    /**
     * Lines of JSON.
     * @param {Request} r
     * @param {import("../common.js").CallOptions} [options]
     * @returns {AsyncGenerator<any, void, undefined>}
     */
    lines(r: Request, options?: import("../common.js").CallOptions): AsyncGenerator<any, void, undefined>;
    #private;
}
export type Request = {
    method: string;
    /**
     * begins with a slash; its segments are encoded
     */
    path: string;
    query?: Record<string, string | number | boolean | null | undefined> | undefined;
    headers?: Record<string, string> | undefined;
    /**
     * the body, as JSON
     */
    json?: unknown;
    body?: import("../common.js").Bytes | undefined;
    accept?: string | undefined;
};
