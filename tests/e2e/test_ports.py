# SPDX-License-Identifier: Apache-2.0
"""Ports of the server that lead to ports of VMs, byte for byte, and where a VM's own name leads"""
import hashlib
import http.client
import os
import socket
import subprocess

from case import Case, limit, wait_for
from harness import ROOT
from ports import free_ports

FIRST = free_ports(8)
LAST = FIRST + 7
# Sends back the SHA-256 of what it got, in upper case, once the client has sent everything; "hold" keeps the connection.
APP = r"""
import hashlib, socket, socketserver
class H(socketserver.BaseRequestHandler):
    def handle(self):
        h, first = hashlib.sha256(), b""
        while True:
            d = self.request.recv(65536)
            if not d:
                break
            first = first or d
            h.update(d)
            if first.startswith(b"hold"):
                self.request.sendall(b"held")
                while self.request.recv(1): pass
                return
        self.request.sendall(h.hexdigest().encode() + b" " + bytes(200000))
class S(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
class U(socketserver.BaseRequestHandler):
    def handle(self):
        data, s = self.request
        s.sendto(data.upper(), self.client_address)
import threading
threading.Thread(target=socketserver.ThreadingUDPServer(("0.0.0.0", 5001), U).serve_forever).start()
S(("0.0.0.0", 5000), H).serve_forever()
"""


def receive(s):
    got = b""
    while True:
        d = s.recv(65536)
        if not d:
            return got
        got += d


class Ports(Case):
    server_env = {"PANDO_PORT_RANGE": f"{FIRST}-{LAST}"}
    limit_s = 200

    def dial(self, port):
        return socket.create_connection(("127.0.0.1", port), 120)

    def hash_of(self, port, data):
        with self.dial(port) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = receive(s)
        return got

    def ask(self, port, data):
        """One datagram, sent once, and the answer; another client in between is another's business."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for one in (s, other):
                one.settimeout(90)
                one.connect(("127.0.0.1", port))
            s.send(data)
            other.send(b"other")
            self.assertEqual(other.recv(65536), b"OTHER")
            return s.recv(65536)

    def assert_works(self, port):
        data = os.urandom(700000)
        self.assertEqual(self.hash_of(port, data), hashlib.sha256(data).hexdigest().encode() + b" " + bytes(200000))

    def by_name(self, vm):
        """Status of a request for the VM's own name."""
        c = http.client.HTTPConnection("127.0.0.1", self.s.edge_http_port, timeout=60)
        try:
            c.request("GET", "/", headers={"Host": f"{vm}.style.dev"})
            return c.getresponse().status
        finally:
            c.close()

    def serve(self, vm):
        self.s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fapp.py", {"content": APP, "encoding": "utf8"})
        self.s.sh(vm, "setsid python3 /root/app.py >/dev/null 2>&1 & setsid python3 -m http.server 8000 -d /srv >/dev/null 2>&1 & "
                      "timeout 60 sh -c 'until ss -ltn | grep -q :5000 && ss -ltn | grep -q :8000; do sleep 0.2; done'")

    @limit(400)
    def test_tcp(self):
        made = self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, "ports": [{"port": 443, "targetPort": 8000}, {"targetPort": 5000}]})
        vm, port = made["id"], next(p["port"] for p in made["ports"] if p["targetPort"] == 5000)
        self.assertTrue(FIRST <= port <= LAST, made)
        self.serve(vm)
        self.assert_works(port)
        self.assertEqual(self.by_name(vm), 200)
        # A connection to a sleeping VM is its first one and succeeds; one that was open when it fell asleep is over
        held = self.dial(port)
        held.sendall(b"hold")
        self.assertEqual(held.recv(4), b"held")
        self.s.post(vm, "suspend")
        self.assertEqual(receive(held), b"")
        held.close()
        self.assert_works(port)
        # Datagrams: each client has its answers, and the first of them finds a sleeping VM
        udp = self.s.post(vm, "ports", {"targetPort": 5001, "protocol": "udp"})["port"]
        self.assertEqual(self.ask(udp, b"hello"), b"HELLO")
        self.s.post(vm, "suspend")
        self.assertEqual(self.ask(udp, b"again"), b"AGAIN")
        # The port stays with its VM
        other = self.s.create()
        self.refused(409, "CONFLICT", self.s.post, other, "ports", {"port": port, "targetPort": 22})
        self.s.kill9_pandod()
        self.s.wait_ready()
        self.assert_works(port)
        copy = self.s.fork(vm)[0]
        self.assertEqual(self.by_name(copy), 200)
        self.assertEqual([p["port"] for p in self.s.api("GET", f"/v1/vms/{copy}/ports")["ports"]], [443])
        self.s.delete(copy)
        # Elsewhere, and nowhere
        self.s.post(vm, "ports", {"port": port, "targetPort": 8000})
        with self.dial(port) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 OK", receive(s))
        self.s.api("DELETE", f"/v1/vms/{vm}/ports/443")
        self.assertEqual(self.by_name(vm), 404)
        self.s.delete(vm)
        wait_for("nobody listens any more", lambda: self.is_free(port), 30)
        self.assertEqual(self.s.post(other, "ports", {"port": port, "targetPort": 22})["port"], port)
        self.s.delete(other)

    def is_free(self, port):
        try:
            self.dial(port).close()
            return False
        except ConnectionRefusedError:
            return True

    def test_nothing_listens(self):
        """The client is let go, at once."""
        vm = self.s.create()
        port = self.s.post(vm, "ports", {"targetPort": 4999})["port"]
        with self.dial(port) as s:
            try:
                self.assertEqual(s.recv(1), b"")
            except ConnectionResetError:
                pass
        def pando(*args):
            return subprocess.run([os.path.join(ROOT, "build/cli/pando"), "vm", *args], check=True, text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}).stdout
        second = pando("port-map", vm, "22").strip()
        self.assertIn(second, pando("ports", vm))
        pando("port-unmap", vm, second)
        self.assertNotIn(second, pando("ports", vm))
        self.refused(400, "INVALID_PARAMETERS", self.s.post, vm, "ports", {"port": 8081, "targetPort": 80})
        self.s.delete(vm)
