#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Requests through a node that does not have the VM, without machines; usage: test_api_nodes.py SERVE_AGENT [TEST...]"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from pty_checks import PtyChecks  # noqa: E402
from served import Served  # noqa: E402
from stream_file_checks import StreamFileChecks  # noqa: E402
from two_nodes import TwoNodes  # noqa: E402

SERVE = sys.argv[1]


class Through(TwoNodes, Served):
    """All of it is asked of the second node, and the VM is the first one's."""
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.start_nodes(SERVE)
        cls.vm = json.loads(cls.one.call("POST", "/v1/vms", {}, cls.key)[2])["id"]
        cls.port, cls.dir, cls.proc = cls.two.port, cls.one.dir, cls.one.proc

    @classmethod
    def tearDownClass(cls):
        cls.end_nodes()


class Streams(Through, StreamFileChecks, unittest.TestCase):
    large_mib = 8
    node_env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"}  # memory is measured

    def server_pid(self):
        return self.two.proc.pid

    def suspend(self):
        self.one.command("suspend")


class Pty(Through, PtyChecks, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
