# SPDX-License-Identifier: Apache-2.0
"""agentwire.py - just enough of the agent protocol (wire/agent.h) to greet a guest and run one command in it

For guests that no server looks after. Frames: magic, length, stream, type, flags, CRC-32C of these, payload, inverted
CRC. Whatever is not a valid frame is skipped byte by byte: a restored guest may begin in the middle of something.
"""
import os
import select
import struct
import time

from host import crc32c

MAGIC = 0x9f50414e
HEAD = struct.Struct(">IIIHHI")
PAYLOAD_MAX = 64 << 10
HELLO, HELLO_ACK, READY, CLOCK, OPEN, DATA, RESULT = 1, 2, 3, 4, 5, 7, 10
OP_EXEC = 1
STDOUT = 1
BOOT, THAW = 1, 2
STEPS_ALL = 0x1f
STEP_NONE = 0xffff
RETRY_S = {BOOT: 1.0, THAW: 0.5}  # a greeting that nobody read yet waits in a buffer: few


class AgentError(Exception):
    pass


def blob(data):
    return struct.pack(">I", len(data)) + data


def text(s):
    return blob(s.encode() + b"\0")


def frame(kind, stream, payload=b"", flags=0):
    head = struct.pack(">IIIHH", MAGIC, len(payload), stream, kind, flags)
    crc = crc32c(head)
    out = head + struct.pack(">I", crc)
    return out + payload + struct.pack(">I", crc ^ 0xffffffff) if payload else out


class Agent:
    """The host's end of one agent channel; the socket stays the caller's."""

    def __init__(self, sock):
        self.sock, self.buf, self.stream = sock, b"", 0
        sock.setblocking(False)

    def _send(self, data, deadline):
        while data:
            if not select.select([], [self.sock], [], max(0, deadline - time.monotonic()))[1]:
                raise AgentError("the guest does not read its channel")
            data = data[self.sock.send(data):]

    def _take(self):
        """(type, flags, stream, payload) of the next whole frame in the buffer, or None"""
        while True:
            at = self.buf.find(struct.pack(">I", MAGIC))
            if at < 0:
                self.buf = self.buf[-3:]
                return None
            self.buf = self.buf[at:]
            if len(self.buf) < HEAD.size:
                return None
            _, n, stream, kind, flags, crc = HEAD.unpack_from(self.buf)
            end = HEAD.size + (n + 4 if n else 0)
            if crc32c(self.buf[:16]) != crc or n > PAYLOAD_MAX:
                self.buf = self.buf[1:]
                continue
            if len(self.buf) < end:
                return None
            if n and struct.unpack_from(">I", self.buf, end - 4)[0] != crc ^ 0xffffffff:
                self.buf = self.buf[1:]
                continue
            payload, self.buf = self.buf[HEAD.size:HEAD.size + n], self.buf[end:]
            return kind, flags, stream, payload

    def _next(self, until):
        """The next frame, or None when the time has come."""
        while True:
            f = self._take()
            if f:
                return f
            if not select.select([self.sock], [], [], max(0, until - time.monotonic()))[0]:
                return None
            data = self.sock.recv(1 << 16)
            if not data:
                raise AgentError("the guest's channel was closed")
            self.buf += data

    def hello(self, reason, generation, name, limit_s):
        """Tells the guest who it is; returns when it confirmed all identity steps."""
        nonce, deadline = os.urandom(16), time.monotonic() + limit_s
        body = nonce + struct.pack(">HHBQQ", 1, 1, reason, generation, time.time_ns()) + os.urandom(64) + \
            blob(os.urandom(16).hex().encode()) + blob(name.encode())
        again = 0.0
        while time.monotonic() < deadline:
            if time.monotonic() >= again:
                self._send(frame(HELLO, 0, body), deadline)
                again = time.monotonic() + RETRY_S[reason]
            f = self._next(min(again, deadline))
            if f and f[0] == READY:
                again = 0.0
            if f and f[0] == HELLO_ACK and f[3][:16] == nonce:
                self._check_ack(f[3][16:], generation)
                self._send(frame(CLOCK, 0, struct.pack(">Q", time.time_ns())), deadline)
                return
        raise AgentError(f"the agent did not answer within {limit_s} s")

    @staticmethod
    def _check_ack(p, generation):
        version, n = struct.unpack_from(">HI", p)
        at = 6 + n
        at += 4 + struct.unpack_from(">I", p, at)[0]
        confirmed, steps, failed, errno = struct.unpack_from(">QIHI", p, at)
        if version != 1 or confirmed != generation or steps != STEPS_ALL or failed != STEP_NONE or errno:
            raise AgentError(f"the agent answered version {version}, generation {confirmed}, steps {steps:#x}, errno {errno}")

    def run(self, command, limit_s):
        """stdout of a command that must succeed"""
        self.stream += 1
        deadline = time.monotonic() + limit_s
        body = struct.pack(">H", OP_EXEC) + text(command) + text("") + text("") + struct.pack(">IBH", int(limit_s * 1000), 0, 0)
        self._send(frame(OPEN, self.stream, body), deadline)
        out = b""
        while True:
            f = self._next(deadline)
            if not f:
                raise AgentError(f"'{command}' did not end within {limit_s} s")
            kind, flags, stream, payload = f
            if stream != self.stream:
                continue
            if kind == DATA and flags == STDOUT:
                out += payload
            if kind == RESULT:
                status, _tag, n = struct.unpack_from(">IHI", payload)
                _, timed_out, code, sig = struct.unpack_from(">IBII", payload, 10 + n) if not status else (0, 0, 0, 0)
                if status or timed_out or code or sig:
                    raise AgentError(f"'{command}': errno {status}, exit code {code}, signal {sig}")
                return out.decode()
