# SPDX-License-Identifier: Apache-2.0
"""h2raw.py - HTTP/2 frame by frame, as no well-behaved client would send them"""
import ssl
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
HEADER_TABLE, INITIAL_WINDOW = 1, 4  # settings


def field(name, value):
    """A literal field, not indexed, with a literal name."""
    name, value = name.encode(), value.encode()
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(host, path="/echo", method="GET", scheme="https", more=()):
    fields = [(":method", method), (":scheme", scheme), (":authority", host), (":path", path), *more]
    return b"".join(field(k, v) for k, v in fields)


def setting(name, value):
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Client:
    """One connection. `window` is what the server may send on a stream before it is given more."""

    def __init__(self, sock, window=None):
        self.sock, self.buf, self.next = sock, b"", 1
        self.frames = []  # (kind, flags, stream, payload) as they came
        self.size = {}  # bytes of DATA by stream
        self.resets = set()  # streams
        self.closed = False
        sock.setblocking(False)
        settings = setting(HEADER_TABLE, 0)  # so that status() can read every head by itself
        if window is not None:
            settings += setting(INITIAL_WINDOW, window)
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.sock.close()

    def send(self, data):
        end = time.monotonic() + 60
        while data and not self.closed:
            try:
                data = data[self.sock.send(data):]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
                assert time.monotonic() < end, "the edge takes nothing"
                self.read(0.05)
            except OSError:
                self.closed = True

    def ask(self, host, path="/echo", ended=True, flags=END_HEADERS, **more):
        """A new stream; its number."""
        stream, self.next = self.next, self.next + 2
        self.send(frame(HEADERS, flags | (END_STREAM if ended else 0), stream, head(host, path, **more)))
        return stream

    def give(self, stream, n):
        self.send(frame(WINDOW_UPDATE, 0, stream, n.to_bytes(4, "big")))

    def read(self, seconds=0.1, size=65536):
        """Frames that come within that time."""
        end = time.monotonic() + seconds
        while not self.closed:
            try:
                piece = self.sock.recv(size)
                self.closed = not piece
                self.buf += piece
                self._split()
                return
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                if time.monotonic() >= end:
                    return
                time.sleep(0.01)
            except OSError:
                self.closed = True

    def _split(self):
        while len(self.buf) >= 9:
            n = int.from_bytes(self.buf[:3], "big")
            if len(self.buf) < 9 + n:
                return
            f = (self.buf[3], self.buf[4], int.from_bytes(self.buf[5:9], "big") & 0x7fffffff, self.buf[9:9 + n])
            self.buf = self.buf[9 + n:]
            self.frames.append(f)
            if f[0] == DATA:
                self.size[f[2]] = self.size.get(f[2], 0) + n
            elif f[0] == RST_STREAM:
                self.resets.add(f[2])
            if f[0] == SETTINGS and not f[1] & 1:
                self.send(frame(SETTINGS, 1, 0))

    def wait(self, true, what, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"waited for in vain: {what}"
            assert not self.closed, f"the edge closed the connection; waited for {what}"
            self.read()

    def wait_closed(self, seconds=60):
        end = time.monotonic() + seconds
        while not self.closed:
            assert time.monotonic() < end, "the edge keeps the connection"
            self.read()

    def of(self, stream, kind=None):
        return [f for f in self.frames if f[2] == stream and kind in (None, f[0])]

    def body(self, stream):
        return b"".join(f[3] for f in self.of(stream, DATA))

    def ended(self, stream):
        """Answered to its end."""
        return any(f[1] & END_STREAM for f in self.of(stream) if f[0] in (DATA, HEADERS))

    def reset(self, stream):
        return stream in self.resets

    def status(self, stream):
        """Of the answer: only those that the static table has, or a literal with the name :status."""
        got = self.of(stream, HEADERS)
        if not got:
            return None
        block = got[0][3]
        while block[0] & 0xe0 == 0x20:  # a change of the table's size
            block = block[1:]
        known = {0x88: 200, 0x89: 204, 0x8a: 206, 0x8b: 304, 0x8c: 400, 0x8d: 404, 0x8e: 500}
        if block[0] in known:
            return known[block[0]]
        n, coded = block[1] & 0x7f, block[1] & 0x80
        if not coded:
            return int(block[2:2 + n])
        return int(huffman_digits(block[2:2 + n]))


def huffman_digits(data):
    """Digits have codes of 5 bits (0, 1, 2) and 6 bits (3 to 9)."""
    bits = "".join(f"{b:08b}" for b in data)
    codes = {f"{i:05b}": str(i) for i in range(3)} | {f"{0x19 + i - 3:06b}": str(i) for i in range(3, 10)}
    text, at = "", 0
    while len(text) < 3:
        n = 5 if bits[at:at + 5] in codes else 6
        text += codes[bits[at:at + n]]
        at += n
    return text
