#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The API's streams over the real agent, without a machine; usage: test_api_streams.py SERVE_AGENT AGENT [TEST...]"""
import http.client
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from stream_file_checks import StreamFileChecks  # noqa: E402

SERVE, AGENT = sys.argv[1:3]
LIMIT_S = 60


class Streams(StreamFileChecks, unittest.TestCase):
    large_mib = 48

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        # a sanitizer keeps freed memory for a while; here memory is measured
        env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"}
        cls.proc = subprocess.Popen([SERVE, AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        port, cls.key, cls.dir = cls.proc.stdout.readline().split()
        cls.port = int(port)
        cls.vm = ""
        c = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=30)
        c.request("POST", "/v1/vms", body="{}", headers={"Authorization": f"Bearer {cls.key}"})
        cls.vm = json.loads(c.getresponse().read())["id"]
        c.close()

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

    def server_pid(self):
        return self.proc.pid

    def suspend(self):
        self.proc.stdin.write("suspend\n")
        self.proc.stdin.flush()
        self.assertEqual(self.proc.stdout.readline(), "ok\n")

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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
