#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python client over the real API and agent, without a machine; usage: test_client_python.py SERVE_AGENT [TEST...]"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from client_checks import ClientChecks  # noqa: E402
from pando import Sandbox, Transport  # noqa: E402  the path comes with client_checks
from served import KERNELS, Served  # noqa: E402

SERVE = sys.argv[1]


class Client(Served, ClientChecks, unittest.TestCase):
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.serve(SERVE, KERNELS)
        cls.transport = Transport(f"http://127.0.0.1:{cls.port}", cls.key)
        cls.sb = Sandbox.create(transport=cls.transport, name="client", idle_timeout=None)

    @classmethod
    def tearDownClass(cls):
        cls.transport.close()
        super().tearDownClass()

    def test_bash_cells(self):
        said = []
        self.assertTrue(self.sb.code("v=6", "bash").ok)
        cell = self.sb.code("echo $((v * 7)); echo e >&2; false", "bash", on_stdout=said.append)
        self.assertEqual((cell.stdout, cell.stderr, "".join(said), cell.execution_count), ("42\n", "e\n", "42\n", 2))
        self.assertEqual(cell.error.name, "ExitStatus")
        own = self.sb.code.create_context("bash", cwd="/tmp", env={"A": "b"})
        self.assertEqual(own("echo $A $PWD [$v]").stdout, "b /tmp []\n")
        self.assertIn(own.id, [c.id for c in self.sb.code.contexts()])
        own.delete()

    def test_the_server_goes_away_under_a_terminal(self):
        """A suspend closes it; the next attach finds a new agent without the session: that ends it, without a loop."""
        with self.sb.pty("bash --norc", reconnect_for=5) as t:
            t.write("echo here-$((1 + 1))\n")
            t.expect("here-2", 60)
            self.proc.stdin.write("suspend\n")
            self.proc.stdin.flush()
            self.assertEqual(self.proc.stdout.readline(), "ok\n")
            with self.assertRaises(Exception) as e:
                t.wait(60)
            self.assertNotIsInstance(e.exception, TimeoutError)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
