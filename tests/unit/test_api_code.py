#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The code interpreter over the real agent, without a machine; usage: test_api_code.py SERVE_AGENT [TEST...]

Python's checks need IPython and matplotlib on this host, Ruby's Ruby, and are skipped without; tests/e2e/test_code.py asks all of them of a VM.
"""
import json
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from code_checks import CodeChecks  # noqa: E402
from code_ruby_checks import RubyChecks  # noqa: E402
from served import KERNELS, Served  # noqa: E402

SERVE = sys.argv[1]
NEEDS = {"python": ["/usr/bin/python3", "-c", "import IPython, matplotlib_inline, matplotlib"],
         "javascript": ["/usr/bin/node", "-e", "0"],
         "ruby": ["/usr/bin/ruby", "-e", "0"]}


def runs(argv):
    try:
        return subprocess.run(argv, capture_output=True).returncode == 0
    except OSError:
        return False


class Code(Served, CodeChecks, RubyChecks, unittest.TestCase):
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.has = {language: runs(argv) for language, argv in NEEDS.items()}
        cls.serve(SERVE, KERNELS)
        cls.vm = ""
        cls.vm = cls.request(cls, "POST", "/v1/vms", {})[1]["id"]
        if cls.has["python"] and cls.has["javascript"]:
            cls.command("warm")

    def kernel(self, language):
        if not self.has.get({"js": "javascript", "rb": "ruby"}.get(language, language), True):
            self.skipTest(f"this host has no {language} with what its kernel needs")

    def test_another_node_is_kept_ready(self):
        """After a context was made, one is started for the next; that one is its kernel from its beginning."""
        def node():
            return set(subprocess.run(["pgrep", "-f", os.path.join(KERNELS, "node.mjs")], capture_output=True, text=True).stdout.split())
        taken, waits, until = set(), set(), time.monotonic() + 100
        while not taken & waits:
            self.assertLess(time.monotonic(), until, "no context was given a process that waited")
            ctx = self.context("javascript")
            taken.add(self.value("process.pid", contextId=ctx))
            self.request("DELETE", self.code_path(f"/contexts/{ctx}"))
            while not node() - taken and time.monotonic() < until:
                time.sleep(0.2)
            waits |= node() - taken  # those of other contexts among them, which nobody gets

    def test_the_end_of_the_connection_drops_what_waits(self):
        import threading
        got = []
        t = threading.Thread(target=lambda: got.append(self.request(
            "POST", self.code_path(), {"language": "bash", "code": "sleep 30"})))
        t.start()
        while not any(c["state"] == "busy" for c in self.request("GET", self.code_path("/contexts"))[1]["contexts"]):
            pass
        self.command("suspend")
        t.join(60)
        self.assertEqual((got[0][0], got[0][1]["code"]), (400, "VM_NOT_RUNNING"), json.dumps(got))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
