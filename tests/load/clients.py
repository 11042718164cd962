# SPDX-License-Identifier: Apache-2.0
"""clients.py - everything a good client does, one call at a time

Used by kills.py, soak.py and the part "attack" of the bench. A World is what the clients share: a VM with a web server behind a name
at the edge, a repository with something in it. Each method of Good is one request as a user would see it, from connecting to the
last byte, and raises when the answer is wrong. What a hostile client does is in attacks.py.
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), os.path.join(ROOT, "tests/unit"), os.path.join(ROOT, "clients/python")]
import pando  # noqa: E402
from pando.transport import Transport  # noqa: E402
from ws import Terminal  # noqa: E402

HOST = "web.pando.localhost"
PORT = 8000
BIG_MB = 8
CALL_S = 120
WEB = (f"mkdir -p /srv/www && cd /srv/www && echo hello >index.html && head -c {BIG_MB}M /dev/zero >big && "
       f"(setsid python3 -m http.server {PORT} </dev/null >/root/web.log 2>&1 &) && "
       f"timeout 60 sh -c 'until curl -sf localhost:{PORT}/ >/dev/null; do sleep 0.1; done'")
GIT_ENV = {"PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A",
           "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}


class Wrong(Exception):
    """A good client got another answer than it should have."""


class World:
    def __init__(self, server):
        self.s = server
        self.top = tempfile.mkdtemp(prefix="pando-load-")
        self.key = server.key()
        self.vm = server.create()
        server.sh(self.vm, WEB, timeout_ms=200000)
        server.api("POST", f"/domains/v1/mappings/{HOST}", {"domain": HOST, "vmId": self.vm, "vmPort": PORT})
        self.repo = server.api("POST", "/git/v1/repo", {"public": True})["repoId"]
        server.api("POST", f"/git/v1/repo/{self.repo}/commits",
                   {"message": "one", "files": [{"path": f"d{n}/f{m}", "content": f"{n} {m}\n" * 50} for n in range(4) for m in range(5)]})
        self.tls = ssl.create_default_context(cafile=os.path.join(server.dir, "certs/ca.crt"))

    def git(self, *argv, cwd=None, ok=True, timeout=CALL_S):
        p = subprocess.run(["git", *argv], cwd=cwd or self.top, env={**GIT_ENV, "HOME": self.top}, capture_output=True, text=True,
                           timeout=timeout)
        if ok and p.returncode:
            raise Wrong(f"git {argv[0]}: {p.stderr.strip()[-300:]}")
        return p.stdout.strip()

    def url(self, repo=None, key=None):
        return f"http://x-access-token:{key or self.key}@127.0.0.1:{self.s.port}/{repo or self.repo}"

    def tls_socket(self, alpn=None, timeout=CALL_S):
        s = socket.create_connection(("127.0.0.1", self.s.edge_port), timeout=timeout)
        ctx = self.tls
        if alpn:
            ctx = ssl.create_default_context(cafile=os.path.join(self.s.dir, "certs/ca.crt"))
            ctx.set_alpn_protocols(alpn)
        return ctx.wrap_socket(s, server_hostname=HOST)

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)


class Good:
    """Names of methods are the names of figures."""
    # how often each is done, beside the others
    MIX = {"get": 6, "exec": 4, "edge": 6, "ls_remote": 2, "clone": 1, "push": 1, "ssh": 1, "pty": 1, "code": 1, "mcp": 1, "cli": 1, "sdk": 1,
           "life": 1}

    def __init__(self, world, name="0"):
        self.w, self.s, self.name, self.n = world, world.s, name, 0
        self.work = None

    def expect(self, good, what, found):
        if not good:
            raise Wrong(f"{what}: {str(found)[:300]}")

    def get(self):
        self.expect(self.s.info(self.w.vm)["id"] == self.w.vm, "get", "another VM")

    def exec(self):
        r = self.s.run(self.w.vm, "echo fine")
        self.expect(r.out == "fine\n", "exec", r.out)

    def edge(self):
        with self.w.tls_socket() as s:
            s.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            got = b""
            while piece := s.recv(65536):
                got += piece
        self.expect(got.startswith(b"HTTP/1.1 200") and got.endswith(b"hello\n"), "edge", got)

    def ls_remote(self):
        self.expect("refs/heads/main" in self.w.git("ls-remote", self.w.url()), "ls-remote", "no main")

    def clone(self):
        d = tempfile.mkdtemp(dir=self.w.top)
        try:
            self.w.git("clone", "-q", self.w.url(), d)
            self.expect(os.path.exists(os.path.join(d, "d0/f0")), "clone", os.listdir(d))
        finally:
            shutil.rmtree(d, ignore_errors=True)

    def push(self):
        if not self.work:
            self.work = tempfile.mkdtemp(dir=self.w.top)
            self.w.git("clone", "-q", self.w.url(), self.work)
        self.n += 1
        with open(os.path.join(self.work, f"by-{self.name}"), "w") as f:
            f.write(f"{self.n}\n")
        self.w.git("add", "-A", cwd=self.work)
        self.w.git("commit", "-qm", f"{self.name} {self.n}", cwd=self.work)
        self.w.git("push", "-q", "--force", self.w.url(), f"HEAD:refs/heads/by-{self.name}", cwd=self.work)

    def ssh(self):
        p = subprocess.run(["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                            "-o", "BatchMode=yes", "-p", str(self.s.ssh_port), "-l", f"{self.w.vm}:{self.w.key}", "127.0.0.1", "echo fine"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S)
        self.expect(p.stdout == "fine\n", "ssh", p.stdout + p.stderr)

    def pty(self):
        q = urllib.parse.urlencode({"cols": 80, "rows": 24, "exec": "sh"}, quote_via=urllib.parse.quote)
        t = Terminal(self.s.port, f"/v1/vms/{self.w.vm}/pty?{q}", headers={"Authorization": f"Bearer {self.w.key}"}, timeout=CALL_S)
        try:
            t.send(b"echo $((6*7)); exit\n")
            t.expect("42", timeout=CALL_S)
        finally:
            t.close()

    def code(self):
        r = self.s.api("POST", f"/v1/vms/{self.w.vm}/code", {"language": "bash", "code": "echo $((6*7))"})
        self.expect("42" in json.dumps(r), "code", r)

    def mcp(self):
        r = self.s.api("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                       headers={"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25",
                                "Mcp-Session-Id": self.mcp_session()})
        self.expect(r["result"]["tools"] if isinstance(r, dict) else "tools" in r, "mcp", r)

    def mcp_session(self):
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=CALL_S)
        try:
            c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}}),
                {"Authorization": f"Bearer {self.w.key}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
            r = c.getresponse()
            r.read()
            return r.getheader("Mcp-Session-Id") or ""
        finally:
            c.close()

    def cli(self):
        p = subprocess.run([os.path.join(ROOT, "build/cli/pando"), "vm", "list"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=CALL_S, env={"PATH": os.environ["PATH"], "HOME": self.w.top, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}",
                                                "PANDO_API_KEY": self.w.key})
        self.expect(p.returncode == 0 and self.w.vm in p.stdout, "cli", p.stdout + p.stderr)

    def sdk(self):
        box = pando.Sandbox.connect(self.w.vm, Transport(f"http://127.0.0.1:{self.s.port}", self.w.key))
        self.expect(box.exec("echo fine").stdout.strip() == "fine", "sdk", "another answer")

    def life(self):
        """A VM from beginning to end, asleep in between."""
        vm = self.s.create()
        try:
            self.s.sh(vm, "echo kept >/dev/shm/v")
            self.s.post(vm, "suspend")
            self.expect(self.s.sh(vm, "cat /dev/shm/v") == "kept", "life", "memory is lost")
        finally:
            self.s.delete(vm)


def percentile(values, p):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * p / 100))] if v else None


def timed(call):
    t0 = time.monotonic()
    call()
    return (time.monotonic() - t0) * 1000
