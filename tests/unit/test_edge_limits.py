#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_edge_limits.py EDGEUP - what one client of the edge can hold, and for how long; docs/LIMITS.md has the numbers"""
import contextlib
import os
import resource
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import h2raw  # noqa: E402
import test_edge  # noqa: E402
from edge_checks import status_of  # noqa: E402
from test_edge import STALL_MS, Stand  # noqa: E402
from ws import TEXT, WebSocket  # noqa: E402

ANSWER_MS, IDLE_MS, KEEP_MS = 4000, 8000, 3000


def until_closed(s):
    """What comes until the edge closes; that it does so in time is part of the question."""
    got = b""
    try:
        while piece := s.recv(65536):
            got += piece
    except ConnectionError:
        pass
    return got


class Limited(Stand):
    """An edge with short deadlines or low limits."""
    limits = ""

    @classmethod
    def setUpClass(cls):
        os.environ["EDGEUP_CONF"] = cls.limits
        try:
            super().setUpClass()
        finally:
            del os.environ["EDGEUP_CONF"]

    def h2(self, window=None, source=None):
        return h2raw.Client(self.e.tls(self.host, alpn=["h2"], source=source), window)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.edge_pid()}/fd"))


class Deadlines(Limited, unittest.TestCase):
    """Nobody holds a stream, and the VM's socket behind it, without using it; whoever uses it keeps it."""
    limits = f"answer_ms={ANSWER_MS} idle_ms={IDLE_MS} keep_ms={KEEP_MS}"

    def test_a_window_that_stays_shut(self):
        """Answers that the client never takes: the streams are reset and their sockets closed, the connection goes on."""
        before = self.descriptors()
        with self.h2(window=0) as c:
            streams = [c.ask(self.host, "/big?n=1000000") for _ in range(40)]
            c.wait(lambda: all(c.status(s) == 200 for s in streams), "40 answers begin")
            c.wait(lambda: all(c.reset(s) for s in streams), "resets of streams whose answers nobody takes")
            self.wait_for("the VM's sockets are closed", lambda: self.descriptors() <= before + 2)
            self.assertFalse(c.closed)

    def test_a_window_that_opens_by_bytes(self):
        """A few bytes now and then are no progress."""
        with self.h2(window=0) as c:
            stream = c.ask(self.host, "/big?n=1000000")
            end = time.monotonic() + 60
            while not c.reset(stream):
                self.assertLess(time.monotonic(), end, "a stream is kept for a byte now and then")
                c.give(stream, 1)
                c.read(0.3)

    def test_a_slow_reader_of_http2(self):
        """Slow, but it goes on: as long as it takes."""
        n = 40000
        with self.h2(window=0) as c:
            stream = c.ask(self.host, f"/big?n={n}")
            for _ in range(20):
                c.give(stream, n // 20)
                c.wait(lambda: len(c.body(stream)) % (n // 20) == 0 and c.body(stream), "the next bytes")
                self.assertFalse(c.reset(stream), f"reset after {len(c.body(stream))} bytes")
                time.sleep(STALL_MS / 1000 / 4)
            c.wait(lambda: c.ended(stream), "the answer's end")
            self.assertEqual(len(c.body(stream)), n)

    def test_a_slow_reader_of_http1(self):
        """It reads all the time, but so slowly that the kernel does not ask us for more within the deadline."""
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
            s.settimeout(60)
            s.connect(("127.0.0.1", self.http_port))
            s.sendall(f"GET /big?n=50000000 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            end = time.monotonic() + 4 * STALL_MS / 1000
            while time.monotonic() < end:
                s.recv(4000)
                time.sleep(0.05)
            left = 8000000  # more than was on its way
            while left > 0:
                piece = s.recv(65536)
                self.assertTrue(piece, "cut, although it reads")
                left -= len(piece)

    def test_a_slow_line_for_http2(self):
        """The windows are wide open, but what is on its way takes longer than the deadline to arrive."""
        with h2raw.Client(self.e.tls(self.host, alpn=["h2"], rcvbuf=16384, mss=1400), window=1 << 30) as c:
            c.give(0, 1 << 30)
            for _ in range(2):
                c.ask(self.host, "/big?n=50000000")
            end = time.monotonic() + 4 * STALL_MS / 1000
            while time.monotonic() < end:
                c.read(60, 4000)
                time.sleep(0.05)
            c.wait(lambda: c.resets or sum(c.size.values()) > 10000000, "more than the kernel had", 120)
            self.assertEqual(c.resets, set(), "cut, although it reads")

    def test_quiet_events(self):
        """Events that come less often than clients may stall."""
        path = f"/events?n=3&every={1.5 * STALL_MS / 1000}"
        with self.h2() as c, self.e.plain() as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
            stream = c.ask(self.host, path)
            c.wait(lambda: c.ended(stream), "three events")
            self.assertEqual(c.body(stream).count(b"data:"), 3)
            self.assertTrue(until_closed(s).endswith(b"0\r\n\r\n"))

    def test_a_body_that_does_not_come(self):
        with self.h2() as c:
            stream = c.ask(self.host, "/sum", ended=False, method="POST")
            c.wait(lambda: c.reset(stream), "the reset of a request whose body does not come")
            self.assertFalse(c.closed)

    def test_a_head_that_does_not_end(self):
        with self.h2() as c:
            c.wait(lambda: c.of(0, h2raw.SETTINGS), "settings")  # answered now: no other frame may follow the head
            c.ask(self.host, flags=0)
            c.wait_closed()

    def test_no_answer(self):
        """Longer than clients may stall, shorter than programs may take: answered. Longer: 504."""
        with self.h2() as c:
            late, never = c.ask(self.host, f"/slow?s={(STALL_MS + ANSWER_MS) / 2000}"), c.ask(self.host, "/slow?s=100")
            c.wait(lambda: c.ended(late) and c.ended(never), "two answers")
            self.assertEqual((c.status(late), c.status(never)), (200, 504))

    def test_a_program_that_reads_nothing(self):
        """The body is on its way, and stays there."""
        with socket.create_server(("127.0.0.1", 0)) as deaf, self.e.plain() as s:
            port = deaf.getsockname()[1]
            s.settimeout(0.2)
            s.sendall(f"POST / HTTP/1.1\r\nHost: port-{port}.edge.test\r\nContent-Length: 900000000\r\n\r\n".encode())
            end = time.monotonic() + 60
            got = b""
            while not got:
                self.assertLess(time.monotonic(), end, "a program that takes nothing is waited for for ever")
                try:
                    s.sendall(b"x" * 65536)
                except TimeoutError:
                    pass
                except ConnectionError:
                    break
                try:
                    got = s.recv(4096)
                except TimeoutError:
                    continue
            self.assertIn(status_of(got), (504, None))

    def test_answers_on_which_nothing_happens(self):
        with self.h2() as c, self.e.plain() as s:
            s.sendall(f"GET /events?n=2&every=100 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            stream = c.ask(self.host, "/events?n=2&every=100")
            c.wait(lambda: c.reset(stream), "the reset of a stream on which nothing happens")
            self.assertEqual(c.body(stream), b"data: 0\n\n")
            self.assertIn(b"data: 0", until_closed(s))

    def test_quiet_websocket(self):
        """Quiet for longer than clients may stall: open. For longer than anything may be idle: closed."""
        w = WebSocket(self.http_port, "/ws", headers={"Host": self.host})
        try:
            time.sleep(2 * STALL_MS / 1000)
            w.frame(TEXT, b"still there")
            self.assertEqual(w.message(), (TEXT, b"still there"))
            w.sock.settimeout(60)
            self.assertEqual(until_closed(w.sock), b"")
        finally:
            w.sock.close()

    def test_pings_are_no_requests(self):
        """A connection without a stream ends, however often it is pinged."""
        with self.h2() as c:
            end = time.monotonic() + 60
            while not c.closed:
                self.assertLess(time.monotonic(), end, "kept by pings")
                c.send(h2raw.frame(h2raw.PING, 0, 0, b"12345678"))
                c.read(0.2)
            self.assertTrue(c.of(0, h2raw.GOAWAY), "clients are not told which streams were seen")

    def test_pings_take_no_answer(self):
        """Nor do they stand for reading what the edge sends."""
        with self.h2() as c:
            c.give(0, 0x7fff0000 - 65535)
            big = [c.ask(self.host, "/big?n=100000000") for _ in range(2)]
            c.send(h2raw.frame(h2raw.SETTINGS, 0, 0, h2raw.setting(h2raw.INITIAL_WINDOW, 1 << 30)))
            self.assertTrue(big)
            end = time.monotonic() + 60
            while True:
                self.assertLess(time.monotonic(), end, "kept by pings")
                try:
                    c.sock.send(h2raw.frame(h2raw.PING, 0, 0, b"12345678"))
                except OSError as e:
                    if isinstance(e, BlockingIOError) or "did not complete" in str(e):
                        time.sleep(0.2)
                        continue
                    break
                time.sleep(0.2)


class Heads(Limited, unittest.TestCase):
    """What a head may say."""

    def h2_status(self, **ask):
        with self.h2() as c:
            stream = c.ask(self.host, **ask)
            c.wait(lambda: c.ended(stream) or c.reset(stream), "an answer")
            return c.status(stream)

    def test_targets_and_schemes(self):
        self.assertEqual(self.h2_status(path="/echo"), 200)
        self.assertIn(self.h2_status(path="*", method="OPTIONS"), (200, 501))
        for ask in ({"path": "echo"}, {"path": "*"}, {"path": "echo", "method": "OPTIONS", "scheme": "gopher"},
                    {"path": "http://other.test/", "method": "OPTIONS", "scheme": "x"}, {"path": "*x", "method": "OPTIONS", "scheme": "x"},
                    {"scheme": "gopher"}, {"scheme": "http"}, {"scheme": "https://other.test/?"}):
            self.assertIn(self.h2_status(**ask), (400, None), ask)

    def test_underscores(self):
        """Many programs read X_Real_IP and X-Real-IP as one: names with an underscore do not pass."""
        with self.e.plain() as s:
            s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\nX_Forwarded_For: 1.2.3.4\r\nX-Fine: 1\r\nConnection: close\r\n\r\n".encode())
            got = until_closed(s)
        self.assertIn(b"x-fine", got)
        self.assertNotIn(b"x_forwarded_for", got)
        with self.h2() as c:
            stream = c.ask(self.host, more=[("x_real_ip", "1.2.3.4"), ("x-fine", "1")])
            c.wait(lambda: c.ended(stream), "an answer")
            self.assertIn(b"x-fine", c.body(stream))
            self.assertNotIn(b"x_real_ip", c.body(stream))

    def test_resets_that_the_client_provokes(self):
        """Streams that the edge must reset, because of what the client sends on them."""
        with self.h2() as c:
            for _ in range(2000):
                if c.closed or c.of(0, h2raw.GOAWAY):
                    break
                stream = c.ask(self.host, "/slow?s=30")
                c.give(stream, 0x7fffffff)  # more than a window can be: an error of the stream
                c.read(0)
            c.wait_closed()
            goaway = c.of(0, h2raw.GOAWAY)
            self.assertTrue(goaway and goaway[0][3][4:8] == b"\0\0\0\x0b", "not told to be calm")
        self.assertEqual(self.e.curl(self.url("/echo")).status, 200)

    def url(self, path):
        return f"https://{self.host}{path}"


class PerAddress(Limited, unittest.TestCase):
    """One address has its share, others have theirs."""
    limits = "addr_conns=20 addr_requests=10"

    def test_connections(self):
        socks = [self.e.plain() for _ in range(20)]
        try:
            for s in socks:
                s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                self.assertEqual(status_of(s.recv(65536)), 200)
            with self.e.plain() as s:
                try:
                    s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                    self.assertEqual(until_closed(s), b"", "one connection too many is served")
                except ConnectionError:
                    pass
            with socket.create_connection(("127.0.0.1", self.http_port), 60, ("127.0.0.2", 0)) as s:
                s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                self.assertEqual(status_of(s.recv(65536)), 200, "another address suffers")
        finally:
            for s in socks:
                s.close()
        self.wait_for("requests are served again", lambda: self.e.curl(f"http://{self.host}/echo").status == 200)

    def test_requests(self):
        """Streams of several connections count together."""
        with self.h2() as a, self.h2() as b, self.h2(source="127.0.0.2") as other:
            slow = [c.ask(self.host, "/events?n=1000&every=0.1") for c in (a, b) for _ in range(5)]
            for c, streams in ((a, slow[:5]), (b, slow[5:])):
                c.wait(lambda c=c, streams=streams: all(c.status(s) == 200 for s in streams), "events")
            more, free = b.ask(self.host), other.ask(self.host)
            b.wait(lambda: b.ended(more), "an answer")
            other.wait(lambda: other.ended(free), "an answer")
            self.assertEqual((b.status(more), other.status(free)), (429, 200))
            self.assertIn(b"LIMIT_EXCEEDED", b.body(more))
            a.send(h2raw.frame(h2raw.RST_STREAM, 0, slow[0], b"\0\0\0\x08"))

            def again():
                stream = b.ask(self.host)
                b.wait(lambda: b.ended(stream), "an answer")
                return b.status(stream) == 200
            self.wait_for("the place of a request that ended is free", again)


class Turns(Limited, unittest.TestCase):
    """Who asks a VM for much waits for its turn; who asks it for little does not wait for that."""
    STREAMS = 100  # of each of two connections
    limits = "addr_requests=1000"

    def serve(self):
        """A slow program with a short queue, as in an emulated guest: connections beyond it are lost and tried again by TCP."""
        while not self.over.is_set():
            try:
                s, _ = self.listener.accept()
            except TimeoutError:
                continue
            with s, contextlib.suppress(ConnectionError):
                if request := s.recv(4096):  # else its client has left
                    self.served.append(request.split()[1].decode())
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.over.wait(0.03)

    def setUp(self):
        self.served, self.over, self.listener = [], threading.Event(), socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1)
        self.listener.settimeout(0.2)
        self.slow = f"port-{self.listener.getsockname()[1]}.edge.test"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def tearDown(self):
        self.over.set()
        self.thread.join()
        self.listener.close()

    def ask_much(self, *conns):
        for c in conns:
            for _ in range(self.STREAMS):
                c.ask(self.slow, path="/many")
        self.wait_for("the many are being served", lambda: len(self.served) >= 10)

    def test_many_of_one_address_before_one_of_another(self):
        with self.h2(source="127.0.0.66") as a, self.h2(source="127.0.0.66") as b, self.h2() as good:
            self.ask_much(a, b)
            before = len(self.served)
            stream = good.ask(self.slow, path="/one")
            good.wait(lambda: good.ended(stream), "the answer for one", 120)
            self.assertEqual(good.status(stream), 200)
            self.assertLess(self.served.index("/one") - before, self.STREAMS, "it waited for most of another address's requests")
            for c in (a, b):  # and all of them get theirs
                c.wait(lambda c=c: sum(c.ended(s) for s in range(1, 2 * self.STREAMS, 2)) == self.STREAMS, "answers for many", 120)
        self.assertEqual(self.served.count("/many"), 2 * self.STREAMS)

    def test_nothing_is_opened_for_those_who_left(self):
        with self.h2() as a, self.h2() as b:
            self.ask_much(a, b)
        self.wait_for("they have left", lambda: self.stats()[0] == 0)
        left = self.stats()[1]
        with self.h2() as c:  # waits for its turn, behind whatever is still in the line
            stream = c.ask(self.slow, path="/last")
            c.wait(lambda: c.ended(stream), "the last answer", 120)
        self.assertLess(self.stats()[1] - left, self.STREAMS // 2, "sockets were opened for nobody")


class Descriptors(Limited, unittest.TestCase):
    """The edge's process has a limit of descriptors of its own, below pandod's."""
    LIMIT, RESERVE = 256, 100
    limits = f"fd_reserve={RESERVE}"

    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (cls.LIMIT, hard))
        try:
            super().setUpClass()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def check_reserve(self):
        self.assertLessEqual(self.descriptors(), self.LIMIT - self.RESERVE + 2)

    def test_streams(self):
        """Streams that hold a socket each: those for which there is none are told so."""
        with self.h2() as a, self.h2() as b:
            for c in (a, b):
                streams = [c.ask(self.host, "/events?n=100000&every=0.5") for _ in range(100)]
                c.wait(lambda c=c, streams=streams: all(c.status(s) for s in streams), "100 answers", 120)
                self.check_reserve()
            statuses = [c.status(s) for c in (a, b) for s in range(1, 200, 2)]
            self.assertEqual(set(statuses), {200, 503})
        self.served_again()

    def test_connections(self):
        """Connections that do something stay, those that do nothing make room, new ones wait."""
        socks = []
        try:
            for _ in range(160):
                s = self.e.plain()
                s.sendall(f"GET /events?n=100000&every=0.5 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                socks.append(s)
                self.check_reserve()
        finally:
            for s in socks:
                s.close()
        self.served_again()

    def test_idle_ones_make_room(self):
        socks = []
        try:
            for _ in range(300):  # each asks once and stays
                s = self.e.plain()
                socks.append(s)
                s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                try:
                    got = s.recv(65536)
                except ConnectionError:
                    got = b""
                self.check_reserve()
                self.assertIn(status_of(got), (200, 503, None))
            self.served_again()  # while the others are still there
        finally:
            for s in socks:
                s.close()

    def served_again(self):
        self.wait_for("others are served", lambda: self.e.curl(f"http://{self.host}/echo", check=False).status == 200)


class Waiting(Limited, unittest.TestCase):
    """Requests that wait for a VM cost what they are, not what they are times the others."""
    limits = "addr_conns=0 addr_requests=0"
    head_ms = 60000
    STREAMS = 8000

    def cpu(self):
        ticks = 0
        for pid in (self.p.pid, self.edge_pid()):
            with open(f"/proc/{pid}/stat") as f:
                words = f.read().rsplit(")", 1)[1].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def test_many(self):
        clients = []
        try:
            for _ in range(self.STREAMS // 100):
                c = self.h2()
                clients.append(c)
                for _ in range(100):
                    c.ask("stuck.edge.test")
            for c in clients:  # the edge has seen all of them when it answers what came last
                c.send(h2raw.frame(h2raw.PING, 0, 0, b"12345678"))
                c.wait(lambda c=c: c.of(0, h2raw.PING), "a ping's answer")
            cpu, start = self.cpu(), time.monotonic()
            time.sleep(3)
            used = (self.cpu() - cpu) / (time.monotonic() - start)
            self.assertLess(used, 0.25, "processors that are busy with requests that wait")
            self.assertEqual(self.e.curl(f"http://{self.host}/echo").status, 200)
        finally:
            for c in clients:
                c.sock.close()
        self.wait_for("all have left", lambda: self.stats()[0] == 0, 120)


if __name__ == "__main__":
    test_edge.EDGEUP = sys.argv.pop(1)
    threading.stack_size(256 * 1024)
    unittest.main(verbosity=2)
