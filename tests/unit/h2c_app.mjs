// SPDX-License-Identifier: Apache-2.0
// h2c_app.mjs - a program that speaks HTTP/2 without TLS, as it might run in a VM; prints its port
import { createServer, constants } from "node:http2";

const server = createServer({ settings: { initialWindowSize: 65535 } });
let sessions = 0;
const seen = new Map(); // by path: how a stream ended

server.on("session", () => sessions++);
server.on("sessionError", () => {});
server.on("stream", (stream, headers) => {
  const url = new URL(headers[":path"], "http://x");
  const way = ways[url.pathname.slice(1)] ?? ways.echo;
  stream.on("error", () => {});
  stream.on("aborted", () => seen.set(url.pathname + url.search, "aborted"));
  stream.on("close", () => { if (!seen.has(url.pathname + url.search)) seen.set(url.pathname + url.search, `closed ${stream.rstCode}`); });
  way(stream, headers, url.searchParams);
});

const json = (stream, o) => { stream.respond({ ":status": 200, "content-type": "application/json" }); stream.end(JSON.stringify(o)); };

const ways = {
  echo(stream, headers) { json(stream, headers); },
  sessions(stream) { json(stream, sessions); },
  seen(stream, _headers, q) { json(stream, seen.get(q.get("path")) ?? null); },
  // answers with what came, and trailers that say which trailers came
  trailers(stream, headers) {
    let body = "", got = {};
    stream.on("trailers", (t) => { got = t; });
    stream.on("data", (d) => { body += d; });
    stream.on("end", () => {
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": String(body.length), "x-got": got["x-sent"] ?? "none" }));
      stream.end(body);
    });
  },
  only(stream) { stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": "5" }, { endStream: true }); },
  none(stream) { stream.respond({ ":status": 204 }, { endStream: true }); },
  reset(stream, _headers, q) { stream.close(Number(q.get("code"))); },
  duplex(stream) { stream.respond({ ":status": 200 }); stream.pipe(stream); },
  big(stream, _headers, q) {
    let left = Number(q.get("n"));
    const block = Buffer.alloc(65536, "x");
    stream.respond({ ":status": 200, ...(q.get("length") ? { "content-length": String(left) } : {}) });
    const more = () => {
      while (left > 0) {
        const n = Math.min(left, block.length);
        left -= n;
        if (!stream.write(block.subarray(0, n))) { stream.once("drain", more); return; }
      }
      stream.end();
    };
    more();
  },
  count(stream) {
    let n = 0;
    stream.on("data", (d) => { n += d.length; });
    stream.on("end", () => json(stream, n));
  },
  early(stream) { stream.respond({ ":status": 413 }); stream.end("too much"); },
  "early-trailers"(stream) {
    stream.respond({ ":status": 200 }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "5" }));
    stream.end("some");
  },
  hold(stream) { stream.respond({ ":status": 200 }); stream.write("begun"); },
  silent() {},
  interim(stream) { stream.additionalHeaders({ ":status": 103, link: "</x>" }); json(stream, "after"); },
  goaway(stream) { json(stream, "last"); stream.session.goaway(constants.NGHTTP2_NO_ERROR); stream.session.close(); },
};

server.listen(Number(process.argv[2] ?? 0), process.argv[3] ?? "127.0.0.1", () => console.log(server.address().port));
