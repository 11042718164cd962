# SPDX-License-Identifier: Apache-2.0
"""Terminals whose connection breaks, against a scripted server"""
import threading
import unittest

from peer import LIMIT_S, Peer
from pando import NotFoundError, PtyClosed, Sandbox
from pando.websocket import BINARY, CLOSE, TEXT

INFO = b'{"type":"sessionInfo","sessionId":"pty-1"}'
EXITED = b'{"type":"exited","exitCode":3}'


def gone(c):
    c.head()
    c.reply(410, b'{"code":"SESSION_EXPIRED","message":"it ended"}')


class Terminals(unittest.TestCase):
    def exits(self, c, want, first=b""):
        """Attached: takes what must come, then the program ends."""
        line, _ = c.upgrade()
        c.frame(TEXT, INFO)
        if first:
            c.frame(BINARY, first)
        for w in want:
            self.assertEqual(c.frame_in()[1:], w)
        c.frame(TEXT, EXITED)
        c.frame(CLOSE, b"\x03\xe8")
        c.frame_in()
        return line

    def test_typed_while_the_connection_was_away(self):
        lines = []

        def breaks(c):
            lines.append(c.upgrade()[0])
            c.frame(TEXT, INFO)
            c.frame(BINARY, b"one")

        def again(c):
            lines.append(self.exits(c, [(BINARY, b"late")], b"two"))

        with Peer(breaks, again) as p:
            t = Sandbox("v", p.transport).pty("sh", cols=90, session_id="x")
            self.assertEqual(t.expect("one", LIMIT_S), b"one")
            self.assertEqual(t.expect("two", LIMIT_S), b"two")
            t.write("late")
            self.assertEqual((t.wait(LIMIT_S), t.reconnects, t.id), (3, 1, "pty-1"))
        self.assertEqual(lines, ["GET /base/v1/vms/v/pty?cols=90&rows=24&exec=sh&sessionId=x HTTP/1.1",
                                 "GET /base/v1/vms/v/pty/sessions/pty-1?cols=90&rows=24 HTTP/1.1"])

    def test_a_callback_types_while_the_connection_breaks(self):
        """It runs on the thread that attaches again: it must not wait for that."""
        made = threading.Event()

        def answer(data):
            if data == b"question":
                made.wait(LIMIT_S)
                t._ws.abort()
                t.write("answer")

        def asks(c):
            c.upgrade()
            c.frame(TEXT, INFO)
            c.frame(BINARY, b"question")
            c.sock.recv(1)  # its end

        with Peer(asks, lambda c: self.exits(c, [(BINARY, b"answer")])) as p:
            t = Sandbox("v", p.transport).pty(on_data=answer)
            made.set()
            self.assertEqual(t.wait(LIMIT_S), 3)

    def test_an_error_of_a_callback_is_not_lost(self):
        def bad(_):
            raise ZeroDivisionError

        with Peer(lambda c: (c.upgrade(), c.frame(TEXT, INFO), c.frame(BINARY, b"x"), c.sock.recv(1))) as p:
            t = Sandbox("v", p.transport).pty(on_data=bad)
            with self.assertRaises(ZeroDivisionError):
                t.wait(LIMIT_S)

    def test_what_cannot_be_attached_to(self):
        def breaks(c):
            c.upgrade()
            c.frame(TEXT, INFO)

        with Peer(breaks, gone) as p:
            t = Sandbox("v", p.transport).pty()
            with self.assertRaises(NotFoundError):
                t.wait(LIMIT_S)
            with self.assertRaises(PtyClosed):
                t.write("x")
        with Peer(breaks) as p:
            t = Sandbox("v", p.transport).pty(reconnect_for=0)
            with self.assertRaises(PtyClosed):
                t.read(LIMIT_S)

    def test_a_detached_one_does_not_come_back(self):
        got = []

        def script(c):
            c.upgrade()
            c.frame(TEXT, INFO)
            got.append(c.frame_in()[1])
            c.frame(CLOSE, b"")

        with Peer(script) as p:
            t = Sandbox("v", p.transport).attach_pty("pty-1")
            t.detach()
            self.assertEqual(t.read(LIMIT_S), b"")
            self.assertFalse(t._thread.is_alive())
        self.assertEqual(got, [CLOSE])

    def test_unread_output_is_bounded(self):
        import pando.pty as module
        before, module.BUFFER_MAX = module.BUFFER_MAX, 1000
        self.addCleanup(setattr, module, "BUFFER_MAX", before)

        def script(c):
            c.upgrade()
            c.frame(TEXT, INFO)
            for i in range(10):
                c.frame(BINARY, bytes([i]) * 300)
            c.frame(TEXT, EXITED)
            c.frame(CLOSE, b"")
            c.frame_in()

        with Peer(script) as p:
            t = Sandbox("v", p.transport).pty()
            self.assertEqual(t.wait(LIMIT_S), 3)
            data = t.read(LIMIT_S)
        self.assertEqual((len(data), data[-300:], t.dropped), (1000, bytes([9]) * 300, 2000))


if __name__ == "__main__":
    unittest.main()
