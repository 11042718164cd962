// SPDX-License-Identifier: Apache-2.0
// calls.js - every call of the API as a method, made from the generated list

import { CALLS } from "../gen/api.js";
import { PandoError } from "./errors.js";

/**
 * The request that a call is.
 * @param {import("../gen/api.js").CallName} name
 * @param {Record<string, any>} args
 * @returns {import("./transport.js").Request}
 */
export function requestOf(name, args = {}) {
  const route = CALLS[name];
  const known = new Set(["body"]);
  /** @type {import("./transport.js").Request} */
  const r = { method: route.method, path: route.path, accept: route.accept, query: {}, headers: {} };
  for (const [arg, at] of Object.entries(route.inPath ?? {})) {
    known.add(arg);
    if (args[arg] === undefined || args[arg] === null || args[arg] === "") throw new PandoError(`${name}() needs '${arg}': it is a part of the path ${route.path}`);
    r.path = r.path.replace(`{${at}}`, () => encodeURIComponent(String(args[arg])));
  }
  for (const [arg, at] of Object.entries(route.query ?? {})) {
    known.add(arg);
    /** @type {any} */ (r.query)[at] = args[arg];
  }
  for (const [arg, at] of Object.entries(route.header ?? {})) {
    known.add(arg);
    if (args[arg] !== undefined && args[arg] !== null) /** @type {any} */ (r.headers)[at.toLowerCase()] = String(args[arg]);
  }
  const odd = Object.keys(args).find((a) => !known.has(a));
  if (odd !== undefined) throw new PandoError(`${name}() has no argument '${odd}'; it has ${[...known].join(", ")}`);
  if (route.sends?.endsWith("json")) {
    if (args.body !== undefined) r.json = args.body;
    if (route.sends !== "application/json") /** @type {any} */ (r.headers)["content-type"] = route.sends;
  } else if (route.sends && args.body !== undefined) {
    r.body = args.body;
    /** @type {any} */ (r.headers)["content-type"] = route.sends;
  }
  return r;
}

const HOW = /** @type {const} */ ({ json: "json", text: "text", bytes: "response", events: "events", lines: "lines" });

/**
 * @param {import("./transport.js").Transport} transport
 * @returns {import("../gen/api.js").Calls}
 */
export function callsOver(transport) {
  /** @type {Record<string, unknown>} */
  const calls = {};
  for (const [name, route] of Object.entries(CALLS)) {
    if (route.kind === "socket") continue; // pty.js
    const how = HOW[route.kind];
    const request = (/** @type {any} */ args) => requestOf(/** @type {any} */ (name), args);
    if (how === "events" || how === "lines") calls[name] = (/** @type {any} */ args, /** @type {any} */ options) => transport[how](request(args), options);
    else calls[name] = async (/** @type {any} */ args, /** @type {any} */ options) => transport[how](request(args), options);
  }
  return /** @type {any} */ (calls);
}
