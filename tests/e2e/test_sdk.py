# SPDX-License-Identifier: Apache-2.0
"""The unmodified npm package against a server of ours: tests/sdk, run by Node, each of its tests counts"""
import os
import subprocess

import node
from case import AS_MAKE_RUN, Case, limit
from harness import ROOT

DIR = os.path.join(ROOT, "tests/sdk")

OWN_CLASS = ("spec", "systemd", "logs", "pty", "runs", "cron", "deploy")  # the others run in class Sdk: lanes share the work


# Helper packages that the protocol's own documentation names, and npm does not have.
NOT_IN_NPM = ("bun", "deno", "opencode", "postgres", "ruby", "uv", "web-terminal")


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


class Helpers(Case):
    long = True
    own_server = False

    @limit(240)
    def test_helpers_that_npm_does_not_have(self):
        """Of those that it has, tests/sdk/spec.test.mjs drives each. When npm gets another one, this fails: drive that, too."""
        for name in NOT_IN_NPM:
            r = subprocess.run(["npm", "view", f"@freestyle-sh/with-{name}", "version"], cwd=DIR, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
            self.assertNotEqual(r.returncode, 0, f"npm has @freestyle-sh/with-{name} {r.stdout.strip()}")
            if "E404" not in r.stderr:
                self.skipTest(f"npm cannot be asked: {r.stderr.strip()[-200:]}")
