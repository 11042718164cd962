// SPDX-License-Identifier: Apache-2.0
// errors.js - what can go wrong, as classes

/** Everything that this package throws, except what an AbortSignal gives as its reason. */
export class PandoError extends Error {
  /** @override */
  name = "PandoError";
}

/** The server refused, or failed. */
export class ApiError extends PandoError {
  /** @override */
  name = "ApiError";
  /** The status of the reply; 409 when a stream ended with an error. @type {number} */
  status;
  /** VM_NOT_FOUND and so on: docs/ERRORS.md has them all. @type {import("../gen/api.js").ErrorCode | (string & {})} */
  code;
  /** What the server said, without the code. @type {string} */
  reason;
  /** Names the request in the server's logs. @type {string | undefined} */
  requestId;
  /** Seconds after which a repetition may help. @type {number | undefined} */
  retryAfter;
  /** The whole reply. @type {any} */
  body;

  /**
   * @param {number} status
   * @param {any} body
   * @param {{ call?: string, requestId?: string, retryAfter?: number }} [about]
   */
  constructor(status, body, about = {}) {
    const said = body !== null && typeof body === "object" ? body : {};
    const code = typeof said.code === "string" ? said.code : typeof said.error === "string" ? said.error : `HTTP_${status}`;
    const reason = String(said.message ?? said.description ?? (typeof body === "string" && body ? body.slice(0, 500) : `the server answered ${status}`));
    super(`${code} (${status})${about.call ? ` of ${about.call}` : ""}: ${reason}`);
    this.status = status;
    this.code = code;
    this.reason = reason;
    this.body = body;
    this.requestId = about.requestId;
    this.retryAfter = about.retryAfter ?? (typeof said.retryAfter === "number" ? said.retryAfter : undefined);
  }
}

/** No reply: the server is not there, the connection broke, or it took too long. What was asked for may have been done. */
export class ConnectionFailed extends PandoError {
  /** @override */
  name = "ConnectionFailed";
}

/** The reply was cut off. */
export class StreamBroken extends PandoError {
  /** @override */
  name = "StreamBroken";
}

/** exec() with check: the command ended with another status than 0, or was ended after its time. */
export class CommandFailed extends PandoError {
  /** @override */
  name = "CommandFailed";
  /** @type {import("./commands.js").CommandResult} */
  result;

  /**
   * @param {string} command
   * @param {import("./commands.js").CommandResult} result
   */
  constructor(command, result) {
    const how = result.timedOut ? `did not end in time` : result.signal ? `was ended by ${result.signal}` : `ended with ${result.exitCode}`;
    super(`'${command.length > 200 ? `${command.slice(0, 200)}...` : command}' ${how}: ${(result.stderr || result.stdout).slice(-1000).trim()}`);
    this.result = result;
  }
}

/** check() of a cell with an error. */
export class CellFailed extends PandoError {
  /** @override */
  name = "CellFailed";
  /** @type {import("./code.js").Cell} */
  cell;

  /** @param {import("./code.js").Cell} cell */
  constructor(cell) {
    super(`${cell.error?.name}: ${cell.error?.value}\n${cell.error?.traceback ?? ""}`.trimEnd());
    this.cell = cell;
  }
}
