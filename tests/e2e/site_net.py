# SPDX-License-Identifier: Apache-2.0
"""site_net.py - a company's network: a namespace with private addresses, a proxy with a password, a mirror, a web server with a certificate of
the company's own authority

The proxy resolves names itself: those of the company's web server lead to that, everything else to nothing. Everything that is asked is written
down, one JSON object a line.
"""
import base64
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile

from harness import wait_for

USER, PASSWORD = "guest", "s3cret:with/slash"
PROXY_PORT, MIRROR_PORT = 8888, 8081

SERVE = r'''
import base64, gzip, hashlib, http.server, json, socket, socketserver, ssl, sys, tarfile, threading, io
conf = json.loads(sys.argv[1])
lock = threading.Lock()
def say(**what):
    with lock:
        print(json.dumps(what), flush=True)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    def handle_error(self, request, client):
        pass
    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

class Base(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a):
        pass
    def answer(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Web(Base):
    def do_GET(self):
        say(web=self.headers.get("Host"), path=self.path, headers=dict(self.headers))
        self.answer(200, b"hello from " + self.headers.get("Host", "").encode() + b"\n")

def package():
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w:gz") as t:
        text = json.dumps({"name": "pando-site-test", "version": "1.0.0", "main": "i.js"}).encode()
        for name, data in (("package/package.json", text), ("package/i.js", b"module.exports = 43\n")):
            i = tarfile.TarInfo(name)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
    return b.getvalue()
TGZ = package()

class Mirror(Base):
    def do_GET(self):
        say(mirror=self.path, host=self.headers.get("Host"), proxied="Proxy-Authorization" in self.headers)
        at = "http://" + self.headers.get("Host", "")
        if self.path == "/pip/simple/pandosite/":
            self.answer(200, b'<a href="/pip/pandosite-1.0-py3-none-any.whl">pandosite-1.0-py3-none-any.whl</a>', "text/html")
        elif self.path == "/pip/pandosite-1.0-py3-none-any.whl":
            self.answer(200, base64.b64decode(conf["wheel"]), "application/octet-stream")
        elif self.path == "/npm/pando-site-test":
            v = {"name": "pando-site-test", "version": "1.0.0", "dist": {"tarball": at + "/npm/t.tgz", "shasum": hashlib.sha1(TGZ).hexdigest()}}
            self.answer(200, json.dumps({"name": "pando-site-test", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": v}}).encode(), "application/json")
        elif self.path == "/npm/t.tgz":
            self.answer(200, TGZ, "application/octet-stream")
        else:
            self.answer(404, b"no\n")

class Proxy(Base):
    def allowed(self):
        want = "Basic " + base64.b64encode(conf["password"].encode()).decode()
        ok = self.headers.get("Proxy-Authorization") == want
        say(proxy=self.path, method=self.command, ok=ok, version=self.request_version)
        if not ok:
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return ok
    def do_CONNECT(self):
        if not self.allowed():
            return
        name, port = self.path.rsplit(":", 1)
        if name not in conf["names"]:
            return self.answer(504, b"no such name\n")
        up = socket.create_connection(("127.0.0.1", int(port)))
        self.send_response(200)
        self.end_headers()
        def copy(a, b):
            try:
                while (d := a.recv(65536)):
                    b.sendall(d)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        t = threading.Thread(target=copy, args=(up, self.connection), daemon=True)
        t.start()
        copy(self.connection, up)
        t.join()
        self.close_connection = True
    def do_GET(self):
        if self.allowed():
            self.answer(200, b"by proxy: " + self.path.encode() + b"\n")

def web():
    s = Server(("127.0.0.1", 443), Web)
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(conf["cert"], conf["key"])
    s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
    return s
servers = [web(), Server((conf["address"], conf["proxy_port"]), Proxy), Server((conf["address"], conf["mirror_port"]), Mirror)]
for s in servers:
    threading.Thread(target=s.serve_forever, daemon=True).start()
say(ready=True)
threading.Event().wait()
'''


def run(*argv):
    subprocess.run(argv, check=True, capture_output=True)


def wheel():
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("pandosite.py", "value = 42")
        z.writestr("pandosite-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pandosite\nVersion: 1.0\n")
        z.writestr("pandosite-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("pandosite-1.0.dist-info/RECORD", "")
    return base64.b64encode(b.getvalue()).decode()


class SiteNet:
    def __init__(self):
        self.ns, self.link = f"ps-{os.getpid()}", f"psn{os.getpid() % 1000000}"
        self.net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"
        self.address = f"{self.net}.2"
        self.dir = tempfile.mkdtemp(prefix="pando-site-")
        os.chmod(self.dir, 0o755)
        self.proc = self.log = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def authority(self, name):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
            "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"))
        os.chmod(self.path(f"{name}.pem"), 0o644)
        return self.path(f"{name}.pem")

    def certificate(self, authority, names):
        with open(self.path("ext"), "w") as f:
            f.write("authorityKeyIdentifier=keyid\nsubjectAltName=" + ",".join(f"DNS:{n}" for n in names) + "\n")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=site",
            "-keyout", self.path("key.pem"), "-out", self.path("csr.pem"))
        run("openssl", "x509", "-req", "-in", self.path("csr.pem"), "-CA", authority, "-CAkey", authority.replace(".pem", ".key"),
            "-CAcreateserial", "-days", "3", "-extfile", self.path("ext"), "-out", self.path("cert.pem"))

    def open(self):
        names = ["secure.site.test", "inject.site.test", "other.site.test"]
        self.certificate(self.authority("site"), names)
        run("ip", "netns", "add", self.ns)
        for command in (f"ip link add {self.link} type veth peer name eth0 netns {self.ns}",
                        f"ip addr add {self.net}.1/30 dev {self.link}", f"ip link set {self.link} up",
                        f"ip -n {self.ns} addr add {self.address}/30 dev eth0", f"ip -n {self.ns} link set eth0 up",
                        f"ip -n {self.ns} link set lo up"):
            run(*command.split())
        conf = {"address": self.address, "proxy_port": PROXY_PORT, "mirror_port": MIRROR_PORT, "names": names,
                "password": f"{USER}:{PASSWORD}", "cert": self.path("cert.pem"), "key": self.path("key.pem"), "wheel": wheel()}
        self.log = open(self.path("log"), "w+")
        self.proc = subprocess.Popen(["ip", "netns", "exec", self.ns, sys.executable, "-c", SERVE, json.dumps(conf)],
                                     stdout=self.log, stdin=subprocess.DEVNULL)
        wait_for("the company's network is there", lambda: any("ready" in e for e in self.seen()), 30)
        return self

    def seen(self):
        with open(self.log.name) as f:
            return [json.loads(line) for line in f.read().splitlines() if line.endswith("}")]

    def close(self):
        """May be called twice."""
        if self.proc:
            self.proc.kill()
            self.proc.wait()
            self.proc = None
        if self.log:
            self.log.close()
            self.log = None
        subprocess.run(["ip", "link", "del", self.link], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.ns], capture_output=True)
        subprocess.run(["rm", "-rf", self.dir])


class SiteRegistry:
    """Before the Case among a class's bases: npm of guests asks a registry of the test's own, which has the package pando-site-test."""

    @classmethod
    def setUpClass(cls):
        cls.net = SiteNet()
        try:
            cls.net.open()
            cls.server_env = {**cls.server_env, "PANDO_GUEST_NPM_REGISTRY": f"http://{cls.net.address}:{MIRROR_PORT}/npm/"}
            super().setUpClass()
        except BaseException:
            cls.net.close()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def test_zz_leaves_nothing_behind(self):
        self.net.close()
        super().test_zz_leaves_nothing_behind()
