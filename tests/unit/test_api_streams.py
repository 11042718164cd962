#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The API's streams over the real agent, without a machine; usage: test_api_streams.py SERVE_AGENT [TEST...]"""
import http.client
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from stream_file_checks import StreamFileChecks  # noqa: E402
from served import KERNELS, Served  # noqa: E402

SERVE = sys.argv[1]


class Streams(Served, StreamFileChecks, unittest.TestCase):
    limit_s = 60
    large_mib = 48

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        # a sanitizer keeps freed memory for a while; here memory is measured
        env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"}
        cls.serve(SERVE, KERNELS, env=env)
        cls.vm = ""
        c = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=30)
        c.request("POST", "/v1/vms", body="{}", headers={"Authorization": f"Bearer {cls.key}"})
        cls.vm = json.loads(c.getresponse().read())["id"]
        c.close()

    def server_pid(self):
        return self.proc.pid

    def suspend(self):
        self.command("suspend")

    def test_zz_suspend_ends_streams(self):
        with self.stream("POST", "/exec", {"command": "echo x; sleep 30"}) as a, \
                self.stream("POST", "/watch-files", {"path": self.dir}) as w:
            it = a.events()
            self.assertEqual([next(it)[0], next(it)[0]], ["started", "stdout"])
            self.suspend()
            last = list(it)
            self.assertEqual([(e, d["code"]) for e, d in last], [("error", "VM_NOT_RUNNING")])
            self.assertEqual(list(w.lines()), [])  # a clean end
        self.assertEqual(self.sh("echo again"), "again")

    def test_zzz_streams_do_not_hold_up_the_servers_end(self):
        self.open = [self.stream("POST", "/exec", {"command": "sleep 30"}), self.stream("POST", "/watch-files", {"path": self.dir})]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
