# SPDX-License-Identifier: Apache-2.0
"""code_checks.py - the code interpreter over plain HTTP: cells, results, ends, contexts

Asked twice: of the API over the real agent without a machine (tests/unit/test_api_code.py) and of a server with a real VM
(test_code.py). Who uses it has self.port, self.key and self.vm; kernel(language) skips where a language is missing.
"""
import base64
import http.client
import json
import struct
import threading
import time
import zlib

from stream_checks import Stream

WAIT_S = 180  # for anything at all: the guest may be emulated and the machine busy


def png_size(data):
    """(width, height) of a PNG whose every chunk and row is whole."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    off, pixels, size = 8, b"", None
    while off < len(data):
        n, kind = struct.unpack(">I4s", data[off:off + 8])
        body = data[off + 8:off + 8 + n]
        assert struct.unpack(">I", data[off + 8 + n:off + 12 + n])[0] == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[body[9]]
        elif kind == b"IDAT":
            pixels += body
        off += 12 + n
    assert len(zlib.decompress(pixels)) == size[1] * (1 + size[0] * channels)
    return size


class CodeCalls:
    def kernel(self, language):
        """Skips the test where the language's kernel cannot run."""

    def request(self, method, rest, body=None, user=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        h = {"Authorization": f"Bearer {self.key}"}
        if user:
            h["X-Freestyle-Vm-Linux-User-Id"] = user
        try:
            c.request(method, rest, body=json.dumps(body) if body is not None else None, headers=h)
            r = c.getresponse()
            return r.status, json.loads(r.read())
        finally:
            c.close()

    def code_path(self, rest="", vm=None):
        return f"/v1/vms/{vm or self.vm}/code{rest}"

    def cell(self, code, language="python", vm=None, user=None, **more):
        self.kernel(language)
        if more.get("contextId"):
            language = None
        status, body = self.request("POST", self.code_path(vm=vm), {"language": language, "code": code, **more}, user=user)
        self.assertEqual(status, 200, body)
        return body

    def value(self, code, language="python", **more):
        """The text of the one result of a cell without an error."""
        r = self.cell(code, language, **more)
        self.assertNotIn("error", r)
        self.assertEqual(len(r["results"]), 1, r)
        return r["results"][0]["text/plain"]

    def context(self, language, **more):
        self.kernel(language)
        status, body = self.request("POST", self.code_path("/contexts"), {"language": language, **more})
        self.assertEqual(status, 200, body)
        return body["contextId"]

    def listed(self, ctx):
        status, body = self.request("GET", self.code_path("/contexts"))
        self.assertEqual(status, 200, body)
        return {c["contextId"]: c for c in body["contexts"]}.get(ctx)

    def interrupted(self, ctx, language, code, before, after=lambda: None):
        """The reply of a cell that is interrupted between before() and after()."""
        got = {}
        t = threading.Thread(target=lambda: got.update(self.cell(code, language, contextId=ctx, timeoutMs=WAIT_S * 1000)))
        t.start()
        before()
        self.assertEqual(self.request("POST", self.code_path(f"/contexts/{ctx}/interrupt"))[0], 200)
        after()
        t.join(2 * WAIT_S)
        self.assertEqual((got["error"]["name"], got.get("interrupted"), got.get("timedOut")),
                         ({"python": "KeyboardInterrupt", "ruby": "Interrupt"}.get(language, "Interrupted"), True, None), got)
        return got

    def bash(self, code):
        r = self.cell(code, "bash")
        self.assertNotIn("error", r)
        return r["stdout"].strip()

    def wait_for_cell(self, ctx, state):
        end = time.monotonic() + WAIT_S
        while self.listed(ctx)["waiting"] != 1 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.listed(ctx)["state"], state)

    def interrupt_before_it_begins(self, language, pid, code, begun):
        """Its kernel is stopped: it has been given the cell, and has not begun with it."""
        ctx = self.context(language)
        r = self.cell(pid, language, contextId=ctx)
        number = (r["stdout"] or r["results"][0]["text/plain"]).strip()
        self.bash(f"kill -STOP {number}")
        self.interrupted(ctx, language, code, lambda: self.wait_for_cell(ctx, "busy"), lambda: self.bash(f"kill -CONT {number}"))
        r = self.cell(begun, language, contextId=ctx)
        self.assertNotIn("error", r)
        self.assertIn("not begun", str(r["results"]) + r["stdout"])
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))


class CodeChecks(CodeCalls):
    # ---- every language ----

    def test_python_cells_keep_their_state(self):
        r = self.cell("import math\nx = 6\nprint('out'); import sys; print('err', file=sys.stderr)\nx * 7")
        self.assertEqual((r["stdout"], r["stderr"], r["results"]), ("out\n", "err\n", [{"text/plain": "42"}]))
        again = self.cell("math.floor(x / 4)")
        self.assertEqual(again["results"], [{"text/plain": "1"}])
        self.assertEqual(again["contextId"], r["contextId"])
        self.assertEqual(again["executionCount"], r["executionCount"] + 1)
        self.assertGreaterEqual(again["durationMs"], 0)
        self.assertEqual(self.cell("y = 1")["results"], [])

    def test_javascript(self):
        self.assertEqual(self.value("const a = [1, 2].map(v => v * 2); a", "javascript"), "[ 2, 4 ]")
        r = self.cell("const a = 3; console.log('o'); console.error('e'); await new Promise(r => setTimeout(() => r(a), 5))",
                      "javascript")
        self.assertEqual((r["stdout"], r["stderr"], r["results"]), ("o\n", "e\n", [{"text/plain": "3"}]))
        self.assertEqual(self.cell("({b: [1]})", "javascript")["results"][0]["application/json"], {"b": [1]})
        self.assertEqual(self.value("require('os').platform()", "js"), "'linux'")
        e = self.cell("function f() { throw new TypeError('bad') }\nf()", "javascript")["error"]
        self.assertEqual((e["name"], e["value"]), ("TypeError", "bad"))
        self.assertRegex(e["traceback"], r"^TypeError: bad\n    at f \(cell-\d+:1:22\)\n    at cell-\d+:2:1$")
        e = self.cell("let q = ;", "javascript")["error"]
        self.assertEqual(e["name"], "SyntaxError")
        self.assertNotEqual(self.value("Math.random()", "javascript"), self.value("Math.random()", "javascript"))

    def test_bash(self):
        r = self.cell("x=5; cd /tmp; f() { echo \"f $1 ä\"; }; export Y=1", "bash")
        self.assertNotIn("error", r)
        r = self.cell("echo $x $PWD; f a; env | grep ^Y=; echo e >&2", "bash")
        self.assertEqual((r["stdout"], r["stderr"]), ("5 /tmp\nf a ä\nY=1\n", "e\n"))
        r = self.cell("echo before; (exit 7)", "bash")
        self.assertEqual((r["stdout"], r["error"]["name"], r["error"]["value"]), ("before\n", "ExitStatus", "exit status 7"))
        r = self.cell("exit 3", "bash")
        self.assertEqual(r["error"]["name"], "KernelDied")
        self.assertIn("exit code 3", r["error"]["value"])
        self.assertTrue(r["kernelRestarted"])
        self.assertEqual(self.cell("echo \"x=$x\"", "bash")["stdout"], "x=\n")

    # ---- Python's results ----

    def test_rich_results(self):
        r = self.cell("from IPython.display import *\ndisplay(HTML('<b>x</b>'), Markdown('# a'), Latex('$x$'), JSON({'a': [1]}),\n"
                      "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))")
        self.assertNotIn("error", r)
        got = {k: v for one in r["results"] for k, v in one.items() if k != "text/plain"}
        self.assertEqual(got, {"text/html": "<b>x</b>", "text/markdown": "# a", "text/latex": "$x$",
                               "application/json": {"a": [1]}, "image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg"/>'})

    def test_figures_need_no_call(self):
        r = self.cell("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); print('drawn')")
        self.assertNotIn("error", r)
        pictures = [one["image/png"] for one in r["results"] if "image/png" in one]
        self.assertEqual(len(pictures), 1, r["results"])
        w, h = png_size(base64.b64decode(pictures[0], validate=True))
        self.assertGreater(min(w, h), 100)
        self.assertEqual(self.cell("1")["results"], [{"text/plain": "1"}])  # not shown twice

    def test_tracebacks_without_noise(self):
        e = self.cell("def f():\n    return 1 / 0\nf()")["error"]
        self.assertEqual((e["name"], e["value"]), ("ZeroDivisionError", "division by zero"))
        lines = e["traceback"].splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertRegex(lines[1], r'^  File "<cell \d+>", line 3, in <module>$')
        self.assertEqual(lines[-1], "ZeroDivisionError: division by zero")
        for noise in ("IPython", "python.py", "\x1b"):
            self.assertNotIn(noise, e["traceback"])
        e = self.cell("def broken(")["error"]
        self.assertEqual(e["name"], "SyntaxError")
        e = self.cell("import sys; sys.exit(3)")["error"]
        self.assertEqual((e["name"], e["value"]), ("SystemExit", "3"))

    def test_input_is_refused(self):
        e = self.cell("input('name?')")["error"]
        self.assertIn("input() cannot work here", e["value"])

    def test_shell_and_pip(self):
        r = self.cell("!echo from the shell; echo err >&2\nimport os; os.write(1, b'raw\\n'); os.system('echo child');")
        self.assertEqual((r["stdout"], r["stderr"]), ("from the shell\nraw\nchild\n", "err\n"))
        self.assertNotIn("error", r)

    def test_values_that_have_one_look_only(self):
        """Formatters are not asked for plain values; unless somebody registered one for them."""
        ctx = self.context("python")
        got = self.cell("[1, 'ü', {'a': (1, None)}]", contextId=ctx)["results"]
        self.assertEqual(got, [{"text/plain": "[1, 'ü', {'a': (1, None)}]"}])
        self.cell("f = get_ipython().display_formatter.formatters['text/html']\nf.for_type(int, lambda n: f'<b>{n}</b>')", contextId=ctx)
        self.assertEqual(self.cell("42", contextId=ctx)["results"], [{"text/plain": "42", "text/html": "<b>42</b>"}])
        self.assertEqual(self.cell("42;", contextId=ctx)["results"], [])
        self.assertEqual(self.cell("1; 2", contextId=ctx)["results"], [{"text/plain": "2", "text/html": "<b>2</b>"}])
        r = self.cell("get_ipython().ast_node_interactivity = 'all'", contextId=ctx)
        r = self.cell("print('a')\n1.5\nprint('b')\n2.5", contextId=ctx)
        self.assertEqual(([one["text/plain"] for one in r["results"]], r["stdout"]), (["1.5", "2.5"], "a\nb\n"))
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    def test_await(self):
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'"), "'awaited'")

    # ---- ends ----

    def test_timeout_keeps_the_kernel(self):
        self.cell("kept = 'yes'")
        r = self.cell("import time\nprint('begun')\ntime.sleep(100)", timeoutMs=1500)
        self.assertEqual((r["stdout"], r["error"]["name"], r.get("timedOut")), ("begun\n", "KeyboardInterrupt", True))
        self.assertNotIn("kernelRestarted", r)
        self.assertEqual(self.value("kept"), "'yes'")
        r = self.cell("let kept = 1; while (true) {}", "javascript", timeoutMs=1500)
        self.assertEqual((r["error"]["name"], r.get("timedOut")), ("Interrupted", True))
        self.assertEqual(self.value("kept", "javascript"), "1")
        r = self.cell("kept=1; sleep 100; echo not reached", "bash", timeoutMs=1500)
        self.assertEqual((r["stdout"], r["error"]["name"], r.get("timedOut")), ("", "Interrupted", True))
        self.assertEqual(self.cell("echo $kept", "bash")["stdout"], "1\n")

    def test_interrupt_ignored_is_a_fresh_kernel(self):
        ctx = self.context("python")
        self.cell("gone = 1", contextId=ctx)
        r = self.cell("import time\nwhile True:\n    try:\n        time.sleep(0.1)\n    except KeyboardInterrupt:\n        pass",
                      contextId=ctx, timeoutMs=1000)
        self.assertEqual((r["error"]["name"], r.get("timedOut"), r.get("kernelRestarted")), ("KernelKilled", True, True))
        self.assertEqual(self.cell("gone", contextId=ctx)["error"]["name"], "NameError")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    def test_exit_fork_and_closed_descriptors(self):
        ctx = self.context("python")
        r = self.cell("x = 1\nimport os, sys\nprint('before')\nif os.fork() == 0: print('child')", contextId=ctx)
        self.assertNotIn("error", r)
        r = self.cell("sys.stdout.close()\nos.close(1)\nos.close(2)", contextId=ctx)
        self.assertEqual(self.cell("print('again', x)", contextId=ctx)["stdout"], "again 1\n")
        r = self.cell("print('last words'); sys.stdout.flush(); os._exit(3)", contextId=ctx)
        self.assertEqual((r["stdout"], r["error"]["name"], r.get("kernelRestarted")), ("last words\n", "KernelDied", True))
        self.assertIn("exit code 3", r["error"]["value"])
        r = self.cell("import os; os.closerange(3, 64)\nimport time; time.sleep(60)", contextId=ctx)
        self.assertEqual((r["error"]["name"], r.get("kernelRestarted")), ("KernelDied", True))
        r = self.cell("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", contextId=ctx)
        self.assertIn("SIGSEGV", r["error"]["value"])
        self.assertEqual(self.cell("6 * 7", contextId=ctx)["results"], [{"text/plain": "42"}])
        # between two cells: the next one says that the variables are gone
        self.cell("import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.5), os._exit(1))).start()",
                  contextId=ctx)
        end = time.monotonic() + WAIT_S
        while self.listed(ctx)["state"] != "none" and time.monotonic() < end:
            time.sleep(0.1)
        r = self.cell("6 * 7", contextId=ctx)
        self.assertEqual((r["results"], r.get("kernelRestarted")), ([{"text/plain": "42"}], True))
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    def test_output_is_cut_with_a_marker(self):
        r = self.cell("head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2", "bash")
        self.assertTrue(r["stdoutTruncated"])
        self.assertTrue(r["stdout"].startswith("x" * (1 << 20) + "\n[output cut here: "), len(r["stdout"]))
        self.assertLess(len(r["stdout"]), (1 << 20) + 200)
        self.assertEqual(r["stderr"], "e\n")
        r = self.cell("yes", "bash", timeoutMs=1500)  # for ever
        self.assertEqual((r["error"]["name"], r.get("stdoutTruncated")), ("Interrupted", True))

    def test_a_result_that_is_too_large(self):
        r = self.cell("class Big:\n    def __repr__(self): return 'x' * (20 << 20)\nBig()")
        self.assertIn("result left out", r["results"][0]["text/plain"])

    # ---- interrupts ----

    def test_interrupt_before_it_begins(self):
        self.interrupt_before_it_begins("bash", "echo $$", "begun=1; sleep 1000", "echo ${begun-not begun}")

    def test_interrupt_before_it_begins_javascript(self):
        self.interrupt_before_it_begins("javascript", "process.pid", "await new Promise(() => {}); begun = 1", "globalThis.begun ?? 'not begun'")

    def test_interrupt_before_it_begins_python(self):
        self.interrupt_before_it_begins("python", "import os; os.getpid()", "begun = 1; import time; time.sleep(1000)",
                                        "'begun' if 'begun' in globals() else 'not begun'")

    def test_interrupt_while_the_kernel_starts(self):
        place = self.bash("mktemp -d")
        self.bash(f"echo 'until [[ -e {place}/go ]]; do sleep 0.05; done; unset BASH_ENV' >{place}/wait")
        ctx = self.context("bash", env={"BASH_ENV": f"{place}/wait"})
        self.interrupted(ctx, "bash", "begun=1; sleep 1000", lambda: self.wait_for_cell(ctx, "starting"), lambda: self.bash(f"touch {place}/go"))
        self.assertEqual(self.cell("echo ${begun-not begun}", "bash", contextId=ctx)["stdout"], "not begun\n")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))
        self.bash(f"rm -r {place}")

    def test_interrupt_ends_the_whole_cell(self):
        """Wherever in it it comes, nothing of it runs afterwards."""
        place = self.bash("mktemp -d")
        ctx = self.context("bash")
        for n, code in enumerate(("f() { g; echo f; }; g() { for i in 1 2; do while :; do WAIT; done; done; echo g; }; f; echo end",
                                  "source /dev/stdin <<<'WAIT; echo sourced'; echo end", "x=$(WAIT; echo x); echo end", "(WAIT; echo sub); echo end",
                                  "if WAIT; then echo yes; else echo no; fi", "f() { mkfifo UP.fifo; touch UP; read x <>UP.fifo; echo read; }; f; echo end")):
            up = f"{place}/{n}"
            r = self.interrupted(ctx, "bash", code.replace("WAIT", f"touch {up}; sleep 1000").replace("UP", up),
                                 lambda up=up: self.bash(f"until [[ -e {up} ]]; do sleep 0.05; done"))
            self.assertEqual(r["stdout"], "", code)
        self.assertEqual(self.cell("echo again", "bash", contextId=ctx)["stdout"], "again\n")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))
        self.bash(f"rm -r {place}")

    # ---- streams ----

    def open_stream(self, body):
        return Stream(self.port, "POST", self.code_path(), json.dumps({**body, "stream": True}),
                      {"Authorization": f"Bearer {self.key}"})

    def test_stream(self):
        with self.open_stream({"language": "bash", "code": "echo one; read -t 0.3 < <(sleep 1); echo two >&2; false"}) as s:
            self.assertEqual(s.status, 200)
            events = list(s.events())
        self.assertEqual([e for e, _ in events], ["started", "stdout", "stderr", "end"])
        self.assertEqual(events[1][1], {"data": "one\n", "encoding": "utf8"})
        end = events[-1][1]
        self.assertEqual(end["error"]["name"], "ExitStatus")
        self.assertEqual(end["contextId"], events[0][1]["contextId"])

    def test_stream_comes_while_it_runs_and_ends_with_its_client(self):
        ctx = self.context("bash")
        s = self.open_stream({"code": "kept=1; echo first; sleep 100", "contextId": ctx})
        events = s.events()
        self.assertEqual([next(events)[0], next(events)[0]], ["started", "stdout"])
        self.assertEqual(self.listed(ctx)["state"], "busy")
        s.close()
        self.assertEqual(self.cell("echo $kept", "bash", contextId=ctx)["stdout"], "1\n")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    # ---- contexts ----

    def test_contexts(self):
        ctx = self.context("bash", cwd="/usr", env={"COLOUR": "red"})
        self.assertEqual(self.cell("echo $PWD $COLOUR", "bash", contextId=ctx)["stdout"], "/usr red\n")
        mine = self.listed(ctx)
        self.assertEqual((mine["language"], mine["cwd"], mine["default"], mine["executionCount"], mine["user"]),
                         ("bash", "/usr", False, 1, "root"))
        self.cell("x=1", "bash", contextId=ctx)
        self.assertEqual(self.request("POST", self.code_path(f"/contexts/{ctx}/restart"))[0], 200)
        self.assertEqual(self.cell("echo \"x=$x $COLOUR\"", "bash", contextId=ctx)["stdout"], "x= red\n")
        got = {}
        t = threading.Thread(target=lambda: got.update(first=self.cell("sleep 100.125", "bash", contextId=ctx)))
        t.start()
        end = time.monotonic() + WAIT_S
        while self.listed(ctx)["state"] != "busy" and time.monotonic() < end:
            time.sleep(0.05)
        waits = threading.Thread(target=lambda: got.update(second=self.cell("echo waited", "bash", contextId=ctx)))
        waits.start()
        while self.listed(ctx)["waiting"] != 2 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.request("POST", self.code_path(f"/contexts/{ctx}/interrupt"))[0], 200)
        t.join(WAIT_S)
        waits.join(WAIT_S)
        self.assertEqual((got["first"]["error"]["name"], got["first"]["interrupted"]), ("Interrupted", True))
        self.assertEqual(got["second"]["stdout"], "waited\n")
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{ctx}"))[0], 200)
        self.assertIsNone(self.listed(ctx))
        for verb, rest in (("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
            status, body = self.request(verb, self.code_path(f"/contexts/{ctx}{rest}"))
            self.assertEqual((status, body["code"]), (404, "NOT_FOUND"))
        status, body = self.request("POST", self.code_path(), {"code": "1", "contextId": ctx})
        self.assertEqual((status, body["code"]), (404, "NOT_FOUND"))

    def test_python_contexts_are_their_own(self):
        draw = "import os, random\n(random.random(), os.getpid())"
        one, two = self.context("python"), self.context("python")
        values = [self.value(draw, contextId=c).strip("()").split(", ") for c in (one, two)]
        self.assertEqual(self.request("POST", self.code_path(f"/contexts/{one}/restart"))[0], 200)
        values.append(self.value(draw, contextId=one).strip("()").split(", "))
        for part in (0, 1):  # numbers and processes
            self.assertEqual(len({v[part] for v in values}), 3, values)
        for _ in range(3):  # a process with so much memory takes a moment to end: the cell waits for the next one
            self.value("big = bytearray(256 << 20)\nbig[::4096] = b'x' * 65536\n1", contextId=one)
            self.assertEqual(self.request("POST", self.code_path(f"/contexts/{one}/restart"))[0], 200)
            self.assertEqual(self.value("'big' in globals()", contextId=one), "False")
        self.assertNotIn("error", self.cell("import os", "python", contextId=one))
        self.assertEqual(self.value("os.getsid(0) == os.getpid() and not [d for d in os.listdir('/proc/self/fd') "
                                    "if int(d) > 40]", contextId=one), "True")
        self.assertEqual(self.value("import subprocess\nsubprocess.run(['true']).returncode", contextId=one), "0")
        for c in (one, two):
            self.request("DELETE", self.code_path(f"/contexts/{c}"))

    def test_python_reads_its_variables_when_it_starts(self):
        ctx = self.context("python", cwd="/usr", env={"COLOUR": "red", "PYTHONHASHSEED": "0"})
        same = "import os, subprocess, sys\nint(subprocess.check_output([sys.executable, '-c', 'print(hash(\"a\"))'])) == hash('a')"
        self.assertEqual(self.value(same, contextId=ctx), "True")
        self.assertEqual(self.value("os.getcwd(), os.environ['COLOUR']", contextId=ctx), "('/usr', 'red')")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))

    def test_python_as_another_user(self):
        self.assertEqual(self.value("import os\nos.getresuid(), os.getgroups(), os.environ['USER']", user="nobody"),
                         "((65534, 65534, 65534), [65534], 'nobody')")
        self.assertEqual(self.cell("open('/etc/shadow')", user="nobody")["error"]["name"], "PermissionError")
        ctx = self.cell("1", user="nobody")["contextId"]
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{ctx}"))[0], 200)

    def test_users(self):
        self.kernel("bash")
        self.assertEqual(self.cell("id -un", "bash", user="nobody")["stdout"], "nobody\n")
        self.assertEqual(self.cell("id -un", "bash")["stdout"], "root\n")
        ctx = self.context("bash")
        theirs = self.cell("id -un", "bash", user="nobody")["contextId"]
        status, body = self.request("POST", self.code_path(), {"code": "id", "contextId": ctx}, user="nobody")
        self.assertEqual((status, body["code"]), (404, "NOT_FOUND"))  # root's is not theirs
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{ctx}"), user="nobody")[0], 404)
        seen = self.request("GET", self.code_path("/contexts"), user="nobody")[1]["contexts"]
        self.assertEqual([(c["contextId"], c["user"]) for c in seen], [(theirs, "nobody")])
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{theirs}"))[0], 200)
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{ctx}"), user="root")[0], 200)
        status, body = self.request("POST", self.code_path(), {"language": "bash", "code": "id"}, user="no-such-user")
        self.assertEqual((status, body["code"]), (404, "USER_NOT_FOUND"))

    def test_refusals(self):
        for body in ({"code": "1"}, {"language": "cobol", "code": "1"}, {"language": "python"},
                     {"language": "python", "code": 1}, {"language": "python", "code": "1", "timeoutMs": 0},
                     {"language": "python", "code": "1", "timeoutMs": 700000},
                     {"language": "python", "code": "#" * 300000}):
            status, got = self.request("POST", self.code_path(), body)
            self.assertEqual((status, got["code"]), (400, "BAD_REQUEST"), str(body)[:80])
        for ctx in ("ctx-0", "ctx-99999", "ctx-", "x", "ctx-1x", "ctx-99999999999"):
            status, got = self.request("POST", self.code_path(), {"code": "1", "contextId": ctx})
            self.assertEqual((status, got["code"]), (404, "NOT_FOUND"), ctx)
        status, got = self.request("POST", self.code_path("/contexts"), {"language": "bash", "cwd": "/no/such/directory"})
        self.assertEqual((status, got["code"]), (400, "BAD_REQUEST"))
        status, got = self.request("POST", self.code_path("/contexts"), {"language": "bash", "cwd": "relative"})
        self.assertEqual((status, got["code"]), (400, "BAD_REQUEST"))

    def test_zy_without_the_process_that_forks_kernels(self):
        """If the zygote is killed, contexts start the slow way."""
        kill = ("import os, signal\ndef is_kernel(p):\n    try:\n        words = open(f'/proc/{p}/cmdline').read().split('\\0')\n"
                "    except OSError:\n        return False\n    return len(words) > 1 and words[1].endswith('kernels/python.py')\n"
                "oldest = min((p for p in os.listdir('/proc') if p.isdigit() and is_kernel(p)), "
                "key=lambda p: int(open(f'/proc/{p}/stat').read().rpartition(')')[2].split()[19]))\n"
                "own = int(oldest) == os.getpid()\nown or os.kill(int(oldest), signal.SIGKILL)\nown")
        self.cell(kill)
        ctx = self.context("python")
        self.assertEqual(self.value("6 * 7", contextId=ctx), "42")
        self.request("DELETE", self.code_path(f"/contexts/{ctx}"))
