#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_edge.py EDGEUP - the edge by itself, in front of a program on this host; the same questions as tests/e2e/test_edge.py and more"""
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from edge_checks import Checks, Edge, crc_of, read_until_closed, status_of  # noqa: E402
from ports import free_port  # noqa: E402

APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e/edge_app.py")
EDGEUP = None
HEAD_MS, STALL_MS = 1500, 2000


class Stand:
    """edgeup in front of the app."""
    host = "app.edge.test"
    head_ms, stall_ms = HEAD_MS, STALL_MS

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pando-edge-")
        cls.app = subprocess.Popen([sys.executable, APP, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        up = int(cls.app.stdout.readline())
        cls.tls_port, cls.http_port = free_port(), free_port()
        cls.p = subprocess.Popen([EDGEUP, cls.dir, f"127.0.0.1:{cls.tls_port}", f"127.0.0.1:{cls.http_port}",
                                  f"127.0.0.1:{up}", str(cls.head_ms), str(cls.stall_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cls.p.stdout.readline() == "ready\n"
        cls.ca = os.path.join(cls.dir, "ca.crt")
        cls.e = Edge(cls.tls_port, cls.http_port, cls.ca)

    @classmethod
    def tearDownClass(cls):
        cls.p.stdin.close()
        code = cls.p.wait(60)  # under ASan this is where leaks are told
        cls.p.stdout.close()
        cls.app.kill()
        cls.app.wait()
        cls.app.stdout.close()
        shutil.rmtree(cls.dir)
        assert code == 0, f"edgeup ended with {code}"

    def figures(self, line=""):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        words = self.p.stdout.readline().split()
        self.lines = []
        while words[0] in ("woken", "line"):
            self.lines += [words[1:]] if words[0] == "line" else []
            words = self.p.stdout.readline().split()
        return words

    def logged(self, n, part):
        """The next n lines of the access log whose path has that part, as soon as they are there."""
        got = []

        def enough():
            self.figures("lines")
            got.extend(line for line in self.lines if part in line[4])
            return len(got) >= n
        self.wait_for(f"{n} lines of the access log", enough)
        return got

    def stats(self):
        """(open connections, sockets opened, connections of the least busy worker, of the busiest)"""
        words = self.figures()
        return int(words[0]), int(words[2]), int(words[5]), int(words[7])

    def signing(self, line=""):
        """(certificates being made, made or failed so far), of *.own.test"""
        words = self.figures(line)
        return int(words[10]), int(words[12])

    def edge_pid(self):
        return int(self.figures()[17].rstrip(","))

    def starts(self):
        """How many processes of the edge there were."""
        return int(self.figures()[18])

    def wait_for(self, what, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), end, f"waited for in vain: {what}")
            time.sleep(0.02)


class Alone(Stand, Checks, unittest.TestCase):
    def test_access_log(self):
        """A line for each request that had a VM: what was asked for, without what may be secret."""
        sizes = [len(self.e.curl(url, *args).body) for url, *args in (
            ("http://vm.edge.test/log-a?n=1000&token=secret",),
            ("https://vm.edge.test/log-b?key=secret", "--http2", "-X", "POST", "--data-binary", "x" * 77),
            ("http://silent.edge.test/log-c/%22%0a",),
            ("http://broken.edge.test/log-" + "y" * 300 + "?key=secret",),
            ("http://app.edge.test/log-api",),       # the API's, not a VM's
            ("http://nowhere.edge.test/log-none",))]  # nobody's
        lines = sorted(self.logged(4, "/log-"), key=lambda line: line[4])
        self.assertIn(lines[0][-1], (str(sizes[0]), "woke"))
        self.assertEqual([line[:9] for line in lines], [
            ["vm", "vm.edge.test", "127.0.0.1", "GET", "/log-a", "11", "200", "0", str(sizes[0])],
            ["vm", "vm.edge.test", "127.0.0.1", "POST", "/log-b", "20", "200", "77", str(sizes[1])],
            ["silent", "silent.edge.test", "127.0.0.1", "GET", "/log-c/%22%0a", "11", "502", "0", str(sizes[2])],
            ["broken", "broken.edge.test", "127.0.0.1", "GET", "/log-" + "y" * 251, "11", "503", "0", str(sizes[3])]])
        self.assertEqual([line[-1] for line in lines[1:]], ["tls", "NOTHING_LISTENS", "CORRUPT_VM_RECORD"])

    def test_access_log_of_those_who_leave(self):
        self.assertEqual(self.e.curl("http://vm.edge.test/echo").status, 200)
        for end in ("left", "cut"):
            self.figures("lines")
            s, _ = self.stream(10000)
            if end == "cut":
                self.figures("end")
                read_until_closed(s)
            s.close()
            self.wait_for(f"a line that says {end}", lambda: [end, "200"] in [[line[-1], line[6]] for line in self.logged(1, "/events")])

    def test_a_sleeper_is_woken_once(self):
        """50 requests at once for a suspended VM: it is woken once, and 50 are answered."""
        replies = []

        def ask():
            replies.append(self.e.curl("http://vm.edge.test/echo").status)
        threads = [threading.Thread(target=ask) for _ in range(50)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(replies, [200] * 50)
        self.assertEqual(self.p.stdout.readline(), "woken\n")
        self.stats()

    def test_a_program_that_starts_late(self):
        """A VM that was just booted: its port is tried until it is up."""
        port, got = free_port(), []
        t = threading.Thread(target=lambda: got.append(self.e.curl(f"http://port-{port}.edge.test/echo")))
        t.start()
        time.sleep(1)  # refused several times by now
        app = subprocess.Popen([sys.executable, APP, f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
        try:
            t.join(60)
            self.assertEqual([r.status for r in got], [200], got and got[0].body)
        finally:
            app.kill()
            app.wait()
            app.stdout.close()

    def stream(self, n, every=0.1):
        """A connection to the VM on which events arrive, and what arrived of the first one."""
        s = self.e.plain()
        s.sendall(f"GET /events?n={n}&every={every} HTTP/1.1\r\nHost: vm.edge.test\r\n\r\n".encode())
        return s, s.recv(65536)

    def test_machine_ends(self):
        """Connections to it are cut when the edge is told; the next request goes to its successor."""
        self.assertEqual(self.e.curl("http://vm.edge.test/echo").status, 200)
        streams = [self.stream(10000) for _ in range(10)]
        self.figures("end")
        for s, head in streams:
            with s:
                self.assertEqual(status_of(head), 200)
                self.assertFalse(read_until_closed(s).endswith(b"0\r\n\r\n"), "an answer that was cut looks whole")
        self.assertEqual(self.e.curl("http://vm.edge.test/echo").status, 200)

    def test_machine_ends_before_its_connection_is_listed(self):
        self.assertEqual(self.e.curl("http://vanish.edge.test/echo").status, 200)

    def each_worker_answers(self):
        """What epoll had for any worker before this, it has been told."""
        held = []
        try:
            while self.stats()[2] < 1:
                held.append(self.e.plain())
                held[-1].sendall(b"GET /echo HTTP/1.1\r\nHost: app.edge.test\r\n\r\n")
                self.assertEqual(status_of(held[-1].recv(65536)), 200)
        finally:
            for s in held:
                s.close()

    def test_events_of_closed_sockets(self):
        """pandod may still have a copy of an upstream socket that the edge has closed: what happens to it then must not reach what was freed."""
        self.wait_for("nobody is connected", lambda: self.stats()[0] == 0)
        self.figures("keep")
        with socket.create_server(("127.0.0.1", 0)) as vm, self.e.plain() as leaves:
            vm.settimeout(60)
            leaves.sendall(f"GET / HTTP/1.1\r\nHost: port-{vm.getsockname()[1]}.edge.test\r\n\r\n".encode())
            up = vm.accept()[0]
            with up:
                up.recv(65536)
                leaves.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaves.close()
                self.wait_for("the client is gone", lambda: self.stats()[0] == 0)
                up.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.each_worker_answers()
        self.figures("drop")

    def test_open_connections_ask_nothing(self):
        """Connections that stay open do not poll their VM."""
        streams = [self.stream(10, every=0.2) for _ in range(10)]
        looks = int(self.figures()[14])
        for s, _ in streams:
            with s:
                got = b""
                while not got.endswith(b"0\r\n\r\n"):
                    got += s.recv(65536)
        self.assertEqual(int(self.figures()[14]), looks)

    def test_pages(self):
        html = self.e.curl("https://nowhere.edge.test/", "-H", "Accept: text/html,*/*")
        self.assertEqual((html.status, html.headers["content-type"]), (404, "text/html; charset=utf-8"))
        self.assertIn(b"<h1>This name leads nowhere</h1>", html.body)
        for args in (["--http1.1"], []):
            r = self.e.curl("https://nowhere.edge.test/", "-H", "Accept: application/json", *args)
            self.assertEqual((r.status, r.json()["code"], r.json()["error"]), (404, "DOMAIN_NOT_MAPPED", "DOMAIN_NOT_MAPPED"))
            r = self.e.curl("https://silent.edge.test/", *args)
            self.assertEqual((r.status, r.json()["code"]), (502, "NOTHING_LISTENS"))
            self.assertIn("port 1.", r.json()["message"])
            r = self.e.curl("https://broken.edge.test/", *args)
            self.assertEqual((r.status, r.json()["code"], r.headers["retry-after"]), (503, "CORRUPT_VM_RECORD", "3"))
            r = self.e.curl("https://broken.edge.test/", "-I", *args)
            self.assertEqual((r.status, r.body), (503, b""))

    def test_acme_challenge(self):
        path = "/.well-known/acme-challenge/"
        r = self.e.curl(self.url(path + "token-of-the-test", "http"))
        self.assertEqual((r.status, r.body), (200, b"the answer"))
        self.assertEqual(self.e.curl(self.url(path + "another", "http")).json()["line"], f"GET {path}another HTTP/1.1")

    def test_slow_heads(self):
        """A byte now and then: answered with an error and closed, while others are served."""
        with self.e.plain() as s, self.e.plain() as silent:
            s.sendall(b"GET /echo HTTP/1.1\r\n")
            end = time.monotonic() + 30
            got = b""
            s.settimeout(0.3)
            while time.monotonic() < end:
                try:
                    s.sendall(b"a")
                    got = s.recv(4096)
                    break
                except TimeoutError:
                    self.assertEqual(self.e.curl(self.url("/echo", "http")).status, 200)
                except ConnectionError:
                    break
            self.assertLess(time.monotonic(), end, "a slow head is waited for for ever")
            self.assertIn(status_of(got), (408, None))
            self.assertEqual(read_until_closed(silent), b"")
        with socket.create_connection(("127.0.0.1", self.tls_port), timeout=30) as s:  # a handshake that never comes
            self.assertEqual(read_until_closed(s), b"")

    def test_slow_bodies_and_readers(self):
        with self.e.plain() as s:
            s.sendall(f"POST /sum HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: 100\r\n\r\nabc".encode())
            self.assertNotIn(b" 200 ", read_until_closed(s))
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(60)
            s.connect(("127.0.0.1", self.http_port))
            s.sendall(f"GET /big?n=200000000 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            time.sleep(STALL_MS / 1000 + 2)  # takes nothing
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # what is on its way need not come by the kilobyte
            self.assertLess(len(read_until_closed(s)), 20000000)

    def test_memory_stays_bounded(self):
        """Slow readers of large answers cost buffers, not answers."""
        def rss():
            with open(f"/proc/{pid}/status") as f:
                return int(next(line for line in f if line.startswith("VmRSS")).split()[1])
        pid = self.edge_pid()
        before = rss()
        socks = []
        for _ in range(30):
            s = self.e.plain()
            s.sendall(f"GET /big?n=100000000 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            socks.append(s)
        time.sleep(1)
        grown = rss() - before
        for s in socks:
            s.close()
        self.assertLess(grown, 60 * 1024, "30 slow readers cost more than 60 MiB")

    def test_clients_are_spread(self):
        """A burst of clients, some of which stay: no worker has many while another has few."""
        socks = [self.e.tls(self.host) if i % 2 else self.e.plain() for i in range(24)]
        try:
            for s in socks:
                s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            for s in socks:
                self.assertEqual(status_of(s.recv(65536)), 200)
            def spread():
                n, _, fewest, most = self.stats()
                return n >= 24 and most - fewest <= 1 + 1  # clients of other tests may just be leaving
            self.wait_for("no worker has them all", spread)
        finally:
            for s in socks:
                s.close()

    def test_slow_reader_over_tls(self):
        """Records that the socket had no room for: whole, in order, and the connection is good for more."""
        n = 3000000
        with self.e.tls(self.host, rcvbuf=8192) as s:
            s.sendall(f"GET /big?n={n} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            got = b""
            while b"\r\n\r\n" not in got:
                got += s.recv(4096)
            got = got.split(b"\r\n\r\n", 1)[1]
            while len(got) < n:
                if len(got) < 100000:
                    time.sleep(0.02)  # the other side has to stop again and again
                piece = s.recv(20000)
                self.assertTrue(piece, f"ended after {len(got)} bytes")
                got += piece
            self.assertEqual(zlib.crc32(got), crc_of(n))
            s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            self.assertEqual(status_of(s.recv(65536)), 200)

    def test_unasked_answers_reach_nobody(self):
        """A second answer after the first belongs to no request: the connection is not reused."""
        for n in (3, 200000):
            for _ in range(3):
                self.assertEqual(len(self.e.curl(self.url(f"/unasked?n={n}", "http")).body), n)
                r = self.e.curl(self.url("/echo", "http"))
                self.assertEqual((r.status, r.json()["line"]), (200, "GET /echo HTTP/1.1"))

    def test_early_answer(self):
        """The program answers and closes before the body is whole: the client sees the answer."""
        with self.e.plain() as s:
            s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 1000)
            got = s.recv(65536)
            self.assertEqual(status_of(got), 200)
            self.assertIn(b"connection: close", got.lower())

    def test_clients_that_leave(self):
        for i in range(20):
            s = self.e.plain() if i % 2 else self.e.tls(self.host)
            s.sendall(f"GET /{'slow?s=3' if i % 4 < 2 else 'events?n=100'} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            s.close()
        end = time.monotonic() + 30
        while self.stats()[0] > 0 and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(self.stats()[0], 0, "connections of clients that left are still there")

    def test_many_streams(self):
        """One HTTP/2 connection, 100 requests at once."""
        more = []
        for i in range(99):
            more += ["-o", "/dev/null", self.url(f"/big?n=100000&i={i}")]
        argv = self.e.curl_argv(self.url("/big?n=100000"), "-Z", "--parallel-max", "100", "-w", "%{http_code} %{size_download}\n",
                                *more, "-o", "/dev/null")
        r = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        lines = r.stdout.split("\n")[:-1]
        self.assertEqual(len(lines), 100, r.stderr)
        self.assertTrue(all(line == "200 100000" for line in lines), lines)

    def test_reset_flood(self):
        """Endless streams that are opened and reset: the connection is closed."""
        head = bytes.fromhex("828741") + bytes([len(self.host)]) + self.host.encode() + bytes.fromhex("84")
        out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
        with self.e.tls(self.host, alpn=["h2"]) as s:
            try:
                for i in range(3000):
                    sid = (2 * i + 1).to_bytes(4, "big")
                    out += len(head).to_bytes(3, "big") + b"\x01\x05" + sid + head
                    out += b"\0\0\4\3\0" + sid + b"\0\0\0\x08"
                    if len(out) > 4000:
                        s.sendall(out)
                        out = b""
                read_until_closed(s)
            except (OSError, ssl.SSLError):
                pass  # cut in the middle: that is what it is about
        self.assertEqual(self.e.curl(self.url("/echo")).status, 200)


class Certificates(Stand, unittest.TestCase):
    """Certificates that are slow or never come: only clients that need them notice."""
    head_ms = 30000

    def setUp(self):
        self.socks, self.threads = [], []

    def tearDown(self):
        for s in self.socks:
            s.close()
        self.signing("sign")
        for t in self.threads:
            t.join(60)
            self.assertFalse(t.is_alive())

    def begin(self, name, got, alpn=None):
        """A handshake on a thread of its own; its certificate's names, or the error, go into got."""
        s = socket.create_connection(("127.0.0.1", self.tls_port), timeout=60)
        self.socks.append(s.dup())  # the handshake takes the other

        def shake():
            ctx = ssl.create_default_context(cafile=self.ca)
            ctx.set_alpn_protocols(alpn or ["http/1.1"])
            try:
                with ctx.wrap_socket(s, server_hostname=name) as t:
                    names = [v for _, v in t.getpeercert()["subjectAltName"]]
                    t.sendall(f"GET /echo HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                    got.append((names, status_of(read_until_closed(t))))
            except (OSError, ssl.SSLError) as e:
                got.append(e)
        t = threading.Thread(target=shake)
        t.start()
        self.threads.append(t)

    def served(self):
        """Others, over TLS and plainly; more than there are workers, each on a connection of its own."""
        for _ in range(8):
            self.assertEqual(self.e.curl(self.url("/echo"), "--max-time", "20").status, 200)
            self.assertEqual(self.e.curl(self.url("/echo", "http"), "--max-time", "20").status, 200)

    def url(self, path, scheme="https"):
        return f"{scheme}://{self.host}{path}"

    def test_a_slow_signer(self):
        """Others are served while a certificate is made; it is made once for all who wait for it."""
        self.served()
        before, slow = self.signing()[1], []
        for _ in range(12):
            self.begin("slow.own.test", slow)
        self.wait_for("the signer", lambda: self.signing()[0] == 1)
        self.served()
        self.assertEqual(slow, [])
        self.signing("sign")
        self.wait_for("all handshakes", lambda: len(slow) == 12)
        self.assertEqual(slow, [(["slow.own.test"], 200)] * 12)
        self.assertEqual(self.signing()[1] - before, 1, "made more than once")

    def test_names_wait_in_line(self):
        """One certificate is made at a time, whatever number of names are asked for."""
        got = []
        self.begin("slow-line.own.test", got)
        self.wait_for("the signer", lambda: self.signing()[0] == 1)
        for i in range(20):
            self.begin(f"n{i}.own.test", got)
        self.served()
        self.assertEqual((self.signing()[0], got), (1, []))
        self.signing("sign")
        self.wait_for("all handshakes", lambda: len(got) == 21)
        self.assertEqual(sorted(got), sorted([(["slow-line.own.test"], 200)] + [([f"n{i}.own.test"], 200) for i in range(20)]))

    def test_who_waits_may_leave(self):
        got = []
        self.begin("slow-left.own.test", got)
        self.wait_for("the signer", lambda: self.signing()[0] == 1)
        self.socks[0].shutdown(socket.SHUT_RDWR)
        self.wait_for("its end", lambda: self.stats()[0] == 0)
        self.signing("sign")
        self.served()

    def test_none_can_be_made(self):
        """The client gets an alert each time, not just a closed connection."""
        for _ in range(3):
            got = []
            self.begin("never.own.test", got)
            self.wait_for("the handshake's end", lambda got=got: got)
            self.assertIsInstance(got[0], ssl.SSLError)
            self.assertIn("ALERT_INTERNAL_ERROR", str(got[0]).upper().replace(" ", "_"))
        self.served()


class Deadline(Certificates):
    """A signer that never returns."""
    head_ms = HEAD_MS
    test_a_slow_signer = test_names_wait_in_line = test_none_can_be_made = test_who_waits_may_leave = None

    def test_stuck(self):
        got = []
        self.served()
        for _ in range(6):
            self.begin("stuck.own.test", got)
        self.served()
        self.wait_for("the deadline", lambda: len(got) == 6)
        for e in got:
            self.assertIsInstance(e, ssl.SSLError)
            self.assertIn("ALERT_INTERNAL_ERROR", str(e).upper().replace(" ", "_"))
        self.begin("other.own.test", got)  # waits behind it, no longer than that
        self.wait_for("the deadline", lambda: len(got) == 7)
        self.served()


if __name__ == "__main__":
    EDGEUP = sys.argv.pop(1)
    unittest.main(verbosity=1)
