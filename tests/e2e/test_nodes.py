# SPDX-License-Identifier: Apache-2.0
"""Two real servers with one PostgreSQL: each answers for both, whoever has the VM; one that is stopped or killed loses its VMs and comes back"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import host
import node
from case import Case, limit, wait_for
from harness import ROOT, Server, test_logs
from ports import free_port, free_ports
from stream_checks import Stream, data_of
from ws import Terminal

sys.path.append(os.path.join(ROOT, "tests/unit"))  # last: files there have the names of files here
import pg  # noqa: E402

WEB = os.path.join(ROOT, "tests/web")
PORT = free_ports(1)
PORTS_AT = {"one": "127.119.0.2", "two": "127.119.0.3"}  # as if they were two machines


def auth_of(server):
    return {"Authorization": f"Bearer {server.key()}"}


class Nodes(Case):
    own_server = False
    long = True  # leases have to run out, three times

    @limit(600)
    def test_two_nodes(self):
        with pg.Server() as db:
            os.chmod(db.dir, 0o711)  # the user pando reaches the socket
            one, two = (self.node(db, name) for name in ("one", "two"))
            try:
                one.start()
                for name in ("secret.key", "api-key"):  # all nodes have the key of secrets; the other one is for this test
                    shutil.copy(os.path.join(one.dir, name), two.dir)
                    shutil.chown(os.path.join(two.dir, name), "pando", "pando")
                two.start()
                self.see_each_other(one, two)
                self.own_what_they_make(one, two, db)
                self.through_the_other(one, two)
                self.stopped(one, two)
                self.killed(one, two)
                self.drained(one, two, db)
                self.alone_is_refused(one)
            finally:
                two.close()
                one.close()

    @limit(900)
    def test_the_operator_sees_them(self):
        """In the dashboard: tests/web/nodes.test.mjs."""
        shots = os.path.join(test_logs(), "web")
        os.makedirs(shots, exist_ok=True)
        node.install(self, WEB)
        with pg.Server() as db:
            os.chmod(db.dir, 0o711)
            one, two = (self.node(db, name) for name in ("one", "two"))
            control = node.Control("nodes", {"stop": two.stop})
            try:
                one.start()
                shutil.copy(os.path.join(one.dir, "secret.key"), two.dir)
                shutil.chown(os.path.join(two.dir, "secret.key"), "pando", "pando")
                two.start()
                wait_for("both nodes are alive", lambda: self.health(one) == {"one": "alive", "two": "alive"}, 30)
                node.run(self, WEB, ["nodes.test.mjs"], {"PANDO_URL": f"http://127.0.0.1:{one.port}", "PANDO_API_KEY": one.key(),
                                                         "PANDO_CONTROL": control.path, "PANDO_SHOTS": shots}, 600)
            finally:
                control.close()
                two.close()
                one.close()

    def node(self, db, name):
        return Server(env={"PANDO_DATABASE": db.url(), "PANDO_NODE_ADDRESS": f"127.0.0.1:{free_port()}", "PANDO_NODE_NAME": name,
                           "PANDO_PORT_RANGE": f"{PORT}-{PORT}", "PANDO_PORT_LISTEN": PORTS_AT[name]})

    def health(self, s):
        return {n["name"]: n["health"] for n in s.api("GET", "/v1/cluster")["nodes"]}

    def see_each_other(self, one, two):
        for s in (one, two):
            wait_for("both nodes are alive", lambda s=s: self.health(s) == {"one": "alive", "two": "alive"}, 30)
        c = two.api("GET", "/v1/cluster")
        self.assertTrue(c["shared"] and c["lease"]["leftMs"] > 0)
        self.assertEqual([n["self"] for n in c["nodes"]], [False, True])

    def own_what_they_make(self, one, two, db):
        self.a, self.b = one.create(), two.create()
        for s in (one, two):  # lists and reads show both, whoever is asked
            self.assertEqual(set(s.vms()), {self.a, self.b})
            self.assertEqual({s.state(self.a), s.state(self.b)}, {"running"})
        one.sh(self.a, "echo kept > /run/x")
        self.assertEqual(two.sh(self.a, "cat /run/x").strip(), "kept")
        snap = two.api("POST", f"/v1/vms/{self.a}/snapshot", {})["snapshotId"]
        c = two.create(snapshotId=snap)  # where its layers are
        self.assertEqual(db.sql(f"SELECT name FROM nodes WHERE id = (SELECT node FROM vms WHERE id = '{c}')"), "one")
        two.delete(c)
        # a key of one node works on the other, until it is revoked
        key = two.api("POST", "/v1/keys", {"name": "k"})
        wait_for("the key works", lambda: one.request("GET", "/v1/vms", key=key["key"])[0] == 200, 20)
        two.api("DELETE", f"/v1/keys/{key['id']}")
        wait_for("the key is worth nothing", lambda: one.request("GET", "/v1/vms", key=key["key"])[0] == 401, 20)
        # pandod's end alone ends nothing
        one.kill9_pandod()
        self.assertEqual(one.sh(self.a, "cat /run/x").strip(), "kept")
        self.assertEqual(db.sql("SELECT count(*) FROM vms WHERE node <> home OR epoch <> 1"), "0")

    def through_the_other(self, one, two):
        """Streams, files, a terminal, tools, a name and a repository, all of them the first node's."""
        auth = auth_of(one)
        with Stream(two.port, "POST", f"/v1/vms/{self.a}/exec", json.dumps({"command": "seq 3; exit 4"}),
                    {**auth, "Accept": "text/event-stream"}) as s:
            self.assertEqual(s.status, 200, None if s.status == 200 else s.r.read())
            seen = list(s.events())
        self.assertEqual(b"".join(data_of(d) for e, d in seen if e == "stdout"), b"1\n2\n3\n", seen)
        self.assertEqual((seen[-1][0], seen[-1][1]["statusCode"]), ("exit", 4))
        data = os.urandom(6 << 20)
        with Stream(two.port, "PUT", f"/v1/vms/{self.a}/raw-files/%2Froot%2Fbig", data, auth) as s:
            self.assertEqual(s.json(), {"bytes": len(data)})
        with Stream(two.port, "GET", f"/v1/vms/{self.a}/raw-files/%2Froot%2Fbig", None, auth) as s:
            self.assertEqual(s.r.read(), data)
        self.terminal(one, two)
        r = two.api("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "exec", "arguments": {"vmId": self.a, "command": "echo by-tool"}}}, headers={"Accept": "application/json"})
        self.assertIn("by-tool", json.dumps(r))
        self.name(one, two)
        self.port(one, two)
        self.ssh(one, two)
        self.repository(one, two)

    def terminal(self, one, two):
        ticket = one.api("POST", f"/v1/vms/{self.a}/pty/tickets", {})["ticket"]
        for headers, query in ((auth_of(one), ""), ({}, f"&ticket={ticket}")):
            t = Terminal(two.port, f"/v1/vms/{self.a}/pty?cols=80&rows=24&exec=sh{query}", headers=headers)
            try:
                t.send("echo A$((40+2))Z\n")
                t.expect("A42Z")
            finally:
                t.close()

    def name(self, one, two):
        one.sh(self.a, "mkdir -p /srv/w && echo served >/srv/w/f && cd /srv/w && setsid python3 -m http.server 3000 </dev/null >/dev/null 2>&1 & "
                       "timeout 60 sh -c 'until python3 -c \"import socket; socket.create_connection((\\\"127.0.0.1\\\", 3000))\"; do sleep 0.2; done' "
                       "2>/dev/null", timeout_ms=90000)
        one.post(self.a, "suspend")  # and is woken by it
        host_name = f"{self.a}.pando.localhost"
        for url, extra in ((f"http://{host_name}:{two.edge_http_port}/f", []),
                           (f"https://{host_name}:{two.edge_port}/f", ["--cacert", os.path.join(one.dir, "certs/ca.crt"), "--http2"])):
            r = subprocess.run(["curl", "-sS", "--max-time", "100", "--resolve", f"{host_name}:{two.edge_http_port}:127.0.0.1",
                                "--resolve", f"{host_name}:{two.edge_port}:127.0.0.1", *extra, url], capture_output=True, text=True, timeout=120)
            self.assertEqual(r.stdout, "served\n", (url, r.stderr))
        self.assertEqual(two.state(self.a), "running")

    def port(self, one, two):
        """What name() started there, by a mapped port; asleep again, it wakes."""
        two.api("POST", f"/v1/vms/{self.a}/ports", {"port": PORT, "targetPort": 3000})

        def get():
            r = subprocess.run(["curl", "-sS", "--max-time", "100", f"http://{PORTS_AT['two']}:{PORT}/f"], capture_output=True, text=True, timeout=120)
            return r.stdout == "served\n"
        wait_for("it listens on the other node, too", get, 30)
        one.post(self.a, "suspend")
        self.assertTrue(get())
        two.api("DELETE", f"/v1/vms/{self.a}/ports/{PORT}")

    def ssh(self, one, two):
        one.post(self.a, "suspend")
        data = os.urandom(2 << 20)
        r = subprocess.run(["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                            "-o", "BatchMode=yes", "-p", str(two.ssh_port), "-l", f"{self.a}:{one.key()}", "127.0.0.1", "cat; exit 5"],
                           input=data, capture_output=True, timeout=120)
        self.assertEqual((r.returncode, r.stdout == data), (5, True), r.stderr)

    def repository(self, one, two):
        repo = one.api("POST", "/git/v1/repo", {})["repoId"]
        with tempfile.TemporaryDirectory() as top:
            def git(*argv):
                subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=top, check=True, timeout=120,
                               env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, stdout=subprocess.DEVNULL)
            url = f"http://x:{one.key()}@127.0.0.1:{two.port}/{repo}"
            git("init", "-q", "-b", "main", "w")
            git("-C", "w", "commit", "-q", "--allow-empty", "-m", "one")
            git("-C", "w", "push", "-q", url, "main")
            git("clone", "-q", url, "c")
        self.assertEqual(len(two.api("GET", f"/git/v1/repo/{repo}/git/commits")["commits"]), 1)
        two.api("DELETE", f"/git/v1/repo/{repo}")

    def stopped(self, one, two):
        """SIGSTOP for longer than the lease: pando-priv ends the VMs, the other node takes over, and pandod begins anew."""
        two.post(self.b, "suspend")
        two.sh(self.b, "echo kept > /root/y; sync")
        c = two.create()
        two.post(c, "suspend")
        pid, qemu = two.pandod_pid(), two.qemu_of(self.b)
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for("its VM has ended", lambda: not host.alive(qemu), 60)
            wait_for("it is taken over", lambda: one.state(self.b) == "lost", 60)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(one.state(c), "suspended")
        self.assertEqual(one.state(self.a), "running")
        two.await_pandod(pid)
        wait_for("it has joined again", lambda: self.health(one)["two"] == "alive", 60)
        self.assertEqual(two.state(self.b), "stopped")  # its disk was here all the time
        self.assertEqual(two.sh(self.b, "cat /root/y").strip(), "kept")
        self.assertEqual(two.sh(c, "echo awake").strip(), "awake")
        two.delete(c)

    def killed(self, one, two):
        """pando-priv and pandod at once: nobody is left to renew, and the VMs end when pando-priv is back."""
        qemu = two.qemu_of(self.b)
        for pid in (two.pandod_pid(), two.proc.pid):
            host.kill(pid, signal.SIGKILL)
        two.proc.wait(30)
        wait_for("it is dead", lambda: self.health(one)["two"] == "dead", 90)
        self.assertEqual(one.state(self.b), "lost")
        self.refused(409, "CONFLICT", one.api, "DELETE", "/v1/cluster/nodes/two")
        two.start()
        self.assertFalse(host.alive(qemu))
        wait_for("it is back", lambda: self.health(one)["two"] == "alive", 60)
        self.assertEqual(two.state(self.b), "stopped")

    def drained(self, one, two, db):
        two.sh(self.b, "true")
        one.api("POST", "/v1/cluster/nodes/two/drain", {})
        wait_for("its VM is suspended", lambda: one.state(self.b) == "suspended", 60)
        c = two.create()  # made where there is room
        self.assertEqual(db.sql(f"SELECT name FROM nodes WHERE id = (SELECT node FROM vms WHERE id = '{c}')"), "one")
        two.delete(c)
        one.api("POST", "/v1/cluster/nodes/two/drain", {"drain": False})

        def takes():
            vm = two.create()
            try:
                return db.sql(f"SELECT name FROM nodes WHERE id = (SELECT node FROM vms WHERE id = '{vm}')") == "two"
            finally:
                two.delete(vm)
        wait_for("it takes VMs again", takes, 30)
        two.delete(self.b)
        two.stop()
        wait_for("it has left", lambda: self.health(one)["two"] == "dead", 30)
        # its template and nothing else: no VM, no snapshot
        one.api("DELETE", "/v1/cluster/nodes/two")
        wait_for("it is forgotten", lambda: list(self.health(one)) == ["one"], 30)
        one.delete(self.a)

    def alone_is_refused(self, one):
        one.stop()
        del one.env["PANDO_NODE_ADDRESS"]
        one.spawn()
        self.assertNotEqual(one.proc.wait(60), 0)
        self.assertIn("set PANDO_NODE_ADDRESS, too", one.log_tail())
