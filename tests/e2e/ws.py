# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client of the standard library: enough to be a terminal, and to misbehave"""
import base64
import hashlib
import json
import os
import socket
import struct
import time

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The server answered without an upgrade."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body[:300]!r}")
        self.status = status
        self.json = json.loads(body) if body else {}
        self.code = self.json.get("code")


class WebSocket:
    def __init__(self, port, path, headers=None, timeout=60, rcvbuf=None):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout)
        self.sock.connect(("127.0.0.1", port))
        self.buf = b""
        self.closed = None  # (code, reason) once the server said so
        self.pings = 0
        self.reply_headers = {}
        key = base64.b64encode(os.urandom(16)).decode()
        head = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade",
                "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
                "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits", **(headers or {})}
        lines = "".join(f"{k}: {v}\r\n" for k, v in head.items() if v is not None)
        self.sock.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self._handshake(key)

    def _handshake(self, key):
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        first, *rest = head.decode().split("\r\n")
        status = int(first.split()[1])
        self.reply_headers = {k.lower(): v for k, v in (h.split(": ", 1) for h in rest)}
        if status != 101:
            n = int(self.reply_headers.get("content-length", 0))
            while len(self.buf) < n:
                self._more()
            self.sock.close()
            raise Refused(status, self.buf[:n])
        want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert self.reply_headers["sec-websocket-accept"] == want
        assert self.reply_headers["upgrade"].lower() == "websocket"
        assert "sec-websocket-extensions" not in self.reply_headers

    def _more(self):
        got = self.sock.recv(65536)
        if not got:
            raise ConnectionError("the server closed the connection")
        self.buf += got

    def frame(self, opcode, payload=b"", fin=True, mask=True):
        """One frame, as it is told to."""
        head = bytes([(0x80 if fin else 0) | opcode])
        bit = 0x80 if mask else 0
        n = len(payload)
        head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 \
            else bytes([bit | 127]) + struct.pack(">Q", n)
        if mask:
            k = os.urandom(4)
            payload = bytes(b ^ k[i & 3] for i, b in enumerate(payload))
            head += k
        self.sock.sendall(head + payload)

    def send(self, data):
        self.frame(BINARY, data.encode() if isinstance(data, str) else data)

    def say(self, **members):
        self.frame(TEXT, json.dumps(members).encode())

    def _need(self, n):
        while len(self.buf) < n:
            self._more()

    def _frame_in(self):
        """One frame; a timeout in the middle of it loses nothing."""
        self._need(2)
        a, b = self.buf[0], self.buf[1]
        n, head = b & 0x7f, 2
        if n >= 126:
            head = 4 if n == 126 else 10
            self._need(head)
            n = int.from_bytes(self.buf[2:head], "big")
        assert not b & 0x80, "a server must not mask"
        assert not a & 0x70, "no extension was agreed on"
        self._need(head + n)
        data, self.buf = self.buf[head:head + n], self.buf[head + n:]
        return a & 0x80, a & 0x0f, data

    def message(self, timeout=60):
        """(opcode, bytes) of the next message; None when the server closes."""
        whole, kind = b"", None
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no message came")
            self.sock.settimeout(left)
            fin, op, data = self._frame_in()
            if op == PING:
                self.pings += 1
                self.frame(PONG, data)
            elif op == CLOSE:
                self.closed = (struct.unpack(">H", data[:2])[0] if data else 1005, data[2:].decode())
                try:
                    self.frame(CLOSE, data[:2])
                except OSError:
                    pass
                return None
            elif op != PONG:
                kind = op if op else kind
                whole += data
                if fin:
                    return kind, whole

    def close(self):
        self.sock.close()


class Terminal(WebSocket):
    """A client of a session: what came, and what the server said about it."""

    def __init__(self, port, path, **kw):
        super().__init__(port, path, **kw)
        self.out = b""
        self.frames = []
        self.exit = None
        kind, data = self.message()
        assert kind == TEXT, (kind, data)
        info = json.loads(data)
        assert info["type"] == "sessionInfo", info
        self.id = info["sessionId"]

    def step(self, timeout=60):
        """Takes one message; False when the server closed."""
        m = self.message(timeout)
        if m is None:
            return False
        kind, data = m
        if kind == BINARY:
            self.out += data
            self.frames.append(data)
        else:
            j = json.loads(data)
            if j["type"] == "exited":
                assert self.exit is None
                self.exit = j["exitCode"]
        return True

    def expect(self, text, timeout=60):
        want = text.encode() if isinstance(text, str) else text
        deadline = time.monotonic() + timeout
        while want not in self.out:
            try:
                alive = self.step(max(0.01, deadline - time.monotonic()))
            except (TimeoutError, socket.timeout):
                raise AssertionError(f"{want!r} never came; what came: {self.out[-2000:]!r}") from None
            if not alive and want not in self.out:
                raise AssertionError(f"{want!r} did not come before the end: {self.out[-2000:]!r}")

    def end(self, timeout=60):
        """Reads to the close; the exit code, None without one."""
        while self.step(timeout):
            pass
        self.close()
        return self.exit
