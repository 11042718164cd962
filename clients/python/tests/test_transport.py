# SPDX-License-Identifier: Apache-2.0
"""Requests, replies that break, errors, keys"""
import io
import json
import os
import tempfile
import unittest
from unittest import mock

from peer import LIMIT_S, Peer
from pando import (ApiError, AuthError, ConflictError, ConnectionFailed, ExecTimeout, NotFoundError, PandoError, QuotaError, Sandbox,
                   StreamBroken, Transport, UnavailableError)
from pando.errors import from_reply
from pando.instavm import gigabytes, power_of_two
from pando.transport import wait_socket

OK = b'{"id":"x"}'


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


EVENTS = b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"


class Requests(unittest.TestCase):
    def test_a_connection_is_used_again(self):
        seen = []

        def script(c):
            for _ in range(3):
                seen.append(c.head()[0])
                c.reply(200, OK)

        with Peer(script) as p:
            sandbox = Sandbox("a/b", p.transport)
            for _ in range(3):
                self.assertEqual(sandbox.info(), {"id": "x"})
        self.assertEqual(seen, ["GET /base/v1/vms/a%2Fb HTTP/1.1"] * 3)

    def test_a_connection_that_was_closed_is_not(self):
        def once(c):
            c.head()
            c.reply(200, OK)

        with Peer(once, once) as p:
            p.transport.call("GET", "/one")
            self.assertTrue(wait_socket(p.transport._idle[0][0].sock, False, LIMIT_S))  # its end has come
            p.transport.call("POST", "/two", {})

    def test_a_connection_that_waited_too_long_is_not(self):
        """The server may be about to close it, and a POST cannot be repeated."""
        def stays(c):
            c.head()
            c.reply(200, OK)
            self.assertEqual(c.sock.recv(1), b"")  # nothing more comes

        with Peer(stays, stays) as p, mock.patch("pando.transport.IDLE_S", 0):
            p.transport.call("GET", "/one")
            p.transport.call("POST", "/two", {})
            p.transport.close()

    def test_a_post_is_not_repeated(self):
        def once_and_away(c):
            c.head()
            c.reply(200, OK)
            c.head()  # the second request is taken and never answered

        with Peer(once_and_away) as p:
            p.transport.call("GET", "/one")
            with self.assertRaises(ConnectionFailed):
                p.transport.call("POST", "/two", {})

    def test_a_create_is_repeated_with_one_key(self):
        keys = []

        def dies(c):
            keys.append(c.head()[1]["idempotency-key"])

        def lives(c):
            _, h = c.head()
            keys.append(h["idempotency-key"])
            body = json.loads(c.body)
            self.assertEqual(body, {"template": {"vcpuCount": 2, "snapshotId": "sc-1"}, "idleTimeoutSeconds": None, "name": "n"})
            c.reply(200, OK)

        with Peer(dies, lives) as p:
            sandbox = Sandbox.create(name="n", vcpus=2, snapshot="sc-1", idle_timeout=None, transport=p.transport)
            self.assertEqual(sandbox.id, "x")
        self.assertEqual(len(set(keys)), 1)

    def test_replies_that_are_no_replies(self):
        for reply in (b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: 50\r\n\r\nshort"):
            with Peer(lambda c: (c.head(), c.send(reply))) as p:
                with self.assertRaises(PandoError):
                    p.transport.call("POST", "/x")
        with Peer(lambda c: (c.head(), c.reply(200, b"<html>"))) as p:
            with self.assertRaisesRegex(PandoError, "a Pando server"):
                p.transport.call("GET", "/x")

    def test_nobody_there(self):
        with Peer() as p:
            pass
        with self.assertRaisesRegex(ConnectionFailed, "is pandod running"):
            p.transport.call("GET", "/x")


class Streams(unittest.TestCase):
    def test_exec(self):
        def script(c):
            c.head()
            whole = (b'event: started\ndata: {"processId":"p","pid":1}\n\n: alive\n\n'
                     b'event: stdout\ndata: {"data":"a","encoding":"utf8"}\n\n'
                     b'event: stdout\ndata: {"data":"w7w=","encoding":"base64"}\n\n'
                     b'event: exit\ndata: {"statusCode":2,\ndata: "durationMs":1500}\n\n')
            c.send(EVENTS)
            for i in range(0, len(whole), 7):  # cut anywhere
                c.send(chunk(whole[i:i + 7]))
            c.send(b"0\r\n\r\n")

        said = []
        with Peer(script) as p:
            r = Sandbox("v", p.transport).exec("x", on_stdout=said.append)
        self.assertEqual((r.exit_code, r.stdout, r.duration, r.ok), (2, "aü", 1.5, False))
        self.assertEqual("".join(said), "aü")

    def test_output_is_bounded(self):
        def script(c):
            c.head()
            c.send(EVENTS)
            for _ in range(10):
                c.send(chunk(b'event: stdout\ndata: {"data":"%s","encoding":"utf8"}\n\n' % (b"x" * 1000)))
            c.send(chunk(b'event: exit\ndata: {"statusCode":0}\n\n') + b"0\r\n\r\n")

        said = []
        with Peer(script) as p:
            r = Sandbox("v", p.transport).exec("x", on_stdout=said.append, max_output=1500)
        self.assertEqual((len(r.stdout), r.truncated, sum(map(len, said))), (1500, True, 10000))

    def test_an_end_without_an_exit(self):
        for end in (b"0\r\n\r\n", b""):
            with Peer(lambda c: (c.head(), c.send(EVENTS + chunk(b'event: stdout\ndata: {"data":"a"}\n\n') + end))) as p:
                with self.assertRaises(StreamBroken):
                    Sandbox("v", p.transport).exec("x")

    def test_the_vm_goes_away(self):
        gone = chunk(b'event: error\ndata: {"code":"VM_NOT_RUNNING","message":"suspended"}\n\n')
        with Peer(lambda c: (c.head(), c.send(EVENTS + gone))) as p:
            with self.assertRaises(ConflictError) as e:
                Sandbox("v", p.transport).exec("x")
        self.assertEqual(e.exception.code, "VM_NOT_RUNNING")

    def test_a_file_that_is_cut_off_does_not_appear(self):
        cut = b"HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\nonly this"
        with tempfile.TemporaryDirectory() as d, Peer(lambda c: (c.head(), c.send(cut)), lambda c: (c.head(), c.send(cut))) as p:
            files = Sandbox("v", p.transport).files
            with self.assertRaises(StreamBroken):
                files.download("/f", os.path.join(d, "f"))
            self.assertEqual(os.listdir(d), [])
            with self.assertRaises(StreamBroken):
                files.read("/f")

    def test_a_refused_upload_says_why(self):
        def script(c):
            c.head()
            c.reply(404, b'{"code":"FILE_NOT_FOUND","message":"no directory"}', "Connection: close\r\n")
            while c.sock.recv(1 << 20):
                pass

        with Peer(script) as p:
            with self.assertRaises(NotFoundError) as e:
                Sandbox("v", p.transport).files.write("/no/f", io.BytesIO(bytes(300000)))
        self.assertEqual(e.exception.message, "no directory")


class Errors(unittest.TestCase):
    def test_classes(self):
        for status, code, kind in ((401, "UNAUTHORIZED", AuthError), (403, "FORBIDDEN", AuthError), (404, "VM_NOT_FOUND", NotFoundError),
                                   (410, "VM_DELETED", NotFoundError), (409, "CONFLICT", ConflictError),
                                   (403, "TOTAL_VM_LIMIT_EXCEEDED", QuotaError), (429, "SESSION_CAP_REACHED", QuotaError),
                                   (503, "INSUFFICIENT_SWAP", UnavailableError), (408, "EXEC_TIMED_OUT", ExecTimeout),
                                   (500, "INTERNAL_ERROR", ApiError)):
            e = from_reply(status, {"code": code, "message": "why", "extra": 1}, "trace")
            self.assertIs(type(e), kind)
            self.assertEqual((e.status, e.code, e.message, e.body["extra"], e.trace_id), (status, code, "why", 1, "trace"))
            self.assertIn("why", str(e))

    def test_bodies_of_any_kind(self):
        for body in (None, b"", b"\xff", [], "text", {}, {"code": None}):
            self.assertEqual(from_reply(502, body).code, "HTTP_502")


class Settings(unittest.TestCase):
    def test_where_and_who(self):
        with tempfile.TemporaryDirectory() as d, mock.patch.dict(os.environ, {"PANDO_DATA_DIR": d}, clear=True):
            with self.assertRaisesRegex(PandoError, "PANDO_API_KEY"):
                Transport()
            with open(os.path.join(d, "api-key"), "w") as f:
                f.write("operator\n")
            self.assertEqual(Transport().auth, {"Authorization": "Bearer operator"})
            self.assertEqual(Transport().url, "http://127.0.0.1:8787")
            with self.assertRaises(PandoError):  # that key is not for strangers
                Transport("http://example.com")
            os.environ.update(FREESTYLE_API_KEY="f", FREESTYLE_API_URL="https://h:99/p/")
            t = Transport()
            self.assertEqual((t.host, t.port, t.tls, t.target("/x", {"a": True, "b": None})), ("h", 99, True, "/p/x?a=true"))
            self.assertEqual(t.auth, {"Authorization": "Bearer f"})
            self.assertEqual(Transport(access_token="tok").auth, {"X-Freestyle-Identity-Access-Token": "tok"})
            for bad in ("ftp://x", "nonsense"):
                with self.assertRaises(PandoError):
                    Transport(bad, "k")

    def test_sizes(self):
        self.assertEqual([gigabytes(n) for n in (1, 512, 1024, 1025, 2048, 4096, 5000)], [1, 1, 1, 2, 2, 4, 8])
        self.assertEqual([power_of_two(n) for n in (1, 2, 3, 4, 5)], [1, 2, 4, 4, 8])


if __name__ == "__main__":
    unittest.main()
