# SPDX-License-Identifier: Apache-2.0
"""client_checks.py - the Python client's own questions, of a real VM (test_python_client.py) and of the agent alone

Who uses it has self.sb (a Sandbox) and self.dir, a directory in the guest that is the test's own; drop() cuts a terminal's connection.
"""
import asyncio
import filecmp
import hashlib
import io
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
from pando import aio, CommandFailed, ExecTimeout, NotFoundError, PtyClosed  # noqa: E402

WAIT_S = 90  # for anything at all: the guest may be emulated and the machine busy


class ClientChecks:
    # ---- commands ----

    def test_exec(self):
        said = []
        r = self.sb.exec('cat; echo "$A"; pwd; echo err >&2; exit 3', stdin="in: ü\n", env={"A": "b c"}, cwd="/tmp", on_stdout=said.append)
        self.assertEqual((r.stdout, r.stderr, r.exit_code, r.ok), ("in: ü\nb c\n/tmp\n", "err\n", 3, False))
        self.assertEqual("".join(said), r.stdout)
        self.assertEqual(self.sb.exec(["printf", "%s|", "a b", "$HOME", "it's"]).stdout, "a b|$HOME|it's|")
        self.assertEqual(self.sb.exec("cat", stdin=bytes(range(256))).stdout_bytes, bytes(range(256)))
        self.assertEqual(self.sb.exec("kill -TERM $$").signal, "SIGTERM")
        self.assertEqual(self.sb.exec("id -un", user="nobody").stdout.strip(), "nobody")
        self.assertEqual(self.sb.as_user("nobody").exec("id -un").stdout.strip(), "nobody")
        with self.assertRaises(CommandFailed) as e:
            self.sb.exec("echo no >&2; exit 4", check=True)
        self.assertEqual(e.exception.result.exit_code, 4)
        self.assertIn("no", str(e.exception))

    def test_exec_ends_with_its_time(self):
        with self.assertRaises(ExecTimeout) as e:
            self.sb.exec("echo some; sleep 600", timeout=2)
        self.assertEqual((e.exception.code, e.exception.stdout), ("EXEC_TIMED_OUT", "some\n"))

    def test_leaving_ends_the_command(self):
        """An exception in a callback ends the call."""
        pids = []

        def first(text):
            pids.append(int(text))
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.sb.exec("echo $$; sleep 600", on_stdout=first)
        gone = self.sb.exec(f"timeout 60 sh -c 'while kill -0 {pids[0]} 2>/dev/null; do sleep 0.1; done'", timeout=WAIT_S)
        self.assertEqual(gone.exit_code, 0)

    # ---- the same for asyncio ----

    def test_asyncio(self):
        async def all_of_it():
            sb, said = aio.Sandbox(self.sb), []
            many = await asyncio.gather(*[sb.exec(f"echo {i}", on_stdout=said.append) for i in range(12)])
            self.assertEqual([r.stdout for r in many], [f"{i}\n" for i in range(12)])
            self.assertEqual(sorted("".join(said).split(), key=int), [str(i) for i in range(12)])
            with self.assertRaises(CommandFailed):
                await sb.exec("exit 4", check=True)
            await sb.files.write(f"{self.dir}/async", "text")
            self.assertEqual(b"".join([p async for p in sb.files.stream(f"{self.dir}/async")]), b"text")
            with self.assertRaises(NotFoundError):
                await sb.files.read(f"{self.dir}/nothing")
            own = await sb.code.create_context("bash")  # the default one's cells are counted elsewhere
            await own("v=6")
            self.assertEqual((await own("echo $((v * 7))")).stdout, "42\n")
            await own.delete()
            process = await sb.spawn("echo a; echo b >&2; exit 5")
            self.assertEqual(sorted([item async for item in process.follow()]), [("stderr", b"b\n"), ("stdout", b"a\n")])
            self.assertEqual(await process.wait(), 5)
            await process.forget()
            async with sb.pty("sh") as t:
                await t.write("echo $((6 * 7))\n")
                await t.expect("42", WAIT_S)
        asyncio.run(asyncio.wait_for(all_of_it(), WAIT_S))

    def test_asyncio_cancelled_ends_the_command(self):
        async def cancelled():
            pid = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(aio.Sandbox(self.sb).exec("echo $$; exec sleep 600", on_stdout=lambda t: pid.set_result(int(t))))
            got = await asyncio.wait_for(pid, WAIT_S)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return got
        pid = asyncio.run(cancelled())
        gone = self.sb.exec(f"timeout 60 sh -c 'while kill -0 {pid} 2>/dev/null; do sleep 0.1; done'", timeout=WAIT_S)
        self.assertEqual(gone.exit_code, 0)

    def test_asyncio_watch(self):
        async def watched():
            sb = aio.Sandbox(self.sb)
            async with sb.files.watch(self.dir) as changes:
                await sb.files.write(f"{self.dir}/seen async", "x")
                async for change in changes:
                    if change.path == f"{self.dir}/seen async":
                        return
        asyncio.run(asyncio.wait_for(watched(), WAIT_S))

    def test_spawn(self):
        p = self.sb.spawn("echo began; read x; echo got $x >&2; exit 7", open_stdin=True)
        self.assertTrue(p.running)
        self.assertIn(p.id, [q.id for q in self.sb.processes()])
        p.write("it\n")
        self.assertEqual(p.wait(), 7)
        self.assertEqual((p.output(), p.output("stderr")), (b"began\n", b"got it\n"))
        self.assertEqual(dict(p.follow()), {"stdout": b"began\n", "stderr": b"got it\n"})
        p.forget()
        with self.assertRaises(NotFoundError):
            p.info()
        q = self.sb.spawn(["sleep", "600"])
        q.kill()
        q.wait()
        self.assertEqual(q.info()["signal"], "SIGKILL")

    # ---- files ----

    def test_files(self):
        f, name = self.sb.files, f"{self.dir}/a ü%2F"
        f.write(name, "text ü")
        self.assertEqual((f.read_text(name), f.exists(name), f.exists(name + "x")), ("text ü", True, False))
        f.write(name, b"\0\xff", mode=0o640)
        st = f.stat(name)
        self.assertEqual((st.size, st.mode & 0o7777, st.is_file, st.user), (2, 0o640, True, "root"))
        f.write(name, (bytes([i]) for i in range(10)))
        self.assertEqual(b"".join(f.stream(name, offset=3, length=4)), bytes(range(3, 7)))
        self.assertEqual(b"".join(f.stream(name, offset=8)), bytes([8, 9]))
        f.mkdir(f"{self.dir}/d/e")
        f.rename(name, f"{self.dir}/d/moved")
        self.assertEqual({(e.name, e.kind) for e in f.list(f"{self.dir}/d")}, {("e", "directory"), ("moved", "file")})
        self.assertTrue(f.stat(f"{self.dir}/d").is_dir)
        f.remove(f"{self.dir}/d", recursive=True)
        for gone in (lambda: f.read(f"{self.dir}/d/moved"), lambda: f.stat(f"{self.dir}/d"), lambda: f.list(f"{self.dir}/d"),
                     lambda: f.remove(f"{self.dir}/d")):
            with self.assertRaises(NotFoundError) as e:
                gone()
            self.assertEqual(e.exception.code, "FILE_NOT_FOUND")
        f.write(f"{self.dir}/new/deep/x", "x")
        for data in ("x", io.BytesIO(bytes(1 << 20))):
            with self.assertRaises(NotFoundError):
                f.write(f"{self.dir}/new/deep/x/below a file", data)

    def test_large_files_both_ways(self):
        block, n = os.urandom(1 << 20), 12
        want = hashlib.sha256(block * n).hexdigest()
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/big", "wb") as f:
                for _ in range(n):
                    f.write(block)
            os.chmod(f"{d}/big", 0o750)
            self.sb.files.upload(f"{d}/big", f"{self.dir}/big")
            self.assertEqual(self.sb.exec(["sha256sum", f"{self.dir}/big"]).stdout.split()[0], want)
            self.assertEqual(self.sb.files.download(f"{self.dir}/big", f"{d}/back"), n << 20)
            self.assertTrue(filecmp.cmp(f"{d}/big", f"{d}/back", shallow=False))
            self.assertEqual(os.stat(f"{d}/back").st_mode & 0o777, 0o750)
        self.sb.files.remove(f"{self.dir}/big")

    def test_directories_both_ways(self):
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(f"{d}/up/sub/deep")
            for name, data in (("a", b"1"), ("sub/ü", os.urandom(300000)), ("sub/deep/empty", b"")):
                with open(f"{d}/up/{name}", "wb") as f:
                    f.write(data)
            os.symlink("sub/ü", f"{d}/up/link")
            os.chmod(f"{d}/up/a", 0o755)
            self.sb.files.upload_dir(f"{d}/up", f"{self.dir}/tree")
            self.assertEqual(self.sb.exec(f"cd {self.dir}/tree && find . | sort | tr '\\n' ' '; stat -c %a a").stdout,
                             ". ./a ./link ./sub ./sub/deep ./sub/deep/empty ./sub/ü 755\n")
            self.assertEqual(self.sb.files.download_dir(f"{self.dir}/tree", f"{d}/down"), 4)
            same = filecmp.dircmp(f"{d}/up/sub", f"{d}/down/sub")
            self.assertEqual((same.left_only, same.right_only, same.diff_files), ([], [], []))
            self.assertEqual(os.readlink(f"{d}/down/link"), "sub/ü")
        with self.assertRaises(NotFoundError):
            self.sb.files.download_dir(f"{self.dir}/nothing", "/nowhere")

    def test_watch(self):
        seen, ready = [], threading.Event()
        with self.sb.files.watch(self.dir) as w:
            def follow():
                for e in w:
                    seen.append(e)
                    if e.path == f"{self.dir}/seen":
                        ready.set()
            t = threading.Thread(target=follow)
            t.start()
            self.sb.files.write(f"{self.dir}/seen", "x")
            self.assertTrue(ready.wait(WAIT_S), seen)
        t.join(WAIT_S)  # close() from here ends it there
        self.assertFalse(t.is_alive())

    # ---- terminals ----

    def drop(self, pty):
        """As if the network had failed."""
        pty._ws.abort()

    def test_pty(self):
        with self.sb.pty("bash --norc", cols=100, rows=30) as t:
            t.write("stty size; echo $((6 * 7))-\n")
            self.assertIn(b"30 100", t.expect("42-", WAIT_S))
            t.expect("\x1b[?2004h", WAIT_S)  # readline reads the size and sets it again before it reads: a new one may get lost
            t.resize(90, 20)
            t.write("echo again; stty size\n")
            t.expect("20 90", WAIT_S)
            t.write("sh -c 'echo up; exec sleep 600'\n")  # a shell without a child of its own may miss a ^C
            t.expect("up\r\n", WAIT_S)
            t.interrupt()
            t.expect("\x1b[?2004h", WAIT_S)  # the shell reads again: until then a terminal may drop what is typed
            t.write("echo $?=\n")
            t.expect("130=", WAIT_S)
            self.assertIn(t.id, [s["sessionId"] for s in self.sb.pty_sessions() if s["running"]])
            t.write("exit 5\n")
            self.assertEqual(t.wait(WAIT_S), 5)
            t.read(WAIT_S)
            self.assertEqual(t.read(WAIT_S), b"")
            with self.assertRaises(PtyClosed):
                t.write("too late")

    def test_pty_survives_its_connection(self):
        again = threading.Event()
        with self.sb.pty("bash --norc", on_reconnect=again.set) as t:
            t.write("v=kept; echo set-$v\n")
            t.expect("set-kept", WAIT_S)
            for n in range(2):
                again.clear()
                self.drop(t)
                self.assertTrue(again.wait(WAIT_S))
                t.write(f"echo {n}:$v:{n}\n")
                t.expect(f"{n}:kept:{n}", WAIT_S)
            self.assertEqual(t.reconnects, 2)
            t.kill()
            self.assertEqual(t.wait(WAIT_S), 137)

    def test_pty_attach_and_detach(self):
        got = []
        t = self.sb.pty("cat", session_id="named")
        t.write("hello\n")
        t.expect("hello\r\nhello", WAIT_S)
        t.detach()
        seen = threading.Event()

        def data(piece):
            got.append(piece)
            if b"more\r\nmore" in b"".join(got):
                seen.set()

        with self.sb.attach_pty("named", on_data=data) as u:
            u.write("more\n")
            self.assertTrue(seen.wait(WAIT_S), got)
            self.assertIn(b"hello", b"".join(got))  # the picture
        with self.sb.attach_pty("named") as u:
            u.close()
        with self.assertRaises(NotFoundError):
            self.sb.attach_pty("named")
        self.assertIn("ticket=", self.sb.pty_ticket())

    def test_pty_that_is_gone_does_not_try_for_ever(self):
        with self.sb.pty("sleep 600") as t:
            self.sb._call("DELETE", f"/pty/sessions/{t.id}")
            try:
                t.wait(WAIT_S)  # it heard how it ended, or that it is not there any more
            except (NotFoundError, PtyClosed):
                pass
            self.assertTrue(t._ended or t.exit_code is not None)
