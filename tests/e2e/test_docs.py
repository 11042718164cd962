# SPDX-License-Identifier: Apache-2.0
"""The code blocks of docs/QUICKSTART.md and docs/guides, run in order as a reader would, and their shown output compared

A page has a directory and one shell, so that variables and files of a block are there in the next. js blocks are run by Node with the packages of tests/sdk, python
blocks with clients/python. Pages name the places of a server with its defaults; PLACES puts this server's there, and back into what is printed. What a page made is
deleted at its end. Only stdout is compared: progress goes to stderr when the machine is busy. doc_blocks.py says how a page is read and what counts as the same.

Pages that run a program of examples/guides (ProgramPages) are given more time: packages are installed in VMs that may be emulated.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import node
from case import Case, limit, long
from doc_blocks import blocks, difference
from harness import PATIENCE, ROOT, reap
from test_network import mirror

SDK = os.path.join(ROOT, "tests/sdk")
GUIDES = os.path.join(ROOT, "examples/guides")
PROGRAM = re.compile(r"^(?:\w+=\S+ )*node examples/guides/(\S+)\.mjs", re.MULTILINE)
BARE = ("nodejs", "bun", "deno")  # programs that install no packages of Debian
ELSEWHERE = ("guides/docker.md", "guides/web-terminal.md")  # run by test_docker.py and test_guides_serve.py, which go on with what the page made
NOT_RUN_MAX = 12  # in all pages
# pages that make test runs; the others are for make test-long
QUICK = ("QUICKSTART.md", "guides/code-interpreter.md", "guides/fork-and-explore.md")
RUNNERS = {"sh": (".sh", ". ./{}"), "js": (".mjs", "node {}"), "python": (".py", "python3 {}")}


def pages():
    """Paths below docs/."""
    docs = os.path.join(ROOT, "docs")
    found = sorted(glob.glob(os.path.join(docs, "guides/*.md")))
    return ["QUICKSTART.md", *(os.path.relpath(p, docs) for p in found)]


def read(page):
    with open(os.path.join(ROOT, "docs", page)) as f:
        return blocks(f"docs/{page}", f.read())


def read_any(path):
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace") as f:
        return f.read()


class Shell:
    """A reader's shell: one bash in a directory, to which blocks are given one after the other."""

    def __init__(self, folder, env):
        self.dir, self.count = folder, 0
        self.proc = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, env=env, stdin=subprocess.PIPE, text=True,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def run(self, lang, text, limit_s):
        """(exit status, stdout, stderr); the status is None if it did not end, or ended the shell."""
        self.count += 1
        ending, command = RUNNERS[lang]
        name, out, done = f".block{self.count}{ending}", f".out{self.count}", f".done{self.count}"
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        try:
            self.proc.stdin.write(f"{command.format(name)} >{out} 2>{out}.err </dev/null; echo $? >{done}.new; mv {done}.new {done}\n")
            self.proc.stdin.flush()
        except BrokenPipeError:
            return None, "", "(the shell has ended)"
        end, path, status = time.monotonic() + limit_s, os.path.join(self.dir, done), None
        while status is None and time.monotonic() < end and self.proc.poll() is None:
            if os.path.exists(path):
                with open(path) as f:
                    status = int(f.read())
            else:
                time.sleep(0.02)
        return (status, *(read_any(os.path.join(self.dir, name)) for name in (out, f"{out}.err")))

    def close(self):
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.proc.wait()
        self.proc.stdin.close()


class Pages(Case):
    keeps_specs = True  # cached layers of pages that install something stay
    limit_s = 300
    block_s = 120 * PATIENCE

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.places = [("/var/lib/pando", cls.s.dir), ("127.0.0.1:8787", f"127.0.0.1:{cls.s.port}"),
                      ("127.0.0.1:8443", f"127.0.0.1:{cls.s.edge_port}"), ("127.0.0.1:8080", f"127.0.0.1:{cls.s.edge_http_port}"),
                      ("clients/python", os.path.join(ROOT, "clients/python")),
                      ("examples/guides", GUIDES)]

    def there(self, text):
        """A page's text with this server's places."""
        for default, ours in self.places:
            text = text.replace(default, ours)
        return text

    def back(self, text):
        for default, ours in self.places:
            text = text.replace(ours, default)
        return text

    def env(self, home):
        """What a reader has: the address and the key, `pando`, and the packages."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDO_", "FREESTYLE_", "XDG_"))}
        build = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"))
        env.update(HOME=home, LC_ALL="C.UTF-8", TERM="dumb", PATH=f"{build}/cli:{env['PATH']}", PYTHONPATH=os.path.join(ROOT, "clients/python"),
                   PYTHONDONTWRITEBYTECODE="1", GIT_CONFIG_NOSYSTEM="1", NODE_NO_WARNINGS="1",
                   FREESTYLE_API_URL=f"http://127.0.0.1:{self.s.port}", FREESTYLE_API_KEY=self.s.key(),
                   PANDO_DATA_DIR=self.s.dir)
        return env

    def page(self, name):
        todo = read(name)
        self.assertTrue(todo, f"docs/{name} has no code block")
        node.install(self, SDK)
        home = tempfile.mkdtemp(prefix="pando-docs-", dir=os.environ.get("PANDO_TEST_DIR", "/var/tmp"))
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        self.addCleanup(self.clean)
        os.symlink(os.path.join(SDK, "node_modules"), os.path.join(home, "node_modules"))
        with open(os.path.join(home, ".gitconfig"), "w") as f:
            f.write("[user]\n\tname = Reader\n\temail = reader@example.org\n[init]\n\tdefaultBranch = main\n")
        shell = Shell(home, self.env(home))
        self.addCleanup(shell.close)
        wrong = []
        for b in todo:
            if b.not_run:
                continue
            status, came, said = (self.back(x) if isinstance(x, str) else x for x in shell.run(b.lang, self.there(b.text), self.block_s))
            if os.environ.get("PANDO_DOCS_SHOW"):
                print(f"---- {b.where}\n{came}{said}", file=sys.stderr, flush=True)
            if status != 0:
                how = f"ended with {status}" if status is not None else f"did not end within {self.block_s} s, or ended the shell"
                self.fail("\n".join([*wrong, f"{b.where}: this block {how}; it printed:\n{came}{said or '(nothing to stderr)'}"]))
            shown = b.shown.text if b.shown else ""
            d = difference(shown, came)
            if d:
                n, want, got = d
                line = b.shown.line + 1 + n if b.shown else b.line
                wrong.append(f"docs/{name}:{line}: expected {want!r}, but {got!r} came; all of it:\n{came}{said}")
        if wrong:
            self.fail("\n".join(wrong))

    def clean(self):
        """VMs, snapshots, networks, repositories, accounts and identities that a page made."""
        self.s.delete_all()
        for n in self.s.api("GET", "/v1/vpcs")["vpcs"]:
            self.s.api("DELETE", f"/v1/vpcs/{n.get('id') or n['vpcId']}")
        for r in self.s.api("GET", "/git/v1/repo")["repositories"]:
            self.s.api("DELETE", f"/git/v1/repo/{r['id']}")
        reap()


class Docs(Pages):
    def test_a_few_blocks_are_not_run(self):
        found = [b for page in pages() for b in read(page) if b.not_run]
        for b in found:
            print(f"  (not run: {b.where}: {b.not_run})", flush=True)
        self.assertLessEqual(len(found), NOT_RUN_MAX)
        missing = set(QUICK) - set(pages())
        self.assertFalse(missing, f"no such pages: {missing}")


class ProgramPages(Pages):
    """Guides with a program in examples/guides."""
    long = True
    limit_s = 3600
    block_s = 3000 * PATIENCE

    def page(self, name):
        if set(programs(name)) - set(BARE) and not mirror():
            self.skipTest("this host's apt uses no http:// mirror, and guests trust the CA of no other: nothing can be installed in one")
        node.install(self, GUIDES)
        super().page(name)


class Programs(ProgramPages):
    pass


def programs(name):
    """Names of the programs of examples/guides that a page runs."""
    return [p for b in read(name) if b.lang == "sh" and not b.not_run for p in PROGRAM.findall(b.text)]


def of_page(name):
    def test(self):
        self.page(name)
    test.__doc__ = f"docs/{name}"
    if programs(name):
        return test
    test = limit(600)(test)
    return test if name in QUICK else long(test)


for _page in pages():
    if read(_page) and _page not in ELSEWHERE:
        setattr(Programs if programs(_page) else Docs, "test_page_" + os.path.basename(_page)[:-3].lower().replace("-", "_"), of_page(_page))
