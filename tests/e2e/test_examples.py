# SPDX-License-Identifier: Apache-2.0
"""examples/: sandboxes of agent frameworks, with the frameworks' own packages and scripted models, run by Node"""
import os

import node
from case import Case, limit, long
from harness import ROOT


class Folder:
    def folder(self, name, files=None, limit_s=280, **env):
        path = os.path.join(ROOT, "examples", name)
        node.install(self, path)
        node.run(self, path, files or node.files(path),
                 {"FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(),
                  "NODE_OPTIONS": "--experimental-websocket", **env}, limit_s)


class Examples(Folder, Case):
    """Whose packages are small enough for every run."""

    @limit(420)
    @long
    def test_openai_agents(self):
        self.folder("openai-agents")


class MoreExamples(Folder, Case):
    long = True

    @limit(420)
    def test_mastra(self):
        self.folder("mastra")

    @limit(420)
    def test_smithers(self):
        self.folder("smithers")

    @limit(420)
    def test_guides(self):
        self.folder("guides", ["guides.test.mjs"])
