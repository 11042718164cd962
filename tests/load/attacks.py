#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""attacks.py NAME - what a hostile client does, in a process of its own

Used by soak.py and the part "attack" of the bench (class Attacks); run by itself only by that class. Each attack is a process, so that it has neither the interpreter's lock
nor the account nor, where it connects by itself, the address of the good clients; and it is nicer than they are, because a real attacker brings a machine of its own. The process reads
where to go as one line of JSON, writes one line for each round, `ok` or what went wrong, and ends when its input does. Only a round in which everything happened that
the attack is about counts; what the server answered is part of that only where the attack would be nothing otherwise.
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
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import clients  # noqa: E402
import h2raw  # noqa: E402
import harness  # noqa: E402
from clients import Wrong  # noqa: E402

ADDRESS = "127.0.0.66"  # whom limits by address count
SITE = "hostile.pando.localhost"  # the attacker's own VM: what it can do to a VM of others through the edge is in tests/unit/test_edge_limits.py
NICE = int(os.environ.get("PANDO_ATTACK_NICE", "10"))
FAILS = (OSError, http.client.HTTPException, harness.ApiError, subprocess.SubprocessError, ValueError, AssertionError, Wrong)
NAMES = ("half_requests", "json_bombs", "slow_clones", "zero_windows", "tree_bombs", "floods")


class Attacks:
    """Processes, one for each attack that run() started; stop() ends them. did: rounds; failed: rounds that came to nothing, and why the last one did."""
    NAMES = NAMES

    def __init__(self, world):
        s = self.s = world.s
        account = s.api("POST", "/v1/accounts", {"name": "hostile"})["id"]
        self.key = s.api("POST", f"/v1/keys?accountId={account}", {"name": "hostile"})["key"]
        self.vm = s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None}, key=self.key)["id"]
        s.api("POST", f"/v1/vms/{self.vm}/exec-await", {"command": clients.WEB, "timeoutMs": 200000}, key=self.key)
        s.api("POST", f"/domains/v1/mappings/{SITE}", {"domain": SITE, "vmId": self.vm, "vmPort": clients.PORT}, key=self.key)
        self.where = json.dumps({"port": s.port, "edge_port": s.edge_port, "dir": s.dir, "key": self.key, "vm": self.vm, "repo": world.repo})
        self.did, self.failed = dict.fromkeys(NAMES, 0), {}
        self.running = []

    def run(self, name):
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             preexec_fn=lambda: (harness.child_setup(), os.nice(NICE)))
        p.stdin.write(self.where + "\n")
        p.stdin.flush()
        t = threading.Thread(target=self._read, args=(name, p), daemon=True)
        t.start()
        self.running.append((p, t))

    def _read(self, name, p):
        for line in p.stdout:
            if line == "ok\n":
                self.did[name] += 1
            else:
                n, _ = self.failed.get(name, (0, ""))
                self.failed[name] = (n + 1, line.strip())

    def stop(self):
        for p, _ in self.running:
            p.stdin.close()
        for p, t in self.running:
            try:
                p.wait(clients.CALL_S)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            t.join()
        self.running = []

    def close(self):
        self.stop()
        self.s.request("DELETE", f"/v1/vms/{self.vm}", key=self.key)


class Remote:
    """As much of harness.Server as a stranger has."""
    request, api = harness.Server.request, harness.Server.api

    def __init__(self, where):
        self.port, self.edge_port, self.dir, self._key = where["port"], where["edge_port"], where["dir"], where["key"]

    def key(self):
        return self._key


class Hostile:
    """Each method is one round."""

    def __init__(self, where, stop):
        self.s, self.stop, self.vm, self.repo, self.key = Remote(where), stop, where["vm"], where["repo"], where["key"]
        self.top = tempfile.mkdtemp(prefix="pando-hostile-")
        self.ca = os.path.join(where["dir"], "certs/ca.crt")
        self.bomb = None
        self.git_env = {**clients.GIT_ENV, "HOME": self.top}

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)

    def connect(self, port, rcvbuf=None):
        s = socket.socket()
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(20)
        s.bind((ADDRESS, 0))
        s.connect(("127.0.0.1", port))
        return s

    def git(self, *argv, cwd, timeout=60, stdin=""):
        p = subprocess.run(["git", *argv], cwd=cwd, env=self.git_env, input=stdin, capture_output=True, text=True, timeout=timeout)
        if p.returncode:
            raise Wrong(f"git {argv[0]}: {p.stderr.strip()[-200:]}")
        return p.stdout.strip()

    def half_requests(self):
        """Without a key: headers that never end."""
        held = []
        try:
            for _ in range(200):
                s = self.connect(self.s.port)
                held.append(s)
                s.sendall(b"GET /v1/vms HTTP/1.1\r\nHost: x\r\n")
            self.stop.wait(2)
        finally:
            for s in held:
                s.close()

    def json_bombs(self):
        self.bomb = self.bomb or b'{"spec":{"files":[' + b",".join([b"{}"] * 1_000_000) + b"]}}"
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=30, source_address=(ADDRESS, 0))
        try:
            c.request("POST", "/v1/vms", self.bomb, {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
            c.getresponse().read()
        finally:
            c.close()

    def slow_clones(self):
        """Without a key: asks for a pack and does not read it."""
        held = []
        want = self.git("ls-remote", f"http://127.0.0.1:{self.s.port}/{self.repo}", "HEAD", cwd=self.top).split()[0]
        body = f"0032want {want}\n00000009done\n".encode()
        try:
            for _ in range(40):
                s = self.connect(self.s.port, rcvbuf=2048)
                held.append(s)
                s.sendall(f"POST /{self.repo}/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            self.stop.wait(3)
        finally:
            for s in held:
                s.close()

    def zero_windows(self):
        """HTTP/2 streams of a big file for which there is never room."""
        ctx = ssl.create_default_context(cafile=self.ca)
        ctx.set_alpn_protocols(["h2"])
        held = []
        try:
            for _ in range(10):
                c = h2raw.Client(ctx.wrap_socket(self.connect(self.s.edge_port), server_hostname=SITE), window=0)
                held.append(c)
                for _ in range(50):
                    c.ask(SITE, path="/big")
                c.read(0.05)
            self.stop.wait(3)
        finally:
            for c in held:
                c.sock.close()

    def tree_bombs(self):
        """A push whose tree names itself, level by level, a million times; then what walks it."""
        repo = self.s.api("POST", "/git/v1/repo", {}, key=self.key)["repoId"]
        d = tempfile.mkdtemp(dir=self.top)
        try:
            self.git("init", "-q", "-b", "main", d, cwd=d)
            with open(os.path.join(d, "f"), "w") as f:
                f.write("x")
            oid = self.git("hash-object", "-w", "f", cwd=d)
            kind, mode = "blob", "100644"
            for _ in range(10):
                oid = self.git("mktree", cwd=d, stdin="".join(f"{mode} {kind} {oid}\tn{k:02}\n" for k in range(40)))
                kind, mode = "tree", "040000"
            commit = self.git("commit-tree", "-m", "bomb", oid, cwd=d)
            self.git("push", "-q", f"http://x-access-token:{self.key}@127.0.0.1:{self.s.port}/{repo}", f"{commit}:refs/heads/main", cwd=d)
            for path in ("contents?recursive=true", "tarball"):
                status, r = self.s.request("GET", f"/git/v1/repo/{repo}/{path}", key=self.key, timeout=60)
                if status in (400, 401, 403, 404):  # not a walk that was cut short: none
                    raise Wrong(f"{path}: {status} {str(r)[:200]}")
        finally:
            shutil.rmtree(d, ignore_errors=True)
            self.s.request("DELETE", f"/git/v1/repo/{repo}", key=self.key)

    def floods(self):
        """17 MB of control characters in one reply."""
        self.s.api("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "head -c 17M /dev/zero", "timeoutMs": 20000}, key=self.key, timeout=60)


def main():
    name, where, stop = sys.argv[1], json.loads(sys.stdin.readline()), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    h = Hostile(where, stop)
    try:
        while not stop.is_set():
            try:
                getattr(h, name)()
                print("ok", flush=True)
            except FAILS as e:
                print(f"{type(e).__name__}: {e}".replace("\n", " ")[:400], flush=True)
                stop.wait(0.2)
    finally:
        h.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
