# SPDX-License-Identifier: Apache-2.0
"""The WebSocket client against a peer that does everything right, and everything wrong"""
import base64
import hashlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest

from peer import GUID, LIMIT_S, Peer
from pando import ApiError, ConnectionFailed, Transport
from pando.websocket import BINARY, CLOSE, CONTINUE, PING, PONG, TEXT, WebSocket, WebSocketError, mask


def code(n):
    return struct.pack(">H", n)


class Case(unittest.TestCase):
    def ws(self, transport, path="/", **kw):
        ws = WebSocket(transport, path, **kw)
        self.addCleanup(ws.terminate)
        return ws


class Good(Case):
    def test_masking(self):
        for n in (0, 1, 3, 4, 5, 126, 65537):
            data, key = os.urandom(n), os.urandom(4)
            self.assertEqual(mask(key, data), bytes(x ^ key[i & 3] for i, x in enumerate(data)))

    def test_handshake_and_sizes(self):
        sizes = (0, 1, 125, 126, 65535, 65536, 300000)
        seen = []

        def script(c):
            seen.append(c.upgrade())
            for _ in sizes:
                fin, op, data = c.frame_in()
                seen.append((fin, op, len(data)))
                c.frame(op, data)

        with Peer(script) as p:
            ws = self.ws(p.transport, "/pty", query={"cols": 80, "exec": "a b&c"}, headers=p.transport.auth)
            for n in sizes:
                data = os.urandom(n)
                ws.send(data)
                self.assertEqual(ws.recv(LIMIT_S), (BINARY, data))
        first, h = seen[0]
        self.assertEqual(first, "GET /base/pty?cols=80&exec=a+b%26c HTTP/1.1")
        self.assertEqual((h["sec-websocket-version"], h["authorization"]), ("13", "Bearer the-key"))
        self.assertEqual(seen[1:], [(True, BINARY, n) for n in sizes])

    def test_fragments_with_control_frames_between(self):
        pongs = []

        def script(c):
            c.upgrade()
            c.frame(TEXT, "ü".encode()[:1], fin=False)
            c.frame(PING, b"you there")
            c.frame(CONTINUE, "ü".encode()[1:], fin=False)
            c.frame(PONG, b"not asked for")
            c.frame(CONTINUE, b"", fin=False)
            c.frame(CONTINUE, b"!", fin=True)
            pongs.append(c.frame_in())
            c.frame(BINARY, b"next")

        with Peer(script) as p:
            ws = self.ws(p.transport, "/")
            self.assertEqual(ws.recv(LIMIT_S), (TEXT, "ü!".encode()))
            self.assertEqual(ws.recv(LIMIT_S), (BINARY, b"next"))
        self.assertEqual(pongs, [(True, PONG, b"you there")])

    def test_frame_in_the_handshakes_packet_and_byte_by_byte(self):
        def script(c):
            _, h = c.head()
            accept = base64.b64encode(hashlib.sha1(h["sec-websocket-key"].encode() + GUID).digest())
            whole = b"HTTP/1.1 101 x\r\nupgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\nsec-websocket-accept: " + accept + \
                b"\r\n\r\n\x82\x03abc"
            c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(whole)):
                c.send(whole[i:i + 1])

        with Peer(script) as p:
            self.assertEqual(self.ws(p.transport, "/").recv(LIMIT_S), (BINARY, b"abc"))

    def test_close_by_the_server(self):
        for payload, want in ((code(1001) + b"bye", (1001, "bye")), (b"", (1005, ""))):
            got = []

            def script(c):
                c.upgrade()
                c.frame(CLOSE, payload)
                got.append(c.frame_in())

            with Peer(script) as p:
                ws = self.ws(p.transport, "/")
                self.assertIsNone(ws.recv(LIMIT_S))
                self.assertEqual((ws.close_code, ws.close_reason), want)
                with self.assertRaises(WebSocketError):
                    ws.send(b"too late")
            self.assertEqual(got, [(True, CLOSE, payload[:2])])

    def test_close_by_the_client(self):
        got = []

        def script(c):
            c.upgrade()
            c.frame(BINARY, b"on its way")
            got.append(c.frame_in())
            c.frame(PING, b"late")  # no answer may follow a close
            c.frame(CLOSE, got[0][2])
            try:
                got.append(c.frame_in())
            except EOFError:
                got.append(None)

        with Peer(script) as p:
            ws = self.ws(p.transport, "/")
            ws.close()
            self.assertEqual(ws.recv(LIMIT_S), (BINARY, b"on its way"))
            self.assertIsNone(ws.recv(LIMIT_S))
        self.assertEqual(got, [(True, CLOSE, code(1000)), None])

    def test_both_directions_at_once(self):
        """Neither end may wait for the other to read first."""
        n, size = 64, 65536

        def script(c):
            c.upgrade()
            t = threading.Thread(target=lambda: [c.frame(BINARY, bytes(size)) for _ in range(n)])
            t.start()
            for _ in range(n):
                self.assertEqual(len(c.frame_in()[2]), size)
            t.join(LIMIT_S)

        with Peer(script) as p:
            ws = self.ws(p.transport, "/")
            t = threading.Thread(target=lambda: [ws.send(bytes(size), timeout=LIMIT_S) for _ in range(n)])
            t.start()
            for _ in range(n):
                self.assertEqual(len(ws.recv(LIMIT_S)[1]), size)
            t.join(LIMIT_S)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate with")
    def test_tls_both_directions(self):
        with tempfile.TemporaryDirectory() as d:
            cert, key = os.path.join(d, "c"), os.path.join(d, "k")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                           check=True, capture_output=True)
            theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            theirs.load_cert_chain(cert, key)
            ours = ssl.create_default_context(cafile=cert)
            n, size = 16, 100000

            def script(c):
                c.upgrade()
                for _ in range(n):
                    c.frame(BINARY, c.frame_in()[2])

            with Peer(script, wrap=lambda s: theirs.wrap_socket(s, server_side=True)) as p:
                t = Transport(f"https://127.0.0.1:{p.port}", "k", ssl_context=ours)
                ws = self.ws(t, "/")
                sender = threading.Thread(target=lambda: [ws.send(bytes([i]) * size, timeout=LIMIT_S) for i in range(n)])
                sender.start()
                for i in range(n):
                    self.assertEqual(ws.recv(LIMIT_S), (BINARY, bytes([i]) * size))
                sender.join(LIMIT_S)


class Bad(Case):
    def fails(self, want, *frames, **kw):
        """After these frames the client fails the connection with this code, and says so."""
        got = []

        def script(c):
            c.upgrade()
            for f in frames:
                c.frame(*f[0], **f[1])
            got.append(c.frame_in())

        with Peer(script) as p:
            ws = self.ws(p.transport, "/", **kw)
            with self.assertRaises(WebSocketError) as e:
                while ws.recv(LIMIT_S):
                    pass
            self.assertEqual(e.exception.code, want)
        self.assertEqual(got, [(True, CLOSE, code(want))])

    def test_broken_rules(self):
        def f(*args, **kw):
            return args, kw

        self.fails(1002, f(BINARY, b"x", masked=True))
        self.fails(1002, f(BINARY, b"x", rsv=0x40))
        self.fails(1002, f(3, b"x"))
        self.fails(1002, f(11, b"x"))
        self.fails(1002, f(PING, b"x", fin=False))
        self.fails(1002, f(PING, bytes(126)))
        self.fails(1002, f(CONTINUE, b"x"))
        self.fails(1002, f(TEXT, b"x", fin=False), f(TEXT, b"y"))
        self.fails(1002, f(CLOSE, b"\x03"))
        self.fails(1002, f(CLOSE, code(1005)))
        self.fails(1002, f(CLOSE, code(999)))
        self.fails(1007, f(CLOSE, code(1000) + b"\xff"))
        self.fails(1007, f(TEXT, b"\xff\xfe"))
        self.fails(1009, f(BINARY, bytes(60), fin=False), f(CONTINUE, bytes(60)), message_max=100)

    def test_a_huge_length_takes_no_memory(self):
        got = []

        def script(c):
            c.upgrade()
            c.send(b"\x82\x7f" + struct.pack(">Q", 1 << 62))
            got.append(c.frame_in())

        with Peer(script) as p:
            with self.assertRaises(WebSocketError):
                self.ws(p.transport, "/").recv(LIMIT_S)
        self.assertEqual(got[0][2], code(1009))

    def test_the_connection_breaks(self):
        for cut in (b"", b"\x82", b"\x82\x05ab"):
            with Peer(lambda c: (c.upgrade(), c.send(cut))) as p:
                ws = self.ws(p.transport, "/")
                with self.assertRaises(WebSocketError) as e:
                    ws.recv(LIMIT_S)
                self.assertEqual((e.exception.code, ws.close_code), (1006, 1006))

    def test_silence(self):
        done = threading.Event()
        with Peer(lambda c: (c.upgrade(), done.wait(LIMIT_S))) as p:
            with self.assertRaises(TimeoutError):
                self.ws(p.transport, "/").recv(0.2)
            done.set()

    def test_bad_handshakes(self):
        for kw in ({"accept": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}, {"more": "Sec-WebSocket-Extensions: permessage-deflate\r\n"},
                   {"more": "Sec-WebSocket-Protocol: x\r\n"}):
            with Peer(lambda c: c.upgrade(**kw)) as p:
                with self.assertRaises(ConnectionFailed):
                    self.ws(p.transport, "/")
        with Peer(lambda c: (c.head(), c.send(b"SSH-2.0-whatever\r\n\r\n"))) as p:
            with self.assertRaises(ApiError):
                self.ws(p.transport, "/")
        with Peer(lambda c: c.head()) as p:
            with self.assertRaises(ConnectionFailed):
                self.ws(p.transport, "/")

    def test_a_refusal_is_the_servers_own(self):
        with Peer(lambda c: (c.head(), c.reply(410, b'{"code":"SESSION_EXPIRED","message":"it ended"}'))) as p:
            with self.assertRaises(ApiError) as e:
                self.ws(p.transport, "/")
        self.assertEqual((e.exception.status, e.exception.code, e.exception.message), (410, "SESSION_EXPIRED", "it ended"))
        self.assertTrue(e.exception.hint)

    def test_no_header_can_be_smuggled(self):
        with Peer(lambda c: c.sock.recv(100)) as p:
            with self.assertRaises(ValueError):
                self.ws(p.transport, "/", headers={"X-User": "a\r\nX-Other: b"})


if __name__ == "__main__":
    unittest.main()
