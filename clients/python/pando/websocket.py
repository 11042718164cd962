# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client (RFC 6455) over a Transport's address.

Theory of operation: the socket never blocks. Reading and writing may happen in two threads at once, also over TLS, where the
library does not allow that: so each single operation is made under one lock, and waiting is done outside of it. Frames are kept
whole by a second lock. What the server sends is checked as the RFC asks: a frame that breaks a rule fails the connection with
the close code of that rule.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import threading
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from .errors import ConnectionFailed, PandoError, from_reply
from .transport import CONNECT_S, Query, Transport, wait_socket

CONTINUE, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEAD_MAX = 64 * 1024
MESSAGE_MAX = 64 * 1024 * 1024  # a picture of a terminal with all of its scrollback is some MiB
RECV = 64 * 1024

NORMAL, PROTOCOL_ERROR, NO_CODE, ABNORMAL, BAD_TEXT, TOO_LARGE = 1000, 1002, 1005, 1006, 1007, 1009


class WebSocketError(PandoError):
    """The connection failed: it broke, or the server broke a rule. ``code``: the close code for that."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def mask(key: bytes, data: bytes) -> bytes:
    n = len(data)
    pad = (key * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pad, "little")).to_bytes(n, "little")


def close_code_ok(code: int) -> bool:
    """May it be in a frame? Some are only for programs themselves."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999


class WebSocket:
    """``recv()`` from one thread, ``send()`` from any."""

    def __init__(self, transport: Transport, path: str, *, query: Query = None, headers: Optional[Mapping[str, str]] = None,
                 timeout: float = CONNECT_S, message_max: int = MESSAGE_MAX) -> None:
        self._io, self._sending = threading.Lock(), threading.Lock()
        self._buf = bytearray()
        self._message_max = message_max
        self._close_sent = False
        self.close_code: Optional[int] = None  #: once the server said so, or the connection failed
        self.close_reason = ""
        self._sock = self._connect(transport, timeout)
        try:
            self._handshake(transport, transport.target(path, query), headers or {}, time.monotonic() + timeout)
        except BaseException:
            self._sock.close()
            raise

    # ---- the socket ----

    @staticmethod
    def _connect(transport: Transport, timeout: float) -> Any:
        try:
            sock: Any = socket.create_connection((transport.host, transport.port), timeout)
            if transport.tls:
                context = transport._ssl or ssl.create_default_context()
                sock = context.wrap_socket(sock, server_hostname=transport.host)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as e:
            raise ConnectionFailed(f"cannot reach {transport.url}: {e}") from e
        sock.setblocking(False)
        return sock

    def _wait(self, write: bool, deadline: Optional[float]) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError("no answer in time")
        try:
            if not wait_socket(self._sock, write, left):
                raise TimeoutError("no answer in time")
        except ValueError as e:  # closed by the other thread
            raise WebSocketError(ABNORMAL, "the connection is closed") from e

    def _more(self, deadline: Optional[float]) -> None:
        """At least a byte into the buffer."""
        while True:
            try:
                with self._io:
                    data = self._sock.recv(RECV)
                break
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(False, deadline)
            except ssl.SSLWantWriteError:
                self._wait(True, deadline)
            except (OSError, ValueError) as e:
                raise WebSocketError(ABNORMAL, f"the connection was lost: {e}") from e
        if not data:
            raise WebSocketError(ABNORMAL, "the connection ended without a close")
        self._buf += data

    def _send_raw(self, data: bytes, deadline: Optional[float]) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._io:
                    n = self._sock.send(view)
                view = view[n:]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(True, deadline)
            except ssl.SSLWantReadError:
                self._wait(False, deadline)
            except (OSError, ValueError) as e:
                raise WebSocketError(ABNORMAL, f"the connection was lost: {e}") from e

    def _take(self, n: int, deadline: Optional[float]) -> bytes:
        while len(self._buf) < n:
            self._more(deadline)
        data = bytes(self._buf[:n])
        del self._buf[:n]
        return data

    # ---- opening ----

    def _handshake(self, transport: Transport, target: str, headers: Mapping[str, str], deadline: float) -> None:
        key = base64.b64encode(os.urandom(16))
        host = f"[{transport.host}]" if ":" in transport.host else transport.host
        fields = {"Host": f"{host}:{transport.port}", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": key.decode(), **headers}
        for name, value in fields.items():
            if "\r" in value or "\n" in value:
                raise ValueError(f"a line end in the header {name}")
        lines = "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        try:
            self._send_raw(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"), deadline)
            while b"\r\n\r\n" not in self._buf:
                if len(self._buf) > HEAD_MAX:
                    raise ConnectionFailed("the server's reply has no end")
                self._more(deadline)
        except (WebSocketError, TimeoutError) as e:
            raise ConnectionFailed(f"{transport.url} did not answer: {e}") from e
        head, _, rest = bytes(self._buf).partition(b"\r\n\r\n")
        self._buf = bytearray(rest)
        first, *others = head.decode("latin-1").split("\r\n")
        reply = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in others)}
        words = first.split(None, 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if status != 101:
            raise self._refusal(status, reply, deadline)
        want = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        if (reply.get("upgrade", "").lower() != "websocket" or "upgrade" not in reply.get("connection", "").lower()
                or reply.get("sec-websocket-accept") != want or "sec-websocket-extensions" in reply or "sec-websocket-protocol" in reply):
            raise ConnectionFailed("the server's reply is not a WebSocket handshake")

    def _refusal(self, status: int, reply: Dict[str, str], deadline: float) -> PandoError:
        """An ordinary reply instead of the upgrade."""
        try:
            n = min(int(reply.get("content-length") or 0), HEAD_MAX)
            body = self._take(n, deadline)
        except (ValueError, WebSocketError, TimeoutError):
            body = bytes(self._buf)
        try:
            parsed: Any = json.loads(body)
        except ValueError:
            parsed = body
        return from_reply(status, parsed, reply.get("x-freestyle-trace-id"))

    # ---- frames ----

    def _frame(self, opcode: int, payload: bytes, deadline: Optional[float]) -> None:
        n = len(payload)
        head = bytes([0x80 | opcode])
        head += bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        key = os.urandom(4)
        with self._sending:
            if self._close_sent:
                raise WebSocketError(ABNORMAL, "the connection is closed")
            self._close_sent = opcode == CLOSE
            self._send_raw(head + key + mask(key, payload), deadline)

    def _frame_in(self, deadline: Optional[float], have: int) -> Tuple[bool, int, bytes]:
        """One frame: (last, opcode, payload); have is what the message has already."""
        a, b = self._take(2, deadline)
        fin, opcode, n = bool(a & 0x80), a & 0x0F, b & 0x7F
        if a & 0x70:
            raise WebSocketError(PROTOCOL_ERROR, "a frame uses an extension that was not agreed on")
        if b & 0x80:
            raise WebSocketError(PROTOCOL_ERROR, "the server masks a frame")
        if opcode not in (CONTINUE, TEXT, BINARY, CLOSE, PING, PONG):
            raise WebSocketError(PROTOCOL_ERROR, f"a frame of unknown kind {opcode}")
        if opcode >= CLOSE and (n > 125 or not fin):
            raise WebSocketError(PROTOCOL_ERROR, "a control frame that is too long or in parts")
        if n == 126:
            n = struct.unpack(">H", self._take(2, deadline))[0]
        elif n == 127:
            n = struct.unpack(">Q", self._take(8, deadline))[0]
        if have + n > self._message_max:
            raise WebSocketError(TOO_LARGE, f"a message of more than {self._message_max} bytes")
        return fin, opcode, self._take(n, deadline)

    def _on_close(self, payload: bytes, deadline: Optional[float]) -> None:
        code, reason = NO_CODE, ""
        if payload:
            code = struct.unpack(">H", payload[:2])[0] if len(payload) > 1 else 0
            if not close_code_ok(code):
                raise WebSocketError(PROTOCOL_ERROR, f"the server closes with the code {code}")
            try:
                reason = payload[2:].decode()
            except UnicodeDecodeError:
                raise WebSocketError(BAD_TEXT, "the server's reason is not UTF-8") from None
        self.close_code, self.close_reason = code, reason
        try:
            self._frame(CLOSE, payload[:2], deadline)
        except (WebSocketError, TimeoutError):
            pass  # it was closed from here first, or is gone already

    def recv(self, timeout: Optional[float] = None) -> Optional[Tuple[int, bytes]]:
        """(TEXT or BINARY, bytes) of the next message; None when the server closed. Any data restarts the timeout."""
        kind, whole = 0, bytearray()
        try:
            while True:
                deadline = None if timeout is None else time.monotonic() + timeout
                fin, opcode, payload = self._frame_in(deadline, len(whole))
                if opcode == PING:
                    self._pong(payload, deadline)
                elif opcode == CLOSE:
                    self._on_close(payload, deadline)
                    self._sock.close()
                    return None
                elif opcode != PONG:
                    if (opcode == CONTINUE) != bool(kind):
                        raise WebSocketError(PROTOCOL_ERROR, "a message begins inside another, or continues without having begun")
                    kind = kind or opcode
                    whole += payload
                    if fin:
                        return self._message(kind, bytes(whole))
        except WebSocketError as e:
            self._fail(e.code)
            raise

    def _pong(self, payload: bytes, deadline: Optional[float]) -> None:
        try:
            self._frame(PONG, payload, deadline)
        except WebSocketError:
            if not self._close_sent:
                raise

    @staticmethod
    def _message(kind: int, data: bytes) -> Tuple[int, bytes]:
        if kind == TEXT:
            try:
                data.decode()
            except UnicodeDecodeError:
                raise WebSocketError(BAD_TEXT, "a text message is not UTF-8") from None
        return kind, data

    def _fail(self, code: int) -> None:
        """The server violated the protocol or is gone: send a close frame if possible, and end."""
        self.close_code = self.close_code or code
        if code != ABNORMAL:
            try:
                self._frame(CLOSE, struct.pack(">H", code), time.monotonic() + 1)
            except (WebSocketError, TimeoutError):
                pass
        self._sock.close()

    def send(self, data: bytes, opcode: int = BINARY, timeout: Optional[float] = None) -> None:
        """A message in one frame."""
        self._frame(opcode, data, None if timeout is None else time.monotonic() + timeout)

    def ping(self, data: bytes = b"") -> None:
        self._frame(PING, data[:125], time.monotonic() + CONNECT_S)

    def close(self, code: int = NORMAL, timeout: float = 5) -> None:
        """Says goodbye; whoever is in recv() gets the server's answer and then None."""
        try:
            self._frame(CLOSE, struct.pack(">H", code), time.monotonic() + timeout)
        except (WebSocketError, TimeoutError):
            pass

    def abort(self) -> None:
        """Without goodbye; recv() in another thread ends with an error."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def terminate(self) -> None:
        """Closes it; only when no thread is in recv()."""
        self.abort()
        self._sock.close()
