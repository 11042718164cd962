// SPDX-License-Identifier: Apache-2.0
// languages.mjs - programs of any language on one VM: what it needs is built once, and then taken from the cache
import { freestyle } from "freestyle";
import { randomUUID } from "node:crypto";

const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

/** What each needs beside the base image, the name of its program's file, and how that is run. */
export const LANGUAGES = {
  node: { file: "main.mjs", command: "node main.mjs" },
  python: { file: "main.py", command: "python3 main.py" },
  bun: { needs: { runtimes: ["bun"] }, file: "main.ts", command: "bun run main.ts" },
  deno: { needs: { runtimes: ["deno"] }, file: "main.ts", command: "deno run --no-check main.ts" },
  ruby: { needs: { aptDeps: ["ruby"] }, file: "main.rb", command: "ruby main.rb" },
  php: { needs: { aptDeps: ["php-cli"] }, file: "main.php", command: "php main.php" },
  go: { needs: { aptDeps: ["golang-go"] }, file: "main.go", command: "go run main.go" },
  java: { needs: { aptDeps: ["default-jdk-headless"] }, file: "Main.java", command: "java Main.java" },
};

/** A request to the API that the SDK has no method for. */
async function api(method, path, body) {
  const base = process.env.FREESTYLE_API_URL ?? "http://127.0.0.1:8787";
  const headers = { Authorization: `Bearer ${process.env.FREESTYLE_API_KEY}`, "Content-Type": "application/json" };
  const send = (m, p, b, more = {}) => fetch(base + p, { method: m, headers: { ...headers, ...more }, body: b && JSON.stringify(b) });
  let r = await send(method, path, body, { "x-freestyle-background-after-secs": "20" });
  let reply = await r.json();
  const { requestId } = reply;
  while (r.status === 202) { // it goes on in the background: packages are being installed
    await new Promise((done) => setTimeout(done, 1000));
    r = await send("GET", `/auth/v1/background-requests/${requestId}`);
    reply = await r.json();
  }
  if (!r.ok) throw new Error(`${method} ${path}: ${reply.code}: ${reply.message}`);
  return reply;
}

/** A VM for a language. The first one of a language waits for its packages; later ones come from the cache. */
export async function vmFor(language) {
  const { needs } = LANGUAGES[language];
  if (!needs) return (await freestyle.vms.create({ name: language, idleTimeoutSeconds: null })).vm;
  const { id } = await api("POST", "/v1/vms", { name: language, idleTimeoutSeconds: null, spec: needs });
  return freestyle.vms.ref({ vmId: id });
}

/**
 * Runs a program with arguments and input in a directory of its own, so that many can run at once; throws when it fails. fetch gives up when an answer
 * takes five minutes, so the program runs by itself, and its end is waited for.
 */
export async function run(vm, language, code, args = [], stdin = "") {
  const { file, command } = LANGUAGES[language];
  const dir = `/tmp/run-${randomUUID()}`;
  const go = `export HOME=/root\n${command} ${args.map(quote).join(" ")} <.stdin >.out 2>.err\necho $? >.new; mv .new .status\n`;
  for (const [name, text] of Object.entries({ [file]: code, ".stdin": stdin, ".run": go })) await vm.fs.writeTextFile(`${dir}/${name}`, text);
  const wait = "timeout 200 sh -c 'until [ -e .status ]; do sleep 0.1; done'";
  let r = await vm.exec({ command: `cd ${dir}; setsid sh .run </dev/null >/dev/null 2>&1 & cd ${dir}; ${wait}`, timeoutMs: 280_000 });
  while (r.statusCode === 124) r = await vm.exec({ command: `cd ${dir}; ${wait}`, timeoutMs: 280_000 });
  const [status, out, err] = await Promise.all([".status", ".out", ".err"].map((name) => vm.fs.readTextFile(`${dir}/${name}`)));
  await vm.exec(`rm -rf ${dir}`);
  if (Number(status) !== 0) throw new Error(`${language} exited with ${Number(status)}:\n${err || out}`);
  return out.trimEnd();
}

/** What a program says that fails: the last line that is not empty. */
export async function failure(vm, language, code) {
  try {
    await run(vm, language, code);
  } catch (e) {
    return e.message.trim().split("\n").at(-1).trim();
  }
  throw new Error(`this ${language} program was to fail`);
}
