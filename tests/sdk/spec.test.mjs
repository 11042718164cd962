// SPDX-License-Identifier: Apache-2.0
// spec.test.mjs - specs through the unmodified freestyle package, and the helpers that bring a language
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { VmJava } from "@freestyle-sh/with-java";
import { VmNodeJs } from "@freestyle-sh/with-nodejs";
import { VmPython } from "@freestyle-sh/with-python";
import { Errors, VmSpec } from "freestyle";
import { BOOT, SHORT, cleanUp, create, freestyle, keepSnapshot, raw, remove, sh } from "./client.mjs";

const layered = () =>
  new VmSpec()
    .users([{ name: "dev" }])
    .additionalFiles({ "/srv/hello.txt": { content: "hello from a layer\n" } })
    .snapshot()
    .runCommands("cp /srv/hello.txt /srv/copy.txt", "chown dev /srv/copy.txt")
    .systemdService({ name: "stays", bash: "touch /run/stays; exec sleep infinity" })
    .waitFor("test -e /run/stays")
    .workdir("/srv")
    .with("python", new VmPython());

// What with-nodejs downloads, without the internet: a curl that hands out an nvm whose Node.js is the image's.
const curl = `#!/bin/sh
cat <<'END'
cat >"$NVM_DIR/nvm.sh" <<'NVM'
nvm() {
  bin=$NVM_DIR/versions/node/v$2.0.1/bin
  case $1 in
  install) mkdir -p "$bin" && ln -s /bin/true "$bin/npm" && PATH=$bin:$PATH
    printf '#!/bin/sh\\n[ "$1" = -v ] || exec /usr/bin/node "$@"\\n' >"$bin/node" && chmod 755 "$bin/node" ;;
  alias) mkdir -p "$NVM_DIR/alias" && echo "$3" >"$NVM_DIR/alias/$2" ;;
  esac
}
NVM
END
`;

describe("specs", () => {
  after(cleanUp, { timeout: SHORT });
  let first;

  it("are built layer by layer", { timeout: BOOT }, async () => {
    const vm = await create({ spec: layered(), name: "spec test" });
    assert.equal(await sh(vm, "cat copy.txt; stat -c %U copy.txt; id -un dev"), "hello from a layer\ndev\ndev");
    assert.equal(await sh(vm, "ls /etc/systemd/system/freestyle-run-command-*.service 2>/dev/null | wc -l"), "0");
    assert.match(await sh(vm, "systemctl is-active stays; cat /opt/freestyle/scripts/stays.sh"), /^active\n#!\/bin\/bash\n+touch/);
    const run = await vm.python.runCode("import json; print(json.dumps({'sum': 1 + 2}))");
    assert.deepEqual([run.statusCode, run.result], [0, { sum: 3 }]);
    const build = await vm.getBuild();
    first = build.buildId;
    assert.equal((await raw("GET", `/v1/vms/builds/${first}`)).json.state, "succeeded");
    assert.equal((await build.wait()).state, "succeeded");
    assert.match((await build.phases()).at(-1).name, /freeze$/);
    assert.ok(!(await build.failedPhase()));
    await remove(vm);
  });

  it("are taken from the cache the second time", { timeout: SHORT }, async () => {
    const vm = await create({ spec: layered() });
    assert.equal((await vm.getInfo()).buildId, first);
    assert.equal(await sh(vm, "cat copy.txt"), "hello from a layer");
    await remove(vm);
  });

  it("make snapshots, which can be the start of another spec", { timeout: BOOT }, async () => {
    const { snapshotId } = await freestyle.vms.snapshots.create({ name: "from a spec", spec: layered() });
    keepSnapshot(snapshotId);
    const again = await freestyle.vms.snapshots.ensure({ name: "once more", spec: layered() });
    const other = await freestyle.vms.snapshots.get({ snapshotId: keepSnapshot(again.snapshotId) });
    assert.deepEqual([other.name, other.state, other.buildId], ["once more", "ready", first]); // nothing was built
    assert.equal((await freestyle.vms.snapshots.ref({ snapshotId }).getBuild()).buildId, first);
    await freestyle.vms.snapshots.delete({ snapshotId: again.snapshotId });
    const list = await freestyle.vms.snapshots.list();
    assert.equal(list.snapshots.find((s) => s.snapshotId === snapshotId).state, "ready");
    // the SDK puts the id on the outermost layer of a chain
    const chain = new VmSpec().additionalFiles({ "/srv/a": { content: "a" } }).snapshot().additionalFiles({ "/srv/b": { content: "b" } });
    const vm = await create({ spec: chain, snapshotId });
    assert.equal(await sh(vm, "cat /srv/a /srv/b copy.txt"), "abhello from a layer");
    await remove(vm);
  });

  it("say what failed, and keep it to be looked at", { timeout: BOOT }, async () => {
    const spec = new VmSpec().runCommands("echo this is why; exit 3");
    await assert.rejects(create({ spec }), (e) => {
      assert.ok(e instanceof Errors.VmSetupFailedError, `${e.constructor.name}: ${e.message}`);
      assert.match(e.body.failedReason, /freestyle-run-command-/);
      assert.match(e.body.diagnostics.failedServiceLogs[0].log, /this is why/);
      assert.match(keepSnapshot(e.body.snapshotId), /^sc-[a-z0-9]{20}$/);
      return true;
    });
  });

  it("are refused with the contract's classes", async () => {
    await assert.rejects(create({ spec: new VmSpec().vcpuCount(3) }), Errors.CreateVmVcpuNotPowerOfTwoError);
    await assert.rejects(create({ users: [{ name: "a", uid: -4 }] }), Errors.UserUidOutOfRangeError);
    await assert.rejects(freestyle.vms.snapshots.create({ spec: new VmSpec().aptDeps("--no") }),
      Errors.CreateSnapshotBadRequestError);
  });

  it("install Node.js with its helper", { timeout: BOOT }, async () => {
    const base = await create();
    await base.fs.writeTextFile("/usr/local/bin/curl", curl);
    await sh(base, "chmod 755 /usr/local/bin/curl; sync");
    const { snapshotId } = await base.snapshot();
    keepSnapshot(snapshotId);
    await remove(base);
    const vm = await create({ snapshotId, spec: new VmSpec().with("js", new VmNodeJs()) });
    const js = await vm.js.runCode("console.log(JSON.stringify({ from: process.execPath }))");
    assert.equal(js.statusCode, 0, js.stderr);
    assert.equal(await sh(vm, "command -v node; ls /etc/systemd/system/install-nodejs.service 2>/dev/null || echo removed"),
      "/opt/nvm/versions/node/v24.0.1/bin/node\nremoved");
    await remove(vm);
  });

  // Its version 0.2.11 uses a constructor that the SDK has given up, and needs a version of another package that npm does not have (overrides in package.json).
  it("cannot install Java with its helper: the SDK refuses that before any server is asked", async () => {
    await assert.rejects(create({ spec: new VmSpec().with("java", new VmJava()) }), /new VmSpec\(\{\.\.\.\}\) is no longer supported/);
  });

  it("run code on the base image without a spec", { timeout: SHORT }, async () => {
    const vm = await create({ with: { node: new VmNodeJs(), py: new VmPython() } });
    const js = await vm.node.runCode({ code: "console.log(JSON.stringify({ up: process.argv.length, w: process.env.WORD }))", env: { WORD: "x y" } });
    assert.deepEqual([js.statusCode, js.result], [0, { up: 1, w: "x y" }]);
    const py = await vm.py.runCode({ code: "import os; print(os.getcwd())", workdir: "/tmp" });
    assert.deepEqual([py.statusCode, py.stdout], [0, "/tmp\n"]);
    await remove(vm);
  });
});
