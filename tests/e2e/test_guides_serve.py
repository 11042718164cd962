# SPDX-License-Identifier: Apache-2.0
"""Guides that serve something: installed in a builder VM, running in its snapshot, reached by a name or through SSH, kept through sleep

What has no package in Debian or npm is served by what has: a web terminal by shellinabox instead of ttyd (examples/guides has the
product's own), Flask by Debian's package in a virtual environment.
"""
import json
import re
import socket
import subprocess
import time
import urllib.parse
import uuid

from case import wait_for
from guide import GUEST_CA, Guide
from ports import free_port
from ws import TEXT, WebSocket

NODE = """const http = require("http");
let visits = 0;
http.createServer((req, res) => {
  res.writeHead(200, { "Content-Type": "text/plain" });
  res.end(`Hello from Node.js, visit ${++visits}\\n`);
}).listen(3000, "0.0.0.0");
"""
FLASK = """from flask import Flask, Response
app = Flask(__name__)
visits = 0

@app.get("/")
def index():
    global visits
    visits += 1
    return f"Hello from Flask, visit {visits}\\n"

@app.get("/stream")
def stream():
    return Response((f"data: {i}\\n\\n" for i in range(3)), mimetype="text/event-stream")

app.run(host="0.0.0.0", port=3000)
"""
PHP = """<?php
session_id("everybody"); session_start();
$_SESSION["visits"] = ($_SESSION["visits"] ?? 0) + 1;
echo "Hello from PHP ", PHP_MAJOR_VERSION, ", visit ", $_SESSION["visits"], "\\n";
"""
VITE_CONF = """export default { server: { host: "0.0.0.0", port: 5173, strictPort: true, allowedHosts: [".style.dev"] } };
"""
VITE_PAGE = '<!doctype html><div id="app"></div><script type="module" src="/main.js"></script>\n'
VITE_MAIN = 'import { text } from "./text.js";\ndocument.querySelector("#app").textContent = text;\nimport.meta.hot.accept("./text.js", () => {});\n'
JUPYTER = ("/usr/bin/jupyter-lab --ip=0.0.0.0 --port=8888 --no-browser --allow-root --ServerApp.allow_remote_access=True "
           "--ServerApp.allow_origin=* --IdentityProvider.token= --ServerApp.disable_check_xsrf=True")


class Kernel:
    """A kernel of Jupyter, through the edge's WebSocket."""

    def __init__(self, port, domain, kernel):
        self.ws = WebSocket(port, f"/api/kernels/{kernel}/channels", headers={"Host": domain, "Origin": f"http://{domain}"}, timeout=300)

    def run(self, code):
        """What it printed."""
        ident = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
        header = {"msg_id": ident, "username": "test", "session": "test", "msg_type": "execute_request", "version": "5.3"}
        self.ws.frame(TEXT, json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell",
                                        "buffers": []}).encode())
        printed = ""
        while True:
            kind, data = self.ws.message(timeout=300)
            assert kind == TEXT, kind
            m = json.loads(data)
            if m["parent_header"].get("msg_id") != ident:
                continue
            if m["msg_type"] == "stream":
                printed += m["content"]["text"]
            if m["msg_type"] == "error":
                raise AssertionError(m["content"])
            if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                return printed


class Serve(Guide):
    """HTTP and WebSocket, by a name."""

    def visits(self, vm, domain, hello):
        """A snapshot's server answers at once, and its memory survives a suspend."""
        first = int(re.fullmatch(hello + r", visit (\d+)\n", self.get(domain))[1])
        self.assertEqual(self.get(domain), f"{hello}, visit {first + 1}\n")
        self.s.post(vm, "suspend")
        self.assertEqual(self.get(domain), f"{hello}, visit {first + 2}\n")

    def test_node(self):
        vm = self.builder("node")
        self.write(vm, "/srv/server.js", NODE)
        self.service(vm, "nodeserver", "/usr/bin/node /srv/server.js")
        self.answers(vm, 3000)
        vm = self.from_snapshot(self.keep(vm), "node-server", "guide-node.style.dev", 3000)
        self.visits(vm, "guide-node.style.dev", "Hello from Node.js")
        self.assertEqual(self.e.curl(f"https://{vm}.style.dev/").status, 200)  # port 3000 has a name from the start

    def test_python(self):
        vm = self.builder("python", "python3-flask")
        self.s.sh(vm, "python3 -m venv --system-site-packages --without-pip /opt/venv", timeout_ms=600000)
        self.write(vm, "/srv/server.py", FLASK)
        self.service(vm, "pyserver", "/opt/venv/bin/python /srv/server.py")
        self.answers(vm, 3000)
        vm = self.from_snapshot(self.keep(vm), "python-server", "guide-python.style.dev", 3000)
        self.visits(vm, "guide-python.style.dev", "Hello from Flask")
        self.assertEqual(self.get("guide-python.style.dev", "/stream"), "data: 0\n\ndata: 1\n\ndata: 2\n\n")

    def test_php(self):
        vm = self.builder("php", "php-cli")
        self.write(vm, "/srv/index.php", PHP)
        self.service(vm, "php-server", "/usr/bin/php -S 0.0.0.0:3000 -t /srv")
        self.answers(vm, 3000)
        vm = self.from_snapshot(self.keep(vm), "php-server", "guide-php.style.dev", 3000)
        self.visits(vm, "guide-php.style.dev", "Hello from PHP 8")

    def test_vite(self):
        """The page, and a change that reaches the browser through the WebSocket of hot reload."""
        domain = "guide-vite.style.dev"
        vm = self.builder("vite")
        self.trust_this_host(vm)
        self.write(vm, "/srv/app/package.json", '{"private": true, "type": "module"}\n')
        for name, text in (("vite.config.js", VITE_CONF), ("index.html", VITE_PAGE), ("main.js", VITE_MAIN), ("text.js", 'export const text = "one";\n')):
            self.write(vm, f"/srv/app/{name}", text)
        self.work(vm, f"cd /srv/app && npm_config_cafile={GUEST_CA} npm_config_fetch_timeout=1200000 npm install --no-audit --no-fund vite@6")
        self.service(vm, "vite", "/usr/bin/node /srv/app/node_modules/vite/bin/vite.js", cwd="/srv/app")
        self.answers(vm, 5173)
        vm = self.from_snapshot(self.keep(vm), "vite-server", domain, 5173)
        self.assertIn("/@vite/client", self.get(domain))
        self.get(domain, "/main.js")
        self.assertIn('"one"', self.get(domain, "/text.js"))
        token = re.search(r'wsToken = "([^"]+)"', self.get(domain, "/@vite/client"))[1]
        ws = WebSocket(self.http_port, f"/?token={urllib.parse.quote(token)}", timeout=300,
                       headers={"Host": domain, "Origin": f"http://{domain}", "Sec-WebSocket-Protocol": "vite-hmr"})
        self.addCleanup(ws.close)
        self.assertEqual(json.loads(ws.message(300)[1])["type"], "connected")
        self.write(vm, "/srv/app/text.js", 'export const text = "two";\n')
        while (m := json.loads(ws.message(300)[1]))["type"] == "ping":
            pass
        self.assertEqual((m["type"], m["updates"][0]["acceptedPath"]), ("update", "/text.js"))
        self.assertIn('"two"', self.get(domain, "/text.js"))
        self.s.post(vm, "suspend")
        self.assertIn('"two"', self.get(domain, "/text.js"))

    def test_a_web_terminal(self):
        """shellinabox: a session in a browser's requests, still there after sleep."""
        domain = "guide-terminal.style.dev"
        vm = self.builder("terminal", "shellinabox")
        self.s.sh(vm, "systemctl disable --now shellinabox")
        self.service(vm, "terminal", "/usr/bin/shellinaboxd --disable-ssl --no-beep --port=7681 --service=/:root:root:/root:/bin/bash")
        self.answers(vm, 7681)
        vm = self.from_snapshot(self.keep(vm), "terminal-server", domain, 7681)

        def ask(**form):
            body = urllib.parse.urlencode({"width": 80, "height": 24, "rooturl": f"https://{domain}/", **form}).encode()
            r = self.e.curl(f"https://{domain}/", "--data-binary", "@-", data=body)
            self.assertEqual(r.status, 200, r.body)
            return json.loads(r.body) if r.body.startswith(b"{") else {}  # what was typed has no answer but the status
        session = ask()["session"]

        def type_and_see(line, want):
            ask(session=session, keys=line.encode().hex().upper())
            seen, end = "", time.monotonic() + 300
            while want not in seen:
                self.assertLess(time.monotonic(), end, f"no {want!r} in {seen!r}")
                seen += ask(session=session).get("data", "")
        type_and_see("kept=$((6 * 7)); echo is $kept\r", "is 42")
        self.s.post(vm, "suspend")
        type_and_see("echo still $kept\r", "still 42")

    def test_jupyter(self):
        """A variable of a kernel survives a suspend."""
        domain = "guide-jupyter.style.dev"
        vm = self.builder("jupyter", "jupyterlab", "python3-ipykernel")
        self.service(vm, "jupyter", JUPYTER, cwd="/root")
        self.answers(vm, 8888, "/api")
        vm = self.from_snapshot(self.keep(vm), "jupyter-server", domain, 8888)
        self.assertIn("JupyterLab", self.get(domain, "/lab"))
        r = self.e.curl(f"https://{domain}/api/kernels", "-X", "POST", "-H", "Content-Type: application/json", "-d", "{}")
        self.assertEqual(r.status, 201, r.body)
        kernel = Kernel(self.http_port, domain, r.json()["id"])
        self.assertEqual(kernel.run("x = 41\nprint('there')"), "there\n")
        kernel.ws.close()
        self.s.post(vm, "suspend")
        kernel = Kernel(self.http_port, domain, r.json()["id"])
        self.assertEqual(kernel.run("print(x + 1)"), "42\n")
        kernel.ws.close()


class Databases(Guide):
    """Not HTTP: asked from inside, and from outside through SSH."""

    def tunnel(self, vm, port):
        """A port of this host that leads to one of the VM."""
        local = free_port()
        p = subprocess.Popen(["ssh", "-N", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes",
                              "-o", "ExitOnForwardFailure=yes", "-p", str(self.s.ssh_port), "-l", f"{vm}:{self.s.key()}", "-L", f"127.0.0.1:{local}:127.0.0.1:{port}",
                              "127.0.0.1"], stdin=subprocess.DEVNULL)

        def end():
            p.terminate()
            p.wait(60)
        self.addCleanup(end)

        def up():
            self.assertIsNone(p.poll(), "ssh ended")
            try:
                socket.create_connection(("127.0.0.1", local), timeout=5).close()
                return True
            except OSError:
                return False
        wait_for("the tunnel", up, 120)
        return local

    def exchange(self, port, data):
        with socket.create_connection(("127.0.0.1", port), timeout=120) as c:
            c.sendall(data)
            return c.recv(100)

    def test_redis(self):
        vm = self.builder("redis", "redis-server")
        self.s.sh(vm, "systemctl enable --now redis-server", timeout_ms=300000)
        self.until(vm, "redis-cli PING", "PONG", "redis answers")
        vm = self.from_snapshot(self.keep(vm), "redis-sandbox")
        self.assertEqual(self.s.sh(vm, "redis-cli PING"), "PONG")
        self.assertEqual(self.s.sh(vm, "redis-cli SET greeting hello; redis-cli INCR counter; redis-cli GET greeting").split(), ["OK", "1", "hello"])
        self.s.post(vm, "suspend")
        self.assertEqual(self.s.sh(vm, "redis-cli INCR counter; redis-cli GET greeting").split(), ["2", "hello"])
        self.assertEqual(self.exchange(self.tunnel(vm, 6379), b"PING\r\n"), b"+PONG\r\n")

    def test_postgres(self):
        vm = self.builder("postgres", "postgresql")
        self.s.sh(vm, "systemctl start postgresql", timeout_ms=300000)
        self.until(vm, 'su postgres -c pg_isready || true', "accepting connections", "postgres answers")
        vm = self.from_snapshot(self.keep(vm), "postgres-sandbox")

        def psql(text):
            self.write(vm, "/tmp/query.sql", text)
            return self.s.sh(vm, "su postgres -c 'psql -AtX -v ON_ERROR_STOP=1 -f /tmp/query.sql'", timeout_ms=120000).split()
        psql("CREATE TABLE fruits (id serial PRIMARY KEY, name text); INSERT INTO fruits (name) VALUES ('apple'), ('banana');")
        boot = psql("SELECT pg_postmaster_start_time();")
        self.s.post(vm, "suspend")
        self.assertEqual(psql("SELECT id, name FROM fruits ORDER BY id;"), ["1|apple", "2|banana"])
        self.assertEqual(psql("SELECT pg_postmaster_start_time();"), boot)
        self.assertIn(self.exchange(self.tunnel(vm, 5432), b"\0\0\0\x08\x04\xd2\x16\x2f"), (b"S", b"N"))  # "may we speak TLS?"
