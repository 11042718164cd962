# SPDX-License-Identifier: Apache-2.0
"""The SSH front, with OpenSSH's programs as peers: the same checks of a real VM and of the agent alone

Whoever inherits this has ssh_port, port, key and vm (an id), and `guest(command)`: what it prints in the VM.
"""
import hashlib
import http.client
import http.server
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from ports import free_port
from tty_client import Tty

# As sshpass and others do, it answers only what asks for a password.
ASKPASS = "#!/bin/sh\ncase $1 in *[Pp]assword*) printf '%s\\n' \"$PANDO_TEST_SECRET\" ;; *) exit 1 ;; esac\n"
STRANGERS_FROM = 24  # connections from one address that have not logged in; server/ssh/ssh_internal.h


class SshBase:
    """How to talk to it; no tests."""
    slow = 60  # seconds for one command

    @property
    def dir(self):
        if "ssh_dir" not in self.__dict__:
            self.ssh_dir = tempfile.mkdtemp(prefix="pando-ssh-")
            self.addCleanup(shutil.rmtree, self.ssh_dir, ignore_errors=True)
        return self.ssh_dir

    def path(self, name, text=None, mode=0o600):
        p = os.path.join(self.dir, name)
        if text is not None:
            with open(p, "w") as f:
                f.write(text)
            os.chmod(p, mode)
        return p

    def opts(self, port_flag="-p", log="ERROR"):
        return ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.path('known')}", "-o",
                f"LogLevel={log}", "-o", "BatchMode=yes", port_flag, str(self.ssh_port)]

    def name(self, user=None, secret=True, vm=None, sep=":"):
        secret = self.key if secret is True else secret
        return f"{vm or self.vm}{'+' + user if user else ''}{sep + secret if secret else ''}"

    def argv(self, *args, **who):
        """ssh to the VM; args may begin with more options"""
        n = next((i for i, a in enumerate(args) if not a.startswith("-") and (i == 0 or not args[i - 1] in OPTIONS_WITH_VALUE)),
                 len(args))
        return ["ssh", *self.opts(), "-l", self.name(**who), *args[:n], "127.0.0.1", *args[n:]]

    def ssh(self, *args, input=None, code=0, env=None, **who):
        r = subprocess.run(self.argv(*args, **who), input=b"" if input is None else input, capture_output=True, timeout=self.slow,
                           env={**os.environ, **(env or {})})
        if code is not None:
            self.assertEqual(r.returncode, code, (args, r.stdout[-500:], r.stderr[-500:]))
        return r

    def out(self, *args, **kw):
        return self.ssh(*args, **kw).stdout.decode()

    def spawn(self, *args, stdin=subprocess.PIPE, **who):
        """A client that stays; ended with the test."""
        p = subprocess.Popen(self.argv(*args, **who), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if p.poll() is None:
                p.kill()
            p.wait()
            for f in (p.stdin, p.stdout, p.stderr):
                if f:
                    f.close()
        self.addCleanup(end)
        return p

    def line(self, p, want, seconds=60):
        """Reads lines of its stdout until one has the word."""
        end = time.monotonic() + seconds
        got = b""
        while want not in got:
            self.assertTrue(select.select([p.stdout], [], [], max(0, end - time.monotonic()))[0], f"no {want!r} in {got!r}")
            b = os.read(p.stdout.fileno(), 4096)
            self.assertTrue(b, f"ended without {want!r}: {got!r} {p.stderr.read() if p.poll() is not None else ''!r}")
            got += b
        return got

    def api(self, method, path, body=None, key=None, status=200):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.request(method, path, body=json.dumps(body) if body is not None else None, headers={"Authorization": f"Bearer {key or self.key}"})
        r = c.getresponse()
        text = r.read()
        c.close()
        self.assertEqual(r.status, status, text)
        return json.loads(text)

    def front(self):
        return self.api("GET", "/v1/health")["ssh"]

    def eventually(self, what, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), end, f"never: {what}")
            time.sleep(0.05)

    def identity(self, users=None):
        """id, token and token id of an identity that may use the VM"""
        i = self.api("POST", "/identity/v1/identities")["id"]
        self.api("POST", f"/identity/v1/identities/{i}/permissions/vm/{self.vm}", {} if users is None else {"allowedUsers": users})
        t = self.api("POST", f"/identity/v1/identities/{i}/tokens")
        return i, t["token"], t["id"]

    def site(self, text=b"from the test"):
        """An HTTP server on a port of this machine."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass
        s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=s.serve_forever, daemon=True).start()
        self.addCleanup(s.server_close)
        self.addCleanup(s.shutdown)
        return s.server_address[1]

    def fetch(self, port, path="/", tries_s=30):
        end = time.monotonic() + tries_s
        while True:
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                c.request("GET", path)
                body = c.getresponse().read()
                c.close()
                return body
            except (OSError, http.client.HTTPException):
                self.assertLess(time.monotonic(), end, f"nothing on port {port}")
                time.sleep(0.1)

    def serve_in_guest(self, text="from the guest"):
        """A port of the guest where an HTTP server answers with the text."""
        script = ("import socket,sys\n"
                  "l=socket.socket(); l.bind(('127.0.0.1',0)); l.listen(8); print(l.getsockname()[1],flush=True)\n"
                  "while 1:\n"
                  "  c=l.accept()[0]; c.recv(4096); b=sys.argv[1]\n"
                  "  c.sendall(('HTTP/1.0 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(b), b)).encode()); c.close()\n")
        p = self.spawn(f"exec python3 -S -c \"{script}\" '{text}'")
        return int(self.line(p, b"\n"))


OPTIONS_WITH_VALUE = {"-L", "-R", "-D", "-W", "-o", "-J", "-S", "-O", "-p", "-l"}


class SshChecks(SshBase):
    big = 50_000_000

    # ---- commands ----

    def test_ssh_command_status_and_streams(self):
        r = self.ssh("echo out; echo err >&2; pwd; id -un; exit 7", code=7)
        self.assertEqual(r.stdout.split(), [b"out", b"/root", b"root"])
        self.assertEqual(r.stderr, b"err\n")
        self.assertEqual(self.ssh("cat", input=bytes(range(256)) * 10).stdout, bytes(range(256)) * 10)
        self.assertEqual(self.out("echo $0 $SSH_CONNECTION").split()[1], "127.0.0.1")
        self.ssh("kill -TERM $$", code=255)  # exit-signal: the client says 255
        self.assertEqual(self.ssh("cd / && (sleep 30 >/dev/null 2>&1 </dev/null &) ; echo done").stdout, b"done\n")

    def test_ssh_shell_without_terminal_is_a_login_shell(self):
        self.assertEqual(self.ssh("-T", input=b"echo $0; exit 3\n", code=3).stdout.strip()[:1], b"-")

    def test_ssh_large_streams_both_ways(self):
        data = random.Random(1).randbytes(self.big)
        want = hashlib.sha256(data).hexdigest()
        self.assertEqual(self.out("tee /tmp/ssh-big | sha256sum", input=data).split()[0], want)
        self.assertEqual(hashlib.sha256(self.ssh("cat /tmp/ssh-big").stdout).hexdigest(), want)
        self.ssh("rm /tmp/ssh-big")

    def test_ssh_new_keys_in_the_middle(self):
        data = os.urandom(4_000_000)
        self.assertEqual(self.ssh("-o", "RekeyLimit=1M", "cat", input=data).stdout, data)

    def test_ssh_reader_that_leaves(self):
        """head closes the pipe: the writer in the guest ends, and so does the connection."""
        p = self.spawn("yes")
        self.line(p, b"y\ny\n")
        p.stdout.close()
        p.stdout = None
        self.assertEqual(p.wait(60), 255)
        self.eventually("no connection", lambda: self.front()["connections"] == 0)

    def test_ssh_environment(self):
        env = {"LC_TEST": "one two", "GIT_AUTHOR_NAME": "somebody", "LD_PRELOAD_": "no", "BASH_ENV": "/no"}
        got = self.out("-o", "SendEnv=LC_* GIT_* LD_* BASH_ENV", "env", env=env)
        self.assertIn("LC_TEST=one two\n", got)
        self.assertIn("GIT_AUTHOR_NAME=somebody\n", got)
        self.assertNotIn("BASH_ENV", got)
        self.assertNotIn("LD_PRELOAD_", got)
        self.assertNotIn(self.key, got)

    # ---- terminals ----

    def test_ssh_terminal_resize_and_interrupt(self):
        t = Tty(self, self.argv("-tt"), rows=31, cols=97)
        t.send("PS1='$ '; stty size; echo T=$TERM.$SSH_TTY.; [ -t 0 ] && echo tty\n")
        t.expect("31 97")
        t.expect("/dev/pts/")
        t.expect("tty\r\n")
        t.expect("$ ")  # readline reads the size and sets it again before it reads: a new one may get lost
        t.size(20, 61)
        t.send("until [ \"$(stty size)\" = '20 61' ]; do sleep 0.1; done; echo re''sized\n")
        t.expect("resized")
        t.send("sh -c 'echo go\"\"ing; exec sleep 1000'\n")  # says so itself, when it is the one to be interrupted
        t.expect("going\r\n")
        t.send("\x03")
        t.expect("^C")
        t.expect("$ ")  # what is typed before may go with the interrupt
        t.send("echo st=$?.\n")
        t.expect("st=130.")
        t.send("exit 9\n")
        self.assertEqual(t.code(), 9)

    def test_ssh_terminal_for_a_command(self):
        t = Tty(self, self.argv("-t", "stty -echo; read x; echo got $x; exit 4"))
        t.send("word\n")
        t.expect("got word")
        self.assertEqual(t.code(), 4)

    # ---- files ----

    def tree(self):
        top = self.path("tree")
        os.makedirs(os.path.join(top, "a/b"), exist_ok=True)
        for name, data in (("one", b"1"), ("a/two", os.urandom(300_000)), ("a/b/three with space", b"\0\1\2"), ("a/empty", b"")):
            with open(os.path.join(top, name), "wb") as f:
                f.write(data)
        os.chmod(os.path.join(top, "one"), 0o751)
        return top

    def same(self, a, b):
        r = subprocess.run(["diff", "-r", a, b], capture_output=True)
        self.assertEqual(r.returncode, 0, r.stdout)

    def copy(self, *argv):
        r = subprocess.run(argv, capture_output=True, timeout=self.slow, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, 0, (argv, r.stdout, r.stderr))
        return r.stdout

    def test_ssh_scp(self):
        there = f"{self.name(sep=',')}@127.0.0.1"
        for more in ([], ["-O"]):
            with self.subTest(more=more):
                self.ssh("rm -rf /tmp/scp-t")
                top, back = self.tree(), self.path("back" + "".join(more))
                self.copy("scp", *self.opts("-P"), *more, "-q", "-r", "-p", top, f"{there}:/tmp/scp-t")
                self.assertEqual(self.out("stat -c %a /tmp/scp-t/one").strip(), "751")
                self.copy("scp", *self.opts("-P"), *more, "-q", "-r", f"{there}:/tmp/scp-t", back)
                self.same(top, back)

    def test_ssh_sftp(self):
        top = self.tree()
        self.ssh("rm -rf /tmp/sftp-t")
        batch = self.path("batch", f"mkdir /tmp/sftp-t\nput {top}/a/two /tmp/sftp-t/two\nrename /tmp/sftp-t/two /tmp/sftp-t/2\n"
                          f"chmod 600 /tmp/sftp-t/2\nln -s 2 /tmp/sftp-t/link\nget /tmp/sftp-t/link {self.path('got')}\nls -l /tmp/sftp-t\n"
                          "rm /tmp/sftp-t/link\n")
        out = self.copy("sftp", *self.opts("-P"), "-b", batch, f"{self.name(sep=',')}@127.0.0.1")
        self.assertIn(b"-rw-------", out)
        self.same(os.path.join(top, "a/two"), self.path("got"))
        self.assertEqual(self.out("ls /tmp/sftp-t").split(), ["2"])

    def test_ssh_rsync(self):
        top, back = self.tree(), self.path("rsynced")
        sh = " ".join(["ssh", *self.opts(), "-l", self.name()])
        self.copy("rsync", "-a", "-e", sh, top + "/", "127.0.0.1:/tmp/rsync-t")
        self.copy("rsync", "-a", "-e", sh, "127.0.0.1:/tmp/rsync-t/", back)
        self.same(top, back)
        self.ssh("rm -rf /tmp/rsync-t")

    # ---- forwarding ----

    def test_ssh_local_forwarding(self):
        there, here = self.serve_in_guest(), free_port()
        self.spawn("-N", "-L", f"{here}:localhost:{there}")
        self.assertEqual(self.fetch(here), b"from the guest")
        for _ in range(10):
            self.assertEqual(self.fetch(here), b"from the guest")
        r = self.ssh("-W", f"127.0.0.1:{there}", input=b"GET / HTTP/1.0\r\n\r\n")
        self.assertTrue(r.stdout.endswith(b"from the guest"), r.stdout)
        # nobody listens there: refused, and the connection lives on
        with socket.create_connection(("127.0.0.1", here)) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            self.assertTrue(s.recv(1000))
        self.assertNotEqual(self.ssh("-W", "127.0.0.1:1", code=None).returncode, 0)

    def test_ssh_dynamic_forwarding(self):
        there, here = self.serve_in_guest(), free_port()
        self.spawn("-N", "-D", str(here))
        self.fetch_ready(here)
        for host in ("localhost", "127.0.0.1", "ip6-localhost-is-not-a-name.invalid"):
            with socket.create_connection(("127.0.0.1", here), timeout=60) as s:
                s.sendall(b"\x05\x01\x00")
                self.assertEqual(s.recv(2), b"\x05\x00")
                s.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + struct.pack(">H", there))
                answer = s.recv(10)
                if host.endswith(".invalid"):
                    self.assertFalse(answer[1:2] == b"\x00" and s.recv(1), "a name nobody knows")
                    continue
                self.assertEqual(answer[1], 0, answer)
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                got = b""
                while b := s.recv(4096):
                    got += b
                self.assertTrue(got.endswith(b"from the guest"), got)

    def fetch_ready(self, port):
        def up():
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return True
            except OSError:
                return False
        self.eventually(f"port {port}", up)

    def get_in_guest(self, port):
        return f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; echo -e \"GET / HTTP/1.0\\r\\n\\r\" >&3; cat <&3' | tail -1"

    def test_ssh_remote_forwarding(self):
        site = self.site()
        port = 20000 + random.randrange(12000)  # below those the kernel gives out
        p = self.spawn("-o", "ExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{site}", "echo up; cat")
        self.line(p, b"up")
        for _ in range(3):
            self.assertEqual(self.guest(self.get_in_guest(port)).strip(), "from the test")
        # taken: the second one is told
        self.ssh("-o", "ExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{site}", "true", code=255)
        p.stdin.close()
        self.assertEqual(p.wait(60), 0)
        end = time.monotonic() + 60  # the server closes it when it has seen the client go
        while self.guest(f"ss -Hltn 'sport = :{port}'").strip():
            self.assertLess(time.monotonic(), end, "the forwarded port stays open")
            time.sleep(0.2)

    def test_ssh_jump(self):
        """Through a VM to another SSH server: this one, whose port is brought into the VM."""
        port = 20000 + random.randrange(12000)  # below those the kernel gives out
        p = self.spawn("-o", "ExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{self.ssh_port}", "echo up; cat")
        self.line(p, b"up")
        conf = self.path("jump.conf", f"Host jump\n HostName 127.0.0.1\n Port {self.ssh_port}\n User {self.name()}\n"
                         f"Host *\n StrictHostKeyChecking no\n UserKnownHostsFile {self.path('known')}\n LogLevel ERROR\n")
        r = subprocess.run(["ssh", "-F", conf, "-J", "jump", "-p", str(port), "-l", self.name(), "127.0.0.1", "echo through; exit 5"],
                           capture_output=True, timeout=self.slow, stdin=subprocess.DEVNULL)
        self.assertEqual((r.returncode, r.stdout), (5, b"through\n"), r.stderr)

    def test_ssh_git(self):
        """A repository in the VM: pushed to from here, and cloned inside through a port that leads back here; no agent, no key."""
        port, top = 20000 + random.randrange(12000), self.path("work")
        env = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"} | {"GIT_SSH_COMMAND": " ".join(["ssh", *self.opts()])}
        url = f"ssh://{self.name(sep=',')}@127.0.0.1"
        self.ssh("rm -rf /tmp/git-t.git /tmp/git-c && git init -q --bare -b main /tmp/git-t.git")
        for args in (["init", "-q", "-b", "main", top], ["-C", top, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "by ssh"],
                     ["-C", top, "push", "-q", f"{url}/tmp/git-t.git", "main"]):
            r = subprocess.run(["git", *args], env=env, capture_output=True, timeout=self.slow, stdin=subprocess.DEVNULL)
            self.assertEqual(r.returncode, 0, (args, r.stderr))
        p = self.spawn("-o", "ExitOnForwardFailure=yes", "-R", f"{port}:127.0.0.1:{self.ssh_port}", "echo up; cat")
        self.line(p, b"up")
        ssh = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        self.guest(f"env -u SSH_AUTH_SOCK GIT_SSH_COMMAND='{ssh}' git clone -q {url}:{port}/tmp/git-t.git /tmp/git-c")
        self.assertEqual(self.guest("git -C /tmp/git-c log --format=%s").strip(), "by ssh")
        self.guest("rm -rf /tmp/git-t.git /tmp/git-c")

    def test_ssh_many_channels_on_one_connection(self):
        control = self.path("control")
        master = self.spawn("-M", "-S", control, "-N")
        self.eventually("a master", lambda: os.path.exists(control))
        self.eventually("one connection", lambda: self.front()["connections"] == 1)
        ps = [self.spawn("-S", control, f"cat >/dev/null; echo {n}; exit {n}") for n in range(8)]
        self.eventually("eight channels", lambda: self.front()["channels"] == 8)
        self.assertEqual(self.front()["connections"], 1)
        for n, p in enumerate(ps):
            self.assertEqual(p.communicate(b"x" * 100_000, timeout=60)[0], b"%d\n" % n)
            self.assertEqual(p.returncode, n)
        self.assertEqual(self.out("-S", control, "echo again"), "again\n")
        subprocess.run(["ssh", "-S", control, "-O", "exit", "x"], capture_output=True, timeout=60)
        master.wait(60)
        self.eventually("no connection", lambda: self.front()["connections"] == 0)

    def test_ssh_editor_connects(self):
        """As VS Code Remote does it: a script on the stdin of a shell starts a server in the background and prints its port;
        then everything goes through -D; the server outlives the connection that started it."""
        here = free_port()
        script = (b"set -e\nd=$(mktemp -d)\ncat >$d/server.py <<'EOF'\n"
                  b"import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n"
                  b"  def do_GET(s):\n    s.send_response(200); s.end_headers(); s.wfile.write(b'editor')\n"
                  b"  def log_message(*a): pass\n"
                  b"h=http.server.ThreadingHTTPServer(('127.0.0.1',0),H)\nprint('Listening on %d' % h.server_address[1], flush=True)\nh.serve_forever()\nEOF\n"
                  b"python3 $d/server.py >$d/log 2>&1 </dev/null &\npid=$!\n"
                  b"until grep -q Listening $d/log; do sleep 0.1; done\n"
                  b"echo \"start: pid=$pid port=$(sed 's/.* //' $d/log) uname=$(uname -s)\"\n")
        p = self.spawn("-T", "-D", str(here), "bash")
        p.stdin.write(script)
        p.stdin.flush()
        said = dict(w.split("=") for w in self.line(p, b"uname=Linux").decode().split("start: ")[1].split())
        self.addCleanup(lambda: self.ssh(f"kill {said['pid']}", code=None))
        port = int(said["port"])

        def ask(proxy):
            with socket.create_connection(("127.0.0.1", proxy), timeout=60) as s:
                s.sendall(b"\x05\x01\x00")
                s.recv(2)
                s.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + struct.pack(">H", port))
                self.assertEqual(s.recv(10)[1], 0)
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                got = b""
                while b := s.recv(4096):
                    got += b
                return got
        self.assertTrue(ask(here).endswith(b"editor"))
        p.kill()  # the network went away
        p.wait()
        self.eventually("the connection is gone", lambda: self.front()["connections"] == 0)
        here = free_port()
        self.spawn("-N", "-D", str(here))
        self.fetch_ready(here)
        self.assertTrue(ask(here).endswith(b"editor"))

    # ---- who ----

    def ask_for_secret(self, secret, *args, code=0, method="password,keyboard-interactive"):
        helper = self.path("askpass", ASKPASS, 0o700)
        env = {**os.environ, "SSH_ASKPASS": helper, "SSH_ASKPASS_REQUIRE": "force", "PANDO_TEST_SECRET": secret}
        argv = self.argv("-o", "NumberOfPasswordPrompts=1", "-o", f"PreferredAuthentications={method}", *args, secret=None)
        argv.insert(1, "-oBatchMode=no")
        r = subprocess.run(argv, capture_output=True, timeout=self.slow, env=env, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_ssh_secret_in_the_name_as_password_or_answer(self):
        self.assertEqual(self.out("echo in"), "in\n")
        r = subprocess.run(["ssh", *self.opts(), f"{self.name(sep=',')}@127.0.0.1", "echo comma"], capture_output=True, timeout=self.slow,
                           stdin=subprocess.DEVNULL)
        self.assertEqual(r.stdout, b"comma\n", r.stderr)
        r = subprocess.run(["ssh", *self.opts(), f"{self.name(user='root')}@127.0.0.1", "echo user"], capture_output=True, timeout=self.slow,
                           stdin=subprocess.DEVNULL)
        self.assertEqual(r.stdout, b"user\n", r.stderr)
        for method in ("password", "keyboard-interactive"):
            self.assertEqual(self.ask_for_secret(self.key, "echo asked", method=method).stdout, b"asked\n")
            self.ask_for_secret(self.key[:-1] + "?", "echo no", method=method, code=255)

    def test_ssh_refusals_look_the_same(self):
        i = self.api("POST", "/identity/v1/identities")["id"]
        none = self.api("POST", f"/identity/v1/identities/{i}/tokens")["token"]
        account = self.api("POST", "/v1/accounts", {"name": f"ssh-{random.randrange(10**9)}"})["id"]
        foreign = self.api("POST", f"/v1/keys?accountId={account}", {})["key"]
        cases = [dict(secret="pando_" + "x" * 40), dict(secret="nonsense"), dict(secret=none), dict(secret=foreign),
                 dict(vm="a" * 20), dict(vm="no-id"), dict(secret=self.key + "x"), dict(user="-oops"), dict(secret=foreign, vm="b" * 20)]
        said = {(r.returncode, r.stdout, r.stderr.replace(c.get("secret", self.key).encode(), b"").replace(
            self.name(**c).split(":")[0].encode(), b"")) for c in cases for r in [self.ssh("true", code=255, **c)]}
        self.assertEqual(len(said), 1, said)
        self.assertNotIn(none, self.log_text())
        self.assertNotIn(foreign, self.log_text())
        records = self.api("GET", "/v1/audit?action=SSH&limit=1000")["records"]
        self.assertTrue(any(r["status"] == 401 for r in records))
        for secret in (none, foreign, self.key):
            self.assertNotIn(secret, json.dumps(records))

    def test_ssh_names_that_are_none(self):
        rng = random.Random(7)
        alphabet = "abcdefgh0123456789+:,@%._-/\\ \"'$()`;&|<>*?~#!=[]{}\x01\x7fäß漢"
        names = ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 80))) for _ in range(6)]
        names += [":", "+", ",", "::", self.vm + "+", self.vm + ":", self.vm + "+:" + self.key, self.vm + "++root:" + self.key,
                  self.vm + "+root+root:" + self.key, self.vm + " :" + self.key, self.vm + ":" + "k" * 1000, "x" * 4000,
                  f"{self.vm}+../root:{self.key}", f"{self.vm}%n%s:{self.key}"]
        for n in names:
            r = subprocess.run(["ssh", *self.opts(), "-o", "User=" + n.replace("%", "%%"), "127.0.0.1", "true"], capture_output=True,
                               timeout=self.slow, stdin=subprocess.DEVNULL)
            self.assertEqual(r.returncode, 255, (n, r.stdout, r.stderr))
        self.assertEqual(self.out("echo alive"), "alive\n")

    def test_ssh_no_such_linux_user(self):
        r = self.ssh("true", user="nosuchuser", code=255)
        self.assertIn(b"nosuchuser", r.stderr)

    # ---- hostile or gone ----

    def test_ssh_client_that_vanishes_frees_everything(self):
        t = Tty(self, self.argv("-tt"))
        t.send("exec sleep 54321\n")
        p = self.spawn("-T", "exec cat >/dev/null # gone-too", stdin=subprocess.PIPE)
        self.eventually("both run", lambda: "sleep 54321" in self.guest("ps axo args") and "cat" in self.guest("ps axo args")
                        and self.front()["channels"] == 2)
        os.kill(t.pid, signal.SIGKILL)
        p.kill()
        self.eventually("no connection", lambda: self.front()["connections"] == 0)
        self.assertEqual(self.front()["channels"], 0)
        self.eventually("the shell was hung up on", lambda: "sleep 54321" not in self.guest("ps axo args"))

    def test_ssh_keep_alives(self):
        self.assertEqual(self.out("-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2", "sleep 4; echo awake"), "awake\n")

    def raw(self):
        s = socket.create_connection(("127.0.0.1", self.ssh_port), timeout=60)
        self.addCleanup(s.close)
        return s

    def test_ssh_bytes_that_are_no_ssh(self):
        rng = random.Random(3)
        packet = b"SSH-2.0-x\r\n" + struct.pack(">IB", 0xffffffff, 4) + b"\x14" * 100
        for data in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 100_000, b"SSH-1.0-old\r\n", b"SSH-2.0-" + b"x" * 100_000, b"\n" * 10_000, packet,
                     b"SSH-2.0-x\r\n" + rng.randbytes(50_000), b"SSH-2.0-x\r\n" + struct.pack(">IB", 35_000, 4) + rng.randbytes(60_000)):
            s = self.raw()
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
            s.close()
        self.eventually("they are gone", lambda: self.front()["connections"] == 0)
        self.assertEqual(self.out("echo alive"), "alive\n")

    def test_ssh_strangers_are_few(self):
        """Connections without a login are bounded, and logging in works again when they end."""
        held = [self.raw() for _ in range(STRANGERS_FROM + 40)]

        def open_ones():
            n = 0
            for s in held:
                s.setblocking(False)
                try:
                    n += s.recv(64) != b""
                except BlockingIOError:
                    n += 1
                except OSError:
                    pass
            return n
        self.eventually("the rest was closed", lambda: self.front()["connections"] <= STRANGERS_FROM)
        self.eventually("some are held", lambda: open_ones() <= STRANGERS_FROM)
        self.assertGreater(self.front()["connections"], 0)
        for s in held:
            s.close()
        self.eventually("all left", lambda: self.front()["connections"] == 0)
        self.assertEqual(self.out("echo alive"), "alive\n")


class SshIdentityChecks(SshBase):
    """Where VMs are in the store: grants are checked against it."""

    def test_ssh_identities(self):
        i, token, token_id = self.identity()
        self.assertEqual(self.out("echo token", secret=token), "token\n")
        _, narrow, _ = self.identity(["nobody"])
        self.ssh("true", secret=narrow, code=255)
        self.ssh("true", secret=narrow, user="root", code=255)
        self.assertNotIn(b"denied", self.ssh("true", secret=narrow, user="nobody", code=None).stderr)
        # a session ends when its token is revoked
        p = self.spawn("echo up; cat", secret=token)
        self.line(p, b"up")
        self.api("DELETE", f"/identity/v1/identities/{i}/tokens/{token_id}")
        self.assertEqual(p.wait(60), 255)
        self.ssh("true", secret=token, code=255)
