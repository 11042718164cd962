# SPDX-License-Identifier: Apache-2.0
"""liar.py - stands between the nodes and the object store, and does what an object store must not do

mode: None passes everything on. "down": connections are closed at once. "hang": requests are read and not answered. "slow": an answer takes
SLOW_S longer, and its body comes in pieces. "flip": one bit of each layer's and point's chunk is another one. "cut": chunks end early, and the
head says so too. `did` counts what was done in each mode, so that a test knows that it was.
"""
import re
import socket
import threading
import time
from collections import Counter

SLOW_S = 1
CHUNK = re.compile(rb"GET /[^/ ]+/(layers|points)/[^ ?]+ ")


class Liar:
    def __init__(self, address, to_port):
        self.mode, self.did, self.open = None, Counter(), True
        self.to = ("127.0.0.1", to_port)
        self.listener = socket.create_server((address, 0), backlog=128)
        self.endpoint = f"http://{address}:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.open = False
        self.listener.close()

    def accept(self):
        while self.open:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        up = None
        try:
            with c, c.makefile("rb") as requests:
                while True:
                    head, body = read(requests, ready=lambda: c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n"))
                    if self.mode == "down":
                        self.did["down"] += 1
                        return
                    if self.mode == "hang":
                        self.did["hang"] += 1
                        while self.mode == "hang" and self.open:
                            time.sleep(0.1)
                        return
                    up, answer_head, answer = self.ask(up, head, body)
                    self.answer(c, head, answer_head, answer)
        except (OSError, EOFError):
            pass
        finally:
            if up:
                up.close()

    def ask(self, up, head, body):
        """On the connection of the last request; the store has closed it, if that was long ago."""
        for up in (up, None):
            fresh = up is None
            try:
                up = up or socket.create_connection(self.to)
                up.sendall(head + body)
                with up.makefile("rb") as answers:
                    return up, *read(answers, head.split(b" ", 1)[0])
            except (OSError, EOFError):
                if up:
                    up.close()
                if fresh:
                    raise
        raise EOFError

    def answer(self, c, request, head, body):
        mode = self.mode
        if mode == "slow":
            self.did[mode] += 1
            time.sleep(SLOW_S)
            c.sendall(head)
            for i in range(0, len(body), 1 << 18):
                c.sendall(body[i:i + (1 << 18)])
                time.sleep(0.05)
            return
        if mode in ("flip", "cut") and CHUNK.match(request) and b" 200 " in head.split(b"\r\n", 1)[0] and len(body) > 16:
            self.did[mode] += 1
            if mode == "flip":
                body = bytearray(body)
                body[len(body) // 2] ^= 4
            else:
                body = body[:-16]
                head = re.sub(rb"(?i)(\r\ncontent-length: *)\d+", lambda m: m[1] + str(len(body)).encode(), head)
        c.sendall(head + body)


def read(f, method=b"", ready=None):
    """A head and the whole body of a request, or of the answer to a method. ready(): tells a client that asks that its body is expected."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = f.readline(65536)
        if not line:
            raise EOFError
        head += line
    if head.startswith(b"HTTP/1.1 100"):
        return read(f, method)
    if method == b"HEAD" or head[9:12] in (b"204", b"304"):
        return head, b""
    m = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if m:
        if ready and b"100-continue" in head:
            ready()
        body = f.read(int(m[1]))
        if len(body) != int(m[1]):
            raise EOFError
        return head, body
    if not re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        return head, b""
    body = b""
    while True:
        line = f.readline(100)
        size = int(line, 16)
        piece = f.read(size + 2)
        body += line + piece
        if not size:
            return head, body
