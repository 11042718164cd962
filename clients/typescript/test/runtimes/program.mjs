// SPDX-License-Identifier: Apache-2.0
// program.mjs - one program for every runtime: a page, Bun, Deno, Node.js. Returns what it saw; the test compares.

export async function program({ Pando }, options) {
  const pando = new Pando(options);
  const vm = await pando.create({ idleTimeoutSeconds: null });
  const saw = {};
  try {
    const events = [];
    for await (const e of vm.execStream("printf 'ä'; printf b >&2; exit 3")) events.push(e.type === "exit" ? e.exitCode : e.type);
    saw.exec = [events[0], events.at(-1)];
    for await (const e of vm.execStream("yes")) if (e.type === "stdout") break;
    await vm.files.write("/root/f", new Blob(["abc", "def"]).stream());
    saw.file = await vm.files.readText("/root/f");
    saw.part = new TextDecoder().decode(await vm.files.read("/root/f", { offset: 2, length: 2 }));
    await vm.code.run("x = 41");
    const [child] = await vm.fork(1);
    saw.code = (await child.code.run("x + 1")).text;
    await child.delete();
    const t = await vm.pty({ command: "bash --norc", cols: 90, rows: 20 });
    t.write("stty size\n");
    await t.expect("20 90", { timeoutMs: 120_000 });
    t.write("exit 7\n");
    saw.pty = await t.wait();
    saw.error = await pando.connect("0".repeat(20)).catch((e) => [e.code, e.status]);
    for await (const e of pando.events({ after: 0 })) {
      saw.event = e.type;
      break;
    }
    saw.egress = (await vm.egress.set({ mode: "closed" })).mode;
  } finally {
    await vm.delete();
  }
  return saw;
}

export const EXPECTED = {
  exec: ["started", 3], file: "abcdef", part: "cd", code: "42", pty: 7, error: ["VM_NOT_FOUND", 404], event: "hello", egress: "closed",
};
