# SPDX-License-Identifier: Apache-2.0
"""The pando command against a real server and real VMs: what people type, on pipes and on terminals"""
import base64
import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from case import AS_MAKE_RUN, Case, limit
from harness import wait_for
from pando_tool import PANDO, Pando

WAIT_S = 60  # for something to show up
# 2 x 1 pixels, red and blue
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGP4zwAE/wEHAAH/4iOeWQAAAABJRU5ErkJggg=="


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, argv, env, cols=100, rows=30):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, env)
        self.seen = b""
        self.size(cols, rows)

    def size(self, cols, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text if isinstance(text, bytes) else text.encode())

    def expect(self, text):
        """Waits for the text and forgets what came until then."""
        want, end = text.encode(), time.monotonic() + WAIT_S
        while want not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} within {WAIT_S} s in {self.seen[-2000:]!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                assert data, f"ended before {text!r}: {self.seen[-2000:]!r}"
                self.seen += data
        before, self.seen = self.seen.split(want, 1)
        return before.decode("utf-8", "replace")

    def end(self):
        """Its exit status, after what it still had to say."""
        stop = time.monotonic() + WAIT_S
        while time.monotonic() < stop:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    time.sleep(0.05)
        raise AssertionError(f"does not end: {self.seen[-2000:]!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        os.close(self.fd)


class Cli(Pando, Case):
    server_env = AS_MAKE_RUN
    limit_s = 150
    keeps_specs = True

    def terminal(self, *args, **kw):
        t = Terminal([PANDO, *args], self.env, **kw)
        self.addCleanup(t.close)
        return t

    # ---- who and where ----

    def test_a_login(self):
        plain = {"PANDO_DATA_DIR": "", "PANDO_LISTEN": ""}
        url = f"http://127.0.0.1:{self.s.port}"
        self.assertIn("UNAUTHORIZED", self.pando("login", url, input="pando_wrong\n", env=plain, code=4)[1])
        config = os.path.join(self.home, ".config/pando/config")
        self.assertFalse(os.path.exists(config), "a key that does not work is not kept")
        self.assertIn(url, self.out("login", url + "/", input=self.s.key() + "\n", env=plain))
        self.assertEqual(os.stat(config).st_mode & 0o777, 0o600)
        account = json.loads(self.out("whoami", "--json", env=plain))["accountId"]
        self.assertIn(account, self.out("whoami", env=plain))
        shown = self.out("config", env=plain)
        self.assertIn("pando login", shown)
        self.assertNotIn(self.s.key(), shown)
        elsewhere = {"PANDO_API_URL": "http://127.0.0.1:1", "PANDO_DATA_DIR": "/nonexistent", "PANDO_LISTEN": ""}
        self.assertIn("no API key", self.pando("whoami", env=elsewhere, code=4)[1])
        self.assertIn("no server at", self.pando("whoami", env={**elsewhere, "PANDO_API_KEY": "x"}, code=3)[1])
        self.out("config", "set", "images", "none")
        self.pando("config", "set", "images", "woodcut", code=2)
        self.out("logout", env=plain)
        self.assertNotIn(self.s.key(), open(config).read())

    # ---- VMs ----

    def test_b_create_and_names(self):
        cls = type(self)
        cls.vm = self.out("vm", "create", "--name", "web", "--idle", "never").strip()
        self.assertRegex(self.out("vm", "list"), rf"{self.vm} +web +running")
        self.assertEqual(self.json("vm", "get", "web")["id"], self.vm)
        self.assertEqual(self.json("vm", "get", self.vm[:6])["id"], self.vm)
        self.assertIn("pando vm list", self.pando("vm", "get", "nobody", code=1)[1])
        self.assertIn(self.vm, self.out("__complete", "--", "vm", "get", self.vm[:3]))
        self.assertIn("POWER_OF_TWO", self.pando("vm", "resize", "web", "--cpu", "3", code=1)[1])
        self.pando("vm", "resize", "web", code=2)

    def test_c_exec(self):
        out, err = self.pando("vm", "exec", "web", "echo out; echo err >&2; exit 7", code=7)
        self.assertEqual((out, err), ("out\n", "err\n"))
        self.assertEqual(self.out("vm", "exec", "web", "printf", "%s|", "a b", "$HOME", "-l"), "a b|$HOME|-l|")
        self.assertEqual(self.out("vm", "exec", "-e", "A=1", "-w", "/tmp", "-u", "nobody", "web", "--", "sh", "-c",
                                  "echo $A $PWD $(id -un)"), "1 /tmp nobody\n")
        self.assertEqual(self.out("vm", "exec", "web", "cat", input="héllo\n"), "héllo\n")
        self.pando("vm", "exec", "web", "kill -9 $$", code=137)
        done = json.loads(self.out("vm", "exec", "--json", "web", "echo x; exit 3", code=3))
        self.assertEqual((done["stdout"], done["statusCode"]), ("x\n", 3))
        self.assertIn("timed out", self.run_any("vm", "exec", "-t", "1s", "web", "sleep 60")[1])

    def run_any(self, *args):
        """(status, stderr), and the status is not 0."""
        r = subprocess.run([PANDO, *args], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(r.returncode, 0)
        return r.returncode, r.stderr

    def start(self, *args, **kw):
        """A run that goes on; ended with the test."""
        p = subprocess.Popen([PANDO, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.home, **kw)

        def end():
            if p.poll() is None:
                p.kill()
            p.wait()
            for f in (p.stdin, p.stdout, p.stderr):
                if f and not f.closed:
                    f.close()
        self.addCleanup(end)
        return p

    def test_d_exec_goes_on(self):
        """stdin while it runs, signals, a reader that leaves; nothing of it stays in the VM."""
        p = self.start("vm", "exec", "web", "while read x; do echo got $x; done; echo end", stdin=subprocess.PIPE)
        for word in (b"one", b"two"):
            p.stdin.write(word + b"\n")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), b"got " + word + b"\n")
        p.stdin.close()
        self.assertEqual(p.stdout.readline(), b"end\n")
        self.assertEqual(p.wait(WAIT_S), 0)
        big = os.urandom(1 << 20) * 12  # more than fits into one request
        r = subprocess.run([PANDO, "vm", "exec", "web", "sha256sum | cut -c1-64"], env=self.env, input=big, capture_output=True,
                           timeout=120)
        self.assertEqual(r.stdout.decode().strip(), hashlib.sha256(big).hexdigest(), r.stderr)
        p = self.start("vm", "exec", "-n", "web", "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), b"caught\n")
        self.assertEqual(p.wait(WAIT_S), 9)
        p = self.start("vm", "exec", "-n", "web", "echo ready; exec sleep 4321")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.terminate()
        self.assertEqual(p.wait(WAIT_S), 143)
        p = self.start("vm", "exec", "-n", "web", "yes")
        self.assertEqual(p.stdout.readline(), b"y\n")
        p.stdout.close()
        self.assertEqual(p.wait(WAIT_S), 141)
        wait_for("the commands are gone", lambda: self.s.run(self.vm, "pgrep -x 'yes|sleep' -a | grep -v 0.1").code == 1, WAIT_S)

    def test_e_cp(self):
        top = os.path.join(self.home, "in/sub")
        os.makedirs(top)
        data = os.urandom(3 << 20)
        with open(os.path.join(top, "b i g"), "wb") as f:
            f.write(data)
        with open(os.path.join(self.home, "in/run.sh"), "w") as f:
            f.write("#!/bin/sh\necho ran $1\n")
        os.chmod(os.path.join(self.home, "in/run.sh"), 0o755)
        os.symlink("run.sh", os.path.join(self.home, "in/link"))
        self.out("cp", "in", "web:/srv")  # is there: in/ goes into it
        self.assertEqual(self.s.sh(self.vm, "/srv/in/link x; stat -c %s '/srv/in/sub/b i g'"), f"ran x\n{len(data)}")
        self.out("cp", "web:/srv/in", "back")  # is not there: the new name
        self.assertEqual(open(os.path.join(self.home, "back/sub/b i g"), "rb").read(), data)
        self.assertEqual(os.readlink(os.path.join(self.home, "back/link")), "run.sh")
        self.out("cp", "in/run.sh", "web:/tmp/r")
        self.assertEqual(self.s.sh(self.vm, "stat -c %a /tmp/r"), "755")
        self.out("cp", "web:/tmp/r", ".")
        self.assertEqual(os.stat(os.path.join(self.home, "r")).st_mode & 0o777, 0o755)
        self.out("cp", "-", "web:/tmp/from stdin", input="piped")
        self.assertEqual(self.out("cp", "web:/tmp/from stdin", "-"), "piped")
        self.s.sh(self.vm, "mkdir -p /tmp/evil; cp /bin/true /tmp/evil/suid; chmod 4755 /tmp/evil/suid; ln -s /etc /tmp/evil/out")
        self.out("cp", "web:/tmp/evil", ".")
        self.assertEqual(os.stat(os.path.join(self.home, "evil/suid")).st_mode & 0o7000, 0)
        self.assertIn("no file '/nope'", self.pando("cp", "web:/nope", ".", code=1)[1])
        self.pando("cp", "nope", "web:/tmp", code=1)
        self.pando("cp", "a", "b", code=2)

    # ---- terminals ----

    def test_f_pty(self):
        t = self.terminal("vm", "pty", "-s", "work", "web", cols=90, rows=20)
        t.expect("# ")
        t.type("stty size; x=kept\n")
        t.expect("20 90")
        t.expect("# ")  # readline reads the size and sets it again before it reads: a new one may get lost
        t.size(70, 25)
        t.type("sleep 1; stty size\n")
        t.expect("25 70")
        t.type(b"\x1dd")
        t.expect("--attach work")
        self.assertEqual(t.end(), 0)
        self.assertRegex(self.out("vm", "pty", "--list", "web"), r"work +yes")
        t = self.terminal("vm", "pty", "--attach", "work", "web")
        t.expect("25 70")  # the screen as it was
        self.s.kill9_pandod()
        t.type("echo $x-$((40 + 2))\n")
        t.expect("kept-42")
        t.type("exit 5\n")
        self.assertEqual(t.end(), 5)
        t = self.terminal("vm", "pty", "-s", "other", "web", "echo started; cat")
        t.expect("started")
        self.out("vm", "pty", "web", "--close", "other")
        self.assertEqual(t.end(), 137)
        self.assertIn("SESSION_NOT_FOUND", self.pando("vm", "pty", "web", "--attach", "nobody", code=1)[1])
        self.assertIn("3\n", self.out("vm", "pty", "web", input="echo $((1+2)); exit 4\n", code=4).replace("\r", ""))

    @limit(240)
    def test_g_pty_sleeps_with_its_vm(self):
        """A suspended VM stays suspended until a key is typed, and that key is not lost."""
        t = self.terminal("vm", "pty", "-s", "night", "web")
        t.expect("# ")
        self.out("vm", "suspend", "web")
        t.expect("the VM is suspended")
        self.assertEqual(self.s.state(self.vm), "suspended")
        t.type("e")  # wakes it, and is the first letter of what follows
        wait_for("it is awake", lambda: self.s.state(self.vm) == "running", 120)
        t.type("cho awake$((1+1))\n")
        t.expect("awake2")
        self.assertEqual(self.s.state(self.vm), "running")
        t.type(b"\x1dk")
        self.assertEqual(t.end(), 137)

    # ---- code ----

    def test_h_code(self):
        self.assertEqual(self.out("code", "web", "-e", "x = 20\nprint('hi')\nx + 1"), "hi\n21\n")
        self.assertEqual(self.out("code", "web", input="x * 2"), "40\n")
        self.assertIn("ZeroDivisionError", self.pando("code", "web", "-e", "1/0", code=1)[1])
        self.assertEqual(self.out("code", "web", "-l", "js", "-e", "[1,2].map(n => n * 2).length"), "2\n")
        show = f"import base64; from IPython.display import Image; Image(base64.b64decode('{PNG}'))"
        self.assertIn("[saved as ./pando-1.png]", self.out("code", "web", "-e", show))
        with open(os.path.join(self.home, "pando-1.png"), "rb") as f:
            self.assertEqual(f.read(), base64.b64decode(PNG))
        self.assertIn("\x1bP0;1q\"1;1;2;1", self.out("code", "web", "--images", "sixel", "-e", show))
        self.assertIn(f"\x1b_Ga=T,f=100,m=0;{PNG}", self.out("code", "web", "--images", "kitty", "-e", show))
        cell = json.loads(self.out("code", "web", "-e", "x", "--json"))
        self.assertEqual(cell["results"][0]["text/plain"], "20")

    def test_ha_contexts(self):
        js = self.json("code", "web", "-l", "js", "-e", "var k = 7")["contextId"]
        self.assertEqual(self.out("code", "web", "-c", js, "-e", "k * 6"), "42\n")  # it knows its language
        self.assertIn("--list", self.pando("code", "web", "-c", "ctx-99", "-e", "1", code=1)[1])
        self.assertRegex(self.out("code", "web", "--list"), rf"{js} +javascript")
        before = self.json("code", "web", "--list")
        self.assertEqual(self.out("code", "web", "--new", "-l", "bash", "-e", "echo own"), "own\n")
        self.assertEqual(self.json("code", "web", "--list"), before, "a context of its own ends with the command")
        self.pando("code", "-c", js, "-e", "1", code=2)
        self.out("code", "web", "-u", "nobody", "-l", "bash", "-e", "w=kept")
        t = self.terminal("code", "web", "-l", "bash")
        for line, answer in (("w=gone; echo set", "set\r\n"), (".restart", "a new kernel"), ('echo "[$w]"', "[]\r\n")):
            t.expect("sh> ")
            t.type(line + "\n")
            t.expect(answer)
        t.expect("sh> ")  # a key for the editor, not for the terminal
        t.type("\x04")
        self.assertEqual(t.end(), 0)
        self.assertEqual(self.out("code", "web", "-u", "nobody", "-l", "bash", "-e", "echo $w"), "kept\n")

    def test_i_code_prompt(self):
        t = self.terminal("code", "web")
        t.expect("py> ")
        t.type("def f():\n")
        t.expect("... ")
        t.type("    return x + 22\n\n")
        t.expect("py> ")
        t.type("f()\n")
        t.expect("42")
        t.expect("py> ")
        t.type("nonsense\x03")
        t.expect("^C")
        t.expect("py> ")
        t.type("print('up'); import time; time.sleep(600)\n")
        t.expect("up\r\n")
        t.type("\x03")
        t.expect("KeyboardInterrupt")
        t.expect("py> ")
        t.type("x\n")
        t.expect("20")
        t.type(".vm\n")
        t.expect(self.vm)
        t.expect("py> ")
        self.s.kill9_pandod()
        t.type("x\n")
        t.expect("py> ")  # the connection may have been the old server's: that is said, and is not the end
        t.type("x + 1\n")
        t.expect("21\r\n")
        t.expect("py> ")
        t.type("\x04")
        self.assertEqual(t.end(), 0)
        history = os.path.join(self.home, ".local/state/pando/history-python")
        self.assertEqual(os.stat(history).st_mode & 0o777, 0o600)
        self.assertIn("return", open(history).read())

    # ---- past and relatives ----

    @limit(240)
    def test_j_snapshot_fork_rewind_diff_tree(self):
        before = self.out("vm", "snapshot", "web", "--name", "before").strip()
        self.s.sh(self.vm, "echo new >/srv/new; rm /srv/in/run.sh")
        diff = self.out("vm", "diff", "web", "before", "--path", "/srv")
        self.assertRegex(diff, r"(?m)^\+ +4  /srv/new$")
        self.assertRegex(diff, r"(?m)^- .*/srv/in/run.sh$")
        child = self.out("vm", "fork", "web").strip()
        self.assertEqual(self.out("code", child, "-e", "x"), "20\n")
        self.assertEqual(self.json("vm", "get", "web-1")["id"], child)
        self.out("vm", "set", "web-1", "--name", "web")
        self.assertIn("matches 2 VMs", self.pando("vm", "get", "web", code=1)[1])
        tree = self.out("tree")
        self.assertRegex(tree, r"template pt-\w+")
        self.assertRegex(tree, rf"snapshot before {before}")
        self.assertRegex(tree, rf"● web {child} running")
        self.assertTrue(self.out("tree", env={"LC_ALL": "C"}).isascii())
        self.assertIn(child, json.dumps(self.json("tree", self.vm)))
        self.out("vm", "delete", child)
        self.assertIn(before, self.out("vm", "rewind", "web", "before", "--drop"))
        self.assertEqual(self.s.run(self.vm, "test -e /srv/new").code, 1)
        self.assertRegex(self.out("snapshot", "list"), rf"{before} +before +ready")
        self.out("snapshot", "rename", "before", "then")
        self.assertEqual(self.json("snapshot", "get", "then")["snapshotId"], before)
        self.assertIn("deleted", self.out("snapshot", "delete", "then"))

    def test_k_logs_and_stats(self):
        self.assertIn("snapshot", self.out("vm", "logs", "web").lower())
        self.assertTrue(self.json("vm", "logs", "web", "-n", "2")["logs"])
        lines = self.out("vm", "stats", "web", "-n", "2", "-i", "200ms").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[2], r"^running +\d")
        self.assertEqual(json.loads(self.out("vm", "stats", "web", "-n", "1", "--json"))["state"], "running")
        p = self.start("vm", "logs", "web", "-f", stdin=subprocess.DEVNULL)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(WAIT_S), 130)

    @limit(240)
    def test_l_create_from_a_spec(self):
        spec = {"additionalFiles": {"/srv/spec": {"content": "made\n"}},
                "systemd": {"services": [{"name": "mark", "mode": "oneshot", "exec": ["/bin/sh -c 'sleep 2; touch /srv/mark'"]}]}}
        path = os.path.join(self.home, "spec.json")
        with open(path, "w") as f:
            json.dump(spec, f)
        out, err = self.pando("vm", "create", "-f", path)
        vm = out.strip()
        self.assertEqual(self.s.sh(vm, "cat /srv/spec; ls /srv/mark"), "made\n/srv/mark")
        self.assertRegex(err, r"(?m)^\d{4}-\d\d-\d\dT\S+  .*", "the build's log")
        self.out("vm", "delete", vm)
        with open(path, "w") as f:
            json.dump({"systemd": {"services": [{"name": "bad", "mode": "oneshot", "exec": ["/bin/false"]}]}}, f)
        said = self.pando("vm", "create", "-f", path, code=1)[1]
        self.assertIn("VM_SETUP_FAILED", said)
        self.assertIn("pando vm create --snapshot sc-", said)
        self.assertIn("line 1", self.pando("vm", "create", "-f", "-", input="{nonsense", code=2)[1])

    # ---- run ----

    @limit(240)
    def test_m_run(self):
        with open(os.path.join(self.home, "a.py"), "w") as f:
            f.write("import sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(6)\n")
        self.assertEqual(self.out("run", "a.py", "one", "-x", input="data", code=6), "['one', '-x'] data\n")
        with open(os.path.join(self.home, "a.ts"), "w") as f:
            f.write("import { readFileSync, type PathLike } from 'node:fs';\nenum Status { Bad = 7 }\nconst n: number = await 41;\n"
                    "console.log(n + 1, process.argv.slice(2), readFileSync(0, 'utf8'));\nprocess.exit(Status.Bad);\n")
        self.assertEqual(self.out("run", "a.ts", "one", "-x", input="data", code=7), "42 [ 'one', '-x' ] data\n")
        self.assertIn("a.ts", self.pando("run", "-l", "ts", "-", input="const os = require('os') as any; throw new Error('a.ts')", code=1)[1])
        self.assertIn("-l", self.pando("run", "-", input="x", code=2)[1])
        p = self.start("run", "--copy", "in", "--", "sh", "-c", "ls in; exec sleep 4321", stdin=subprocess.DEVNULL)
        self.assertEqual([p.stdout.readline() for _ in range(3)], [b"link\n", b"run.sh\n", b"sub\n"])
        self.assertEqual(len(self.s.vms()), 2)
        p.terminate()
        self.assertEqual(p.wait(WAIT_S), 143)
        self.assertEqual(list(self.s.vms()), [self.vm], "VMs of run are gone")

    def test_n_life(self):
        self.assertIn("suspended", self.out("vm", "suspend", "web"))
        self.assertIn("runs", self.out("vm", "start", "web"))
        t = self.terminal("vm", "pty", "web")
        t.expect("# ")
        self.assertIn("stopped", self.out("vm", "kill", "web"))
        t.expect("has ended meanwhile")
        self.assertEqual(t.end(), 1)
        self.assertEqual(self.json("code", "web", "--list"), {"contexts": []})  # and is not booted for that
        self.assertEqual(self.s.state(self.vm), "stopped")
        said = self.pando("vm", "delete", "web", "nobody", code=1)
        self.assertEqual(said[0], f"{self.vm} deleted\n")
        self.assertEqual(self.json("vm", "list")["vms"], [])
