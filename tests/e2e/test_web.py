# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Chromium: tests/web, run by Node; each of its tests counts"""
import os

import node
from case import Case, limit, long
from harness import ROOT, test_logs

DIR = os.path.join(ROOT, "tests/web")
SDK = os.path.join(ROOT, "tests/sdk")


class Web(Case):
    keeps_specs = True
    server_env = {"PANDO_WG_HOST": "192.0.2.129", "PANDO_WG_PORT": "52920"}  # a tunnel is opened, and other servers may run

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.control = node.Control(cls.s.tag, {"stop": cls.s.stop, "start": cls.s.start, "expire": cls.expire})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.control.close()

    @classmethod
    def expire(cls):
        """It is restarted eight days later, for those who are signed in."""
        cls.s.stop()
        cls.s.sql("UPDATE web_sessions SET created_ms = created_ms - 8 * 86400000, used_ms = used_ms - 8 * 86400000")
        cls.s.start()

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    def pages(self, *names, env=()):
        _, account = self.s.request("POST", "/v1/accounts", {"name": "other"})
        _, other = self.s.request("POST", f"/v1/keys?accountId={account['id']}", {"name": "web"})
        shots = os.path.join(test_logs(), "web")
        os.makedirs(shots, exist_ok=True)
        try:
            node.run(self, DIR, names, {
                "PANDO_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key(), "PANDO_OTHER_KEY": other["key"],
                "PANDO_CONTROL": self.control.path, "PANDO_SHOTS": shots, "PANDO_EDGE_PORT": str(self.s.edge_port), **dict(env)}, 1500)
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
    def test_beside_programs(self):
        node.install(self, SDK)
        self.pages("programs.test.mjs", env={"PANDO_SDK": SDK, "PANDO_COMMAND": os.path.join(ROOT, "build/cli/pando")})

    @long
    @limit(1600)
    def test_pictures(self):
        self.pages("pictures.test.mjs")

    @long
    @limit(1600)
    def test_runs_and_schedules(self):
        self.pages("runs.test.mjs")
