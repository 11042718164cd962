# SPDX-License-Identifier: Apache-2.0
"""pando_tool.py - the pando command in tests of a Case: with a home of its own, and set up for the class's server"""
import json
import os
import shutil
import subprocess
import tempfile

from harness import ROOT

PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")


class Pando:
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = tempfile.mkdtemp(prefix="pando-cli-")
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDO_", "FREESTYLE_", "XDG_"))}
        cls.env.update(HOME=cls.home, LC_ALL="C.UTF-8", TERM="xterm-256color", PANDO_DATA_DIR=cls.s.dir,
                       PANDO_LISTEN=f"127.0.0.1:{cls.s.port}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.home, ignore_errors=True)
        super().tearDownClass()

    def pando(self, *args, code=0, env=None, **kw):
        """(stdout, stderr) of a run that ends with this status."""
        kw.setdefault("input", "")
        r = subprocess.run([PANDO, *args], env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=120,
                           cwd=self.home, **kw)
        self.assertEqual(r.returncode, code, f"pando {' '.join(args)}: {r.stdout}{r.stderr}")
        return r.stdout, r.stderr

    def out(self, *args, **kw):
        return self.pando(*args, **kw)[0]

    def json(self, *args, **kw):
        return json.loads(self.out(*args, "--json", **kw))
