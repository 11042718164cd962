# SPDX-License-Identifier: Apache-2.0
"""The snippets of the SDK's reference pages, as they are written, against real VMs: make test-long PANDO_REFERENCE_TEXT=FILE"""
import os
import unittest

import node
from case import Case, limit, wait_for
from harness import Server
from knot import ADDRESS, Knot
from test_sdk import DIR

TEXT = os.environ.get("PANDO_REFERENCE_TEXT")


@unittest.skipUnless(TEXT, "PANDO_REFERENCE_TEXT does not name a file with the pages")
class Reference(Case):
    long = True
    keeps_specs = True

    @classmethod
    def setUpClass(cls):
        cls.s = None
        cls.knot = Knot("example.com", forward=True)
        try:
            wait_for("knot answers", cls.knot.ready, 60)
            cls.s = Server(env={"PANDO_RESOLVER": ADDRESS, "PANDO_GIT_ALLOW_PRIVATE": "1", "PANDO_GITHUB_URL": "http://127.0.0.1:1",
                                "PANDO_ALIAS_NAMES": "git.freestyle.sh api.freestyle.sh *.style.dev"})
            cls.s.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.knot.close()

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(3600)
    def test_snippets(self):
        node.run(self, DIR, ["reference.mjs"], {
            "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(), "REFERENCE_TEXT": TEXT,
            "REFERENCE_DNS": ADDRESS, "REFERENCE_EDGE": str(self.s.edge_port), "NODE_OPTIONS": "--experimental-websocket"}, 3500)

    def test_zz_leaves_nothing_behind(self):
        self.knot.close()
        super().test_zz_leaves_nothing_behind()
