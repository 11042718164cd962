# SPDX-License-Identifier: Apache-2.0
"""The asyncio face against a scripted peer: calls, streams, callbacks, and what a cancelled task leaves behind"""
import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
import unittest

from peer import Conn, LIMIT_S, Peer
import pando
from pando import aio
from pando.calls import Aborted

EVENTS = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
HERE = os.path.dirname(os.path.abspath(__file__))


def event(c, name, **data):
    text = f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
    c.send(b"%x\r\n%s\r\n" % (len(text), text))


def stream(c):
    c.head()
    c.send(f"HTTP/1.1 200 x\r\n{EVENTS}\r\n".encode())


def gone(c):
    """The client closed, or cut, its connection."""
    try:
        assert c.sock.recv(1) == b"", "the client sent more"
    except ConnectionError:
        pass


class Aio(unittest.IsolatedAsyncioTestCase):
    def sandbox(self, p):
        return aio.Sandbox(pando.Sandbox("vm1", p.transport))

    async def test_a_call_and_an_error(self):
        def script(c):
            first, _ = c.head()
            assert first.startswith("GET /base/v1/vms/vm1 "), first
            c.reply(200, b'{"id": "vm1", "state": "running"}')
            c.head()
            c.reply(404, b'{"code": "VM_NOT_FOUND", "message": "gone"}')
        with Peer(script) as p:
            self.assertEqual(await self.sandbox(p).state(), "running")
            with self.assertRaises(pando.NotFoundError):
                await self.sandbox(p).info()

    async def test_results_are_faces(self):
        def script(c):
            c.head()
            c.reply(200, b'{"forks": [{"id": "a"}, {"id": "b"}]}')
        with Peer(script) as p:
            forks = await self.sandbox(p).fork(2)
            self.assertEqual([type(f) for f in forks], [aio.Sandbox] * 2)
            self.assertEqual([f.id for f in forks], ["a", "b"])

    async def test_callbacks_run_in_the_loop_and_hold_the_stream_back(self):
        seen, here = [], threading.get_ident()

        async def slow(text):
            await asyncio.sleep(0)
            seen.append((text, threading.get_ident() == here))

        def script(c):
            stream(c)
            for i in range(5):
                event(c, "stdout", data=f"{i}")
            event(c, "exit", statusCode=3, durationMs=1)
            c.send(b"0\r\n\r\n")
        with Peer(script) as p:
            r = await self.sandbox(p).exec("x", on_stdout=slow)
        self.assertEqual((r.exit_code, r.stdout), (3, "01234"))
        self.assertEqual(seen, [(str(i), True) for i in range(5)])

    async def test_an_exception_of_a_callback_ends_the_command(self):
        def script(c):
            stream(c)
            event(c, "stdout", data="x")
            gone(c)

        def wrong(text):
            raise ValueError(text)
        with Peer(script) as p:
            with self.assertRaisesRegex(ValueError, "x"):
                await self.sandbox(p).exec("x", on_stdout=wrong)

    async def test_a_cancelled_task_ends_its_command_at_once(self):
        begun = asyncio.Event()

        def script(c):
            stream(c)
            event(c, "stdout", data="begun")
            gone(c)
        with Peer(script) as p:
            task = asyncio.ensure_future(self.sandbox(p).exec("sleep 600", on_stdout=lambda _: begun.set()))
            await asyncio.wait_for(begun.wait(), LIMIT_S)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.wait_for(task, LIMIT_S)

    async def test_cancelled_before_the_reply(self):
        asked = threading.Event()

        def script(c):
            c.head()
            asked.set()
            gone(c)
        with Peer(script) as p:
            task = asyncio.ensure_future(self.sandbox(p).info())
            await asyncio.get_running_loop().run_in_executor(None, asked.wait, LIMIT_S)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.wait_for(task, LIMIT_S)

    async def test_a_cancelled_call_leaves_other_connections_alone(self):
        """A connection that went back among the idle ones is the next call's, not the cancelled one's."""
        def script(c):
            c.head()
            c.reply(200, b'{"id": "vm1"}')
            c.head()
            c.reply(200, b'{"id": "again"}')
        with Peer(script) as p:
            first = asyncio.ensure_future(self.sandbox(p).info())
            await first
            first.cancel()
            self.assertEqual((await self.sandbox(p).info())["id"], "again")

    async def test_items_and_leaving_early(self):
        def whole(c):
            stream(c)
            event(c, "stdout", data="a")
            event(c, "stderr", data="b")
            event(c, "exit", statusCode=0)
            c.send(b"0\r\n\r\n")

        def endless(c):
            stream(c)
            event(c, "stdout", data="a")
            gone(c)
        with Peer(whole, endless) as p:
            process = aio.Process(pando.Process(pando.Sandbox("vm1", p.transport), "p1"))
            self.assertEqual([i async for i in process.follow()], [("stdout", b"a"), ("stderr", b"b")])
            p.transport.close()
            follow = process.follow()
            async for item in follow:
                self.assertEqual(item, ("stdout", b"a"))
                break
            await follow.aclose()

    async def test_a_watch(self):
        def script(c):
            c.head()
            line = b'{"eventType": "create", "filename": "/x"}\n'
            c.send(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(line), line))
            gone(c)
        with Peer(script) as p:
            async with self.sandbox(p).files.watch("/srv") as changes:
                async for change in changes:
                    self.assertEqual((change.type, change.path), ("create", "/x"))
                    break

    async def test_a_terminal_waits_and_can_be_cancelled(self):
        def script(c):
            c.upgrade()
            c.frame(1, json.dumps({"type": "sessionInfo", "sessionId": "s"}).encode())
            c.frame(2, b"hello")
            while c.frame_in()[1] != 8:
                pass
            c.frame(8, b"\x03\xe8")
        with Peer(script) as p:
            t = await self.sandbox(p).attach_pty("s", reconnect_for=0)
            self.assertEqual(await t.expect("hello"), b"hello")
            task = asyncio.ensure_future(t.read())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.wait_for(task, LIMIT_S)
            await t.detach()

    async def test_many_at_once(self):
        """More than asyncio's own pool has threads: all must be under way before one is answered."""
        n = 60

        class All(Peer):
            def serve(self):
                ends = [self.listener.accept()[0] for _ in range(n)]  # all of them, before any reply
                for sock in ends:
                    with sock:
                        c = Conn(sock)
                        c.head()
                        c.reply(200, b'{"id": "vm1"}', "Connection: close\r\n")
        with All() as p:
            p.listener.listen(n)
            replies = await asyncio.gather(*[self.sandbox(p).info() for _ in range(n)])
        self.assertEqual(len(replies), n)

    async def test_async_with_deletes_what_it_made(self):
        def script(c):
            first, _ = c.head()
            assert first.startswith("POST /base/v1/vms "), first
            c.reply(200, b'{"id": "new"}')
            first, _ = c.head()
            assert first.startswith("DELETE /base/v1/vms/new "), first
            c.reply(200, b"{}")
        with Peer(script) as p:
            async with aio.Sandbox.create(transport=p.transport) as sandbox:
                self.assertEqual(sandbox.id, "new")


class Whole(unittest.TestCase):
    def test_what_is_generated_is_up_to_date(self):
        r = subprocess.run([sys.executable, os.path.join(HERE, "../generate.py"), "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_every_public_method_has_a_face(self):
        for name in ("Sandbox", "Snapshot", "Process", "Context", "Code", "Files", "Pty"):
            face, sync = getattr(aio, name), getattr(pando, name)
            missing = {n for n in vars(sync) if not n.startswith("_")} - set(dir(face))
            self.assertEqual(missing, set(), name)

    def test_arguments_are_the_same(self):
        for name in ("exec", "spawn", "create", "pty", "fork", "rewind", "diff"):
            a, s = (list(inspect.signature(getattr(m.Sandbox, name)).parameters) for m in (aio, pando))
            self.assertEqual(a, s, name)

    def test_aborted_is_an_error_of_this_package(self):
        self.assertTrue(issubclass(Aborted, pando.PandoError))


if __name__ == "__main__":
    unittest.main(verbosity=2)
