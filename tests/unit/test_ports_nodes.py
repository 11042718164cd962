#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mapped ports through a node that does not have the VM; usage: test_ports_nodes.py SERVE_AGENT [TEST...]

In a network namespace of its own, in which the address of every guest is one of this machine: what listens there is "in the VM".
"""
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from two_nodes import PORTS_AT, TwoNodes  # noqa: E402

GUEST = "10.0.0.2"
LIMIT_S = 180


class Echo:
    """Answers each client in the guest with what it sent, and its end with an end; datagrams alike."""

    def __init__(self, port):
        self.tcp = socket.create_server((GUEST, port))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((GUEST, port))
        for fn in (self.accept, self.answer):
            threading.Thread(target=fn, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                c, _ = self.tcp.accept()
                threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        with c, contextlib.suppress(OSError):
            while b := c.recv(65536):
                c.sendall(b)

    def answer(self):
        with contextlib.suppress(OSError):
            while True:
                b, who = self.udp.recvfrom(65536)
                if not who:
                    return  # closed
                self.udp.sendto(b"got " + b, who)

    def close(self):
        for s in (self.tcp, self.udp):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


def ended(s):
    """A socket that is closed before it was accepted, or with bytes unread, is reset."""
    try:
        return s.recv(10) == b""
    except ConnectionResetError:
        return True


class Ports(TwoNodes, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        TwoNodes.node_env = {"FX_PORTS": "20000-20007"}
        TwoNodes.start_nodes(sys.argv[1])

    @classmethod
    def tearDownClass(cls):
        TwoNodes.end_nodes()

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)
        self.addCleanup(signal.alarm, 0)

    def ask(self, node, method, path, body=None, status=200):
        got, _, data = node.call(method, path, body, self.key)
        self.assertEqual(got, status, data)
        return json.loads(data) if data else None

    def new(self, node, **ports):
        """Each test has ports of its own: the other node goes on listening for one that is gone until it looks again."""
        vm = self.ask(node, "POST", "/v1/vms", {})["id"]
        self.addCleanup(node.call, "DELETE", f"/v1/vms/{vm}", None, self.key)
        return vm, self.ask(node, "POST", f"/v1/vms/{vm}/ports", ports)["port"]

    def connect(self, name, port):
        """Once that node listens: it hears of what others map after a few seconds."""
        end = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection((PORTS_AT[name], port), timeout=60)
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), end, f"node {name} does not listen on {port}")
                time.sleep(0.1)

    def echo(self, port):
        e = Echo(port)
        self.addCleanup(e.close)

    def test_tcp(self):
        self.echo(5000)
        vm, port = self.new(self.one, targetPort=5000, port=20000)
        data = os.urandom(3 << 20)
        for name in ("one", "two"):
            with self.connect(name, port) as s:
                t = threading.Thread(target=lambda s=s: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
                t.start()
                got = b""
                while b := s.recv(65536):
                    got += b
                t.join()
                self.assertEqual(got, data)
        # it wakes the VM, and ends with it
        self.one.command("suspend")
        with self.connect("two", port) as s:
            s.sendall(b"awake")
            self.assertEqual(s.recv(10), b"awake")
            self.assertEqual(self.ask(self.two, "GET", f"/v1/vms/{vm}")["state"], "running")
            self.one.command("suspend")
            self.assertTrue(ended(s))
        # a number is one VM's on all nodes
        other = self.ask(self.two, "POST", "/v1/vms", {})["id"]
        self.addCleanup(self.two.call, "DELETE", f"/v1/vms/{other}", None, self.key)
        self.ask(self.two, "POST", f"/v1/vms/{other}/ports", {"port": port, "targetPort": 5000}, status=409)
        # and leads nowhere on any, once it is unmapped
        with self.connect("two", port) as s:
            s.sendall(b"still")
            self.assertEqual(s.recv(10), b"still")
            self.ask(self.two, "DELETE", f"/v1/vms/{vm}/ports/{port}")
            self.assertTrue(ended(s))
        end = time.monotonic() + 60
        with contextlib.suppress(ConnectionRefusedError):
            while True:
                with socket.create_connection((PORTS_AT["two"], port), timeout=60) as s:
                    self.assertTrue(ended(s))
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)

    def test_udp(self):
        self.echo(5001)
        vm, port = self.new(self.one, targetPort=5001, port=20001, protocol="udp")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((PORTS_AT["two"], port))
            for size in (1, 1400, 60000):
                data = b"%d " % size + b"x" * size
                end = time.monotonic() + 60
                while True:
                    with contextlib.suppress(ConnectionRefusedError):  # until it listens
                        s.send(data)
                    if select.select([s], [], [], 0.5)[0]:
                        with contextlib.suppress(ConnectionRefusedError):
                            got = s.recv(65536)
                            if got == b"got " + data:  # and not that of one sent before
                                break
                    self.assertLess(time.monotonic(), end)
        self.ask(self.two, "DELETE", f"/v1/vms/{vm}/ports/{port}?protocol=udp")

    def test_nothing_listens_there(self):
        vm, port = self.new(self.one, targetPort=5002, port=20002)
        with self.connect("two", port) as s:
            self.assertTrue(ended(s))

    def test_z_the_owner_dies(self):
        self.echo(5003)
        vm, port = self.new(self.one, targetPort=5003, port=20003)
        self._cleanups.clear()  # the VM's node is gone
        with self.connect("two", port) as s:
            s.sendall(b"x")
            self.assertEqual(s.recv(10), b"x")
            self.one.proc.kill()
            self.one.proc.wait(60)
            self.assertTrue(ended(s))
        with self.connect("two", port) as s:
            self.assertTrue(ended(s))


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit(77)
    if os.environ.get("PORTS_NETNS") != "1":
        os.environ["PORTS_NETNS"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    for argv in (["ip", "link", "set", "lo", "up"], ["ip", "addr", "add", f"{GUEST}/32", "dev", "lo"]):
        subprocess.run(argv, check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
