# SPDX-License-Identifier: Apache-2.0
"""The Python client of clients/python against a real server: its whole surface, and the InstaVM-shaped class"""
import asyncio
import os
import tempfile
import threading

from case import Case, limit, long, wait_for
from client_checks import ClientChecks, WAIT_S
from code_checks import png_size
from pando import aio, CellFailed, ConflictError, NotFoundError, Sandbox, Snapshot, Transport, run_once  # the path comes with client_checks
from pando.instavm import InstaVM


class PythonClient(ClientChecks, Case):
    limit_s = 180
    dir = "/root/client"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.t = Transport(f"http://127.0.0.1:{cls.s.port}", cls.s.key())
        cls.sb = Sandbox.create(name="python client", idle_timeout=None, transport=cls.t)
        cls.sb.files.mkdir(cls.dir)

    @classmethod
    def tearDownClass(cls):
        if cls.s:
            cls.t.close()
        super().tearDownClass()

    def test_asyncio_life(self):
        """Forks run side by side, each with the memory of their parent; a suspended one wakes."""
        async def life():
            async with aio.Sandbox.create(transport=self.t) as sandbox:
                await sandbox.code("x = 41")
                forks = await sandbox.fork(2)
                try:
                    cells = await asyncio.gather(*[f.code(f"x + {i}") for i, f in enumerate(forks)])
                    self.assertEqual([c.text for c in cells], ["41", "42"])
                    point = await sandbox.snapshot("async")
                    await sandbox.suspend()
                    self.assertEqual(await sandbox.state(), "suspended")
                    self.assertEqual((await sandbox.code("x")).text, "41")
                    await point.delete()
                finally:
                    await asyncio.gather(*[f.delete() for f in forks])
                return sandbox.id
        gone = asyncio.run(asyncio.wait_for(life(), 2 * WAIT_S))
        with self.assertRaises(NotFoundError):
            Sandbox.connect(gone, self.t)

    def test_find(self):
        self.assertIn(self.sb.id, [s.id for s in Sandbox.list(self.t)])
        found = Sandbox.connect(self.sb.id, self.t)
        with found:  # connected to, not made: it stays
            self.assertEqual((found.state, found.info()["name"]), ("running", "python client"))
        self.assertEqual(self.sb.state, "running")
        with self.assertRaises(NotFoundError) as e:
            Sandbox.connect("0" * 20, self.t)
        self.assertEqual((e.exception.code, e.exception.status), ("VM_NOT_FOUND", 404))
        self.assertTrue(e.exception.hint)

    def test_code(self):
        said = []
        code = self.sb.code
        code("import os\nx = 41").check()
        cell = code("print('hi'); x + 1", on_stdout=said.append)
        self.assertEqual((cell.stdout, cell.text, cell.ok, "".join(said)), ("hi\n", "42", True, "hi\n"))  # output comes in any pieces
        failed = code("1 / 0")
        self.assertEqual(failed.error.name, "ZeroDivisionError")
        with self.assertRaisesRegex(CellFailed, "division by zero"):
            failed.check()
        slow = code("import time; time.sleep(600)", timeout=2)
        self.assertTrue(slow.timed_out)
        self.assertEqual(code("x").text, "41")  # the kernel stayed
        self.assertEqual(code("let a = 6; a * 7", "javascript").text, "42")
        self.assertEqual(code("const n: number = 7; n * 6", "ts").text, "42")
        self.assertEqual(code("v=4; echo $((v + 1))", "bash").stdout, "5\n")

    def test_code_results_and_files(self):
        shown = []
        cell = self.sb.code("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); open('/root/client/out.csv', 'w').write('a,b\\n1,2\\n')",
                            on_result=shown.append)
        self.assertTrue(png_size(cell.png)[0] > 100)
        self.assertEqual(len(shown), len(cell.results))
        made = {f.path: f for f in cell.files}["/root/client/out.csv"]
        self.assertEqual((made.size, made.mime, self.sb.files.read_text(made.path)), (8, "text/csv", "a,b\n1,2\n"))
        rich = self.sb.code("import pandas as pd; pd.DataFrame({'a': [1]})").results[-1]
        self.assertIn("<table", rich.html)
        own = self.sb.code.create_context("python", cwd="/tmp", env={"A": "b"})
        self.assertEqual(own("import os; os.getcwd(), os.environ['A'], 'x' in globals()").text, "('/tmp', 'b', False)")
        cell = own("import time; print('up', flush=True); time.sleep(600)", timeout=WAIT_S, on_stdout=lambda _: own.interrupt())
        self.assertEqual((cell.error.name, cell.timed_out, cell.stdout), ("KeyboardInterrupt", False, "up\n"))
        own.delete()

    @limit(240)
    def test_fork_snapshot_rewind(self):
        """Memory is copied: a variable of the kernel, a terminal's shell."""
        sb = self.sb
        sb.code("who = 'parent'").check()
        term = sb.pty("bash --norc", session_id="forked")
        term.write("who=parent; echo set-$who\n")
        term.expect("set-parent", WAIT_S)
        with sb.fork(1)[0] as child:
            self.assertEqual(child.code("who").text, "'parent'")
            child.code("who = 'child'")
            child.files.write("/root/client/only-here", "1")
            self.assertEqual(sb.code("who").text, "'parent'")
            with child.attach_pty("forked") as there:
                there.write("echo $who+\n")
                there.expect("parent+", WAIT_S)
            self.assertEqual([(c["path"], c["change"]) for c in child.diff(sb, "/root/client")], [("/root/client/only-here", "added")])
            kept = child.snapshot("kept")
            child.code("who = 'later'")
            before = child.rewind(kept)
            self.assertEqual(child.code("who").text, "'child'")
            self.assertIn(child.id, [n["id"] for n in child.tree()["nodes"]])
        with self.assertRaises(NotFoundError):
            child.info()
        self.assertIn(kept.id, [s.id for s in Snapshot.list(self.t)])
        with kept.create(idle_timeout=None) as again:
            self.assertEqual(again.code("who").text, "'child'")
        kept.rename("renamed")
        kept.delete()
        before.delete()
        term.close()

    def test_suspend_under_a_terminal_and_a_command(self):
        again = threading.Event()
        with self.sb.pty("bash --norc", on_reconnect=again.set) as t:
            t.write("v=frozen; echo set-$v\n")
            t.expect("set-frozen", WAIT_S)
            failed = []

            def command():
                try:
                    self.sb.exec("echo up; sleep 600", on_stdout=lambda _: up.set())
                except ConflictError as e:
                    failed.append(e.code)

            up = threading.Event()
            runs = threading.Thread(target=command)
            runs.start()
            self.assertTrue(up.wait(WAIT_S))
            self.sb.suspend()
            runs.join(WAIT_S)
            self.assertEqual(failed, ["VM_NOT_RUNNING"])
            self.assertTrue(again.wait(WAIT_S))  # attaching woke it
            t.write("echo $v-still\n")
            t.expect("frozen-still", WAIT_S)
        self.sb.suspend()
        self.assertEqual(self.sb.state, "suspended")
        self.sb.resume()
        self.assertEqual(self.sb.state, "running")
        for p in self.sb.processes():
            if p.running:
                p.kill()

    @limit(240)
    def test_restart_of_the_server_under_a_terminal(self):
        with self.sb.pty("bash --norc", reconnect_for=WAIT_S) as t:
            t.write("v=lasting; echo set-$v\n")
            t.expect("set-lasting", WAIT_S)
            self.s.kill9_pandod()
            t.write("echo $v-still\n")
            t.expect("lasting-still", WAIT_S)
            self.assertGreaterEqual(t.reconnects, 1)

    def test_one_cell_and_nothing_else(self):
        before = set(self.s.vms())
        self.assertEqual(run_once("6 * 7", transport=self.t).text, "42")
        wait_for("its VM is deleted", lambda: set(self.s.vms()) == before, WAIT_S)

    @limit(240)
    @long
    def test_instavm(self):
        """The documented code interpreter, with a scripted model in the model's place."""
        os.environ["PANDO_URL"] = self.t.url
        try:
            vm = InstaVM(self.s.key(), cpu_count=2, memory_mb=1024)
        finally:
            del os.environ["PANDO_URL"]
        said = chat(vm, ["import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})\nprint(df.head())",
                         "int(df['a'].sum())", "import matplotlib.pyplot as plt\nplt.plot(df['a'])\nplt.savefig('confusion.png')", "1 / 0"])
        self.assertIn("2  3", said[0])
        self.assertEqual(said[1], "6\n")
        self.assertIn("ZeroDivisionError", said[3])
        vm.execute("import subprocess, sys\nfor pkg in ['pandas']:\n"
                   "    subprocess.check_call([sys.executable, '-m', 'pip', 'install', '-q', pkg])\nprint('Packages ready')")
        with tempfile.TemporaryDirectory() as d:
            file_check = vm.execute("import os; print([f for f in os.listdir('/app') if not f.startswith('.')])")
            files = eval(file_check.get("output", "[]"))
            self.assertEqual(files, ["confusion.png"])
            for filename in files:
                local = os.path.join(d, filename)
                vm.download_file(f"/app/{filename}", local_path=local)
                with open(local, "rb") as f:
                    self.assertTrue(png_size(f.read()))
            vm.upload_file(local, "in/copy.png")
        self.assertEqual(vm.execute("ls /app/in", language="bash")["output"], "copy.png\n")
        self.assertTrue(vm.execute("import os; os._exit(1)")["error"])
        self.assertEqual(vm.execute("import os; os.getcwd()")["output"], "'/app'\n")  # also in the fresh kernel
        vm.kill()
        self.assertFalse(vm.is_session_active())
        self.assertNotIn(vm.session_id, self.s.vms())


def chat(vm, cells):
    """The loop of the documentation; each "tool call" is a cell of the script."""
    output = []
    for code in cells:
        result = vm.execute(code)
        output.append(result.get("output", "No output"))
    return output
