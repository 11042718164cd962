#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Terminal sessions over the real agent, without a machine; usage: test_api_pty.py SERVE_AGENT AGENT [TEST...]"""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from pty_checks import PtyChecks  # noqa: E402

SERVE, AGENT = sys.argv[1:3]
LIMIT_S = 120


class Pty(PtyChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.proc = subprocess.Popen([SERVE, AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port, cls.key, cls.dir = cls.proc.stdout.readline().split()
        cls.port = int(port)
        cls.vm = ""
        cls.vm = cls.ask(cls, "POST", "", {}, headers={"Authorization": f"Bearer {cls.key}"})[1]["id"]

    @classmethod
    def tearDownClass(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        assert code == 0, f"the server ended with {code}"

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)

    def tearDown(self):
        signal.alarm(0)

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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
