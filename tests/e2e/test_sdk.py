# SPDX-License-Identifier: Apache-2.0
"""The unmodified npm package against a server of ours: tests/sdk, run by Node, each of its tests counts"""
import os

import node
from case import AS_MAKE_RUN, Case, limit
from harness import ROOT

DIR = os.path.join(ROOT, "tests/sdk")

OWN_CLASS = ("spec", "systemd", "logs", "pty", "runs", "cron", "deploy")  # the others run in class Sdk: lanes share the work


class Sdk(Case):
    keeps_specs = True
    server_env = {"PANDO_WEBHOOK_ALLOW_PRIVATE": "1", "PANDO_GIT_ALLOW_PRIVATE": "1",  # webhooks come to the tests, imports from them
                  "PANDO_GITHUB_URL": "http://127.0.0.1:1", **AS_MAKE_RUN}

    @classmethod
    def files(cls):
        """Test files of this class."""
        return [n for n in node.files(DIR) if n.split(".")[0] not in OWN_CLASS]

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(560)
    def test_the_package_works(self):
        node.run(self, DIR, self.files(), {
            "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(),
            "NODE_OPTIONS": "--experimental-websocket", "PANDOD_PID": str(self.s.pandod_pid()),
            "PANDO_EDGE_HTTP_PORT": str(self.s.edge_http_port)}, 540)


class SdkSpec(Sdk):
    @classmethod
    def files(cls):
        return ["spec.test.mjs", "systemd.test.mjs"]


class SdkLive(Sdk):
    @classmethod
    def files(cls):
        return ["logs.test.mjs", "pty.test.mjs"]
