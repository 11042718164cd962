#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_check_deps.py ROOT - tools/check-deps in small trees: what it must find, and what it must let through"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
PAGE = "docs/ARCHITECTURE.md"


class CheckDeps(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pando-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.mkdir(os.path.join(self.dir, "tools"))
        for name in ("check-deps", "deps.py", "graph.py", "tree.py"):
            shutil.copy(os.path.join(ROOT, "tools", name), os.path.join(self.dir, "tools"))
        self.write(PAGE, "<!-- tools/graph.py -->\n<!-- end of tools/graph.py -->\n")

    def write(self, path, text):
        full = os.path.join(self.dir, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)

    def tool(self, *argv):
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(self.dir)}
        r = subprocess.run([sys.executable, *argv], cwd=self.dir, env=env, capture_output=True, text=True, timeout=60)
        return r.returncode, r.stdout + r.stderr

    def check(self, rules, files):
        self.write("tools/deps.allow", rules)
        for path, text in files.items():
            self.write(path, text)
        self.tool("tools/graph.py", "--fix")
        return self.tool("tools/check-deps")

    def finds(self, what, rules, files):
        code, said = self.check(rules, files)
        self.assertEqual(code, 1, said)
        self.assertIn(what, said)

    GOOD = {"base/b.h": "", "server/low/low.h": '#include "base/b.h"\n', "server/low/low.c": '#include "low/low.h"\n',
            "server/high/high.c": '#include "low/low.h"\n#include <sys/x.h>\n'}
    RULES = "base ->\nlow -> base\nhigh -> base low\n<sys/x.h> : high\n"

    def test_good_tree(self):
        code, said = self.check(self.RULES, self.GOOD)
        self.assertEqual(code, 0, said)

    def test_what_a_header_drags_in_counts(self):
        self.finds("'high' may not include 'base'", self.RULES.replace("high -> base low", "high -> low"), self.GOOD)
        self.finds("<sys/x.h> belongs to low alone", "base ->\nlow -> base\nhigh -> base low\n<sys/x.h> : low\n",
                   {**self.GOOD, "server/low/low.h": '#include "base/b.h"\n#include <sys/x.h>\n'})

    def test_cycle_through_one_header(self):
        self.finds("modules form a cycle: high -> low -> high", "base ->\nlow -> base high/h.h\nhigh -> base low\n<sys/x.h> : high\n",
                   {**self.GOOD, "server/high/h.h": "", "server/low/low.c": '#include "low/low.h"\n#include "high/h.h"\n'})

    def test_stale_rules(self):
        self.finds("'base' doesn't use 'low'", self.RULES.replace("base ->", "base -> low").replace("low -> base\n", "low ->\n"), self.GOOD)
        self.finds("'low' doesn't use <sys/x.h>", self.RULES.replace(": high", ": high low"), self.GOOD)
        self.finds("server/low/lost.h: nothing includes it", self.RULES, {**self.GOOD, "server/low/lost.h": ""})

    def test_internal_headers(self):
        self.finds("is only for the files of server/low/", self.RULES,
                   {**self.GOOD, "server/low/low_internal.h": "", "server/high/high.c": '#include "low/low.h"\n#include "low/low_internal.h"\n#include <sys/x.h>\n'})

    def test_page_must_show_the_graph(self):
        self.check(self.RULES, self.GOOD)
        with open(os.path.join(self.dir, PAGE)) as f:
            self.assertIn(" 2  high       low\n     1  low        base\n     0  base\n", f.read())
        self.write(PAGE, "<!-- tools/graph.py -->\n     0  base\n<!-- end of tools/graph.py -->\n")
        code, said = self.tool("tools/check-deps")
        self.assertEqual(code, 1)
        self.assertIn("the module graph doesn't match", said)


unittest.main()
