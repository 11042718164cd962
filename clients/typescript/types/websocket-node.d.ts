export class NodeWebSocket {
    /** @param {string} url */
    constructor(url: string);
    binaryType: string;
    /** @type {(() => void) | null} */
    onopen: (() => void) | null;
    /** @type {((event: { data: any }) => void) | null} */
    onmessage: ((event: {
        data: any;
    }) => void) | null;
    /** @type {((event: { code: number, reason: string }) => void) | null} */
    onclose: ((event: {
        code: number;
        reason: string;
    }) => void) | null;
    /** @type {((event: any) => void) | null} */
    onerror: ((event: any) => void) | null;
    /** @param {string | Uint8Array} data */
    send(data: string | Uint8Array): void;
    /** @param {number} [code] @param {string} [reason] */
    close(code?: number, reason?: string): void;
    #private;
}
