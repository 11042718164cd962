// SPDX-License-Identifier: Apache-2.0
// check.mjs - waits until the server of a deployment answers on its port, as others reach it
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const q = JSON.parse(fs.readFileSync("/opt/pando-deploy/conf.json", "utf8"));
const until = Date.now() + q.startMs;
const read = (command, ...args) => {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch (e) {
    return e.stdout ?? "";
  }
};
const answers = () => new Promise((done) => {
  const s = net.connect({ host: q.address, port: q.port, timeout: 2000 });
  const over = (ok) => (s.destroy(), done(ok));
  s.on("connect", () => over(true)).on("error", () => over(false)).on("timeout", () => over(false));
});

let looked = 0;
while (!(await answers())) {
  if (Date.now() - looked > 1000) {
    looked = Date.now();
    if (/^(failed|inactive)/.test(read("systemctl", "is-active", q.unit))) {
      console.error("the server ended before it answered; its last lines:");
      console.error(read("journalctl", "-u", q.unit, "-n", "40", "-o", "cat", "--no-pager"));
      process.exit(1);
    }
  }
  if (Date.now() > until) {
    const lines = read("ss", "-ltnH").split("\n").map((l) => l.trim().split(/\s+/)[3]).filter(Boolean);
    console.error(`nothing answers on port ${q.port} after ${q.startMs / 1000} s. The server must listen on 0.0.0.0, on the port in PORT; what listens now: ${lines.join(", ") || "nothing"}`);
    console.error(read("journalctl", "-u", q.unit, "-n", "40", "-o", "cat", "--no-pager"));
    process.exit(1);
  }
  await sleep(50);
}
