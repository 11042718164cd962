#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_web_commands.py PANDO ROOT - what empty pages of the dashboard tell people to type: commands and options of `pando`, and requests, exist"""
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import unittest

PANDO, ROOT = sys.argv[1:3]
sys.path.append(os.path.join(ROOT, "tests/e2e"))
import schema_check  # noqa: E402

SHOWN = re.compile(r"code: (['\"`])((?:\\.|(?!\1).)*)\1|<Code text=\{`((?:\\.|[^`])*)`\}")


def shown():
    """(file, line) of each; what is filled in by the page is one word."""
    for path in sorted(glob.glob(os.path.join(ROOT, "web/src/**/*.tsx"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            for m in SHOWN.finditer(f.read()):
                text = re.sub(r"\$\{at\([^}]*\)\}", "/git/v1/repo/web", m[2] or m[3])
                text = re.sub(r"\$\{base\}", "/v1/vms/web", text)
                text = re.sub(r"\$\{[^}]*\}", "web", text).replace("\\n", "\n").replace("\\'", "'")
                for line in text.split("\n"):
                    yield os.path.relpath(path, ROOT), line


class Shown(unittest.TestCase):
    def test_commands(self):
        seen = 0
        for path, line in shown():
            at = re.search(r"(?:^|\| )(pando .*)", line)
            if not at:
                continue
            seen += 1
            with self.subTest(page=path, command=at[1]):
                words = shlex.split(at[1])[1:]
                words = words[:words.index("--")] if "--" in words else words
                known = None
                for n in (3, 2, 1):  # "git sync enable", "vm create", "cp"
                    r = subprocess.run([PANDO, *words[:n], "--help"], capture_output=True, text=True)
                    if r.returncode == 0:
                        known = r.stdout
                        break
                self.assertTrue(known, "there is no such command")
                self.assertIn(f"pando {words[0]}", known)
                for o in (w for w in words if re.match(r"-[a-z-]", w)):
                    self.assertRegex(known, rf"(?m)(^|[\s,]){re.escape(o)}\b", f"it has no option {o}")
        self.assertGreater(seen, 20)

    def test_requests(self):
        with open(os.path.join(ROOT, "docs/openapi.json"), encoding="utf-8") as f:
            api = json.load(f)
        schemas, seen = schema_check.Schemas(api), 0
        for path, line in shown():
            m = re.match(r"(GET|POST) ([^ ?]+)\S*(?: (\{.*\}))?$", line)
            if not m:
                continue
            seen += 1
            with self.subTest(page=path, request=line):
                routes = [ways for p, ways in api["paths"].items() if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", p), m[2]) and m[1].lower() in ways]
                self.assertTrue(routes, "there is no such route")
                if m[3]:
                    wrong = [schemas.wrong(r[m[1].lower()]["requestBody"]["content"]["application/json"]["schema"], json.loads(m[3])) for r in routes]
                    self.assertIn(None, wrong)
        self.assertGreater(seen, 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
