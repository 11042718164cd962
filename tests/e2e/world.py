# SPDX-License-Identifier: Apache-2.0
"""world.py - a simulated internet: a namespace with public-looking addresses, a name server, web servers

Addresses are those reserved for documentation. The host gets a link to it that holds a default route of the lowest
preference, so that guests are let out to it. Everything the servers see is written down, one JSON object a line.
"""
import fcntl
import json
import os
import subprocess
import sys
import tempfile

from harness import wait_for

NET = "198.51.100"
DNS = f"{NET}.53"
NAMES = {
    "one.test": f"{NET}.10", "two.test": f"{NET}.10", "deep.one.test": f"{NET}.10", "three.test": f"{NET}.30",
    "inject.test": f"{NET}.40", "inside.test": "10.77.66.55",
}
ADDRESSES = [DNS, f"{NET}.10", f"{NET}.30", f"{NET}.40"]

SERVE = r'''
import http.server, json, socket, socketserver, ssl, struct, sys, threading
conf = json.loads(sys.argv[1])
lock = threading.Lock()
def say(**what):
    with lock:
        print(json.dumps(what), flush=True)

listening = threading.Semaphore(0)

def dns():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((conf["dns"], 53))
    listening.release()
    while True:
        p, peer = s.recvfrom(4096)
        at, labels = 12, []
        while p[at]:
            labels.append(p[at + 1:at + 1 + p[at]].decode("latin1"))
            at += p[at] + 1
        name, kind = ".".join(labels).lower(), struct.unpack(">H", p[at + 1:at + 3])[0]
        say(dns=name, type=kind)
        ip = conf["names"].get(name)
        answer = b""
        if ip and kind == 1:
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(ip)
        head = p[:2] + struct.pack(">HHHHH", 0x8180 | (0 if ip else 3), 1, 1 if answer else 0, 0, 0)
        s.sendto(head + p[12:at + 5] + answer, peer)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"hello from " + self.headers.get("Host", "").encode() + b"\n"
        if self.path == "/big":
            body = b"x" * 3000000
        say(path=self.path, host=self.headers.get("Host"), tls=isinstance(self.connection, ssl.SSLSocket),
            headers=dict(self.headers))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        say(path=self.path, host=self.headers.get("Host"), posted=len(body), headers=dict(self.headers))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    def handle_error(self, request, client):
        pass
    def server_bind(self):  # without looking its own name up
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

def web(ip, port, tls):
    s = Server((ip, port), Handler)
    if tls:
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(conf["cert"], conf["key"])
        s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
    listening.release()
    s.serve_forever()

def echo(ip, port):
    s = socket.create_server((ip, port))
    listening.release()
    while True:
        c, peer = s.accept()
        def go(c=c):
            say(echo=port, ip=ip)
            with c:
                while True:
                    d = c.recv(65536)
                    if not d:
                        return
                    c.sendall(d)
        threading.Thread(target=go, daemon=True).start()

def udp(ip, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((ip, port))
    listening.release()
    while True:
        p, peer = s.recvfrom(4096)
        say(udp=port, ip=ip)
        s.sendto(p, peer)

threads = [threading.Thread(target=dns, daemon=True)]
for ip in conf["web"]:
    threads += [threading.Thread(target=web, args=(ip, 80, False), daemon=True),
                threading.Thread(target=web, args=(ip, 443, True), daemon=True),
                threading.Thread(target=echo, args=(ip, 9000), daemon=True),
                threading.Thread(target=udp, args=(ip, 443), daemon=True),
                threading.Thread(target=udp, args=(ip, 9000), daemon=True)]
for t in threads:
    t.start()
for t in threads:
    listening.acquire()
say(ready=True)
threads[0].join()
'''


def run(*argv):
    subprocess.run(argv, check=True, capture_output=True)


class World:
    def __init__(self):
        self.ns = f"pw-{os.getpid()}"
        self.link = f"pww{os.getpid() % 1000000}"
        self.dir = tempfile.mkdtemp(prefix="pando-world-")
        os.chmod(self.dir, 0o755)
        self.proc = None
        self.log = None
        self.turn = None

    def certificates(self):
        """A CA and a certificate for all names except three.test, whose server has an untrusted one."""
        ca, key, cert, csr, ext = (os.path.join(self.dir, f) for f in ("ca.pem", "key.pem", "cert.pem", "csr.pem", "ext"))
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
            "-subj", "/CN=world test authority", "-keyout", os.path.join(self.dir, "ca.key"), "-out", ca)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=world",
            "-keyout", key, "-out", csr)
        with open(ext, "w") as f:
            f.write("subjectAltName=DNS:one.test,DNS:two.test,DNS:inject.test\n")
        run("openssl", "x509", "-req", "-in", csr, "-CA", ca, "-CAkey", os.path.join(self.dir, "ca.key"), "-CAcreateserial",
            "-days", "3", "-extfile", ext, "-out", cert)
        os.chmod(ca, 0o644)
        return ca, cert, key

    def open(self):
        # its addresses are in the host's routes, once: the lanes take turns
        self.turn = open("/run/lock/pando-test-world", "w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        self.ca, cert, key = self.certificates()
        run("ip", "netns", "add", self.ns)
        for command in (f"ip link add {self.link} type veth peer name eth0 netns {self.ns}",
                        f"ip addr add 192.0.2.1/30 dev {self.link}", f"ip link set {self.link} up",
                        f"ip -n {self.ns} addr add 192.0.2.2/30 dev eth0", f"ip -n {self.ns} link set eth0 up",
                        f"ip -n {self.ns} link set lo up", f"ip -n {self.ns} route add default via 192.0.2.1",
                        f"ip route add {NET}.0/24 via 192.0.2.2 dev {self.link}",
                        f"ip route add default via 192.0.2.2 dev {self.link} metric 99999"):
            run(*command.split())
        for address in ADDRESSES:
            run("ip", "-n", self.ns, "addr", "add", address + "/32", "dev", "lo")
        conf = {"dns": DNS, "names": NAMES, "web": ADDRESSES[1:], "cert": cert, "key": key}
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.proc = subprocess.Popen(["ip", "netns", "exec", self.ns, sys.executable, "-c", SERVE, json.dumps(conf)],
                                     stdout=self.log, stdin=subprocess.DEVNULL)
        wait_for("the world is there", lambda: any("ready" in e for e in self.seen()), 20)
        return self

    def seen(self):
        """Everything the servers were asked, in order."""
        with open(self.log.name) as f:
            return [json.loads(line) for line in f.read().splitlines() if line.endswith("}")]

    def asked(self, **want):
        return [e for e in self.seen() if all(e.get(k) == v for k, v in want.items())]

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
        if self.turn:
            self.turn.close()
            self.turn = None
