// SPDX-License-Identifier: Apache-2.0
// ssh.test.mjs - freestyle vm ssh and vm scp: the unmodified command line, whose host name is led here by an ssh configuration
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BOOT, SHORT, cleanUp, create, keep, keepSnapshot, raw } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));

describe("freestyle vm ssh and scp", () => {
  let home, vm;

  /** Runs it in a home of its own, with these bytes as stdin: {code, out, err}. */
  function run(stdin, ...args) {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [cli, ...args], {
        cwd: home,
        env: { ...process.env, HOME: home, PATH: join(home, "bin") + delimiter + process.env.PATH },
        stdio: ["pipe", "pipe", "pipe"],
        timeout: SHORT,
      });
      let out = "", err = "";
      child.stdout.on("data", (d) => (out += d));
      child.stderr.on("data", (d) => (err += d));
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, out, err }));
      child.stdin.end(stdin);
    });
  }

  before(async () => {
    home = mkdtempSync(join(tmpdir(), "pando-ssh-"));
    const { ssh } = (await raw("GET", "/v1/health")).json;
    const at = ssh.listen.lastIndexOf(":");
    // Port 22 is in the command line, which goes before the configuration: the way there has to say the port.
    const go = `import socket; s = socket.create_connection(('${ssh.listen.slice(0, at)}', ${ssh.listen.slice(at + 1)})); `
      + "socket.send_fds(socket.socket(fileno=1), [b'.'], [s.fileno()])";
    writeFileSync(join(home, "config"),
      `Host vm-ssh.freestyle.sh\n  ProxyCommand python3 -c "${go}"\n  ProxyUseFdpass yes\n  StrictHostKeyChecking accept-new\n`
      + `  UserKnownHostsFile ${home}/known\n  BatchMode yes\n`);
    mkdirSync(join(home, "bin"));
    for (const name of ["ssh", "scp"]) // both look for their configuration in the home of /etc/passwd
      writeFileSync(join(home, "bin", name), `#!/bin/sh\nexec /usr/bin/${name} -F ${home}/config "$@"\n`, { mode: 0o755 });
    vm = await create();
  }, { timeout: BOOT });
  after(async () => {
    rmSync(home, { recursive: true, force: true });
    await cleanUp();
  }, { timeout: SHORT });

  it("logs in", { timeout: SHORT }, async () => {
    const r = await run("echo from-$((40+2))-$(id -un); exit\n", "vm", "ssh", vm.vmId);
    assert.match(r.out, /from-42-root/, r.out + r.err);
    assert.match(r.out, /Cleanup complete/);
  });

  it("copies both ways", { timeout: SHORT }, async () => {
    mkdirSync(join(home, "tree/below"), { recursive: true });
    writeFileSync(join(home, "tree/below/file"), "copied\n");
    let r = await run("", "vm", "scp", "-r", join(home, "tree"), `${vm.vmId}:/root/there`);
    assert.equal(r.code, 0, r.out + r.err);
    assert.equal((await vm.exec("cat /root/there/below/file")).stdout, "copied\n");
    r = await run("", "vm", "scp", `${vm.vmId}:/root/there/below/file`, join(home, "back"));
    assert.equal(r.code, 0, r.out + r.err);
    assert.equal(readFileSync(join(home, "back"), "utf8"), "copied\n");
  });

  it("looks into a build that failed, by its snapshot and by its build", { timeout: BOOT }, async () => {
    const services = [{ name: "broken", mode: "oneshot", exec: ["/bin/sh -c 'echo it was here >/srv/trace; exit 3'"] }];
    const made = await raw("POST", "/v1/vms", { body: { spec: { systemd: { services } } } });
    assert.equal(made.json.code, "VM_SETUP_FAILED", made.text);
    const id = keepSnapshot(made.json.snapshotId);
    for (const args of [["debug", id], ["build", "debug", id], ["boot", id, "--ssh"]]) {
      const r = await run("cat /srv/trace; exit\n", "vm", "snapshot", ...args);
      keep(r.out.match(/VM ([a-z0-9]{20}) /)?.[1]);
      assert.match(r.out, /it was here/, r.out + r.err);
      assert.match(r.out, /Cleanup complete/);
    }
  });

  it("deletes the VM when asked to", { timeout: SHORT }, async () => {
    const gone = await create();
    const r = await run("exit\n", "vm", "ssh", gone.vmId, "--delete");
    assert.equal((await raw("GET", `/v1/vms/${gone.vmId}`)).status, 404, r.out + r.err);
  });

  it("leaves no identity behind", { timeout: SHORT }, async () => {
    assert.deepEqual((await raw("GET", "/identity/v1/identities")).json.identities, []);
  });
});
