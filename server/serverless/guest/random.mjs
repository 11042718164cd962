// SPDX-License-Identifier: Apache-2.0
// random.mjs - random numbers from the system. All instances of a deployment are copies of one process, with the generators
// of V8 and OpenSSL as they were; Node.js can seed neither again, so nothing is drawn from them (as agent/kernels/node.mjs)
import crypto from "node:crypto";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const fd = fs.openSync("/dev/urandom", "r");
const bytes = (view) => {
  const u8 = ArrayBuffer.isView(view) ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : new Uint8Array(view);
  for (let done = 0; done < u8.length;) done += fs.readSync(fd, u8, done, u8.length - done, null);
  return view;
};
const part = (buf, offset = 0, size) => {
  const unit = buf.BYTES_PER_ELEMENT ?? 1;
  const end = size === undefined ? buf.byteLength : (offset + size) * unit;
  bytes(new Uint8Array(buf.buffer ?? buf, (buf.byteOffset ?? 0) + offset * unit, end - offset * unit));
  return buf;
};
const later = (f, call) => {
  try {
    const value = f();
    process.nextTick(call, null, value);
  } catch (e) {
    process.nextTick(call, e);
  }
};
const uuid = () => {
  const b = bytes(Buffer.alloc(16));
  b[6] = (b[6] & 15) | 64;
  b[8] = (b[8] & 63) | 128;
  return b.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};
const int = (min, max) => { // whole numbers below 2^48, all equally likely
  const range = max - min;
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || range <= 0 || range >= 2 ** 48)
    throw new RangeError(`The range from ${min} to ${max} is empty or too large`);
  for (const limit = 2 ** 48 - (2 ** 48 % range);;) {
    const n = bytes(Buffer.alloc(6)).readUIntBE(0, 6);
    if (n < limit) return min + (n % range);
  }
};
const checked = { randomBytes: crypto.randomBytes, randomFillSync: crypto.randomFillSync, values: crypto.webcrypto.getRandomValues };
const randomBytes = (size, call) => {
  if (typeof size !== "number" || !(size >= 0)) return checked.randomBytes(size, call); // it says what is wrong
  return call ? later(() => bytes(Buffer.alloc(size)), call) : bytes(Buffer.alloc(size));
};
Object.assign(crypto, {
  randomBytes, pseudoRandomBytes: randomBytes, rng: randomBytes, prng: randomBytes, randomUUID: uuid,
  randomFillSync: (buf, offset, size) => part(checked.randomFillSync(buf, offset, size), offset, size),
  randomFill: (buf, ...rest) => {
    const call = rest.pop();
    later(() => part(checked.randomFillSync(buf, ...rest), ...rest), call);
  },
  randomInt: (...args) => {
    const call = typeof args.at(-1) === "function" ? args.pop() : null;
    const [min, max] = args.length > 1 ? args : [0, args[0]];
    return call ? later(() => int(min, max), call) : int(min, max);
  },
});
const proto = Object.getPrototypeOf(crypto.webcrypto);
proto.getRandomValues = function (view) {
  return bytes(checked.values.call(this, view));
};
proto.randomUUID = uuid;
const two = Buffer.alloc(8);
Math.random = () => {
  bytes(two);
  return ((two.readUInt32LE(0) >>> 5) * 67108864 + (two.readUInt32LE(4) >>> 6)) / 9007199254740992;
};
syncBuiltinESMExports();
