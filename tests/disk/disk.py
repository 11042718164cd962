# SPDX-License-Identifier: Apache-2.0
"""disk.py - recfs.c over a directory, for tests in Python"""
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import harness  # noqa: E402

RECFS = os.path.join(ROOT, "build/tests/disk/recfs")


def why_not():
    """Why this machine cannot have such a disk, or None."""
    if not os.path.exists("/dev/fuse"):
        return "this kernel has no /dev/fuse"
    if os.geteuid() != 0:
        return "mounting needs root"
    return None


class Disk:
    """Mounted over path until close(). log: where everything is recorded."""

    def __init__(self, path, log=None):
        self.path, self.sock = path, path + ".ctl"
        if os.path.exists(self.sock):
            os.unlink(self.sock)
        self.proc = subprocess.Popen([RECFS, path, self.sock, *([log] if log else [])], stdin=subprocess.DEVNULL,
                                     preexec_fn=harness.child_setup)
        harness.wait_for("the disk is mounted", self._mounted, 20, every_s=0.02)
        c = socket.socket(socket.AF_UNIX)
        c.connect(self.sock)
        self.lines = c.makefile("rw")
        c.close()

    def _mounted(self):
        if self.proc.poll() is not None:
            raise AssertionError(f"recfs ended with {self.proc.returncode}")
        return os.path.ismount(self.path)

    def tell(self, text):
        self.lines.write(text + "\n")
        self.lines.flush()
        answer = self.lines.readline()
        assert answer, f"the disk's process does not answer; it has ended with {self.proc.poll()}"
        assert answer != "bad command\n", text
        return answer.strip()

    def rule(self, kind, ops, path, nth=1, count=1, value=0):
        """kind: fail (value: an errno), short, slow (milliseconds) or calls."""
        return self.tell(f"{kind} {ops} {path} {nth} {count} {value}")

    def clear(self):
        """[(how often it was met, how many calls there were)], one for each rule"""
        return [tuple(map(int, w.split("/"))) for w in self.tell("clear").split()]

    def close(self):
        """When nobody uses it any more; otherwise it is cut off."""
        self.lines.close()
        end = time.monotonic() + 10
        while subprocess.run(["umount", self.path], capture_output=True).returncode and time.monotonic() < end:
            time.sleep(0.1)
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], capture_output=True)
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        if os.path.exists(self.sock):
            os.unlink(self.sock)
