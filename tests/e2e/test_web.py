# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Chromium: tests/web, run by Node; each of its tests counts"""
import os
import threading

import node
from case import Case, limit, long
from harness import ROOT, test_logs

DIR = os.path.join(ROOT, "tests/web")


class Web(Case):
    keeps_specs = True
    server_env = {"PANDO_WG_HOST": "192.0.2.129", "PANDO_WG_PORT": "52920"}  # a tunnel is opened, and other servers may run

    @classmethod
    def setUpClass(cls):
        """The tests stop the server and start it again, by a word in a file. A server ends with the thread that started it, so this one
        lives as long as the class."""
        super().setUpClass()
        cls.control, cls.over = os.path.join(test_logs(), f"web-control-{cls.s.tag}"), threading.Event()
        cls.watcher = threading.Thread(target=cls.obey)
        cls.watcher.start()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.over.set()
        cls.watcher.join()
        if os.path.exists(cls.control):
            os.unlink(cls.control)

    @classmethod
    def obey(cls):
        while not cls.over.wait(0.1):
            try:
                with open(cls.control) as f:
                    word = f.read()
            except FileNotFoundError:
                continue
            if word not in ("stop", "start"):
                continue  # it is being written
            cls.s.stop() if word == "stop" else cls.s.start()
            os.unlink(cls.control)

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    def pages(self, *names):
        _, account = self.s.request("POST", "/v1/accounts", {"name": "other"})
        _, other = self.s.request("POST", f"/v1/keys?accountId={account['id']}", {"name": "web"})
        shots = os.path.join(test_logs(), "web")
        os.makedirs(shots, exist_ok=True)
        try:
            node.run(self, DIR, names, {
                "PANDO_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key(), "PANDO_OTHER_KEY": other["key"],
                "PANDO_CONTROL": self.control, "PANDO_SHOTS": shots, "PANDO_EDGE_PORT": str(self.s.edge_port)}, 1500)
        finally:
            self.s.request("DELETE", f"/v1/accounts/{account['id']}")

    @limit(1600)
    def test_the_main_things_work(self):
        self.pages("first.test.mjs")

    @long  # a minute of processor time
    @limit(1600)
    def test_every_page(self):
        self.pages("dashboard.test.mjs")

    @long
    @limit(1600)
    def test_what_people_do(self):
        self.pages("manage.test.mjs")

    @long
    @limit(1600)
    def test_runs_and_schedules(self):
        self.pages("runs.test.mjs")
