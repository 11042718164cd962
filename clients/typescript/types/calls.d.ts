/**
 * The request that a call is.
 * @param {import("../gen/api.js").CallName} name
 * @param {Record<string, any>} args
 * @returns {import("./transport.js").Request}
 */
export function requestOf(name: import("../gen/api.js").CallName, args?: Record<string, any>): import("./transport.js").Request;
/**
 * @param {import("./transport.js").Transport} transport
 * @returns {import("../gen/api.js").Calls}
 */
export function callsOver(transport: import("./transport.js").Transport): import("../gen/api.js").Calls;
