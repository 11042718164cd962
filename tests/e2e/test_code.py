# SPDX-License-Identifier: Apache-2.0
"""test_code.py - the code interpreter in real VMs: all of code_checks.py, and what only a machine can show"""
import base64
import json
import threading
import time

from case import Case, limit, long
from code_checks import CodeChecks
from code_ruby_checks import RubyChecks
from stream_checks import Stream, quoted
from test_network import mirror

DRAW = "import random, numpy as np\n(x, y, random.random(), random.getrandbits(64), float(np.random.random()))"


class TestCode(CodeChecks, Case):
    limit_s = 240

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.port, cls.key = cls.s.port, cls.s.key()
        cls.vm = cls.s.create()

    def test_a_first_cell_finds_a_warm_kernel(self):
        contexts = self.request("GET", self.code_path("/contexts"))[1]["contexts"]
        self.assertEqual([(c["language"], c["default"], c["executionCount"]) for c in contexts], [("python", True, 0)])
        self.assertEqual(self.value("import sys\nsorted({'IPython', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules))"),
                         "['IPython', 'matplotlib', 'numpy', 'pandas']")
        self.assertEqual(self.value("[n for n in ('np', 'pd', 'plt', 'pandas', 'exit') if n in globals()]"), "[]")

    def test_ruby_that_is_not_installed(self):
        r = self.cell("1", "ruby")
        self.assertEqual(r["error"]["name"], "KernelNotStarted")
        self.assertIn("install the package ruby", r["stderr"])

    def test_dataframes_are_tables(self):
        r = self.cell("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
        self.assertIn("<table", r["results"][0]["text/html"])

    def test_new_contexts_are_warm_too(self):
        ctx = self.context("python")
        loaded = "import sys\nsorted({'IPython', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules))"
        self.assertEqual(self.value(loaded, contextId=ctx), "['IPython', 'matplotlib', 'numpy', 'pandas']")
        self.assertEqual(self.value("[n for n in ('np', 'pd', 'plt', 'pandas', 'f') if n in globals()]", contextId=ctx), "[]")
        # its draws are its own, those of numpy too
        draw = "import numpy\nfloat(numpy.random.random())"
        self.assertNotEqual(self.value(draw, contextId=ctx), self.value(draw))
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    @long
    def test_a_package_in_front_of_one_that_is_loaded(self):
        """An import in a fresh kernel finds it, and not what was loaded ahead."""
        ctx = self.context("python")
        self.s.sh(self.vm, "d=$(python3 -c 'import site; print(site.getsitepackages()[0])'); mkdir -p $d/pandas; echo 'mine = 1' > $d/pandas/__init__.py")
        self.assertEqual(self.request("POST", self.code_path(f"/contexts/{ctx}/restart"))[0], 200)
        self.assertEqual(self.value("import pandas\npandas.mine", contextId=ctx), "1")
        self.s.sh(self.vm, "rm -r $(python3 -c 'import site; print(site.getsitepackages()[0])')/pandas")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    @long
    def test_pip(self):
        """A package of our own: the machines of the tests have no network."""
        make = ("import zipfile\nwith zipfile.ZipFile('/tmp/pandotest-1.0-py3-none-any.whl', 'w') as z:\n"
                "    z.writestr('pandotest.py', 'value = 42')\n"
                "    z.writestr('pandotest-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: pandotest\\nVersion: 1.0\\n')\n"
                "    z.writestr('pandotest-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
                "    z.writestr('pandotest-1.0.dist-info/RECORD', '')")
        self.assertNotIn("error", self.cell(make))
        r = self.cell("%pip install --no-index /tmp/pandotest-1.0-py3-none-any.whl", timeoutMs=200000)
        self.assertIn("Successfully installed pandotest-1.0", r["stdout"], r)
        self.assertEqual(self.value("import pandotest\npandotest.value"), "42")

    def test_typescript(self):
        """The first context takes the spare process, with the requested directory and variables."""
        ctx = self.context("typescript", cwd="/usr", env={"COLOUR": "red"})
        where = "const c: string = process.env.COLOUR ?? ''; [c, process.cwd(), __dirname, require('os').platform()].join()"
        self.assertEqual(self.value(where, contextId=ctx), "'red,/usr,/usr,linux'")
        self.assertEqual(self.value("interface P { n: number }\nconst p: P = { n: 41 };\nenum E { A = 1 }\nawait (p.n + E.A as number)",
                                    contextId=ctx), "42")
        self.assertEqual(self.value("p.n", contextId=ctx), "41")
        self.assertEqual(self.cell("const q: = 1", contextId=ctx)["error"]["name"], "SyntaxError")
        self.assertEqual(self.cell("f", contextId=ctx)["error"]["name"], "ReferenceError")  # nothing is left of its warming up
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    @long
    @limit(300)
    def test_typescript_without_the_process_kept_ready(self):
        ctx = self.context("typescript", env={"NODE_NO_WARNINGS": "1"})
        self.assertEqual(self.value("const n: number = 41; n + 1", contextId=ctx), "42")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    def test_modules(self):
        self.assertEqual(self.value("import fs, { readFileSync as rf } from 'fs'; import * as p from 'node:path';\n"
                                    "const os = await import('os');\n[typeof rf, typeof fs.statSync, typeof p.join, typeof os.EOL]",
                                    "javascript"), "[ 'function', 'function', 'function', 'string' ]")

    def test_files_are_listed_and_can_be_fetched(self):
        r = self.cell("import os\nos.makedirs('/root/made', exist_ok=True); os.chdir('/root/made')\n"
                      "open('a.csv', 'w').write('x,y\\n1,2\\n'); open('/tmp/p.part', 'wb').write(b'12345')\n"
                      "os.rename('/tmp/p.part', '/tmp/p.png'); open('gone.txt', 'w').close(); os.remove('gone.txt')\n"
                      "!echo more > by-a-child.txt")
        self.assertEqual({f["path"]: (f["size"], f["mime"]) for f in r["files"]},
                         {"/root/made/a.csv": (8, "text/csv"), "/tmp/p.png": (5, "image/png"),
                          "/root/made/by-a-child.txt": (5, "text/plain")})
        status, f = self.request("GET", f"/v1/vms/{self.vm}/files/{quoted('/root/made/a.csv')}")
        self.assertEqual((status, f["content"]), (200, "x,y\n1,2\n"))
        self.assertEqual(self.cell("open('a.csv').read()")["files"], [])
        r = self.cell("echo js >> /root/made/a.csv", "bash")
        self.assertEqual([f["path"] for f in r["files"]], ["/root/made/a.csv"])

    def test_files_that_the_user_cannot_see_are_not_listed(self):
        """Root changes a file in its own directory while somebody else's cell runs."""
        def root():
            self.s.sh(self.vm, "until [ -e /tmp/began ]; do sleep 0.1; done; echo x > /root/hidden.txt; echo x > /tmp/go")
        thread = threading.Thread(target=root)
        thread.start()
        r = self.cell("echo > /tmp/began; until [ -e /tmp/go ]; do sleep 0.1; done; echo mine > /tmp/mine.txt", "bash", user="nobody")
        thread.join()
        self.assertEqual({f["path"] for f in r["files"]}, {"/tmp/began", "/tmp/go", "/tmp/mine.txt"})
        self.s.sh(self.vm, "rm /tmp/began /tmp/go /tmp/mine.txt /root/hidden.txt")

    def test_memory_hog_costs_only_its_kernel(self):
        ctx = self.context("python")
        self.cell("kept = 'in another kernel'")
        r = self.cell("x = []\nwhile True: x.append(bytearray(1 << 24))", contextId=ctx, timeoutMs=120000)
        self.assertIn(r["error"]["name"], ("OutOfMemory", "MemoryError"))
        self.assertEqual(self.value("kept"), "'in another kernel'")
        self.assertEqual(self.value("6 * 7", contextId=ctx), "42")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    @limit(300)
    def test_suspend_and_forks(self):
        self.cell("import random, numpy, os\nrandom.seed(1); numpy.random.seed(1)\nx = {'a': 1}; y = os.getpid()\n"
                  "f = open('/root/open-file', 'w')\nimport socket\nlistener = socket.create_server(('127.0.0.1', 0))\n"
                  "ours = socket.create_connection(listener.getsockname()); theirs = listener.accept()[0]")
        self.cell("var seen = Math.random() + require('crypto').randomBytes(8)[0]; var o = {n: 1}; require('crypto').randomUUID()", "javascript")
        self.cell("import ssl\nssl.RAND_bytes(8)")
        self.cell("v=bash; RANDOM=5", "bash")
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.s.state(self.vm), "suspended")
        r = self.value("f.write('z'); f.flush(); (x, y == os.getpid(), open('/root/open-file').read())")
        self.assertEqual(r, "({'a': 1}, True, 'z')")
        talk = "ours.sendall(b'still'); theirs.recv(5)"
        self.assertEqual(self.value(talk), "b'still'")
        forks = self.s.fork(self.vm, 2)
        draws, js, sh, keys = [], [], [], []
        for vm in (self.vm, *forks):
            got = self.value(DRAW, vm=vm)
            self.assertTrue(got.startswith("({'a': 1}, "), got)
            self.assertEqual(self.value(talk, vm=vm), "b'still'")
            draws.append(got)
            js.append(self.value("[o.n, Math.random(), Math.random()].join()", "javascript", vm=vm))
            keys.append(self.value("const k = require('crypto'); [k.randomBytes(8).toString('hex'), k.randomUUID(), k.randomInt(2 ** 40), "
                                   "crypto.getRandomValues(new Uint32Array(2)).join(), k.randomFillSync(Buffer.alloc(8), 4).toString('hex')].join(' ')",
                                   "javascript", vm=vm).strip("'").split())
            keys[-1].append(self.value("import ssl\nssl.RAND_bytes(8).hex()", vm=vm))
            sh.append(self.cell("echo $v $RANDOM$RANDOM$RANDOM", "bash", vm=vm)["stdout"])
        for kind in (draws, js, sh, *zip(*keys)):
            self.assertEqual(len(set(kind)), 3, kind)
        self.assertEqual([k[4][:8] for k in keys], ["00000000"] * 3)
        for part in range(2, 5):  # random.random(), getrandbits(), numpy: each of them differs
            self.assertEqual(len({d.strip("()").split(", ")[part] for d in draws}), 3, draws)
        for i, vm in enumerate(forks):
            self.cell(f"x['a'] = {i + 10}", vm=vm)
        self.assertEqual([self.value("x['a']", vm=vm) for vm in (self.vm, *forks)], ["1", "10", "11"])
        for vm in forks:
            self.s.delete(vm)

    @limit(300)
    def test_a_fork_in_the_middle_of_a_cell(self):
        """A cell that runs while its machine is copied draws other numbers in each copy."""
        code = ("import random, time, os\nrandom.seed(7)\nopen('/root/mid', 'w').write('begun')\n"
                "while not os.path.exists('/root/go'): time.sleep(0.05)\n"
                "open('/root/drawn', 'w').write(repr([random.random() for _ in range(4)]))")
        t = threading.Thread(target=lambda: self.request("POST", self.code_path(), {"language": "python", "code": code}))
        t.start()
        end = time.monotonic() + 60
        while self.s.run(self.vm, "test -e /root/mid").code and time.monotonic() < end:
            time.sleep(0.1)
        forks = self.s.fork(self.vm, 2)
        drawn = [self.s.sh(vm, "touch /root/go; for i in $(seq 600); do test -s /root/drawn && break; sleep 0.1; done; cat /root/drawn")
                 for vm in (self.vm, *forks)]
        t.join(120)
        self.assertEqual(len(set(drawn)), 3, drawn)
        for vm in forks:
            self.s.delete(vm)

    def test_one_shot(self):
        before = set(self.s.vms())
        status, r = self.request("POST", "/v1/code", {"language": "python", "code": "print(1); 6 * 7"})
        self.assertEqual((status, r["stdout"], r["results"]), (200, "1\n", [{"text/plain": "42"}]), r)
        self.assertEqual(set(self.s.vms()), before)
        s = Stream(self.port, "POST", "/v1/code", json.dumps({"language": "bash", "code": "echo hi; sleep 100", "stream": True}),
                   {"Authorization": f"Bearer {self.key}"})
        events = s.events()
        self.assertEqual([next(events)[0], next(events)[0]], ["started", "stdout"])
        self.assertEqual(len(set(self.s.vms()) - before), 1)
        s.close()
        end = time.monotonic() + 60
        while set(self.s.vms()) != before and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(set(self.s.vms()), before)
        status, r = self.request("POST", "/v1/code", {"language": "python", "code": "1", "contextId": "ctx-1"})
        self.assertEqual((status, r["code"]), (400, "BAD_REQUEST"))

    def test_twenty_kernels_at_once(self):
        made = [self.context("bash") for _ in range(20)]
        got = {}
        threads = [threading.Thread(target=lambda c=c: got.update({c: self.cell("echo $$; sleep 1", "bash", contextId=c)})) for c in made]
        for t in threads:
            t.start()
        for t in threads:
            t.join(200)
        self.assertEqual(len({got[c]["stdout"] for c in made}), 20)
        for c in made:
            self.request("DELETE", self.code_path(f"/contexts/{c}"))

    def test_pictures_are_base64(self):
        r = self.cell("from IPython.display import Image\nImage(data=b'\\x89PNG not really', format='png')")
        self.assertEqual(base64.b64decode(r["results"][0]["image/png"]), b"\x89PNG not really")


class Ruby(RubyChecks, Case):
    """In a VM that has it."""
    long = True
    limit_s = 600
    keeps_specs = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.port, cls.key, cls.vm = cls.s.port, cls.s.key(), None

    @limit(3600)
    def test_a_ruby_is_installed(self):
        if not mirror():
            self.skipTest("this host's apt uses no http:// mirror: nothing can be installed in a guest")
        type(self).vm = self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, "spec": {"aptDeps": ["ruby"]}}, timeout=3500)["id"]

    def kernel(self, language):
        if not self.vm:
            self.skipTest("there is no VM with Ruby")

    def test_b_forks_have_its_variables(self):
        self.cell("x = {a: 1}; srand(1)", "ruby")
        forks = self.s.fork(self.vm, 2)
        draws = [self.value("[x, rand(10**12)]", "ruby", vm=vm) for vm in (self.vm, *forks)]
        self.assertEqual(len(set(draws)), 3, draws)
        for i, vm in enumerate(forks):
            self.cell(f"x[:a] = {i + 10}", "ruby", vm=vm)
        self.assertEqual([self.value("x[:a]", "ruby", vm=vm) for vm in (self.vm, *forks)], ["1", "10", "11"])
        self.s.post(forks[0], "suspend")
        self.assertEqual(self.value("x[:a]", "ruby", vm=forks[0]), "10")
        for vm in forks:
            self.s.delete(vm)
