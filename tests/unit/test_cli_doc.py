# SPDX-License-Identifier: Apache-2.0
"""test_cli_doc.py PANDO BUILD_DIR - help, man pages and completion of the pando command, all from its table"""
import os
import re
import subprocess
import sys
import unittest

PANDO, BUILD = sys.argv[1:3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


def pando(*args, code=0):
    r = subprocess.run([PANDO, *args], env=ENV, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert r.returncode == code, f"pando {' '.join(args)}: {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout if code == 0 else r.stderr


class Doc(unittest.TestCase):
    def nouns(self):
        return pando("help", "--list").split()

    def test_help_names_everything(self):
        text = pando("--help")
        self.assertEqual(text, pando("help"))
        for noun in self.nouns():
            self.assertIn(f"pando {noun}", text)
        self.assertNotIn("__complete", text)
        for section in ("SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES"):
            self.assertIn(f"\n{section}\n", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_help_of_a_command(self):
        text = pando("vm", "exec", "--help")
        self.assertEqual(text, pando("help", "vm", "exec"))
        self.assertIn("-u, --user USER", text)
        self.assertIn("pando vm exec VM COMMAND...", text)
        self.assertIn("pando vm pty VM", pando("vm", "--help"))
        self.assertIn("lists all commands", pando("help", "nonsense", code=2))
        self.assertIn("SYNOPSIS", pando(code=2))

    def test_man_pages_are_built(self):
        pages = {f"pando-{n}.1" for n in self.nouns()} | {"pando.1"}
        built = {f for f in os.listdir(os.path.join(BUILD, "cli")) if f.endswith(".1")}
        self.assertEqual(pages, built, "cli/meson.build lists the pages")
        for name in built:
            with open(os.path.join(BUILD, "cli", name)) as f:
                text = f.read()
            self.assertRegex(text, r"^\.TH PANDO")
            self.assertIn(".SH NAME", text)
            for line in text.splitlines():
                if line.startswith((".", "'")):
                    self.assertRegex(line, r"^\.(TH|SH|PP|TP|B|br)( |$)", f"{name}: a line that troff would obey")
        with open(os.path.join(BUILD, "cli/pando-vm.1")) as f:
            self.assertIn("\\-\\-escape", f.read())

    def test_the_page_of_all_commands_is_current(self):
        page = os.path.join(ROOT, "docs/COMMANDS.md")
        text = pando("help", "--markdown")
        if os.environ.get("PANDO_GOLDEN_UPDATE"):
            with open(page, "w") as f:
                f.write(text)
        with open(page) as f:
            self.assertEqual(f.read(), text, "docs/COMMANDS.md is not what the table says: run this test with PANDO_GOLDEN_UPDATE=1")
        for noun in self.nouns():
            self.assertIn(f"\n## pando {noun}\n", text)

    def complete(self, *words):
        return [line.split("\t")[0] for line in pando("__complete", "--", *words).splitlines()]

    def test_completion_words(self):
        self.assertEqual(self.complete("sna"), ["snapshot"])
        self.assertIn("exec", self.complete("vm", ""))
        self.assertEqual(self.complete("vm", "su"), ["suspend"])
        self.assertIn("--env", self.complete("vm", "exec", "--"))
        self.assertIn("--json", self.complete("vm", "exec", "--"))
        self.assertEqual(self.complete("vm", "create", "--keep", "e"), ["ephemeral"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertEqual(self.complete("run", ""), [])
        self.assertEqual(self.complete("vm", "get", ""), [], "no server, no VMs, no noise")

    def test_completion_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("pando __complete", pando("completion", shell))
        self.assertIn("fish", pando("completion", "cmd", code=2))
        script = pando("completion", "bash")
        env = {**ENV, "PATH": os.path.dirname(PANDO) + ":" + ENV["PATH"]}
        check = script + 'COMP_WORDS=(pando vm susp); COMP_CWORD=2; _pando; echo "${COMPREPLY[*]}"\n'
        r = subprocess.run(["bash", "-c", check], env=env, capture_output=True, text=True, timeout=30)
        self.assertEqual(r.stdout.strip(), "suspend", r.stderr)

    def test_without_a_server(self):
        self.assertIn("pando login", pando("whoami", "--data-dir", "/nonexistent", code=4))
        self.assertRegex(pando("--version"), r"^pando \d")
        text = pando("whoami", "--nonsense", code=2)
        self.assertTrue(re.search(r"unknown option '--nonsense'.*pando whoami --help", text), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
