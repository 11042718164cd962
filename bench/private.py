# SPDX-License-Identifier: Apache-2.0
"""private.py - paths to a VM: from another VM of its VPC, through a tunnel, through the edge; each by latency and by throughput

Two VMs and one tunnel for all rounds. Throughput is what one connection carries from the VM, which an emulated processor limits long
before the way does: the three say more beside each other than alone.
"""
import http.client
import os
import re
import ssl
import statistics
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/e2e"))
from harness import wait_for  # noqa: E402
from kinds import Clock  # noqa: E402
from test_wireguard import Client  # noqa: E402

ENV = {"PANDO_WG_HOST": "192.0.2.129", "PANDO_WG_PORT": "52821"}
ROUNDS_MAX = 4
LIMIT_S = 90  # no round begins that would end later
PINGS, GETS = 10, 20
MB = 8
FAR = "192.168.44.10"
NAME = "bench.pando.localhost"
# 7000: bytes to whoever connects; 8000: HTTP/1.1 with kept connections
SERVE = f"""
import http.server, socketserver, threading
block = bytes(1 << 16)
class Raw(socketserver.BaseRequestHandler):
    def handle(self):
        for _ in range({MB} * 16):
            self.request.sendall(block)
class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def log_message(self, *_):
        pass
    def do_GET(self):
        n = {MB} * 16 if self.path == "/large" else 0
        self.send_response(200)
        self.send_header("Content-Length", str(n * len(block) or 2))
        self.end_headers()
        for _ in range(n):
            self.wfile.write(block)
        if not n:
            self.wfile.write(b"ok")
class Raws(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
threading.Thread(target=Raws(("0.0.0.0", 7000), Raw).serve_forever).start()
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Web).serve_forever()
"""
TAKE = ("import socket,time; s=socket.create_connection(('{}',7000),60); t=time.monotonic(); n=0\n"
        "while True:\n d=s.recv(1<<18)\n if not d: break\n n+=len(d)\n"
        "assert n == {}, n\nprint(n/1e6/(time.monotonic()-t))").format(FAR, MB << 20)


def average(text):
    """Of ping; none lost."""
    m = re.search(r" 0% packet loss.*= [\d.]+/([\d.]+)/", text, re.S)
    if not m:
        raise RuntimeError(f"ping: {text}")
    return float(m[1])


def serve(b, vm):
    b.s.sh(vm, f"cat >/root/serve.py <<'END'\n{SERVE}\nEND\nsetsid python3 /root/serve.py >/root/serve.log 2>&1 </dev/null &\n"
               "for i in $(seq 300); do [ $(ss -ltnH '( sport = :7000 or sport = :8000 )' | wc -l) = 2 ] && exit 0; sleep 0.1; done; cat /root/serve.log; exit 1",
           timeout_ms=60000)


def between(b, near):
    b.record.add("vpc.ping", average(b.s.sh(near, f"ping -q -c {PINGS} -i 0.2 {FAR}")))
    b.record.add("vpc.rate", float(b.s.sh(near, f'python3 -c "{TAKE}"', timeout_ms=120000)))


def through_tunnel(b, client):
    b.record.add("wg.ping", average(client.run("ping", "-q", "-c", str(PINGS), "-i", "0.2", FAR).stdout))
    out = client.run("python3", "-c", TAKE, timeout=120)
    if out.returncode:
        raise RuntimeError(out.stderr)
    b.record.add("wg.rate", float(out.stdout))


class Https(http.client.HTTPSConnection):
    """The edge's address, whatever the name."""

    def __init__(self, server):
        ctx = ssl.create_default_context(cafile=os.path.join(server.dir, "certs/ca.crt"))
        super().__init__(NAME, server.edge_port, timeout=60, context=ctx)
        make = self._create_connection
        self._create_connection = lambda at, *rest: make(("127.0.0.1", at[1]), *rest)

    def get(self, path):
        self.request("GET", path)
        r = self.getresponse()
        body = r.read()
        if r.status != 200:
            raise RuntimeError(f"the edge answers {r.status}: {body[:200]}")
        return len(body)


def through_edge(b):
    c = Https(b.s)
    try:
        c.get("/")
        took = []
        for _ in range(GETS):
            clock = Clock()
            c.get("/")
            took.append(clock.ms())
        b.record.add("edge.vm.get", statistics.median(took))
        clock = Clock()
        n = c.get("/large")
        b.record.add("edge.vm.rate", n / 1e3 / clock.ms())
        if n != MB << 20:
            raise RuntimeError(f"{n} bytes through the edge, not {MB} MB")
    finally:
        c.close()


def private(b, rounds):
    b.rest()
    clock = Clock()
    client, vpc, vms = Client(), b.s.api("POST", "/v1/vpcs", {"cidr": "192.168.44.0/24"})["vpcId"], []
    try:
        client.open()
        for ipv4 in (FAR, True):
            vms.append(b.s.create(nics=[{"vpc": vpc, "mode": "routed", "default": True, "ipv4": ipv4}]))
        serve(b, vms[0])
        b.s.api("POST", f"/domains/v1/mappings/{NAME}", {"domain": NAME, "vmId": vms[0], "vmPort": 8000})
        client.quick("up", b.s.api("POST", f"/v1/vpcs/{vpc}/wireguard/ephemeral", {})["clientConfig"])
        wait_for("the tunnel carries", lambda: client.ping(FAR), 40)
        for i in range(1, rounds + 1):
            between(b, vms[1])
            through_tunnel(b, client)
            through_edge(b)
            if clock.ms() * (i + 1) / i > LIMIT_S * 1e3:
                break  # on a slow machine there are fewer samples
    finally:
        client.close()
        for vm in vms:
            b.s.delete(vm)
        b.s.api("DELETE", f"/v1/vpcs/{vpc}")
