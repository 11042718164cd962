# SPDX-License-Identifier: Apache-2.0
"""Deployments: a server that is built, frozen and thawed by requests for its names; scaling, replacing, crashes, restarts; the unmodified npm package and CLI"""
import base64
import concurrent.futures
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

import node
from case import ApiError, limit, long, wait_for
from harness import ROOT
from site_net import SiteRegistry
from test_edge import PANDO, EdgeBase

DIR = os.path.join(ROOT, "tests/sdk")
# /slow waits for so many milliseconds, /die ends the process
SERVER = """
import http from "node:http";
import os from "node:os";
const born = Math.random();
console.log("built with", process.env.WORD);
http.createServer((req, res) => {
  const u = new URL(req.url, "http://x");
  if (u.pathname === "/die") { console.log("dying"); process.exit(3); }
  if (u.pathname === "/print") console.log("printed", u.search);
  const body = [];
  req.on("data", (d) => body.push(d));
  req.on("end", () => setTimeout(() => {
    res.setHeader("x-version", process.env.WORD);
    res.setHeader("set-cookie", "a=b");
    res.end(JSON.stringify({ version: process.env.WORD, born, drawn: Math.random(), host: os.hostname(), method: req.method, url: req.url,
      body: Buffer.concat(body).toString(), auth: req.headers.authorization ?? null, given: req.headers["x-given"] ?? null }));
  }, Number(u.searchParams.get("ms") ?? 0)));
}).on("upgrade", (req, socket) => {
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: x\\r\\n\\r\\n");
  socket.pipe(socket);
}).listen(process.env.PORT);
"""


def source(text=SERVER, **more):
    return {"kind": "files", "files": {"main.mjs": {"content": text}, **more}}


class DeployBase(EdgeBase):
    keeps_specs = True
    limit_s = 300

    def deploy(self, word="one", text=SERVER, src=None, **config):
        config.setdefault("envVars", {"WORD": word})
        r = self.s.api("POST", "/web/v1/deployment", {"source": src or source(text), "config": config}, timeout=290)
        self.addCleanup(self.drop, r["deploymentId"])
        return r["deploymentId"]

    def drop(self, deployment):
        try:
            self.s.api("DELETE", f"/web/v1/deployments/{deployment}", timeout=120)
        except ApiError as e:
            self.assertEqual(e.status, 404)

    def info(self, deployment):
        return self.s.api("GET", f"/web/v1/deployments/{deployment}")["info"]

    def instances(self, deployment):
        return {n: v for n, v in ((v["name"] or "", v) for v in self.s.vms().values()) if n.startswith(deployment + ".")}

    def get(self, host, path="/", *args):
        r = self.e.curl(f"https://{host}{path}", *args)
        self.assertEqual(r.status, 200, r.body[:500])
        return json.loads(r.body)


class Deploy(DeployBase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()

    def test_a_deployment_wakes_scales_is_replaced_and_deleted(self):
        s, host = self.s, "shop.style.dev"
        first = self.deploy(domains=[host], timeout=4000, instances=3, requestsPerInstance=2)
        self.assertEqual(self.instances(first), {}, "nothing runs before the first request")
        d = self.info(first)
        self.assertEqual((d["state"], d["domains"], d["envVars"], d["port"]), ("deployed", [host], {"WORD": "********"}, 3000))
        # the first request thaws it
        began = time.monotonic()
        a = self.get(host, "/hello?x=1", "-H", "X-Given: yes")
        print(f"     the first request took {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
        self.assertEqual((a["version"], a["url"], a["given"], a["method"]), ("one", "/hello?x=1", "yes", "GET"))
        self.assertEqual(len(self.instances(first)), 1)
        # HTTP/2, a body, a WebSocket
        self.assertEqual(self.get(host, "/post", "--http2", "-d", "a body")["body"], "a body")
        ws = self.e.tls(host)
        ws.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.assertIn(b" 101 ", ws.recv(4096))
        ws.sendall(b"ping")
        self.assertEqual(ws.recv(16), b"ping")
        # more at a time than one instance takes: others are started, and none is lost
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            got = list(pool.map(lambda i: self.get(host, f"/slow?ms=1500&i={i}"), range(12)))
        self.assertEqual({g["version"] for g in got}, {"one"})
        self.assertGreater(len({g["host"] for g in got}), 1, "one instance took them all")
        self.assertEqual(len({g["drawn"] for g in got}), 12, "copies draw the same random numbers")
        self.assertLessEqual(len(self.instances(first)), 3)
        # a new deployment takes the name over while requests go on
        stop = []
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = pool.submit(lambda: [self.get(host, "/x")["version"] for _ in iter(lambda: bool(stop), True)])
            second = self.deploy("two", domains=[host], timeout=4000, requestsPerInstance=2)
            wait_for("the new one answers", lambda: self.get(host)["version"] == "two", 60)
            stop.append(1)
            versions = asked.result(60)
        self.assertEqual(versions, sorted(versions), "the old one answered after the new one")
        # what is under way there goes on
        ws.sendall(b"still")
        self.assertEqual(ws.recv(16), b"still")
        ws.close()
        wait_for("the old one sleeps", lambda: not self.instances(first), 90)
        self.assertEqual(s.api("GET", "/domains/v1/mappings")[0]["deploymentId"], second)
        # a server that ends is replaced
        host_before = self.get(host)["host"]
        self.assertNotEqual(self.e.curl(f"https://{host}/die").status, 200)
        self.assertEqual(self.get(host)["version"], "two")
        self.assertNotEqual(self.get(host)["host"], host_before)
        # through the API, without names
        answer = self.fetch(second, "POST", "/api?q=1", b"bytes")
        self.assertEqual((answer["method"], answer["url"], answer["body"], answer["auth"]), ("POST", "/api?q=1", "bytes", None))
        # its log has what it prints, and requests
        self.get(host, "/print?this=that")

        def lines():
            return s.api("GET", f"/observability/v1/logs?deploymentId={second}")["logs"]
        wait_for("the log has both", lambda: {"printed ?this=that"} <= {x["message"] for x in lines()} and [x for x in lines() if x.get("access")], 60)
        wait_for("it sleeps", lambda: not self.instances(second), 90)
        self.assertIn("printed ?this=that", [x["message"] for x in lines()], "lost with its instance")
        self.drop(first)
        self.drop(second)
        self.assertEqual(self.e.curl(f"https://{host}/").status, 404)
        self.assertEqual(s.api("GET", "/v1/vms/snapshots")["snapshots"], [])

    def fetch(self, deployment, method, url, body=None):
        req = urllib.request.Request(f"http://127.0.0.1:{self.s.port}/web/v1/deployments/{deployment}/fetch", data=body, method=method,
                                     headers={"Authorization": f"Bearer {self.s.key()}", "X-Freestyle-Request-Url": url})
        with urllib.request.urlopen(req, timeout=120) as r:
            self.assertEqual(r.headers["Content-Security-Policy"], "sandbox")
            self.assertIsNone(r.headers["Set-Cookie"])
            self.assertTrue(r.headers["x-version"])
            return json.load(r)

    @long
    @limit(560)
    def test_what_does_not_start_says_why(self):
        for text, says in (("throw new Error('no such luck')", "no such luck"),
                           ("import http from 'node:http'; http.createServer(() => {}).listen(4000)", "4000"),
                           ("import http from 'node:http'; http.createServer(() => {}).listen(3000, '127.0.0.1')", "0.0.0.0")):
            with self.assertRaises(ApiError) as e:
                self.deploy(text=text)
            self.assertEqual(e.exception.code, "DEPLOYMENT_FAILED")
            self.assertIn(says, json.dumps(e.exception.body))
            made = self.s.api("GET", "/web/v1/deployments")["entries"][0]
            self.addCleanup(self.drop, made["deploymentId"])
            self.assertEqual(made["state"], "failed")
            self.assertIn(says, "\n".join(x["message"] for x in self.s.api("GET", f"/observability/v1/logs?buildId={made['buildId']}")["logs"]))
        self.assertEqual(self.s.vms(), {})

    @long
    def test_a_restart_and_an_edge_that_ends(self):
        host = "stays.style.dev"
        d = self.deploy(domains=[host], timeout=600000)
        before = self.get(host)
        old = self.s.pandod_pid()
        os.kill(old, signal.SIGKILL)
        self.s.await_pandod(old)
        after = wait_for("it answers", lambda: self.e.curl(f"https://{host}/").status == 200 and self.get(host), 60)
        self.assertEqual(after["host"], before["host"], "the instance is another one")
        self.assertEqual(len(self.instances(d)), 1)
        # its machine ends while a request is there: that one may be repeated, and is, in another instance
        vm, = (v["id"] for v in self.instances(d).values())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.get, host, "/slow?ms=4000")
            wait_for("it is under way", lambda: self.info(d)["instances"][0]["requests"] == 1, 30)
            os.kill(self.s.qemu_of(vm), signal.SIGKILL)
            self.assertNotEqual(asked.result(120)["host"], before["host"])
        wait_for("the one that ended is gone", lambda: vm not in {v["id"] for v in self.instances(d).values()}, 60)

    @long
    def test_files_redirects_and_fields(self):
        host = "static.style.dev"
        files = {"kind": "files", "files": {
            "public/index.html": {"content": "<h1>home</h1>"}, "public/about.html": {"content": "about"},
            "public/a.bin": {"content": base64.b64encode(b"\0\1").decode(), "encoding": "base64"}, "secret.txt": {"content": "not public"}}}
        self.deploy(src=files, domains=[host], staticOnly=True, publicDir="public", cleanUrls=True,
                    redirects=[{"source": "/old/(.*)", "destination": "/new/$1", "permanent": False}],
                    headers=[{"source": "/a.bin", "headers": [{"key": "X-Mine", "value": "yes"}]}],
                    rewrites=[{"source": "/home", "destination": "/index.html"}])
        def get(path, *args):
            return self.e.curl(f"https://{host}{path}", *args)
        self.assertEqual((get("/").body, get("/about").body, get("/home").body), (b"<h1>home</h1>", b"about", b"<h1>home</h1>"))
        self.assertEqual((get("/a.bin").body, get("/secret.txt").status, get("/../secret.txt", "--path-as-is").status), (b"\0\1", 404, 404))
        self.assertEqual((get("/old/x?y=1").status, get("/about.html").status), (307, 308))

    @long
    def test_from_git_and_from_an_archive(self):
        s = self.s
        repo = s.api("POST", "/git/v1/repo", {"name": "site", "import": {"type": "files", "commitMessage": "a", "files": {
            "app/package.json": json.dumps({"scripts": {"start": "node server.cjs", "build": "cp in.cjs server.cjs"}}),
            "app/in.cjs": "require('http').createServer((q, r) => r.end(JSON.stringify({version: 'git'}))).listen(process.env.PORT)"}}})["repoId"]
        self.addCleanup(s.api, "DELETE", f"/git/v1/repo/{repo}")
        d = self.deploy(src={"kind": "git", "url": f"https://git.freestyle.sh/{repo}", "dir": "app"}, build=True, domains=["git-site.style.dev"])
        self.assertEqual(self.get("git-site.style.dev")["version"], "git")
        log = "\n".join(x["message"] for x in s.api("GET", f"/observability/v1/logs?buildId={self.info(d)['buildId']}")["logs"])
        self.assertIn("npm run build", log)

    @long
    def test_pando_deploy(self):
        """pando deploy, pando deployment, pando cron call"""
        env = {**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}

        def pando(*args):
            r = subprocess.run([PANDO, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=290)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            return r.stdout
        with tempfile.TemporaryDirectory() as site:
            os.makedirs(os.path.join(site, "lib"))
            os.makedirs(os.path.join(site, "node_modules/left-here"))
            with open(os.path.join(site, "server.mjs"), "w") as f:
                f.write("import word from './lib/word.mjs'; import fs from 'fs'; import http from 'http';\n"
                        "http.createServer((q, r) => { console.log('asked for', q.url); r.end(JSON.stringify({ word, env: process.env.A,"
                        " there: fs.existsSync('node_modules') })); }).listen(process.env.PORT);")
            with open(os.path.join(site, "lib/word.mjs"), "w") as f:
                f.write("export default 'w\u00f6rd';")
            d = json.loads(pando("deploy", site, "-d", "by-command.style.dev", "-e", "A=b", "--idle", "1h", "--json"))["deploymentId"]
        self.addCleanup(self.drop, d)
        self.assertEqual(self.get("by-command.style.dev", "/x"), {"word": "w\u00f6rd", "env": "b", "there": False})
        self.assertIn(d, pando("deployment", "list", "--search", "by-command"))
        self.assertRegex(pando("deployment", "show", d), r"instances +1\n")
        wait_for("its log", lambda: "asked for /x" in pando("deployment", "logs", d), 30)
        schedule = json.loads(pando("cron", "call", "@yearly", d, "--path", "/tick", "--json"))["schedule"]
        self.assertEqual((schedule["deploymentId"], schedule["path"]), (d, "/tick"))
        pando("cron", "delete", schedule["id"])
        pando("deployment", "delete", d)
        self.assertNotIn(d, pando("deployment", "list"))


class DeploySdk(SiteRegistry, DeployBase):
    """The unmodified npm package and CLI."""
    long = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(560)
    def test_deploy(self):
        node.run(self, DIR, ["deploy.test.mjs"], {
            "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(),
            "NODE_OPTIONS": "--experimental-websocket", "PANDO_RUN_MODULE": "pando-site-test",
            "PANDO_EDGE_HTTP": f"http://127.0.0.1:{self.http_port}"}, 540)
