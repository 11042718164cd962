# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Chromium: tests/web, run by Node; each of its tests counts"""
import os
import threading

import node
from case import Case, limit
from harness import ROOT, test_logs

DIR = os.path.join(ROOT, "tests/web")


class Web(Case):
    @classmethod
    def files(cls):
        return node.files(DIR)

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(560)
    def test_the_pages_work(self):
        """The tests kill pandod: the file always has the process id of the current one."""
        _, account = self.s.request("POST", "/v1/accounts", {"name": "other"})
        _, other = self.s.request("POST", "/v1/keys", {"name": "web", "accountId": account["id"]})
        shots = os.path.join(test_logs(), "web")
        os.makedirs(shots, exist_ok=True)
        pid_file, stop = os.path.join(self.s.dir, "pid-of-pandod"), threading.Event()

        def watch():
            while not stop.wait(0.2):
                pid = self.s.pandod_pid()
                if pid is None:
                    continue  # between two of them
                with open(pid_file + ".new", "w") as f:
                    f.write(str(pid))
                os.rename(pid_file + ".new", pid_file)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            node.run(self, DIR, self.files(), {
                "PANDO_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key(), "PANDO_OTHER_KEY": other["key"],
                "PANDO_PID_FILE": pid_file, "PANDO_SHOTS": shots}, 540)
        finally:
            stop.set()
            watcher.join()
            for name in (pid_file, pid_file + ".new"):
                if os.path.exists(name):
                    os.unlink(name)
        self.s.request("DELETE", f"/v1/accounts/{account['id']}")
