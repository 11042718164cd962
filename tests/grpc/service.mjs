// SPDX-License-Identifier: Apache-2.0
// service.mjs - the service of these tests: bytes in, bytes out, without a schema
const raw = { requestSerialize: (v) => v, requestDeserialize: (v) => v, responseSerialize: (v) => v, responseDeserialize: (v) => v };
const method = (name, requestStream, responseStream) => ({ path: `/pando.Test/${name}`, requestStream, responseStream, ...raw });

export const service = {
  echo: method("Echo", false, false),
  fail: method("Fail", false, false),
  slow: method("Slow", false, false),
  count: method("Count", false, true),
  sum: method("Sum", true, false),
  chat: method("Chat", true, true),
  ended: method("Ended", false, false),
};
