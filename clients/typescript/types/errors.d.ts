/** Everything that this package throws, except what an AbortSignal gives as its reason. */
export class PandoError extends Error {
}
/** The server refused, or failed. */
export class ApiError extends PandoError {
    /**
     * @param {number} status
     * @param {any} body
     * @param {{ call?: string, requestId?: string, retryAfter?: number }} [about]
     */
    constructor(status: number, body: any, about?: {
        call?: string;
        requestId?: string;
        retryAfter?: number;
    });
    /** The status of the reply; 409 when a stream ended with an error. @type {number} */
    status: number;
    /** VM_NOT_FOUND and so on: docs/ERRORS.md has them all. @type {import("../gen/api.js").ErrorCode | (string & {})} */
    code: import("../gen/api.js").ErrorCode | (string & {});
    /** What the server said, without the code. @type {string} */
    reason: string;
    /** Names the request in the server's logs. @type {string | undefined} */
    requestId: string | undefined;
    /** Seconds after which a repetition may help. @type {number | undefined} */
    retryAfter: number | undefined;
    /** The whole reply. @type {any} */
    body: any;
}
/** No reply: the server is not there, the connection broke, or it took too long. What was asked for may have been done. */
export class ConnectionFailed extends PandoError {
}
/** The reply was cut off. */
export class StreamBroken extends PandoError {
}
/** exec() with check: the command ended with another status than 0, or was ended after its time. */
export class CommandFailed extends PandoError {
    /**
     * @param {string} command
     * @param {import("./commands.js").CommandResult} result
     */
    constructor(command: string, result: import("./commands.js").CommandResult);
    /** @type {import("./commands.js").CommandResult} */
    result: import("./commands.js").CommandResult;
}
/** check() of a cell with an error. */
export class CellFailed extends PandoError {
    /** @param {import("./code.js").Cell} cell */
    constructor(cell: import("./code.js").Cell);
    /** @type {import("./code.js").Cell} */
    cell: import("./code.js").Cell;
}
