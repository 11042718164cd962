#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_edge_raw.py EDGEUP - names whose TLS the edge passes on as it is: the program behind them has the certificate"""
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../e2e")]
import test_edge  # noqa: E402
from edge_checks import Edge, read_until_closed  # noqa: E402
from test_edge import free_port  # noqa: E402

HEAD_MS, STALL_MS = 3000, 3000
LARGE = os.urandom(1 << 16) * 48


def make_cert(folder):
    """A certificate that nobody signed; for every name the tests use."""
    key, crt = os.path.join(folder, "own.key"), os.path.join(folder, "own.crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", crt, "-days", "2",
                    "-subj", "/CN=own", "-addext", "subjectAltName=DNS:*.edge.test"], check=True, capture_output=True)
    return key, crt


class Program:
    """What runs in the VM: answers CRC and length of what it was sent up to the client's end, and then bytes of its own."""

    def __init__(self, folder):
        self.key, self.crt = make_cert(folder)
        self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ctx.load_cert_chain(self.crt, self.key)
        self.ctx.set_alpn_protocols(["x-own"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        try:
            with self.ctx.wrap_socket(s, server_side=True) as t:
                while True:
                    size = int(t.recv(16) or b"0")
                    if not size:
                        return
                    t.sendall(b"go")
                    crc = n = 0
                    while n < size:
                        got = t.recv(65536)
                        crc, n = zlib.crc32(got, crc), n + len(got)
                    t.sendall(struct.pack(">IQ", crc, n) + LARGE)
        except (OSError, ValueError):
            pass


def hello_of(name, alpn=None):
    """The first message of a client, as bytes."""
    ctx = ssl.create_default_context()
    if alpn:
        ctx.set_alpn_protocols(alpn)
    out = ssl.MemoryBIO()
    try:
        ctx.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Base(unittest.TestCase):
    figures = test_edge.Stand.figures
    stats = test_edge.Stand.stats
    wait_for = test_edge.Stand.wait_for

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pando-edge-")
        cls.vm = Program(cls.dir)
        cls.tls_port, cls.http_port = free_port(), free_port()
        cls.p = subprocess.Popen([test_edge.EDGEUP, cls.dir, f"127.0.0.1:{cls.tls_port}", f"127.0.0.1:{cls.http_port}", f"127.0.0.1:{cls.vm.port}",
                                  str(HEAD_MS), str(STALL_MS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "EDGEUP_CONF": cls.conf})
        assert cls.p.stdout.readline() == "ready\n"
        cls.e = Edge(cls.tls_port, cls.http_port, os.path.join(cls.dir, "ca.crt"))

    @classmethod
    def tearDownClass(cls):
        cls.p.stdin.close()
        code = cls.p.wait(60)  # under ASan this is where leaks are told
        cls.p.stdout.close()
        cls.vm.listener.close()
        shutil.rmtree(cls.dir)
        assert code == 0, f"edgeup ended with {code}"

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.tls_port), timeout=timeout)

    def tls(self, name, version=None, alpn=None, ca=None):
        ctx = ssl.create_default_context(cafile=ca or self.vm.crt)
        if version:
            ctx.minimum_version = ctx.maximum_version = version
        if alpn:
            ctx.set_alpn_protocols(alpn)
        return ctx.wrap_socket(self.connect(), server_hostname=name)

    def exchange(self, t, sent=LARGE):
        t.sendall(str(len(sent)).encode())
        self.assertEqual(t.recv(2), b"go")
        t.sendall(sent)
        got = b""
        while len(got) < 12 + len(LARGE):
            piece = t.recv(1 << 20)
            self.assertTrue(piece, "it ended early")
            got += piece
        self.assertEqual(struct.unpack(">IQ", got[:12]), (zlib.crc32(sent), len(sent)))
        self.assertEqual(zlib.crc32(got[12:]), zlib.crc32(LARGE))

    def logged(self, host, n=1):
        got = []

        def enough():
            self.figures("lines")
            got.extend(line for line in self.lines if line[1] == host)
            return len(got) >= n
        self.wait_for(f"a line of the access log for {host}", enough)
        return got

    def own(self, act):
        """The name of a VM in which act(socket) answers one connection, and its thread."""
        s = socket.create_server(("127.0.0.1", 0))

        def serve():
            with s, s.accept()[0] as c:
                c.settimeout(60)
                act(c)
        t = threading.Thread(target=serve, daemon=True)
        t.start()
        return f"raw-port-{s.getsockname()[1]}.edge.test", t

    def alert(self, name, **more):
        with self.assertRaises(ssl.SSLError) as e:
            self.tls(name, **more)
        return e.exception.reason


class Raw(Base):
    conf = "addr_requests=12"

    def test_a_sleeper_is_woken(self):  # the first one that has this VM
        with self.tls("raw-vm.edge.test") as t:
            self.exchange(t, b"x")
        self.assertIn("woke", self.logged("raw-vm.edge.test")[0])

    def test_the_program_has_the_certificate(self):
        """Both versions of TLS, the program's own protocol, megabytes both ways."""
        with open(self.vm.crt, encoding="ascii") as f:
            own = f.read().split()
        before = self.stats()[1]
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.tls("raw-vm.edge.test", version, ["x-own", "h2"]) as t:
                self.assertEqual(t.selected_alpn_protocol(), "x-own")
                self.assertEqual(ssl.DER_cert_to_PEM_cert(t.getpeercert(True)).split(), own)
                self.exchange(t)
                self.exchange(t)
        self.assertEqual(self.stats()[1], before + 2)
        lines = []
        self.wait_for("two lines", lambda: lines.extend(x for x in self.logged("raw-vm.edge.test") if int(x[7]) > 1000) or len(lines) == 2)
        for line in lines:
            self.assertEqual(line[:7], ["vm", "raw-vm.edge.test", "127.0.0.1", "CONNECT", "-", "0", "0"])
            self.assertGreater(int(line[7]), 2 * len(LARGE))
            self.assertGreater(int(line[8]), 2 * len(LARGE))
            self.assertEqual(line[9:], ["tls"])
        with self.assertRaises(ssl.SSLCertVerificationError):  # it is not the edge's
            self.tls("raw-vm.edge.test", ca=self.e.ca)

    def test_other_names_are_as_before(self):
        """The edge's certificate, and HTTP: which this program cannot read."""
        self.assertEqual(self.e.curl("https://vm.edge.test/").status, 502)

    def test_every_byte(self):
        """What the client sent before the name was known is passed on too, however it came in."""
        for piece, more in ((1 << 20, b""), (1 << 20, os.urandom(20000)), (1, b""), (100, os.urandom(1000))):
            got = []

            def act(c):
                c.sendall(b"begin")
                got.append(read_until_closed(c))
            name, t = self.own(act)
            sent = hello_of(name) + more
            with self.connect() as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for i in range(0, len(sent), piece):
                    s.sendall(sent[i:i + piece])
                self.assertEqual(s.recv(5), b"begin")
                s.shutdown(socket.SHUT_WR)
                t.join(60)
                self.assertEqual(got, [sent])
                self.assertEqual(read_until_closed(s), b"")

    def test_each_direction_ends_by_itself(self):
        def listens(c):  # it ends after the client
            c.sendall(b"begin")
            n = len(read_until_closed(c))
            c.sendall(LARGE + struct.pack(">I", n))
        name, t = self.own(listens)
        hello = hello_of(name)
        with self.connect() as s:
            s.sendall(hello)
            self.assertEqual(s.recv(5, socket.MSG_PEEK), b"begin")
            s.sendall(LARGE)
            s.shutdown(socket.SHUT_WR)
            got = read_until_closed(s)
        t.join(60)
        self.assertEqual((len(got), got[-4:]), (5 + len(LARGE) + 4, struct.pack(">I", len(hello) + len(LARGE))))
        heard = []

        def speaks(c):  # it ends first, and listens on
            c.sendall(LARGE)
            c.shutdown(socket.SHUT_WR)
            heard.append(read_until_closed(c))
        name, t = self.own(speaks)
        hello = hello_of(name)
        with self.connect() as s:
            s.sendall(hello)
            self.assertEqual(len(read_until_closed(s)), len(LARGE))
            s.sendall(LARGE)
            s.shutdown(socket.SHUT_WR)
            t.join(60)
        self.assertEqual([len(h) for h in heard], [len(hello) + len(LARGE)])
        self.wait_for("all are gone", lambda: self.stats()[0] == 0)

    def test_what_is_wrong_is_said_by_an_alert(self):
        name, _ = self.own(lambda c: c.recv(65536))  # it takes the first message and hangs up
        for host, code in (("raw-silent.edge.test", "NOTHING_LISTENS"), ("raw-broken.edge.test", "CORRUPT_VM_RECORD"), (name, "CONNECTION_CLOSED")):
            self.assertEqual(self.alert(host), "TLSV1_ALERT_INTERNAL_ERROR")
            self.assertEqual(self.logged(host)[0][-1], code)

    def test_a_client_that_leaves(self):
        """While its VM is being woken, and later: nothing is left of it."""
        with self.connect() as s:
            s.sendall(hello_of("raw-stuck.edge.test"))
            self.wait_for("it waits", lambda: self.stats()[0] == 1)
        self.wait_for("it is gone", lambda: self.stats()[0] == 0)
        self.assertEqual(self.logged("raw-stuck.edge.test")[0][-1], "left")
        ends = []
        name, t = self.own(lambda c: (c.sendall(b"x"), ends.append(read_until_closed(c))))
        with self.connect() as s:
            s.sendall(hello_of(name))
            self.assertEqual(s.recv(1), b"x")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        t.join(60)
        self.assertEqual(len(ends), 1)
        self.assertEqual(self.logged(name)[0][-1], "left")

    def test_machine_ends(self):
        name = "raw-vm.edge.test"
        with self.tls(name) as t:
            self.exchange(t, b"x")
            self.figures("lines")
            self.figures("end")
            try:
                self.assertEqual(t.recv(1), b"")
            except (ssl.SSLError, ConnectionError):
                pass  # cut, without TLS's own end

        def cut():  # lines of earlier connections to the same name may come first
            self.figures("lines")
            return any(line[1] == name and line[-1] == "cut" for line in self.lines)
        self.wait_for("the access log has its end", cut)
        with self.tls(name) as t:  # its successor
            self.exchange(t, b"x")

    def test_http_never_gets_there(self):
        """By another name's connection, or without TLS: the program would be sent what it does not speak."""
        for url, *args in (("http://raw-vm.edge.test/",), ("https://app.edge.test/", "--http1.1", "-H", "Host: raw-vm.edge.test"),
                           ("https://app.edge.test/", "--http2", "-H", "Host: raw-vm.edge.test")):
            before = self.stats()[1]
            r = self.e.curl(url, *args)
            self.assertEqual((r.status, r.json()["code"]), (421, "MISDIRECTED"))
            self.assertEqual(self.stats()[1], before)

    def test_first_messages_are_bounded(self):
        many = [f"p{i:03}" + "x" * 240 for i in range(160)]  # about 39 KB, which OpenSSL would take
        self.assertGreater(len(hello_of("x.edge.test", many)), 32 << 10)
        self.assertEqual(self.alert("raw-vm.edge.test", alpn=many), "TLSV1_ALERT_INTERNAL_ERROR")
        with self.tls("app.edge.test", alpn=[*many, "http/1.1"], ca=self.e.ca) as t:
            self.assertEqual(t.selected_alpn_protocol(), "http/1.1")
        with self.tls("raw-vm.edge.test", alpn=[*many[:100], "x-own"]) as t:  # about 25 KB
            self.assertEqual(t.selected_alpn_protocol(), "x-own")
        hello = hello_of("raw-vm.edge.test")
        before = self.stats()[1]
        with self.connect() as s:  # not all of it, ever
            s.sendall(hello[:-1])
            self.assertEqual(read_until_closed(s), b"")
        # a name that is not one; its place is known because nothing else of the message has these bytes
        for bad in (b"raw-vm.edge/test", b"raw-vm.edge\0test"):
            with self.connect() as s:
                s.sendall(hello.replace(b"raw-vm.edge.test", bad))
                self.assertEqual(read_until_closed(s)[:1], b"\x15")
        self.assertEqual(self.stats()[1], before)

    def test_connections_count_as_requests(self):
        held = [self.tls("raw-vm.edge.test") for _ in range(12)]
        try:
            self.assertEqual(self.alert("raw-vm.edge.test"), "TLSV1_ALERT_INTERNAL_ERROR")
        finally:
            for t in held:
                t.close()


class RawTime(Base):
    conf = "idle_ms=1500 answer_ms=1500"

    def test_silence(self):
        """A program that says nothing, then one that says no more."""
        name, _ = self.own(read_until_closed)
        self.assertEqual(self.alert(name), "TLSV1_ALERT_INTERNAL_ERROR")
        self.assertEqual(self.logged(name)[0][-1], "UPSTREAM_TIMEOUT")
        with self.tls("raw-vm.edge.test") as t:
            self.exchange(t, b"x")
            self.figures("lines")
            try:
                self.assertEqual(t.recv(1), b"")
            except (ssl.SSLError, ConnectionError):
                pass
        self.assertEqual(self.logged("raw-vm.edge.test")[0][-1], "cut")


if __name__ == "__main__":
    test_edge.EDGEUP = sys.argv.pop(1)
    unittest.main(verbosity=2)
