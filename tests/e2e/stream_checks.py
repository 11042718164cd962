# SPDX-License-Identifier: Apache-2.0
"""stream_checks.py - exec and its streams, files as JSON, detached processes, over plain HTTP; the base of stream_file_checks.py

Asked twice: of the API over the real agent without a machine (tests/unit/test_api_streams.py) and of a server with a real VM
(test_streams.py). Who uses it has self.port, self.key, self.vm, and self.dir, a directory in the guest that is the test's own.
"""
import base64
import hashlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse

WAIT_S = 90  # for anything at all: the guest may be emulated and the machine busy


def quoted(path):
    return urllib.parse.quote(path, safe="")


class Stream:
    """A reply that is read while it comes."""

    def __init__(self, port, method, path, body=None, headers=None, rcvbuf=None):
        self.c = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        if rcvbuf:
            self.c.sock = socket.socket()
            self.c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
            self.c.sock.settimeout(WAIT_S)
            self.c.sock.connect(("127.0.0.1", port))
        self.c.request(method, path, body=body, headers=headers or {})
        self.r = self.c.getresponse()
        self.status = self.r.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """As a client that goes away: whatever still comes is not read."""
        self.r.close()
        self.c.close()

    def json(self):
        return json.loads(self.r.read())

    def events(self):
        """(event, data) of server-sent events until the end; comments are skipped."""
        name = None
        while True:
            line = self.r.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])

    def lines(self):
        """Objects of an NDJSON stream; blank lines are skipped."""
        while True:
            line = self.r.readline()
            if not line:
                return
            if line.strip():
                yield json.loads(line)


def data_of(event):
    d = event["data"]
    return base64.b64decode(d) if event["encoding"] == "base64" else d.encode()


class StreamChecks:
    def path(self, rest=""):
        return f"/v1/vms/{self.vm}{rest}"

    def head(self, user=None, **more):
        h = {"Authorization": f"Bearer {self.key}", **{k.replace("_", "-"): v for k, v in more.items()}}
        if user:
            h["X-Freestyle-Vm-Linux-User-Id"] = user
        return h

    def stream(self, method, rest, body=None, user=None, rcvbuf=None, **headers):
        if isinstance(body, dict):
            body = json.dumps(body)
        return Stream(self.port, method, self.path(rest), body, self.head(user, **headers), rcvbuf=rcvbuf)

    def call(self, method, rest, body=None, want=200, user=None, **headers):
        with self.stream(method, rest, body, user, **headers) as s:
            data = s.r.read()
            self.assertEqual(s.status, want, data[:500])
            return json.loads(data)

    def refuse(self, status, code, method, rest, body=None, **kw):
        e = self.call(method, rest, body, want=status, **kw)
        self.assertEqual(e["code"], code, e)
        self.assertEqual(e["error"], code)
        self.assertTrue(e["message"])
        return e

    def sh(self, command, user=None):
        r = self.call("POST", "/exec-await", {"command": command, "terminal": None, "timeoutMs": 60000}, user=user)
        self.assertEqual(r["statusCode"], 0, r)
        return r["stdout"].strip()

    def soon(self, what, check):
        end = time.monotonic() + WAIT_S
        while not (found := check()):
            self.assertLess(time.monotonic(), end, f"not in time: {what}")
            time.sleep(0.05)
        return found

    def run_events(self, body, user=None):
        with self.stream("POST", "/exec", body, user=user) as s:
            self.assertEqual(s.status, 200)
            self.assertEqual(s.r.getheader("Content-Type"), "text/event-stream")
            return list(s.events())

    def joined(self, events, name):
        return b"".join(data_of(d) for e, d in events if e == name)

    # ---- section 4: exec-await and files ----

    def test_exec_await(self):
        r = self.call("POST", "/exec-await", {"command": "echo out; echo err >&2; exit 3", "terminal": "t-1", "timeoutMs": None})
        self.assertEqual(r, {"stdout": "out\n", "stderr": "err\n", "statusCode": 3})
        r = self.call("POST", "/exec-await", {"command": "set -e\ncat <<X | tr a-z A-Z\nhey $(echo you)\nX\npwd", "terminal": None,
                                              "timeoutMs": 600000})
        self.assertEqual(r["stdout"], "HEY YOU\n/\n")
        self.refuse(400, "BAD_REQUEST", "POST", "/exec-await", {"command": "true", "timeoutMs": 600001})

    def test_exec_await_times_out_with_what_there_was(self):
        e = self.refuse(408, "EXEC_TIMED_OUT", "POST", "/exec-await",
                        {"command": "echo some; echo more >&2; sleep 300", "terminal": None, "timeoutMs": 1500})
        self.assertEqual((e["timeoutMs"], e["stdout"], e["stderr"]), (1500, "some\n", "more\n"))

    def test_background_children_are_not_awaited(self):
        mark = f"{self.dir}/mark"
        begin = self.sh(f"setsid sh -c 'sleep 2; echo done >{mark}' </dev/null >/dev/null 2>&1 & echo began")
        self.assertEqual(begin, "began")
        self.sh(f"test ! -e {mark}")
        self.soon("the child outlived the exec", lambda: self.sh(f"cat {mark} 2>/dev/null || true") == "done")

    def test_as_another_user(self):
        self.assertEqual(self.sh("id -un; echo $HOME $USER; echo $PATH", user="nobody"),
                         "nobody\n/nonexistent nobody\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        self.refuse(404, "USER_NOT_FOUND", "POST", "/exec-await", {"command": "id"}, user="no-such")
        self.refuse(404, "USER_NOT_FOUND", "POST", "/exec", {"command": "id"}, user="no-such")
        e = self.run_events({"command": "id -un"}, user="nobody")
        self.assertEqual(self.joined(e, "stdout"), b"nobody\n")

    def test_files_to_the_letter(self):
        f = f"/files/{quoted(self.dir + '/a b.txt')}"
        self.assertEqual(self.call("PUT", f, {"content": "", "encoding": "utf8"}), {})
        self.assertEqual(self.call("GET", f)["content"], "")
        binary = bytes(range(256))
        self.call("PUT", f, {"content": base64.b64encode(binary).decode(), "encoding": "base64"})
        got = self.call("GET", f)
        self.assertEqual((got["encoding"], base64.b64decode(got["content"])), ("base64", binary))
        self.call("PUT", f, {"content": "grüße\n", "encoding": "utf8"})
        got = self.call("GET", f)
        self.assertEqual((got["content"], got.get("encoding", "utf8")), ("grüße\n", "utf8"))
        self.sh(f"mkdir -p '{self.dir}/sub'")
        names = {x["name"]: x["kind"] for x in self.call("GET", f"/files/{quoted(self.dir)}")["files"]}
        self.assertEqual((names["a b.txt"], names["sub"]), ("file", "directory"))
        relative = self.call("GET", f"/files/{quoted(self.dir[1:] + '/a b.txt')}")  # from the root
        self.assertEqual(relative["content"], "grüße\n")
        self.refuse(404, "FILE_NOT_FOUND", "GET", f"/files/{quoted(self.dir + '/none')}")
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", f"/files/{quoted(self.dir)}", {"content": "x", "encoding": "utf8"})

    # ---- exec as a stream ----

    def test_stream_events(self):
        events = self.run_events({"command": "echo $V; pwd; cat; echo e >&2; exit 7", "env": {"V": "a=b c"}, "cwd": "/usr",
                                  "stdin": "from stdin\n"})
        self.assertEqual(events[0][0], "started")
        self.assertRegex(events[0][1]["processId"], r"^proc-\d+$")
        self.assertGreater(events[0][1]["pid"], 1)
        self.assertEqual(self.joined(events, "stdout"), b"a=b c\n/usr\nfrom stdin\n")
        self.assertEqual(self.joined(events, "stderr"), b"e\n")
        self.assertEqual((events[-1][0], events[-1][1]["statusCode"]), ("exit", 7))
        self.assertGreaterEqual(events[-1][1]["durationMs"], 0)
        self.assertNotIn("signal", events[-1][1])

    def test_stream_comes_while_it_runs(self):
        with self.stream("POST", "/exec", {"command": f"echo one; until [ -e {self.dir}/go ]; do sleep 0.1; done; echo two"}) as s:
            it = s.events()
            self.assertEqual(next(it)[0], "started")
            self.assertEqual(data_of(next(it)[1]), b"one\n")
            self.sh(f"touch {self.dir}/go")
            self.assertEqual(data_of(next(it)[1]), b"two\n")
            self.assertEqual(next(it)[0], "exit")
            self.assertEqual(list(it), [])

    def test_stream_binary_and_characters(self):
        events = self.run_events({"command": r"printf 'gr\303'; sleep 0.4; printf '\274\303\237e\n'; sleep 0.4; printf '\377\000\n'; "
                                             r"sleep 0.4; printf 'e\342\202'"})
        parts = [d for e, d in events if e == "stdout"]
        self.assertEqual(b"".join(map(data_of, parts)), b"gr\xc3\xbc\xc3\x9fe\n\xff\0\ne\xe2\x82")
        self.assertEqual([d["encoding"] for d in parts if data_of(d).startswith(b"gr")], ["utf8"])
        self.assertEqual([d["encoding"] for d in parts if b"\xff" in data_of(d)], ["base64"])
        self.assertEqual(parts[-1]["encoding"], "base64")  # the end cut a character off

    def test_stream_stdin_base64_and_large(self):
        data = os.urandom(3 << 20)
        events = self.run_events({"command": "sha256sum", "stdin": base64.b64encode(data).decode(), "stdinEncoding": "base64"})
        self.assertEqual(self.joined(events, "stdout").split()[0].decode(), hashlib.sha256(data).hexdigest())
        events = self.run_events({"command": "head -c 3", "stdin": "x" * 2000000})  # does not read it all
        self.assertEqual((self.joined(events, "stdout"), events[-1][1]["statusCode"]), (b"xxx", 0))

    def test_stream_end_by_signal_and_timeout(self):
        e = self.run_events({"command": "kill -KILL $$"})[-1]
        self.assertEqual((e[0], e[1]["statusCode"], e[1]["signal"]), ("exit", 137, "SIGKILL"))
        e = self.run_events({"command": "echo x; sleep 300", "timeoutMs": 1000})
        self.assertEqual(self.joined(e, "stdout"), b"x\n")
        self.assertTrue(e[-1][1]["timedOut"])

    def test_stream_refusals(self):
        for body in ({}, {"command": 1}, {"command": "x", "env": {"a=b": "c"}}, {"command": "x", "env": {"a": 1}},
                     {"command": "x", "cwd": "rel"}, {"command": "x", "cwd": "/no/such"}, {"command": "x", "timeoutMs": 0},
                     {"command": "x", "stdin": "=", "stdinEncoding": "base64"}, {"command": "x", "stdinEncoding": "rot13"},
                     {"command": "x", "detach": "yes"}, {"command": "x", "openStdin": True}):
            with self.subTest(body=body):
                e = self.call("POST", "/exec", body, want=400)
                self.assertEqual(e["code"], "BAD_REQUEST")
        self.refuse(400, "BAD_REQUEST", "POST", "/exec", "{nonsense")

    def test_client_gone_ends_the_command(self):
        s = self.stream("POST", "/exec", {"command": "echo $$; sleep 3000 & sleep 3001"})
        it = s.events()
        pid = next(it)[1]["pid"]
        self.assertEqual(int(data_of(next(it)[1])), pid)
        s.close()
        self.group_ends(pid)

    def group_ends(self, pid):
        """No process of the group is left but those that nobody has reaped yet."""
        self.soon("the group is gone", lambda: self.sh(f"ps -eo pgid=,stat= | awk '$1 == {pid} && $2 !~ /^Z/'") == "")

    def test_slow_client_holds_up_its_own_stream(self):
        with self.stream("POST", "/exec", {"command": "yes 0123456789abcde | head -c 60000000"}, rcvbuf=8192) as slow:
            it = slow.events()
            self.assertEqual(next(it)[0], "started")
            for _ in range(3):  # others are served meanwhile
                self.assertEqual(self.sh("echo here"), "here")
            self.memory_is_bounded()
            n, last = 0, None
            for e, d in it:
                n += len(data_of(d)) if e == "stdout" else 0
                last = e, d
            self.assertEqual((n, last[0], last[1]["statusCode"]), (60000000, "exit", 0))
        self.memory_is_bounded()

    def memory_is_bounded(self):
        with open(f"/proc/{self.server_pid()}/status") as f:
            hwm = int(f.read().split("VmHWM:")[1].split()[0])
        self.assertLess(hwm, 200 << 10, "KiB: the server kept what it should have held up")

    # ---- detached processes ----

    def start(self, command, user=None, **body):
        return self.call("POST", "/exec", {"command": command, "detach": True, **body}, user=user, Accept="application/json")

    def process(self, p):
        return self.call("GET", f"/processes/{p['processId']}")

    def ended(self, p):
        return self.soon("the process ends", lambda: (lambda x: None if x["running"] else x)(self.process(p)))

    def output(self, p, **query):
        with self.stream("GET", f"/processes/{p['processId']}/output?{urllib.parse.urlencode(query)}") as s:
            self.assertEqual(s.status, 200)
            return s.r.read(), int(s.r.getheader("X-Pando-Offset"))

    def forget(self, p):
        self.assertEqual(self.call("DELETE", f"/processes/{p['processId']}"), {})
        self.refuse(404, "NOT_FOUND", "GET", f"/processes/{p['processId']}")

    def test_detached(self):
        p = self.start("echo out; echo err >&2; sleep 1; echo last; exit 5")
        self.assertRegex(p["processId"], r"^proc-\d+$")
        self.refuse(409, "CONFLICT", "DELETE", f"/processes/{p['processId']}")
        out, off = self.output(p, stream="stdout", follow="true")
        self.assertEqual((out, off), (b"out\nlast\n", 0))
        self.assertEqual(self.output(p, stream="stdout", offset=4), (b"last\n", 4))
        self.assertEqual(self.output(p, stream="stderr"), (b"err\n", 0))
        x = self.ended(p)
        self.assertEqual((x["statusCode"], x["signal"], x["stdoutBytes"], x["stderrBytes"], x["attached"], x["user"]),
                         (5, None, 9, 4, False, "root"))
        self.assertEqual(x["command"], "echo out; echo err >&2; sleep 1; echo last; exit 5")
        self.assertRegex(x["startedAt"], r"^20\d\d-\d\d-\d\dT.*Z$")
        self.assertIn(p["processId"], [q["processId"] for q in self.call("GET", "/processes")["processes"]])
        self.refuse(409, "CONFLICT", "POST", f"/processes/{p['processId']}/signal", {"signal": 15})
        self.forget(p)
        self.refuse(404, "NOT_FOUND", "GET", f"/processes/{p['processId']}/output")
        self.refuse(404, "NOT_FOUND", "GET", "/processes/proc-x")
        self.refuse(404, "NOT_FOUND", "GET", "/processes/proc-99999999999")

    def test_detached_is_followed_and_survives_its_client(self):
        s = self.stream("POST", "/exec", {"command": "echo begin; sleep 2; echo end", "detach": True})
        it = s.events()
        p = next(it)[1]
        self.assertEqual(next(it)[1], {"data": "begin\n", "encoding": "utf8", "offset": 0})
        s.close()
        with self.stream("GET", f"/processes/{p['processId']}/output?offset=6&follow=true", Accept="text/event-stream") as s:
            rest = list(s.events())
        self.assertEqual(rest[0], ("stdout", {"data": "end\n", "encoding": "utf8", "offset": 6}))
        self.assertEqual((rest[-1][0], rest[-1][1]["statusCode"]), ("exit", 0))
        self.forget(p)

    def test_detached_signal_reaches_the_group(self):
        p = self.start("trap 'echo got; exit 9' TERM; sh -c 'echo ready; exec sleep 3000' & wait")
        self.soon("it is ready", lambda: self.process(p)["stdoutBytes"])
        self.assertEqual(self.call("POST", f"/processes/{p['processId']}/signal", {"signal": "TERM"}), {})
        self.assertEqual(self.ended(p)["statusCode"], 9)
        self.group_ends(p["pid"])
        self.forget(p)
        p = self.start("sleep 3000")
        self.refuse(400, "BAD_REQUEST", "POST", f"/processes/{p['processId']}/signal", {"signal": "NOPE"})
        self.refuse(400, "BAD_REQUEST", "POST", f"/processes/{p['processId']}/signal", {})
        self.call("POST", f"/processes/{p['processId']}/signal", {"signal": 9})
        x = self.ended(p)
        self.assertEqual((x["signal"], x["statusCode"]), ("SIGKILL", 137))
        self.forget(p)

    def test_detached_stdin(self):
        p = self.start("cat; echo over", openStdin=True)
        rest = f"/processes/{p['processId']}/stdin"
        self.call("POST", rest, b"one\n")
        self.assertTrue(self.process(p)["stdinOpen"])
        self.call("POST", rest + "?eof=true", b"two\n")
        self.assertEqual(self.output(p, follow="true")[0], b"one\ntwo\nover\n")
        self.refuse(409, "CONFLICT", "POST", rest, b"late\n")
        self.forget(p)
        p = self.start("cat", stdin="all of it")
        self.assertEqual(self.output(p, follow="true")[0], b"all of it")
        self.forget(p)

    def test_detached_output_is_a_ring(self):
        size, total = 4 << 20, 10000000
        p = self.start(f"yes 0123456789abcde | head -c {total}")
        x = self.ended(p)
        self.assertEqual((x["stdoutBytes"], x["stdoutStart"]), (total, total - size))
        out, off = self.output(p)
        self.assertEqual((len(out), off), (size, total - size))
        self.assertEqual(out[:64], (b"0123456789abcde\n" * 5)[off % 16:][:64])
        self.assertEqual(self.output(p, offset=total - 16), (b"0123456789abcde\n", total - 16))
        self.assertEqual(self.output(p, offset=total), (b"", total))
        self.forget(p)

    def test_detached_follower_that_is_too_slow(self):
        """Output is overwritten before it is sent: an event's offset shows the gap, raw bytes break off."""
        total = 40000000
        p = self.start(f"until [ -e {self.dir}/flow ]; do sleep 0.1; done; yes 0123456789abcde | head -c {total}")
        rest = f"/processes/{p['processId']}/output?follow=true"
        with self.stream("GET", rest, rcvbuf=8192, Accept="text/event-stream") as e, self.stream("GET", rest, rcvbuf=8192) as raw:
            self.sh(f"touch {self.dir}/flow")
            self.ended(p)
            at, seen, last = 0, 0, None
            for last, d in e.events():
                if last == "stdout":
                    self.assertGreaterEqual(d["offset"], at)
                    at = d["offset"] + len(data_of(d))
                    seen += len(data_of(d))
            self.assertEqual((last, at), ("exit", total))
            self.assertLess(seen, total)
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                raw.r.read()
        self.forget(p)

    def test_detached_timeout(self):
        p = self.start("sleep 3000", timeoutMs=500)
        self.assertTrue(self.ended(p)["timedOut"])
        self.forget(p)

    def test_processes_are_bounded(self):
        first = self.start("true")
        self.ended(first)
        last = None
        for _ in range(64):
            last = self.start("true")
        self.refuse(404, "NOT_FOUND", "GET", f"/processes/{first['processId']}")
        mine = [p for p in self.call("GET", "/processes")["processes"] if not p["attached"]]
        self.assertEqual(len(mine), 64)
        self.assertEqual(mine[-1]["processId"], last["processId"])
        for p in mine:
            self.ended(p)
            self.call("DELETE", f"/processes/{p['processId']}")

    def test_attached_are_listed_while_they_run(self):
        with self.stream("POST", "/exec", {"command": "sleep 3000"}) as s:
            it = s.events()
            p = next(it)[1]
            x = self.process(p)
            self.assertEqual((x["attached"], x["running"], x["pid"]), (True, True, p["pid"]))
            self.refuse(400, "BAD_REQUEST", "GET", f"/processes/{p['processId']}/output")
            self.call("POST", f"/processes/{p['processId']}/signal", {"signal": "SIGTERM"})
            self.assertEqual(next(it)[1]["signal"], "SIGTERM")
        self.refuse(404, "NOT_FOUND", "GET", f"/processes/{p['processId']}")

    # ---- all at once ----

    def test_many_streams_at_once(self):
        bad = []

        def one(i):
            try:
                e = self.run_events({"command": f"for k in 1 2 3 4 5; do echo {i}-$k; done"})
                if self.joined(e, "stdout") != "".join(f"{i}-{k}\n" for k in range(1, 6)).encode():
                    bad.append((i, e))
            except Exception as e:  # noqa: BLE001 - a thread's failure is the test's
                bad.append((i, e))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(bad, [])
