# SPDX-License-Identifier: Apache-2.0
"""The VM, fork and Git pages of the dashboard in Debian's Chromium: tests/web/pages, run by Node"""
import os

import node
from case import Case, limit, long
from harness import ROOT

DIR = os.path.join(ROOT, "tests/web/pages")


class WebPages(Case):
    server_env = {"PANDO_WEBHOOK_ALLOW_PRIVATE": "1", "PANDO_GIT_ALLOW_PRIVATE": "1"}  # a trigger's receiver and a mirror are on this host

    def pages(self, *names):
        node.run(self, DIR, names, {"PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}, 1100)

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(400)
    def test_git(self):
        self.pages("git.test.mjs")

    @long
    @limit(1200)
    def test_vm(self):
        self.pages("vm.test.mjs")

    @long
    @limit(1200)
    def test_in_use(self):
        self.pages("use.test.mjs")
