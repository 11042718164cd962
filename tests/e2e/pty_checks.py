# SPDX-License-Identifier: Apache-2.0
"""Terminal sessions over the API: the same checks of a real VM and of the agent alone

Whoever inherits this has port, key and vm (an id).
"""
import http.client
import json
import os
import select
import subprocess
import time
import urllib.parse

from ws import BINARY, Refused, Terminal, WebSocket

SCREEN = os.environ.get("PANDO_TEST_SCREEN") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build/tests/agent/screen")


class PtyBase:
    """How to talk to sessions; no tests."""

    def auth(self, user=None):
        h = {"Authorization": f"Bearer {self.key}"}
        if user:
            h["X-Freestyle-Vm-Linux-User-Id"] = user
        return h

    def ask(self, method, path, body=None, user=None, vm=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.request(method, f"/v1/vms{'/' if vm or self.vm else ''}{vm or self.vm}{path}", body=json.dumps(body) if body is not None else None,
                  headers=headers if headers is not None else self.auth(user))
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, json.loads(text)

    def pty(self, path="", user=None, vm=None, headers=None, **query):
        q = urllib.parse.urlencode({"cols": 80, "rows": 24, **query}, quote_via=urllib.parse.quote)
        t = Terminal(self.port, f"/v1/vms/{vm or self.vm}/pty{path}?{q}",
                     headers=self.auth(user) if headers is None else headers)
        self.addCleanup(t.close)
        return t

    def attach(self, session, **kw):
        return self.pty(f"/sessions/{session}", **kw)

    def sessions(self, **kw):
        status, j = self.ask("GET", "/pty/sessions", **kw)
        self.assertEqual(status, 200, j)
        return {s["sessionId"]: s for s in j["sessions"]}

    def kill(self, session, **kw):
        return self.ask("DELETE", f"/pty/sessions/{session}", **kw)

    def refused(self, status, code, path, headers=None, user=None, **query):
        with self.assertRaises(Refused) as e:
            self.pty(path, headers=headers, user=user, **query)
        self.assertEqual((e.exception.status, e.exception.code), (status, code), e.exception)
        return e.exception.json

    def eventually(self, true, seconds=30):
        deadline = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), deadline, "it never became true")
            time.sleep(0.05)


    def drained(self, t):
        """What came until now."""
        try:
            while t.buf or select.select([t.sock], [], [], 0.2)[0]:
                t.step(1)
        except TimeoutError:
            pass  # it was a ping, or the rest comes later
        return t.out

    def looks(self, data, cols, rows):
        """What a terminal that is not ours (libvterm's own screen, tests/agent/screen.c) shows after these bytes."""
        r = subprocess.run([SCREEN, str(cols), str(rows)], input=data, capture_output=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.decode("utf-8", "replace")

    def assert_same_look(self, straight, session, cols=80, rows=24):
        """A client attached from the beginning sees the same as one that only gets the picture."""
        seen = {}

        def same():
            late = self.attach(session, cols=cols, rows=rows)
            while not late.frames:
                late.step()
            late.close()
            seen["picture"] = self.looks(late.frames[0], cols, rows)
            seen["straight"] = self.looks(self.drained(straight), cols, rows)
            return seen["picture"] == seen["straight"]
        try:
            self.eventually(same, 60)
        except AssertionError:
            self.assertEqual(seen["picture"], seen["straight"])
        return seen["straight"]


class PtyChecks(PtyBase):
    def test_pty_open_type_and_exit(self):
        t = self.pty(exec="sh", sessionId="first", cols=101, rows=37)
        self.assertEqual(t.id, "first")
        t.send("echo A$((40+2))Z; stty size; echo T=$TERM.\n")
        for word in ("A42Z", "37 101", "T=xterm-256color."):
            t.expect(word)
        t.say(type="resize", cols=90, rows=20)
        t.send("stty size\n")
        t.expect("20 90")
        one = self.sessions()["first"]
        self.assertEqual((one["running"], one["cols"], one["rows"], one["exec"], one["attachedCount"], one["user"], one["exitCode"],
                          one["exitedAtMs"], one["suspended"]), (True, 90, 20, "sh", 1, "root", None, None, False))
        self.assertLess(abs(one["createdAtMs"] / 1000 - time.time()), 3600)
        t.send("exit 7\n")
        self.assertEqual(t.end(), 7)
        self.assertEqual(t.closed[0], 1000)
        one = self.sessions()["first"]  # kept for a minute
        self.assertEqual((one["running"], one["exitCode"], one["attachedCount"]), (False, 7, 0))
        self.assertGreaterEqual(one["exitedAtMs"], one["createdAtMs"])
        late = self.attach("first")
        self.assertEqual(late.end(), 7)
        self.assertEqual(self.kill("first"), (200, {"sessionId": "first", "exitCode": 7}))
        self.assertNotIn("first", self.sessions())

    def test_pty_login_shell(self):
        t = self.pty()
        self.assertRegex(t.id, r"^pty-\d+$")
        t.send("shopt -q login_shell && echo lo''gin; pwd; echo $0 $HOME; logout\n")
        t.expect("login")
        t.end()

    def test_pty_survives_a_lost_connection_and_shows_its_screen(self):
        t = self.pty(exec="sh", sessionId="lost")
        t.send("PS1='> '; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line-$i; done; "
               "printf 'gr\\303\\274n \\346\\274\\242\\345\\255\\227 \\033[1;31mr%s\\033[0m.\\n' ed\n")
        t.expect("r".encode() + b"ed\x1b[0m.")
        t.sock.close()  # no close frame
        a = self.attach("lost")
        a.expect("> ")
        first = a.frames[0]  # one message, whatever its size
        self.assertTrue(all(f"line-{i}\r\n".encode() in first for i in (1, 2, 150, 300)))
        self.assertIn("grün 漢字 ".encode() + b"\x1b[0;1;31mred\x1b[0m.", first)
        a.send("echo s''till\n")
        a.expect("still")
        self.kill("lost")
        self.assertEqual(a.end(), 137)

    def test_pty_two_clients_and_the_smaller_window(self):
        a = self.pty(exec="sh", sessionId="two", cols=100, rows=40)
        b = self.attach("two", cols=60, rows=50)
        b.send("stty size\n")
        a.expect("40 60")
        b.expect("40 60")
        self.assertEqual(self.sessions()["two"]["attachedCount"], 2)
        b.close()
        self.eventually(lambda: self.sessions()["two"]["cols"] == 100)
        a.send("exit\n")
        self.assertEqual(a.end(), 0)

    def test_pty_signals(self):
        t = self.pty(exec="trap 'echo GOT' INT; echo R; while :; do sleep 0.1; done")
        t.expect("R")
        t.say(type="signal", signal="SIGINT")
        t.expect("GOT")
        t.say(type="what", ever=1)
        t.frame(1, b"not json")
        t.say(type="signal", signal="SIGKILL")
        self.assertEqual(t.end(), 137)

    def test_pty_refusals_come_before_the_upgrade(self):
        self.refused(404, "SESSION_NOT_FOUND", "/sessions/none")
        body = self.refused(400, "INVALID_SESSION_ID", "", sessionId="a/b")
        self.assertEqual(body["sessionId"], "a/b")
        self.refused(400, "INVALID_SESSION_ID", "/sessions/" + "x" * 65)
        self.refused(400, "INVALID_PARAMETERS", "", cols=0)
        self.refused(400, "INVALID_PARAMETERS", "", cols="x")
        self.refused(404, "USER_NOT_FOUND", "", user="nobody-here")
        self.refused(401, "UNAUTHORIZED_ERROR", "", headers={})
        t = self.pty(exec="cat", sessionId="taken")
        self.assertEqual(self.refused(409, "SESSION_ALREADY_EXISTS", "", sessionId="taken")["vmId"], self.vm)
        self.refused(403, "SESSION_USER_MISMATCH", "/sessions/taken", user="nobody")
        self.assertEqual(self.kill("taken", user="nobody")[1]["code"], "SESSION_USER_MISMATCH")
        self.assertEqual(self.ask("GET", "/pty")[0], 400)  # no WebSocket
        with self.assertRaises(Refused) as e:
            WebSocket(self.port, f"/v1/vms/{self.vm}/pty", headers={**self.auth(), "Sec-WebSocket-Version": "12"})
        self.assertEqual(e.exception.status, 400)
        self.assertEqual(self.kill("taken")[0], 200)
        self.assertEqual(t.end(), 137)
        self.assertEqual(self.kill("taken")[0], 404)

    def test_pty_users(self):
        a = self.pty(exec="sh", sessionId="mine", user="nobody")
        b = self.pty(exec="cat", sessionId="roots")
        a.send("id -un; tty >/dev/null && echo has-tty; : > $(tty) && echo may-write\n")
        for word in ("nobody\r\n", "has-tty\r\n", "may-write\r\n"):
            a.expect(word)
        self.assertEqual(set(self.sessions(user="nobody")) & {"mine", "roots"}, {"mine"})
        self.assertEqual(set(self.sessions()) & {"mine", "roots"}, {"mine", "roots"})
        for s in ("mine", "roots"):
            self.assertEqual(self.kill(s)[0], 200)
        self.assertEqual((a.end(), b.end()), (137, 137))

    def test_pty_tickets(self):
        status, j = self.ask("POST", "/pty/tickets", {})
        self.assertEqual(status, 200, j)
        path = j["url"].split(f":{self.port}", 1)[1]
        self.assertTrue(j["url"].startswith("ws://") and path.endswith(j["ticket"]))
        self.refused(401, "UNAUTHORIZED", "", headers={}, ticket="pandott_" + "x" * 42)
        page = {"Origin": "https://page.example"}
        t = Terminal(self.port, path + "&exec=sh&sessionId=by-ticket", headers=page)
        self.addCleanup(t.close)
        t.send("echo h''i\n")
        t.expect("hi")
        self.refused(401, "UNAUTHORIZED", "", headers={}, ticket=j["ticket"])  # once
        one = self.ask("POST", "/pty/tickets", {"sessionId": "by-ticket", "origin": "https://page.example"})[1]["ticket"]
        two = self.ask("POST", "/pty/tickets", {"sessionId": "by-ticket", "origin": "https://page.example"})[1]["ticket"]
        three = self.ask("POST", "/pty/tickets", {"sessionId": "other"})[1]["ticket"]
        self.refused(401, "UNAUTHORIZED", "/sessions/by-ticket", headers={"Origin": "https://evil.example"}, ticket=one)
        self.refused(401, "UNAUTHORIZED", "/sessions/by-ticket", headers={}, ticket=three)
        a = self.attach("by-ticket", headers=page, ticket=two)
        a.expect("hi")
        self.assertEqual(self.ask("GET", f"/pty/sessions?ticket={two}", headers={})[0], 401)  # not a key
        self.assertEqual(self.ask("POST", "/pty/tickets", {"ttlSeconds": 601})[0], 400)
        self.assertEqual(self.ask("POST", "/pty/tickets", {"sessionId": "a b"})[1]["code"], "INVALID_SESSION_ID")
        short = self.ask("POST", "/pty/tickets", {"ttlSeconds": 1})[1]["ticket"]
        time.sleep(1.2)  # what is awaited is time itself
        self.refused(401, "UNAUTHORIZED", "", headers={}, ticket=short)
        self.kill("by-ticket")
        self.assertEqual((t.end(), a.end()), (137, 137))

    def test_pty_bad_clients(self):
        t = self.pty(exec="cat", sessionId="bad")
        for what in (lambda w: w.frame(BINARY, b"x" * (2 << 20)), lambda w: w.frame(BINARY, b"unmasked", mask=False),
                     lambda w: w.frame(11, b"?"), lambda w: w.frame(0, b"no beginning"), lambda w: w.sock.sendall(b"\xff" * 64)):
            w = self.attach("bad")
            try:
                what(w)
                w.end()
                self.assertIn(w.closed and w.closed[0], (None, 1002, 1009))
            except ConnectionError:
                pass
        t.send("fine\n")
        t.expect("fine\r\nfine")
        self.kill("bad")
        self.assertEqual(t.end(), 137)

    def test_pty_flood_with_a_slow_client(self):
        lines = getattr(self, "flood_lines", 200000)
        slow = self.pty(exec=f"stty raw -echo; echo READY; read x; seq 1 {lines}; echo; echo THE-END", sessionId="flood")
        slow.expect("READY\n")
        fast = self.attach("flood")
        fast.expect("READY")
        at = len(fast.out)
        n = len(fast.frames)
        fast.send("\n")
        self.assertEqual(fast.end(timeout=120), 0)
        got = b"".join(fast.frames[n:])
        want = b"".join(b"%d\n" % i for i in range(1, lines + 1))
        self.assertTrue(want in fast.out[at:] or want in got, f"{len(got)} bytes of {len(want)} came: {got[:100]!r}")
        self.assertEqual(slow.end(timeout=120), 0)
        self.assertIn(b"THE-END", slow.out)

    def test_pty_pictures_look_like_a_straight_run(self):
        t = self.pty(exec="sh", sessionId="straight")
        t.send("PS1='> '; printf '\\033[1;31mr\\033[7md\\033[0m \\033[38;5;208mo\\033[48;2;1;2;3md\\033[m gr\\303\\274n e\\314\\201 "
               "\\346\\274\\242\\345\\255\\227 \\360\\237\\230\\200\\n\\033[4;9mline\\033[m\\033[3;40Hthere\\033[10;1Hdone\\n'\n")
        t.expect("done\r\n> ")
        self.assertIn("漢字", self.assert_same_look(t, "straight"))
        t.send("i=0; while [ $i -lt 90 ]; do i=$((i+1)); printf '%s \\346\\274\\242\\t|%077d\\n' $i $i; done; echo e''nd\n")
        t.expect("end\r\n> ")
        self.assert_same_look(t, "straight")
        t.send("exit\n")
        t.end()

    def test_pty_large_input_arrives_whole(self):
        n = 300000
        t = self.pty(exec=f"stty raw -echo; echo READY; head -c {n} | md5sum", sessionId="paste")
        t.expect("READY\n")
        import hashlib
        data = bytes(33 + i % 90 for i in range(n))
        t.send(data)
        t.expect(hashlib.md5(data).hexdigest())
        self.assertEqual(t.end(), 0)

    def test_pty_full_screen_program(self):
        with_less = self.pty(exec="seq 1 500 | less -S", sessionId="less", rows=10)
        with_less.expect("\x1b[?1049h")
        with_less.expect("9\r\n")
        a = self.attach("less", rows=10)
        a.expect("\x1b[?25h")
        self.assertIn(b"\x1b[?1049h", a.frames[0])
        self.assertIn(b"9\r\n", a.frames[0])
        a.send("G")
        a.expect("500")
        a.send("q")
        self.assertEqual((a.end(), with_less.end()), (0, 0))
        self.assertIn(b"\x1b[?1049l", a.out)
