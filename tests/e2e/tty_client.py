# SPDX-License-Identifier: Apache-2.0
"""A program on its own terminal, as an interactive user would use it"""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Tty:
    """A client on a terminal of its own."""

    def __init__(self, case, argv, rows=30, cols=100):
        self.case, self.got = case, b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(argv[0], argv)
        self.size(rows, cols)
        case.addCleanup(self.close)

    def size(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, word, seconds=60):
        end = time.monotonic() + seconds
        while word.encode() not in self.got:
            self.case.assertTrue(select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], f"no {word!r} in {self.got!r}")
            self.got += self.read()
        at = self.got.index(word.encode()) + len(word)
        before, self.got = self.got[:at], self.got[at:]
        return before.decode(errors="replace")

    def read(self):
        try:
            b = os.read(self.fd, 65536)
        except OSError:
            b = b""
        self.case.assertTrue(b, f"the terminal ended: {self.got!r}")
        return b

    def code(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.got += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        self.case.fail(f"the client did not end: {self.got!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
