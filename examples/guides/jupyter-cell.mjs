// SPDX-License-Identifier: Apache-2.0
// jupyter-cell.mjs NAME KERNEL CODE - runs a cell in a kernel of a Jupyter server behind a name and prints its output, as a notebook in a browser does
//
// EDGE: the address of the edge for plain HTTP (127.0.0.1:8080), which need not be what the name's DNS says. TOKEN: the server's, if it has one.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { WebSocket } from "ws";

const [name, kernel, code] = process.argv.slice(2);
const edge = process.env.EDGE ?? "127.0.0.1:8080";
const headers = { Host: name, Origin: `http://${name}`, ...(process.env.TOKEN && { Authorization: `token ${process.env.TOKEN}` }) };
const ws = new WebSocket(`ws://${edge}/api/kernels/${kernel}/channels`, { headers });
await once(ws, "open");

const id = randomUUID();
ws.send(JSON.stringify({
  channel: "shell",
  header: { msg_id: id, msg_type: "execute_request", username: "", session: randomUUID(), version: "5.3", date: new Date().toISOString() },
  parent_header: {},
  metadata: {},
  content: { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true },
}));
ws.on("message", (data) => {
  const m = JSON.parse(data);
  if (m.parent_header.msg_id !== id) return;
  const { content } = m;
  if (m.msg_type === "stream") process.stdout.write(content.text);
  if (m.msg_type === "execute_result") console.log(content.data["text/plain"]);
  if (m.msg_type === "error") {
    console.error(`${content.ename}: ${content.evalue}`);
    process.exitCode = 1;
  }
  if (m.msg_type === "status" && content.execution_state === "idle") ws.close();
});
await once(ws, "close");
