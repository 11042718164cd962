#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Git through the edge, by TLS; usage: test_edge_git.py EDGEUP SERVE_GIT [TEST...]

The edge stands before the real API. What it says of its clients counts, what clients say of themselves does not.
"""
import base64
import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools  # noqa: E402
from ports import free_port  # noqa: E402
from served import ServedGit  # noqa: E402

EDGEUP, SERVE = sys.argv[1:3]
SECRET = "5" * 64
HOST = "git.edge.test"


class EdgeGit(ServedGit, GitTools, unittest.TestCase):
    program = SERVE
    server_env = {"FX_EDGE": SECRET}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certs = tempfile.mkdtemp(prefix="pando-edge-")
        cls.tls, cls.plain = free_port(), free_port()
        cls.edge = subprocess.Popen([EDGEUP, cls.certs, f"127.0.0.1:{cls.tls}", f"127.0.0.1:{cls.plain}", f"127.0.0.1:{cls.port}"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "EDGEUP_FIELD": f"X-Pando-Edge: {SECRET}\r\n"})
        assert cls.edge.stdout.readline() == "ready\n"
        cls.ca = os.path.join(cls.certs, "ca.crt")

    @classmethod
    def tearDownClass(cls):
        cls.edge.stdin.close()
        code = cls.edge.wait(60)
        cls.edge.stdout.close()
        shutil.rmtree(cls.certs)
        super().tearDownClass()
        assert code == 0, f"the edge ended with {code}"

    def https(self, *args, **kw):
        return self.git("-c", f"http.sslCAInfo={self.ca}", "-c", f"http.curloptResolve={HOST}:{self.tls}:127.0.0.1", *args, **kw)

    def address(self, repo, secret=None, suffix=""):
        who = "" if secret == "" else f"x-access-token:{secret or self.key}@"
        return f"https://{who}{HOST}:{self.tls}/{repo}{suffix}"

    def push(self, conf, *args, tries=3):
        """git's remote helper can wait for ever: with HTTP/2, libcurl may ask it for more after the end, and it asks its own send-pack."""
        for left in reversed(range(tries)):
            p = subprocess.run(["timeout", "-k", "5", "60", "git", "-c", f"http.sslCAInfo={self.ca}", "-c", f"http.curloptResolve={HOST}:{self.tls}:127.0.0.1",
                                *conf, "push", "-q", *args], capture_output=True, text=True, env=self.git_env(), cwd=self.top)
            if p.returncode != 124 or not left:
                break
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_clone_and_push(self):
        for version in ("HTTP/1.1", "HTTP/2"):
            with self.subTest(version):
                repo = self.new(public=True)
                w = self.work()
                data = os.urandom(12 << 20)
                sha = self.save(w, {"a": version, "big": data})
                conf = ("-c", f"http.version={version}")
                self.push(("-C", w, *conf), self.address(repo), "main")
                for suffix in ("", ".git"):
                    c = tempfile.mkdtemp(dir=self.top)
                    self.https(*conf, "clone", "-q", self.address(repo, "", suffix), c)  # public
                    self.assertEqual(self.git("rev-parse", "HEAD", cwd=c).strip(), sha)
                with open(os.path.join(c, "big"), "rb") as f:
                    self.assertEqual(hashlib.sha256(f.read()).digest(), hashlib.sha256(data).digest())
                self.https(*conf, "push", "-q", self.address(repo, "wrong"), "main:x", cwd=w, ok=False)

    def test_large_files(self):
        repo = self.new()
        # git-lfs resolves names by itself: the batch API is asked by hand
        oid = hashlib.sha256(b"large").hexdigest()
        j = self.ask("POST", f"/{repo}/info/lfs/objects/batch", {"operation": "upload", "objects": [{"oid": oid, "size": 5}]})[1]
        href = j["objects"][0]["actions"]["upload"]["href"]
        self.assertTrue(href.startswith(f"https://{HOST}"), href)
        self.assertEqual(self.ask("PUT", "/" + href.split("/", 3)[3], b"large")[0], 200)
        status, body = self.ask("GET", f"/{repo}/info/lfs/objects/{oid}", raw=True)
        self.assertEqual((status, body), (200, b"large"))

    def ask(self, method, path, body=None, key=None, raw=False, source=None, headers=None, direct=False):
        if direct:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=source)
        else:
            sock = socket.create_connection(("127.0.0.1", self.tls), timeout=60, source_address=source)
            c = http.client.HTTPConnection(HOST, timeout=60)
            c.sock = ssl.create_default_context(cafile=self.ca).wrap_socket(sock, server_hostname=HOST)
        basic = base64.b64encode(f"x:{key or self.key}".encode()).decode()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            c.request(method, path, data, {"Host": f"{HOST}:{self.tls}", "Authorization": f"Basic {basic}",
                                           "Content-Type": "application/vnd.git-lfs+json", **(headers or {})})
            r = c.getresponse()
            text = r.read()
        finally:
            c.close()
        return r.status, text if raw else json.loads(text or b"null")

    def refusals(self):
        return [r["remote"] for r in self.call("GET", "/v1/audit?limit=100")["records"] if r["status"] == 401]

    def test_the_edge_says_who_asks(self):
        repo = self.new()
        path, wrong = f"/{repo}/info/refs?service=git-upload-pack", "pando_" + "y" * 40
        self.assertEqual(self.ask("GET", path, key=wrong, source=("127.0.0.7", 0))[0], 401)
        self.assertEqual(self.refusals()[0], "127.0.0.7")
        lies = {"X-Forwarded-For": "192.0.2.1", "X-Pando-Edge": SECRET}
        self.assertEqual(self.ask("GET", path, key=wrong, source=("127.0.0.8", 0), headers=lies)[0], 401)
        self.assertEqual(self.refusals()[0], "127.0.0.8")
        for edge in ("", "6" * 64, SECRET[:-1], SECRET + "5"):  # without the edge, and without its secret
            self.assertEqual(self.ask("GET", path, key=wrong, source=("127.0.0.9", 0), direct=True,
                                      headers={"X-Forwarded-For": "192.0.2.1", "X-Pando-Edge": edge})[0], 401)
            self.assertEqual(self.refusals()[0], "127.0.0.9")

    def test_one_client_does_not_use_up_the_attempts_of_others(self):
        """More failures than an address has: they are answered with a closed connection, those from elsewhere as ever."""
        repo = self.new()
        path, wrong = f"/{repo}/info/refs?service=git-upload-pack", "pando_" + "y" * 40
        before = len([r for r in self.refusals() if r == "127.0.0.11"])
        for _ in range(110):
            try:
                self.ask("GET", path, key=wrong, source=("127.0.0.10", 0))
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                pass
        self.assertEqual(self.ask("GET", path, key=wrong, source=("127.0.0.11", 0))[0], 401)
        self.assertEqual(len([r for r in self.refusals() if r == "127.0.0.11"]), before + 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
