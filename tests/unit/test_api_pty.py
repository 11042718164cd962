#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Terminal sessions over the real agent, without a machine; usage: test_api_pty.py SERVE_AGENT [TEST...]"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from pty_checks import PtyChecks  # noqa: E402
from served import KERNELS, Served  # noqa: E402

SERVE = sys.argv[1]


class Pty(Served, PtyChecks, unittest.TestCase):
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.serve(SERVE, KERNELS)
        cls.vm = ""
        cls.vm = cls.ask(cls, "POST", "", {}, headers={"Authorization": f"Bearer {cls.key}"})[1]["id"]

    def test_ten_megabytes_a_second_and_a_slow_client(self):
        """One takes all of it, one a little now and then: the first misses nothing, nobody's memory grows."""
        # ThreadSanitizer makes the agent's terminal slow; there memory is not measured either
        size, chunk = (2 if "build-tsan" in os.path.abspath(SERVE) else 24) << 20, "0123456789abcde\n"
        fast = self.pty(exec=f"stty raw -echo; echo READY; read x; yes {chunk[:-1]} | head -c {size}; echo THE-END", sessionId="ten")
        fast.expect("READY\n")
        slow = self.attach("ten")
        before, n = self.memory(), len(fast.out)
        fast.send("\n")
        got, parts = 0, 0
        while fast.exit is None and fast.step(60):
            got, fast.out = got + len(fast.out) - n, b""
            n, parts = 0, parts + 1
            for f in fast.frames:
                self.assertLess(len(f), 1 << 20)
            fast.frames.clear()
            if parts % 64 == 0:
                slow.sock.recv(4096)  # no frame is made of it: this one never looks at what it gets
        self.assertEqual((fast.exit, got), (0, size + len("THE-END\n")))
        grown = {k: v - before[k] for k, v in self.memory().items()}
        if not any(kind in os.path.abspath(SERVE) for kind in ("build-asan", "build-tsan")):  # which keep freed memory for a while
            self.assertLess(max(grown.values()), 24 << 10, grown)
        slow.close()

    def memory(self):
        """The most that server and agent ever had, in KiB."""
        found = {}
        for name, pid in (("server", self.proc.pid), ("agent", self.agent_pid())):
            with open(f"/proc/{pid}/status") as f:
                found[name] = int(next(line for line in f if line.startswith("VmHWM:")).split()[1])
        return found

    def agent_pid(self):
        self.proc.stdin.write("agent\n")
        self.proc.stdin.flush()
        pid = int(self.proc.stdout.readline())
        self.assertEqual(self.proc.stdout.readline(), "ok\n")
        return pid

    def test_zz_the_end_of_the_channel_closes_clients(self):
        t = self.pty(exec="cat", sessionId="gone")
        self.proc.stdin.write("suspend\n")
        self.proc.stdin.flush()
        self.assertEqual(self.proc.stdout.readline(), "ok\n")
        self.assertIsNone(t.end())
        self.assertEqual(t.closed[0], 1001)

    def test_zzz_clients_do_not_hold_up_the_servers_end(self):
        self.open = [self.pty(exec="cat") for _ in range(3)]
        self.doCleanups()  # nothing is closed from here
        Pty.still_open = [self.pty(exec="cat") for _ in range(3)]
        self._cleanups.clear()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
