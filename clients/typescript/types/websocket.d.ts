/**
 * @typedef {object} Socket
 * @property {string} binaryType
 * @property {(data: string | Uint8Array<ArrayBuffer>) => void} send
 * @property {(code?: number, reason?: string) => void} close
 * @property {(() => void) | null} onopen
 * @property {((event: { data: any }) => void) | null} onmessage
 * @property {((event: { code: number, reason: string }) => void) | null} onclose
 * @property {((event: any) => void) | null} onerror
 */
/**
 * @param {string} url ws: or wss:
 * @returns {Promise<Socket>}
 */
export function openSocket(url: string): Promise<Socket>;
export type Socket = {
    binaryType: string;
    send: (data: string | Uint8Array<ArrayBuffer>) => void;
    close: (code?: number, reason?: string) => void;
    onopen: (() => void) | null;
    onmessage: ((event: {
        data: any;
    }) => void) | null;
    onclose: ((event: {
        code: number;
        reason: string;
    }) => void) | null;
    onerror: ((event: any) => void) | null;
};
