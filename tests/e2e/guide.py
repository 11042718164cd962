# SPDX-License-Identifier: Apache-2.0
"""guide.py - what guides for servers in VMs have in common: install, run as a service, snapshot, create, map a name

A guide's builder is thrown away: what it installed and started lives on in the snapshot, running. Emulated guests are slow and
package registries far: deadlines are long, and what is waited for is asked of the service itself.
"""
import base64
import os
import shlex
import urllib.parse

from case import wait_for
from test_edge import EdgeBase
from test_network import mirror

INSTALL_S = 3000
READY_S = 600
HOST_CA = "/etc/ssl/certs/ca-certificates.crt"  # what this host trusts; its way to a registry may have a CA of its own
GUEST_CA = "/etc/ssl/certs/host.crt"
UNIT = """[Unit]
After=network.target

[Service]
ExecStart={command}
WorkingDirectory={cwd}
Environment=HOME=/root {env}
Restart=always

[Install]
WantedBy=multi-user.target
"""


class Guide(EdgeBase):
    long = True
    limit_s = 3600

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()

    def need_mirror(self):
        if not mirror():
            self.skipTest("this host's apt uses no http:// mirror, and guests trust the CA of no other: nothing can be installed in one")

    def builder(self, name, *packages):
        """A VM with Debian packages; deleted with the test if the guide does not do it."""
        if packages:
            self.need_mirror()
        vm = self.s.create(name=f"{name}-builder")
        self.addCleanup(lambda: self.s.delete(vm) if vm in self.s.vms() else None)
        if packages:
            self.work(vm, f"apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io {shlex.join(packages)}")
        return vm

    def work(self, vm, command):
        """A command that takes longer than one call may; it must succeed."""
        self.write(vm, "/root/work.sh", f"({command})\necho $? >/root/work.status.new\nmv /root/work.status.new /root/work.status\n")
        self.s.sh(vm, "rm -f /root/work.status; setsid sh /root/work.sh </dev/null >/root/work.log 2>&1 &")
        status = wait_for(f"'{command}' is done", lambda: self.s.run(vm, "cat /root/work.status", timeout_ms=120000).out.strip(), INSTALL_S, 3)
        if status != "0":
            self.fail(f"'{command}' ended with {status}: {self.s.run(vm, 'tail -n 20 /root/work.log').out}")

    def write(self, vm, path, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.s.api("PUT", f"/v1/vms/{vm}/files/{urllib.parse.quote(path, safe='')}",
                   {"content": base64.b64encode(data).decode(), "encoding": "base64"})

    def service(self, vm, name, command, cwd="/srv", env=""):
        self.write(vm, f"/etc/systemd/system/{name}.service", UNIT.format(command=command, cwd=cwd, env=env))
        self.s.sh(vm, f"mkdir -p {cwd} && systemctl daemon-reload && systemctl enable --now {name}", timeout_ms=300000)

    def until(self, vm, command, want, what):
        """Asks in the guest until the answer has that text."""
        def look():
            r = self.s.run(vm, command, timeout_ms=120000)
            return want in r.out
        wait_for(what, look, READY_S, 1)

    def answers(self, vm, port, path="/", want="200"):
        self.until(vm, f"curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}{path} || true", want, f"port {port} answers {want}")

    def keep(self, vm):
        """What runs there, as a snapshot; the builder goes."""
        snapshot = self.s.snapshot(vm)
        self.s.delete(vm)
        return snapshot

    def from_snapshot(self, snapshot, name, domain=None, port=None):
        """A VM in which it all runs already, and perhaps a name for one of its ports."""
        vm = self.s.create(name=name, snapshotId=snapshot)
        self.addCleanup(self.s.delete, vm)
        if domain:
            self.map(domain, vm, port)
        return vm

    def get(self, domain, path="/", status=200):
        r = self.e.curl(f"https://{domain}{path}")
        self.assertEqual(r.status, status, r.body[:500])
        return r.body.decode()

    def trust_this_host(self, vm):
        """npm and pip in the guest trust the CAs that this host trusts."""
        if os.path.exists(HOST_CA):
            with open(HOST_CA, "rb") as f:
                self.write(vm, GUEST_CA, f.read())
