#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_edge_h2c.py EDGEUP - the edge in front of programs that speak HTTP/2 without TLS: well-behaved ones by Node, and hostile ones frame by frame"""
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import test_edge  # noqa: E402
from h2raw import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, field, frame, setting  # noqa: E402
from test_edge import Stand  # noqa: E402

OK = field(":status", "200")


class Wellbehaved(Stand, unittest.TestCase):
    head_ms = stall_ms = 20000  # deadlines are not what is tested here

    def test_with_node(self):
        app = subprocess.Popen(["node", os.path.join(HERE, "h2c_app.mjs")], stdout=subprocess.PIPE, text=True)
        try:
            port = int(app.stdout.readline())
            # an address where HTTP/1 is spoken: the app of the other tests
            with open(f"/proc/{self.p.pid}/cmdline") as f:
                up = f.read().split("\0")[4].split(":")[1]
            env = {**os.environ, "EDGE_TLS": str(self.tls_port), "EDGE_HTTP": str(self.http_port), "EDGE_CA": self.ca, "APP_PORT": str(port), "H1_PORT": up}
            r = subprocess.run(["node", "--test", os.path.join(HERE, "edge_h2c.mjs")], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=200)
            self.assertEqual(r.returncode, 0, r.stdout[-6000:] + r.stderr[-2000:])
            self.assertRegex(r.stdout, r"(?m)^# tests 1[0-9]$")
        finally:
            app.kill()
            app.wait()
            app.stdout.close()

    def test_a_client_that_takes_its_time(self):
        """An answer that waits from its first byte on has all of the time that a client has."""
        with Client(self.e.tls(self.host, alpn=["h2"]), window=0) as c:
            streams = [c.ask(self.host, "/big?n=5000") for _ in range(10)]
            c.wait(lambda: all(c.status(s) for s in streams), "the heads")
            end = time.monotonic() + 2  # the edge looks at deadlines meanwhile
            while time.monotonic() < end:
                c.read(0.1)
            self.assertEqual(c.resets, set())
            for s in streams:
                c.give(s, 5000)
            c.wait(lambda: all(c.ended(s) for s in streams), "the bodies")
            self.assertEqual([len(c.body(s)) for s in streams], [5000] * len(streams))


class Hostile(Stand, unittest.TestCase):
    """What a program may send; others are served meanwhile, and the edge's process lives."""
    head_ms = 20000

    def serve(self, act):
        """A program of one connection after another: act(socket) once it has read the head of a request. Its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def run():
            while True:
                try:
                    s, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(s,), daemon=True).start()

        def one(s):
            with s:
                s.settimeout(30)
                got = b""
                try:
                    while not any(kind == HEADERS for kind, _ in split(got[24:])):
                        piece = s.recv(65536)
                        if not piece:
                            return
                        got += piece
                    s.sendall(frame(SETTINGS, 0, 0))
                    act(s)
                    while s.recv(65536):
                        pass
                except OSError:
                    pass
        threading.Thread(target=run, daemon=True).start()
        return listener.getsockname()[1]

    def ask(self, act, *args):
        """The status of the answer, and curl's exit code."""
        port = self.serve(act)
        r = subprocess.run(["curl", "-s", "-m", "20", "--http2", "--cacert", self.ca, "--connect-to", f"::127.0.0.1:{self.tls_port}", "-o", "/dev/null",
                            "-w", "%{http_code}", *args, f"https://h2c-{port}.edge.test/x"], capture_output=True, text=True)
        return int(r.stdout or 0), r.returncode

    def tearDown(self):
        self.assertEqual(self.e.curl("http://app.edge.test/echo").status, 200)
        self.assertEqual(self.starts(), 1)

    def test_answers_that_are_none(self):
        big = b"".join(field(f"x-{i}", "v" * 100) for i in range(400))
        many = b"".join(field(f"x-{i}", "v") for i in range(200))
        for name, sent in {
                "no frames": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                "a huge frame": b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
                "no status": frame(HEADERS, END_HEADERS | END_STREAM, 1, field("x", "y")),
                "status that is none": frame(HEADERS, END_HEADERS | END_STREAM, 1, field(":status", "2x0")),
                "a head of 40 KB": frame(HEADERS, 0, 1, (OK + big)[:16000]) + frame(CONTINUATION, 0, 1, (OK + big)[16000:32000]) +
                frame(CONTINUATION, END_HEADERS | END_STREAM, 1, (OK + big)[32000:]),
                "200 fields": frame(HEADERS, END_HEADERS | END_STREAM, 1, OK + many),
                "a field for connections": frame(HEADERS, END_HEADERS | END_STREAM, 1, OK + field("connection", "close")),
                "two statuses": frame(HEADERS, END_HEADERS | END_STREAM, 1, OK + OK),
                "a field that breaks lines": frame(HEADERS, END_HEADERS | END_STREAM, 1, OK + field("x", "a\r\nb: c")),
                "data before the head": frame(DATA, 0, 1, b"x"),
                "a promise": frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + field(":method", "GET")),
                "a stream that nobody asked for": frame(HEADERS, END_HEADERS | END_STREAM, 3, OK),
                "a broken table": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff"),
                "an end": b"",
        }.items():
            with self.subTest(name):
                def act(s, sent=sent):
                    s.sendall(sent)
                    if not sent:
                        s.shutdown(socket.SHUT_RDWR)
                self.assertEqual(self.ask(act)[0], 502)

    def test_bodies_that_lie(self):
        long = field("content-length", "5")
        for name, sent in {
                "shorter": frame(HEADERS, END_HEADERS, 1, OK + long) + frame(DATA, END_STREAM, 1, b"123"),
                "longer": frame(HEADERS, END_HEADERS, 1, OK + long) + frame(DATA, END_STREAM, 1, b"1234567"),
                "reset": frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, 0, 1, b"123") + frame(RST_STREAM, 0, 1, b"\0\0\0\2"),
                "trailers of 20 KB": frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, 0, 1, b"x") +
                frame(HEADERS, END_HEADERS | END_STREAM, 1, b"".join(field(f"x{i}", "y" * 120) for i in range(120))),
                "trailers with a status": frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, 0, 1, b"x") + frame(HEADERS, END_HEADERS | END_STREAM, 1, OK),
        }.items():
            with self.subTest(name):
                status, code = self.ask(lambda s, sent=sent: s.sendall(sent))
                self.assertNotIn(code, (0, 28), f"a broken answer looked whole, or was waited for ({status})")

    def test_a_reset_is_passed_on_with_its_code(self):
        for code in (2, 8, 11):
            def act(s, code=code):
                s.sendall(frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, 0, 1, b"some") + frame(RST_STREAM, 0, 1, code.to_bytes(4, "big")))
            host = f"h2c-{self.serve(act)}.edge.test"
            with Client(self.e.tls(host, alpn=["h2"])) as c:
                stream = c.ask(host)
                c.wait(lambda c=c, stream=stream: c.reset(stream), "a reset")
                self.assertEqual(c.of(stream, RST_STREAM)[0][3], code.to_bytes(4, "big"))
            got = b""
            with self.e.plain() as s:
                s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                got = test_edge.read_until_closed(s)
            self.assertIn(b"some", got)
            self.assertFalse(got.endswith(b"0\r\n\r\n"), "a cut answer looks whole")

    def flood(self, what):
        def act(s):
            s.sendall(frame(HEADERS, END_HEADERS, 1, OK))
            end = time.monotonic() + 30
            while time.monotonic() < end:
                s.sendall(what * 100)
        begin = time.monotonic()
        code = self.ask(act)[1]
        self.assertNotEqual(code, 28, "it goes on for ever")
        self.assertNotEqual(code, 0)
        self.assertLess(time.monotonic() - begin, 25)

    def test_frames_that_bring_nothing(self):
        for name, what in {"pings": frame(PING, 0, 0, b"12345678"), "settings": frame(SETTINGS, 0, 0, setting(4, 65535)),
                           "windows": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), "no data": frame(DATA, 0, 1), "unknown frames": frame(77, 0, 0, b"x"),
                           "padding": frame(DATA, 8, 1, b"\x03\0\0\0")}.items():
            with self.subTest(name):
                self.flood(what)

    def test_heads_for_ever(self):
        def act(s):
            for _ in range(100000):
                s.sendall(frame(HEADERS, END_HEADERS, 1, field(":status", "103")) * 10)
        self.assertEqual(self.ask(act)[0], 502)

        def go_on(s):
            s.sendall(frame(HEADERS, 0, 1, OK))
            for _ in range(100000):
                s.sendall(frame(CONTINUATION, 0, 1, b"") * 10)
        self.assertEqual(self.ask(go_on)[0], 502)

    def test_a_few_pings_are_fine(self):
        pongs = []

        def act(s):
            s.sendall(frame(PING, 0, 0, b"12345678") * 50 + frame(HEADERS, END_HEADERS, 1, OK) + frame(GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0"))
            got = b""
            while got.count(b"12345678") < 50:
                got += s.recv(65536)
            pongs.append(got.count(b"12345678"))
            s.sendall(frame(DATA, END_STREAM, 1, b"fine"))
        self.assertEqual(self.ask(act), (200, 0))
        self.assertEqual(pongs, [50])

    def test_a_request_that_is_not_taken(self):
        """No window for the body: the client has to wait, the edge holds no more than its buffers; and it hears the answer all the same."""
        told = threading.Event()

        def act(s):
            s.sendall(frame(SETTINGS, 0, 0, setting(4, 0)))
            told.wait(30)
            s.sendall(frame(HEADERS, END_HEADERS | END_STREAM, 1, field(":status", "404")))
        host = f"h2c-{self.serve(act)}.edge.test"
        with Client(self.e.tls(host, alpn=["h2"])) as c:
            stream = c.ask(host, method="POST", ended=False)
            c.wait(lambda: c.of(0, SETTINGS), "settings")
            window = 128 << 10  # of a stream
            c.send(frame(DATA, 0, stream, b"x" * 16384) * (window // 16384))
            c.read(2)
            credit = sum(int.from_bytes(f[3], "big") for f in c.of(stream, WINDOW_UPDATE))
            self.assertLessEqual(credit, (64 + 64 + 16) << 10)  # what the edge's buffer, the program's first window and a frame may hold
            told.set()
            c.wait(lambda: c.ended(stream), "the answer")
            self.assertEqual(c.status(stream), 404)
            c.wait(lambda: c.reset(stream), "that the rest is not wanted")
            self.assertEqual(c.of(stream, RST_STREAM)[0][3], bytes(4))

    def test_refused_before_it_was_seen(self):
        """REFUSED_STREAM for a request without a body: another connection is tried, once."""
        tries = []

        def act(s):
            tries.append(s)
            s.sendall(frame(RST_STREAM, 0, 1, b"\0\0\0\x07") if len(tries) == 1 else frame(HEADERS, END_HEADERS | END_STREAM, 1, OK))
        self.assertEqual(self.ask(act), (200, 0))
        self.assertEqual(len(tries), 2)


def split(data):
    """(kind, flags) of the frames that are there in whole."""
    found, at = [], 0
    while len(data) >= at + 9:
        n = int.from_bytes(data[at:at + 3], "big")
        if len(data) < at + 9 + n:
            break
        found.append((data[at + 3], data[at + 4]))
        at += 9 + n
    return found


if __name__ == "__main__":
    test_edge.EDGEUP = sys.argv.pop(1)
    unittest.main(verbosity=2)
