# SPDX-License-Identifier: Apache-2.0
"""edge_checks.py - questions to an edge with edge_app.py behind it; asked of edgeup (tests/unit) and of a real VM (test_edge.py)

A class that mixes Checks in has `host` (a name that leads to the app), `tls_port`, `http_port`, `ca` (a file).
"""
import json
import os
import socket
import ssl
import subprocess
import tempfile
import zlib

from edge_app import BLOCK
from ws import BINARY, TEXT, WebSocket

CURL_S = 120


def crc_of(n):
    """CRC-32 of n bytes as the app sends them."""
    crc = 0
    while n:
        crc = zlib.crc32(BLOCK[:min(n, len(BLOCK))], crc)
        n -= min(n, len(BLOCK))
    return crc


def read_file(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as f:
        return f.read()


class Reply:
    def __init__(self, status, version, headers, body):
        self.status, self.version, self.headers, self.body = status, version, headers, body

    def json(self):
        return json.loads(self.body)


class Edge:
    """curl and raw sockets, towards one edge."""

    def __init__(self, tls_port, http_port, ca):
        self.tls_port, self.http_port, self.ca = tls_port, http_port, ca

    def curl_argv(self, url, *args):
        return ["curl", "-sS", "--max-time", str(CURL_S), "--noproxy", "*", "--cacert", self.ca,
                "--connect-to", f"::127.0.0.1:{self.tls_port if url.startswith('https') else self.http_port}", *args, url]

    def curl(self, url, *args, data=None, check=True):
        with tempfile.TemporaryDirectory() as tmp:
            head, out = os.path.join(tmp, "head"), os.path.join(tmp, "out")
            r = subprocess.run(self.curl_argv(url, "-D", head, "-o", out, "-w", "%{http_code} %{http_version}", *args),
                               input=data, capture_output=True, timeout=CURL_S + 30)
            if check and r.returncode:
                raise AssertionError(f"curl {url}: {r.returncode} {r.stderr.decode()}")
            status, version = r.stdout.decode().split()
            fields = {}
            heads = read_file(head).decode("latin-1").replace("\r", "").split("\n\n")
            for line in heads[-2].splitlines()[1:] if len(heads) > 1 else []:
                k, _, v = line.partition(": ")
                fields[k.lower()] = v
            body = read_file(out) if "-I" not in args else b""  # curl puts the head there
            reply = Reply(int(status), version, fields, body)
            reply.code = r.returncode
            return reply

    def plain(self, timeout=60):
        s = socket.create_connection(("127.0.0.1", self.http_port), timeout=timeout)
        return s

    def tls(self, name, alpn=None, timeout=60, rcvbuf=None, source=None, mss=None):
        ctx = ssl.create_default_context(cafile=self.ca)
        if alpn:
            ctx.set_alpn_protocols(alpn)
        s = socket.socket()
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if mss:  # as on a line that is no loopback: windows open in steps of a segment
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        if source:
            s.bind((source, 0))
        s.settimeout(timeout)
        s.connect(("127.0.0.1", self.tls_port))
        return ctx.wrap_socket(s, server_hostname=name)

    def raw(self, data, timeout=60, end=False):
        """What the edge answers on one plain connection until it closes, or the first whole answer."""
        with self.plain(timeout) as s:
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
            return read_until_closed(s)


def read_until_closed(s):
    got = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return got
            got += piece
    except (ConnectionError, TimeoutError, ssl.SSLError):
        return got


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


# Ambiguous requests, or ones that are not HTTP: (name, bytes, statuses that are right)
def smuggling(host):
    h = f"Host: {host}\r\n".encode()
    post = b"POST /sum HTTP/1.1\r\n" + h
    get = b"GET /echo HTTP/1.1\r\n"
    return [
        ("length and chunks", post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("two lengths", post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
        ("two equal lengths", post + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("list of lengths", post + b"Content-Length: 5, 5\r\n\r\nhello", 400),
        ("signed length", post + b"Content-Length: +5\r\n\r\nhello", 400),
        ("negative length", post + b"Content-Length: -1\r\n\r\n", 400),
        ("hexadecimal length", post + b"Content-Length: 0x5\r\n\r\nhello", 400),
        ("huge length", post + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
        ("unknown coding", post + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        ("chunked twice", post + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("coding in disguise", post + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        ("coding list", post + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 501),
        ("space before the colon", post + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        ("folded field", post + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
        ("vertical tab in a name", post + b"Transfer-\x0bEncoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("control character in a value", post + b"A: b\x01c\r\nContent-Length: 0\r\n\r\n", 400),
        ("carriage return in a value", post + b"A: b\rc\r\nContent-Length: 0\r\n\r\n", 400),
        ("NUL in a value", post + b"A: b\0c\r\nContent-Length: 0\r\n\r\n", 400),
        ("line feeds alone", b"GET /echo HTTP/1.1\nHost: " + host.encode() + b"\n\n", 400),
        ("no host", get + b"\r\n", 400),
        ("two hosts", get + h + b"Host: other.example\r\n\r\n", 400),
        ("two equal hosts", get + h + h + b"\r\n", 400),
        ("host with a path", get + b"Host: a.example/b\r\n\r\n", 400),
        ("host with a space", get + b"Host: a b\r\n\r\n", 400),
        ("target and host differ", b"GET http://other.example/ HTTP/1.1\r\n" + h + b"\r\n", 400),
        ("space in the target", b"GET /a b HTTP/1.1\r\n" + h + b"\r\n", 400),
        ("no version", b"GET /echo\r\n" + h + b"\r\n", 400),
        ("version 2.0", b"GET /echo HTTP/2.0\r\n" + h + b"\r\n", 505),
        ("method with a bracket", b"G(T /echo HTTP/1.1\r\n" + h + b"\r\n", 400),
        ("coding in HTTP/1.0", b"POST /sum HTTP/1.0\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("Connection takes Host away", get + h + b"Connection: host\r\n\r\n", 400),
        ("Connection takes the length away", post + b"Connection: close, Content-Length\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("CONNECT", b"CONNECT example.org:443 HTTP/1.1\r\n" + h + b"\r\n", 501),
        ("another expectation", get + h + b"Expect: the-unexpected\r\n\r\n", 400),
        ("TLS on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\n\n", 400),
        ("HTTP/2 on the plain port", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("head too large", get + h + b"A: " + b"a" * 40000 + b"\r\n\r\n", 431),
        ("too many fields", get + h + b"A: b\r\n" * 200 + b"\r\n", 431),
    ]


# Bodies with malformed chunks: the connection is closed, and the app never sees a complete request
BAD_CHUNKS = [b"g\r\n", b"-1\r\n", b" 5\r\nhello\r\n", b"5\nhello\r\n", b"5\r\nhelloXX", b"\r\n", b"fffffffffffffffff\r\n",
              b"5;" + b"x" * 400 + b"\r\nhello\r\n0\r\n\r\n", b"0\r\nA: b\nC\r\n\r\n", b"0x5\r\nhello\r\n"]


class Checks:
    host = None

    def edge(self):
        return Edge(self.tls_port, self.http_port, self.ca)

    def url(self, path, scheme="https"):
        return f"{scheme}://{self.host}{path}"

    def test_http_and_https(self):
        e = self.edge()
        for url, args, version in ((self.url("/echo?a=1"), [], "2"), (self.url("/echo?a=1"), ["--http1.1"], "1.1"),
                                   (self.url("/echo?a=1"), ["--http1.1", "--tls-max", "1.2"], "1.1"),
                                   (self.url("/echo?a=1", "http"), [], "1.1")):
            with self.subTest(url=url, args=args):
                r = e.curl(url, "-H", "X-Forwarded-For: 1.2.3.4", "-H", "Forwarded: for=1.2.3.4", "-H", "X-Real-IP: 1.2.3.4",
                           "-H", "Cookie: a=1; b=2", *args)
                self.assertEqual((r.status, r.version), (200, version))
                got = r.json()
                self.assertEqual(got["line"], "GET /echo?a=1 HTTP/1.1")
                fields = dict(got["headers"])
                self.assertEqual(len(fields), len(got["headers"]), "a field came twice")
                self.assertEqual(fields["host"].split(":")[0], self.host)
                self.assertEqual(fields["x-forwarded-for"], "127.0.0.1")
                self.assertEqual(fields["x-forwarded-proto"], url.split(":")[0])
                self.assertEqual(fields["x-forwarded-host"], self.host)
                self.assertEqual(fields["cookie"], "a=1; b=2")
                self.assertFalse({"forwarded", "x-real-ip", "connection"} & set(fields))
                self.assertNotIn("strict-transport-security", r.headers)

    def test_old_tls_is_refused(self):
        r = self.edge().curl(self.url("/echo"), "--tls-max", "1.1", check=False)
        self.assertNotEqual(r.code, 0)

    def test_head_and_methods(self):
        e = self.edge()
        for args in (["--http1.1"], []):
            r = e.curl(self.url("/big?n=100000"), "-I", *args)
            self.assertEqual((r.status, r.headers["content-length"], r.body), (200, "100000", b""))
            r = e.curl(self.url("/echo"), "-X", "DELETE", *args)
            self.assertEqual(r.json()["line"], "DELETE /echo HTTP/1.1")

    def check_bodies(self, n):
        """n bytes each way, in every framing there is; checksums on both ends."""
        e = self.edge()
        with tempfile.NamedTemporaryFile() as f:
            for _ in range(n // len(BLOCK)):
                f.write(BLOCK)
            f.write(BLOCK[:n % len(BLOCK)])
            f.flush()
            for args in (["--http1.1"], []):
                up = e.curl(self.url("/sum"), "-X", "POST", "-T", f.name, *args)
                self.assertEqual((up.json()["bytes"], up.json()["crc"]), (n, crc_of(n)))
            up = e.curl(self.url("/sum", "http"), "-X", "POST", "-T", f.name, "-H", "Transfer-Encoding: chunked")
            self.assertEqual((up.json()["bytes"], up.json()["crc"], up.json()["chunked"]), (n, crc_of(n), True))
        for args, path, scheme in ((["--http1.1"], "big", "https"), ([], "big", "https"), ([], "chunked", "https"),
                                   (["--http1.1"], "chunked", "https"), (["--http1.0"], "chunked", "http")):
            down = e.curl(self.url(f"/{path}?n={n}", scheme), *args)
            self.assertEqual((len(down.body), zlib.crc32(down.body)), (n, crc_of(n)), f"{args} {path}")

    def test_bodies(self):
        self.check_bodies(3000001)

    def test_expect_100(self):
        r = self.edge().curl(self.url("/sum"), "--http1.1", "-X", "POST", "-H", "Expect: 100-continue", "--data-binary", "hello")
        self.assertEqual(r.json()["bytes"], 5)

    def test_events_come_as_they_happen(self):
        with self.edge().tls(self.host) as s:
            s.sendall(f"GET /events?n=3&every=1 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            got = b""
            while b"data: 0" not in got:
                got += s.recv(65536)
            self.assertNotIn(b"data: 2", got, "the first event waited for the last one")
            while not got.endswith(b"0\r\n\r\n"):
                got += s.recv(65536)
            self.assertIn(b"data: 2", got)

    def test_websocket(self):
        ws = WebSocket(self.http_port, "/ws", headers={"Host": self.host})
        ws.frame(TEXT, b"hello")
        self.assertEqual(ws.message(), (TEXT, b"hello"))
        ws.frame(BINARY, BLOCK[:60000])
        self.assertEqual(ws.message(), (BINARY, BLOCK[:60000]))
        ws.frame(8, b"\x03\xe8")
        self.assertIsNone(ws.message())

    def test_keep_alive_and_pipeline(self):
        e = self.edge()
        before = e.curl(self.url("/counts", "http")).json()
        one = f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()
        last = f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode()
        got = e.raw(one * 20 + last)
        self.assertEqual(got.count(b"HTTP/1.1 200 OK"), 21)
        after = e.curl(self.url("/counts", "http")).json()
        self.assertEqual(after["requests"] - before["requests"], 22)
        self.assertLessEqual(after["connections"] - before["connections"], 3, "connections to the VM are not kept")

    def test_strange_answers(self):
        e = self.edge()
        good = {"bare-lf": b"abc", "to-the-end": b"abc", "early-hints": b"abc", "hop": b"abc"}
        for how in ("two-framings", "two-lengths", "no-http", "bare-lf", "to-the-end", "early-hints", "endless-head", "hop", "cut"):
            for args in (["--http1.1"], []):
                with self.subTest(how=how, args=args):
                    r = e.curl(self.url(f"/strange?how={how}"), *args, check=False)
                    if how in good:
                        self.assertEqual((r.code, r.status, r.body), (0, 200, good[how]))
                        self.assertNotIn("x-hop", r.headers)
                    elif how == "cut":
                        self.assertNotEqual(r.code, 0, "a cut answer looked whole")
                    else:
                        self.assertEqual((r.code, r.status), (0, 502))
        self.assertEqual(e.curl(self.url("/close")).status, 502)

    def test_requests_that_could_be_read_in_two_ways(self):
        e = self.edge()
        before = e.curl(self.url("/counts", "http")).json()["requests"]
        for name, data, want in smuggling(self.host):
            with self.subTest(name):
                answer = e.raw(data + f"GET /smuggled HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
                self.assertEqual(status_of(answer), want, answer[:200])
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1, "what followed was answered, too")
        after = e.curl(self.url("/counts", "http")).json()["requests"]
        self.assertEqual(after - before, 1, "the app saw some of them")

    def test_bad_chunks_cut_the_connection(self):
        e = self.edge()
        for chunks in BAD_CHUNKS:
            with self.subTest(chunks=chunks[:20]):
                got = e.raw(f"POST /sum HTTP/1.1\r\nHost: {self.host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks)
                self.assertNotIn(b" 200 ", got)

    def test_bad_tls(self):
        with self.edge().plain() as s:
            pass
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + os.urandom(64), os.urandom(300), b""):
            with socket.create_connection(("127.0.0.1", self.tls_port), timeout=60) as s:
                s.sendall(garbage)
                s.shutdown(socket.SHUT_WR)
                read_until_closed(s)
        ctx = ssl.create_default_context(cafile=self.ca)
        ctx.check_hostname = False
        ctx.verify_mode = ssl.CERT_NONE
        with ctx.wrap_socket(socket.create_connection(("127.0.0.1", self.tls_port), timeout=60)) as s:  # no name at all
            s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
            self.assertEqual(status_of(read_until_closed(s)), 200)
        self.assertEqual(self.edge().curl(self.url("/echo")).status, 200)

    def test_bad_frames(self):
        """Malformed HTTP/2 ends its connection and nothing else."""
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        settings = b"\0\0\0\x04\0\0\0\0\0"
        for name, data in {"no preface": b"GET / HTTP/1.1\r\n\r\n", "data on stream 0": preface + settings + b"\0\0\1\0\0\0\0\0\0x",
                           "headers that are none": preface + settings + b"\0\0\4\1\5\0\0\0\1\xff\xff\xff\xff",
                           "frame too large": preface + settings + b"\xff\xff\xff\0\0\0\0\0\1",
                           "even stream": preface + settings + b"\0\0\1\1\5\0\0\0\2\x82"}.items():
            with self.subTest(name):
                with self.edge().tls(self.host, alpn=["h2"]) as s:
                    self.assertEqual(s.selected_alpn_protocol(), "h2")
                    s.sendall(data)
                    read_until_closed(s)
        self.assertEqual(self.edge().curl(self.url("/echo")).status, 200)
