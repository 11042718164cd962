# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client of clients/typescript against a real server: all of it by Node, one program under Bun, Deno and in Chromium"""
import os

import node
from case import Case, limit, long
from harness import ROOT

DIR = os.path.join(ROOT, "clients/typescript/test/server")
RUNTIMES = os.path.join(ROOT, "clients/typescript/test/runtimes")


class TypeScript(Case):
    def files(self, folder, name, limit_s):
        node.run(self, folder, [name], {"PANDO_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}, limit_s)

    @limit(400)
    def test_calls_on_real_vms(self):
        self.files(DIR, "client.test.mjs", 380)

    @long
    @limit(900)
    def test_runtimes(self):
        node.install(self, RUNTIMES)
        self.files(RUNTIMES, "runtimes.test.mjs", 780)
