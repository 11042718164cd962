// SPDX-License-Identifier: Apache-2.0
// main.mjs - the program, and self access over a Unix socket, in a runtime that has files: prints what was seen as JSON
import http from "node:http";
import process from "node:process";
import { Pando } from "../../src/index.js";
import { Self } from "../../src/self.js";
import { program } from "./program.mjs";

const socketPath = process.env.SELF_SOCKET;
const self = new Self({ socketPath });
const side = await self.fork(2);
const said = await side.children[0].exec("x");
console.log(JSON.stringify({ saw: await program({ Pando }), self: [side.role, side.children.length, said.stdout], http: typeof http.request }));
process.exit(0);
