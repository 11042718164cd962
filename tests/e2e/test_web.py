# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Chromium: tests/web, run by Node; each of its tests counts"""
import os
import threading

import node
from case import Case, limit
from harness import ROOT, test_logs

DIR = os.path.join(ROOT, "tests/web")


class Web(Case):
    long = True  # a minute of processor time
    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(560)
    def test_the_pages_work(self):
        """The tests stop the server and start it again, by a word in a file."""
        _, account = self.s.request("POST", "/v1/accounts", {"name": "other"})
        _, other = self.s.request("POST", f"/v1/keys?accountId={account['id']}", {"name": "web"})
        shots = os.path.join(test_logs(), "web")
        os.makedirs(shots, exist_ok=True)
        control, over = os.path.join(test_logs(), f"web-control-{self.s.tag}"), threading.Event()

        def obey():
            while not over.wait(0.1):
                try:
                    with open(control) as f:
                        word = f.read()
                except FileNotFoundError:
                    continue
                if word not in ("stop", "start"):
                    continue  # it is being written
                self.s.stop() if word == "stop" else self.s.start()
                os.unlink(control)

        watcher = threading.Thread(target=obey)
        watcher.start()
        try:
            node.run(self, DIR, node.files(DIR), {
                "PANDO_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key(), "PANDO_OTHER_KEY": other["key"],
                "PANDO_CONTROL": control, "PANDO_SHOTS": shots}, 540)
        finally:
            over.set()
            watcher.join()
            if os.path.exists(control):
                os.unlink(control)
        self.s.request("DELETE", f"/v1/accounts/{account['id']}")
