# SPDX-License-Identifier: Apache-2.0
"""A scripted server: each connection is given to a function, on a thread; what it raises fails the test."""
import base64
import hashlib
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pando import Transport  # noqa: E402

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
LIMIT_S = 20


class Conn:
    """The server's end of one connection."""

    def __init__(self, sock):
        self.sock, self.buf, self.body = sock, b"", b""
        sock.settimeout(LIMIT_S)

    def take(self, n):
        while len(self.buf) < n:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError("the client is gone")
            self.buf += data
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def head(self):
        """(first line, headers) of a request; its body, if the length is known, is in self.body."""
        while b"\r\n\r\n" not in self.buf:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError("the client is gone")
            self.buf += data
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        first, *rest = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in rest)}
        self.body = self.take(int(headers.get("content-length") or 0))
        return first, headers

    def send(self, data):
        self.sock.sendall(data)

    def reply(self, status, body, more=""):
        self.send(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

    def upgrade(self, accept=None, more=""):
        first, h = self.head()
        accept = accept or base64.b64encode(hashlib.sha1(h["sec-websocket-key"].encode() + GUID).digest()).decode()
        self.send(f"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{more}\r\n".encode())
        return first, h

    def frame(self, opcode, payload=b"", fin=True, masked=False, rsv=0):
        n = len(payload)
        bit = 0x80 if masked else 0
        head = bytes([(0x80 if fin else 0) | rsv | opcode])
        head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 \
            else bytes([bit | 127]) + struct.pack(">Q", n)
        self.send(head + (b"\0\0\0\0" if masked else b"") + payload)

    def frame_in(self):
        """(fin, opcode, payload) of a frame that must be masked."""
        a, b = self.take(2)
        assert b & 0x80, "a client must mask"
        n = b & 0x7f
        if n == 126:
            n = struct.unpack(">H", self.take(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.take(8))[0]
        key = self.take(4)
        return bool(a & 0x80), a & 0x0f, bytes(x ^ key[i & 3] for i, x in enumerate(self.take(n)))


class Peer:
    """with Peer(f, g) as p: the first connection is f's, the second g's; p.transport reaches it."""

    def __init__(self, *scripts, wrap=None):
        self.scripts, self.wrap, self.error = list(scripts), wrap, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(LIMIT_S)
        self.port = self.listener.getsockname()[1]
        self.transport = Transport(f"http://127.0.0.1:{self.port}/base", "the-key", timeout=LIMIT_S)
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        try:
            for script in self.scripts:
                sock, _ = self.listener.accept()
                with (self.wrap(sock) if self.wrap else sock) as s:
                    script(Conn(s))
        except BaseException as e:  # for the test to see
            self.error = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.transport.close()
        self.thread.join(LIMIT_S)
        self.listener.close()
        if kind is None:
            assert not self.thread.is_alive(), "the script did not end"
            if self.error:
                raise self.error
