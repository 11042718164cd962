// SPDX-License-Identifier: Apache-2.0
// server.mjs PORT [ADDRESS] - a gRPC server, for a VM; prints its port
import grpc from "@grpc/grpc-js";
import { service } from "./service.mjs";

const text = (s) => Buffer.from(String(s));
const ended = new Map(); // calls by name: how they ended
const note = (call, how) => {
  const [name] = call.metadata.get("x-name");
  if (name && !ended.has(String(name))) ended.set(String(name), how);
};

const server = new grpc.Server({ "grpc.max_receive_message_length": 64 << 20 });
server.addService(service, {
  echo(call, done) {
    const trailer = new grpc.Metadata(), first = new grpc.Metadata();
    trailer.set("x-trailer", String(call.request.length));
    first.set("x-first", String(call.metadata.get("x-name")[0] ?? ""));
    call.sendMetadata(first);
    done(null, call.request, trailer);
  },
  fail(call, done) { done({ code: grpc.status.FAILED_PRECONDITION, details: `not today: ${call.request}` }); },
  slow(call, done) {
    call.on("cancelled", () => note(call, "cancelled"));
    setTimeout(() => { note(call, "done"); done(null, text("late")); }, Number(String(call.request)));
  },
  count(call) {
    call.on("cancelled", () => note(call, "cancelled"));
    const n = Number(String(call.request));
    let i = 0;
    const next = () => {
      if (call.cancelled) return;
      if (i === n) { call.end(); return; }
      call.write(text(i++));
      setTimeout(next, 20);
    };
    next();
  },
  sum(call, done) {
    let n = 0;
    call.on("data", (d) => { n += d.length; });
    call.on("end", () => done(null, text(n)));
  },
  chat(call) {
    call.on("data", (d) => call.write(Buffer.concat([text("you said "), d])));
    call.on("end", () => call.end());
  },
  ended(call, done) { done(null, text(ended.get(String(call.request)) ?? "")); },
});
server.bindAsync(`${process.argv[3] ?? "0.0.0.0"}:${process.argv[2] ?? 0}`, grpc.ServerCredentials.createInsecure(), (e, port) => {
  if (e) throw e;
  console.log(port);
});
