// SPDX-License-Identifier: Apache-2.0
// vm.test.mjs - a VM's life through the unmodified freestyle package
//
// The tests run in order and share one VM, because each boot costs: what one leaves behind
// (a process, a file) is what a later one looks for in a fork, a snapshot, after a suspend.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { Errors } from "freestyle";
import { BOOT, SECOND, SHORT, cleanUp, create, freestyle, keep, keepSnapshot, remove, sh } from "./client.mjs";

// Holds a word in the memory of a process and nowhere else; says or changes it on request.
const holder = `
import os, socket
word = os.environ.pop("WORD").encode()
s = socket.socket(socket.AF_UNIX)
s.bind("/run/word.sock")
s.listen(8)
while True:
    c, _ = s.accept()
    new = c.recv(100)
    if new != b"?":
        word = new
    c.sendall(word)
    c.close()
`;
const asker = `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect("/run/word.sock")
s.sendall(sys.argv[1].encode())
print(s.recv(100).decode())
`;
const ask = (vm, word = "?") => sh(vm, `python3 /root/ask.py '${word}'`);

/** The call must fail with the SDK's own class for that code. */
async function refused(promise, code, check = () => true, { trace = true } = {}) {
  const name = code.toLowerCase().split("_").map((w) => w[0].toUpperCase() + w.slice(1)).join("") + "Error";
  assert.ok(Errors[name], `the SDK has no ${name}`);
  await assert.rejects(promise, (e) => {
    assert.ok(e instanceof Errors[name], `${e.constructor.name} (${e.message}) is not ${name}`);
    assert.match(e.message, new RegExp(`^${code}: .`));
    if (trace) assert.match(e.traceId ?? "", /^[0-9a-f]{32}$/);
    assert.ok(check(e.body) !== false);
    return true;
  });
}

describe("the freestyle package", () => {
  let vm;

  before(async () => {
    vm = await create({ name: "sdk test" });
  }, { timeout: BOOT });

  after(cleanUp, { timeout: SHORT });

  it("knows who it is", { timeout: SHORT }, async () => {
    const me = await freestyle.whoami();
    assert.match(me.accountId, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it("lists the VM and shows its state", { timeout: SHORT }, async () => {
    assert.match(vm.vmId, /^[a-z0-9]{20}$/);
    const list = await freestyle.vms.list();
    const item = list.vms.find((v) => v.id === vm.vmId);
    assert.equal(item.state, "running");
    assert.equal(item.name, "sdk test");
    assert.ok(Date.now() - Date.parse(item.createdAt) < 24 * 3600 * SECOND);
    assert.ok(item.sizing.vcpuCount >= 1 && item.sizing.memSizeMib >= 256 && item.sizing.rootfsSizeMb >= 1024);
    assert.ok(list.runningCount >= 1 && list.totalCount >= list.vms.length);
    const info = await vm.getInfo();
    assert.equal(info.id, vm.vmId);
    assert.equal(info.state, "running");
    assert.equal(info.recreate, false);
  });

  it("runs commands: output, error output and exit code apart", { timeout: SHORT }, async () => {
    const r = await vm.exec("echo out; echo err >&2; exit 7");
    assert.deepEqual([r.stdout, r.stderr, r.statusCode], ["out\n", "err\n", 7]);
    assert.equal(await sh(vm, "set -e; a=$(printf '%s' x); cat <<END | tr a-z A-Z\n$a-heredoc\nEND"), "X-HEREDOC");
    assert.equal(await sh(vm, "id -un; pwd"), "root\n/");
    const binary = await vm.exec("printf 'a\\377b'");
    assert.equal(binary.stdout, "a\ufffdb");
  });

  it("cuts a command off at its timeout and hands over what there was", { timeout: SHORT }, async () => {
    const begin = Date.now();
    await refused(vm.exec({ command: "echo begun; sleep 300", timeoutMs: 3000 }), "EXEC_TIMED_OUT", (body) => {
      assert.equal(body.timeoutMs, 3000);
      assert.equal(body.stdout, "begun\n");
    });
    assert.ok(Date.now() - begin < 60 * SECOND);
    assert.equal(await sh(vm, "pgrep -f '[s]leep 300' || echo gone"), "gone");
  });

  it("does not wait for children that went to the background", { timeout: SHORT }, async () => {
    const begin = Date.now();
    await sh(vm, "setsid sleep 250 >/dev/null 2>&1 </dev/null &");
    assert.ok(Date.now() - begin < 60 * SECOND);
    assert.match(await sh(vm, "pgrep -f '[s]leep 250'"), /^\d+$/);
  });

  it("writes and reads files, text and bytes", { timeout: SHORT }, async () => {
    await vm.fs.mkdir("/root/work/deep dir", true);
    await vm.fs.writeTextFile("/root/work/deep dir/n\u00f6te.txt", "gr\u00fc\u00dfe\n");
    assert.equal(await vm.fs.readTextFile("/root/work/deep dir/n\u00f6te.txt"), "gr\u00fc\u00dfe\n");
    for (const size of [0, 1, 4096, 3 << 20]) {
      const bytes = randomBytes(size);
      await vm.fs.writeFile("/root/work/bytes", bytes);
      assert.ok(bytes.equals(await vm.fs.readFile("/root/work/bytes")), `${size} bytes came back different`);
    }
    const names = await vm.fs.readDir("/root/work");
    assert.deepEqual(names.sort((a, b) => (a.name < b.name ? -1 : 1)), [
      { name: "bytes", kind: "file" },
      { name: "deep dir", kind: "directory" },
    ]);
    assert.equal(await vm.fs.exists("/root/work/bytes"), true);
    const st = await vm.fs.stat("/root/work/bytes");
    assert.equal(st.size, 3 << 20);
    assert.equal(st.isFile, true);
    await vm.fs.remove("/root/work/bytes");
    assert.equal(await vm.fs.exists("/root/work/bytes"), false);
    await vm.fs.remove("/root/work", true);
    assert.equal(await vm.fs.exists("/root/work"), false);
  });

  it("acts as another user when told so", { timeout: SHORT }, async () => {
    await sh(vm, "id alice >/dev/null 2>&1 || useradd -m alice");
    const alice = vm.user({ username: "alice" });
    assert.equal((await alice.exec("id -un")).stdout.trim(), "alice");
    await alice.fs.writeTextFile("/home/alice/mine", "x");
    assert.equal(await sh(vm, "stat -c %U /home/alice/mine"), "alice");
    await refused(alice.fs.readFile("/etc/shadow"), "FILES_BAD_REQUEST");
    await refused(vm.user({ username: "nobody-here" }).exec("true"), "USER_NOT_FOUND");
  });

  it("tells of files that change until the VM sleeps", { timeout: SHORT }, async () => {
    const watch = vm.fs.watchFiles();
    const seen = [];
    let over = false;
    const reading = (async () => {
      for await (const e of watch) seen.push(e);
      over = true;
    })();
    // when the watch stands cannot be seen from here: so there are changes until one is told
    for (let i = 0; !seen.some((e) => e.filename === "/root/told.txt"); i++)
      await vm.fs.writeTextFile("/root/told.txt", `${i}`);
    for (const e of seen) assert.deepEqual(Object.keys(e).sort(), ["eventType", "filename"]);
    assert.ok(seen.every((e) => typeof e.eventType === "string" && e.filename.startsWith("/")), JSON.stringify(seen));
    assert.equal(over, false);
    await vm.suspend();
    await reading; // a clean end, no exception
    await sh(vm, "rm /root/told.txt");
  });

  it("gives its own error classes", { timeout: SHORT }, async () => {
    const missing = "0".repeat(20);
    await refused(freestyle.vms.ref({ vmId: missing }).getInfo(), "VM_NOT_FOUND", (b) => assert.equal(b.vmId, missing));
    await refused(freestyle.vms.ref({ vmId: missing }).exec("true"), "VM_NOT_FOUND");
    await refused(freestyle.vms.delete({ vmId: missing }), "VM_NOT_FOUND");
    await refused(vm.fs.readFile("/no/such/file"), "FILE_NOT_FOUND", (b) => assert.equal(b.path, "/no/such/file"));
    await refused(vm.fs.writeFile("/root", Buffer.from("x")), "FILES_BAD_REQUEST");
    await refused(freestyle.vms.create({ snapshotId: "sc-" + "0".repeat(20) }), "SNAPSHOT_NOT_FOUND");
    await refused(freestyle.vms.create({ baseImage: { dockerfileContent: "FROM scratch" } }), "CREATE_VM_BAD_REQUEST",
      (b) => assert.match(b.message, /baseImage/));
  });

  it("forks with memory, and the copies live apart", { timeout: BOOT }, async () => {
    await vm.fs.writeTextFile("/root/hold.py", holder);
    await vm.fs.writeTextFile("/root/ask.py", asker);
    await sh(vm, "echo before >/dev/shm/note");
    await sh(vm, "WORD=root setsid python3 /root/hold.py >/dev/null 2>&1 </dev/null & " +
      "for i in $(seq 300); do test -S /run/word.sock && exit 0; sleep 0.1; done; exit 1");
    assert.equal(await ask(vm), "root");
    const pid = await sh(vm, "pgrep -f '[h]old.py'");

    const { forks } = await vm.fork({ count: 2 });
    assert.equal(forks.length, 2);
    forks.forEach((f) => keep(f.vmId));
    const [left, right] = forks.map((f) => f.vm);
    assert.equal(new Set([vm.vmId, left.vmId, right.vmId]).size, 3);
    for (const copy of [left, right]) {
      assert.equal(await sh(copy, "pgrep -f '[h]old.py'"), pid);
      assert.equal(await sh(copy, "cat /dev/shm/note"), "before");
      assert.equal(await ask(copy), "root");
    }
    assert.equal(await ask(left, "left"), "left");
    assert.equal(await ask(right, "right"), "right");
    assert.deepEqual([await ask(vm), await ask(left), await ask(right)], ["root", "left", "right"]);
    // Identity is new in each copy.
    const ids = await Promise.all([vm, left, right].map((v) => sh(v, "cat /etc/machine-id")));
    assert.equal(new Set(ids).size, 3);
    const random = await Promise.all([vm, left, right].map((v) => sh(v, "head -c 16 /dev/urandom | od -An -tx1")));
    assert.equal(new Set(random).size, 3);
    await remove(left);
    await remove(right);
    await refused(left.getInfo(), "VM_NOT_FOUND");
    assert.equal(await ask(vm), "root");
  });

  it("snapshots, and makes VMs from it with the memory of then", { timeout: BOOT }, async () => {
    assert.equal(await ask(vm, "then"), "then");
    const made = await vm.snapshot({ name: "sdk snapshot" });
    keepSnapshot(made.snapshotId);
    assert.match(made.snapshotId, /^sc-[a-z0-9]{20}$/);
    assert.equal(made.sourceVmId, vm.vmId);
    assert.equal(await ask(vm, "now"), "now");

    const copy = await create({ snapshotId: made.snapshotId, name: "from snapshot" });
    assert.equal(await ask(copy), "then");
    assert.equal(await ask(vm), "now");
    await remove(copy);

    const list = await freestyle.vms.snapshots.list();
    const record = list.snapshots.find((s) => s.snapshotId === made.snapshotId);
    assert.equal(record.name, "sdk snapshot");
    assert.equal(record.state, "ready");
    const handle = freestyle.vms.snapshots.ref({ snapshotId: made.snapshotId });
    await handle.update({ name: "renamed" });
    assert.equal((await handle.get()).name, "renamed");
    await handle.delete();
    // The SDK drops the trace id on this one call.
    await refused(handle.delete(), "SNAPSHOT_ALREADY_DELETED", undefined, { trace: false });
    await refused(freestyle.vms.create({ snapshotId: made.snapshotId }), "SOURCE_SNAPSHOT_DELETED");
  });

  it("suspends, and the next command wakes it with its memory", { timeout: BOOT }, async () => {
    const r = await vm.suspend();
    assert.equal(r.id, vm.vmId);
    assert.ok(r.vmInstanceId && r.snapshotLayerId);
    assert.equal((await vm.getInfo()).state, "suspended");
    assert.equal(await ask(vm), "now");
    assert.equal((await vm.getInfo()).state, "running");
    // Reading a file wakes it too.
    await vm.suspend();
    assert.equal(await vm.fs.readTextFile("/dev/shm/note"), "before\n");
    // The clock did not stay behind.
    const guest = Number(await sh(vm, "date +%s"));
    assert.ok(Math.abs(guest - Date.now() / 1000) < 30, `the guest's clock is off: ${guest}`);
  });

  it("stops and starts: the disk stays, the memory goes", { timeout: BOOT }, async () => {
    await vm.fs.writeTextFile("/root/on-disk", "kept\n");
    const stopped = await vm.stop();
    assert.equal(stopped.vmId, vm.vmId);
    assert.equal((await vm.getInfo()).state, "stopped");
    await refused(vm.suspend(), "VM_NOT_RUNNING");
    const started = await vm.start({ idleTimeoutSeconds: 3600 });
    assert.equal(started.id, vm.vmId);
    assert.ok(Array.isArray(started.domains));
    assert.equal(await vm.fs.readTextFile("/root/on-disk"), "kept\n");
    assert.equal(await vm.fs.exists("/dev/shm/note"), false);
  });

  it("is killed and deleted", { timeout: SHORT }, async () => {
    assert.equal((await vm.kill()).id, vm.vmId);
    assert.equal((await vm.getInfo()).state, "stopped");
    const r = await remove(vm);
    assert.equal(r.id, vm.vmId);
    await refused(vm.getInfo(), "VM_NOT_FOUND");
    const list = await freestyle.vms.list();
    assert.equal(list.vms.some((v) => v.id === vm.vmId), false);
  });
});
