#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_ssh_process.py SERVE_AGENT [TEST...] - a process per SSH connection: it dies, it is taken over, it is walled in"""
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from forced_call import SYS_MOUNT, make_it_call  # noqa: E402
from served import KERNELS  # noqa: E402
from ssh_checks import SshBase  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SERVE = sys.argv[1]
LIMIT_S = 120
WALLS = unittest.skipUnless(os.environ.get("SSH_WALLS", "1") == "1", "built with a sanitizer, which needs what the walls forbid")


class Stand(SshBase):
    @classmethod
    def begin(cls, **env):
        cls.log = tempfile.TemporaryFile()
        cls.proc = subprocess.Popen([SERVE, "--ssh", KERNELS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=cls.log, text=True,
                                    env={**os.environ, "SERVE_LOG": "1", **env})
        words = cls.proc.stdout.readline().split()
        if len(words) == 4:
            cls.ssh_port, cls.port, cls.key = int(words[0]), int(words[1]), words[2]
        return len(words) == 4

    @classmethod
    def end(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        cls.proc.stdout.close()
        text = cls.log_text()
        cls.log.close()
        return code, text

    @classmethod
    def log_text(cls):
        cls.log.seek(0)
        return cls.log.read().decode(errors="replace")

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)
        self.addCleanup(signal.alarm, 0)

    def figures(self):
        """connections, channels, processes that ended badly"""
        self.proc.stdin.write("status\n")
        self.proc.stdin.flush()
        words = [int(w) for w in self.proc.stdout.readline().split()]
        assert self.proc.stdout.readline() == "ok\n"
        return words

    def tell(self, word):
        self.proc.stdin.write(word + "\n")
        self.proc.stdin.flush()
        while self.proc.stdout.readline() not in ("ok\n", ""):
            pass

    def speakers(self):
        """The processes for SSH, spare ones too."""
        found = set()
        for task in os.listdir(f"/proc/{self.proc.pid}/task"):
            try:
                with open(f"/proc/{self.proc.pid}/task/{task}/children") as f:
                    children = [int(pid) for pid in f.read().split()]
            except OSError:  # a thread that has ended meanwhile
                continue
            for pid in children:
                try:
                    with open(f"/proc/{pid}/comm") as c:
                        found |= {pid} if c.read() == "pando-ssh\n" else set()
                except OSError:
                    pass
        return found

    def inodes(self, pid):
        return {os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}

    def session(self):
        """A client with a command that waits, and the process that speaks with it."""
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        with open("/proc/net/tcp") as f:
            rows = [line.split() for line in f][1:]
        tcp = {f"socket:[{r[9]}]" for r in rows if r[3] == "01"}
        busy = [pid for pid in self.speakers() if self.inodes(pid) & tcp and pid not in self.seen]
        self.assertEqual(len(busy), 1)
        self.seen |= set(busy)
        return p, busy[0]


class Process(Stand, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        assert cls.begin(), cls.log_text()
        cls.vm = cls.api(cls(), "POST", "/v1/vms", {})["id"]

    @classmethod
    def tearDownClass(cls):
        code, text = cls.end()
        assert code == 0, f"the server ended with {code}: {text}"

    def setUp(self):
        super().setUp()
        self.seen = set()

    def test_killed_in_a_session(self):
        """Its connection ends, and nothing else: other sessions, the API and new connections go on."""
        (p, pid), (q, _) = self.session(), self.session()
        bad = self.figures()[2]
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(p.wait(60), 255)
        self.assertEqual(self.out("echo new"), "new\n")
        q.stdin.write(b"still here\n")
        q.stdin.flush()
        self.line(q, b"still here")
        self.api("GET", f"/v1/vms/{self.vm}")
        self.eventually("the connection is gone", lambda: self.figures() == [1, 1, bad + 1])
        self.assertIn("the process of this connection was ended by signal 9", self.log_text())
        self.assertNotIn(pid, self.speakers())

    def test_the_spare_one_killed(self):
        """A connection that finds it dead gets another."""
        for _ in range(3):
            self.eventually("a spare one", lambda: len(self.speakers()) == 1)
            (pid,) = self.speakers()
            os.kill(pid, signal.SIGKILL)
            self.eventually("it is dead", lambda pid=pid: self.state(pid) == "Z")
            self.assertEqual(self.out("echo new"), "new\n")
            self.eventually("no connection", lambda: self.figures()[0] == 0)

    @staticmethod
    def state(pid):
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]

    def test_one_that_hangs_is_killed(self):
        p, pid = self.session()
        os.kill(pid, signal.SIGSTOP)
        self.tell("suspend")
        self.eventually("it is gone", lambda: self.figures()[:2] == [0, 0] and pid not in self.speakers())
        self.assertEqual(p.wait(60), 255)
        self.assertEqual(self.out("echo again"), "again\n")

    def test_one_process_per_connection(self):
        (p, a), (q, b) = self.session(), self.session()
        self.assertNotEqual(a, b)
        for client, pid in ((p, a), (q, b)):
            client.stdin.close()
            self.assertEqual(client.wait(60), 0)
            self.eventually("its process is gone", lambda pid=pid: pid not in self.speakers())

    def test_what_it_holds(self):
        """Sockets, a pipe for its log, /dev/null. Of what pandod has open, the client's connection alone; of its files, nothing."""
        _, pid = self.session()
        its = self.inodes(pid)
        self.assertEqual({i.split(":")[0] for i in its}, {"/dev/null", "socket", "pipe"})
        self.assertEqual(len([i for i in its if i.startswith("pipe")]), 1)
        shared = {i for i in its & self.inodes(self.proc.pid) if i.startswith("socket")}  # the ends of a pipe look the same
        with open("/proc/net/tcp") as f:
            clients = {f"socket:[{line.split()[9]}]" for line in f}
        self.assertEqual(len(shared), 1)
        self.assertLessEqual(shared, clients)
        with open(f"/proc/{pid}/maps") as f:
            maps = f.read()
        for word in ("pando.db", "audit.db", "libsqlite", "certs/", "memfd"):
            self.assertNotIn(word, maps)
        with open(f"/proc/{pid}/cmdline") as f:
            self.assertEqual(f.read(), "pando-ssh\0")

    @WALLS
    def test_filter_and_privileges(self):
        _, pid = self.session()
        with open(f"/proc/{pid}/status") as f:
            s = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual((s["Seccomp"], s["NoNewPrivs"], int(s["CapEff"], 16), int(s["CapPrm"], 16), s["Threads"]), ("2", "1", 0, 0, "1"))
        with open(f"/proc/{pid}/oom_score_adj") as f:
            self.assertEqual(f.read(), "500\n")
        with open(f"/proc/{pid}/environ") as f:
            self.assertEqual(f.read(), "")
        with open(f"/proc/{pid}/limits") as f:
            limits = {line[:26].strip(): line[26:].split()[1] for line in f}
        self.assertEqual((limits["Max core file size"], limits["Max open files"], limits["Max data size"]), ("0", "128", str(64 << 20)))

    @WALLS
    def test_root_and_network(self):
        _, pid = self.session()
        if os.readlink("/proc/self/ns/user") == os.readlink(f"/proc/{pid}/ns/user"):
            self.skipTest("this kernel gives no namespaces to users")
        self.assertEqual(os.listdir(f"/proc/{pid}/root/"), [])
        for ns in ("net", "mnt", "ipc", "uts"):
            self.assertNotEqual(os.readlink(f"/proc/self/ns/{ns}"), os.readlink(f"/proc/{pid}/ns/{ns}"))

    @WALLS
    def test_a_forbidden_call_ends_it_and_is_named(self):
        (p, pid), (q, _) = self.session(), self.session()
        make_it_call(pid, SYS_MOUNT)
        self.assertEqual(p.wait(60), 255)
        self.eventually("it is told", lambda: "the process of this connection was ended by signal 31" in self.log_text())
        self.assertIn("pando-ssh: system call 'mount' (165) is not allowed", self.log_text())
        q.stdin.write(b"still here\n")
        q.stdin.flush()
        self.line(q, b"still here")


class Hostile(Stand, unittest.TestCase):
    """Its client took the process over: it gets what a client gets, and pandod goes on."""

    def setUp(self):
        super().setUp()
        self.top = tempfile.mkdtemp(prefix="pando-ssh-")
        self.addCleanup(shutil.rmtree, self.top)
        self.program = os.path.join(self.top, "ssh_speaker.py")
        shutil.copy(os.path.join(HERE, "ssh_speaker.py"), self.program)
        os.chmod(self.program, stat.S_IRWXU)

    def do(self, what, name="x"):
        with open(os.path.join(self.top, "hostile.do"), "w") as f:
            f.write(f"{what} {name}")

    def serve(self):
        self.do("what_is_allowed")
        self.assertTrue(self.begin(SERVE_SSH_PROGRAM=self.program), self.log_text())
        self.addCleanup(self.check_end)
        self.vm = self.api("POST", "/v1/vms", {})["id"]

    def check_end(self):
        code, text = self.end()
        self.assertEqual(code, 0, text)

    def next_one_does(self, what, name=None):
        """A process reads hostile.do when it starts, as the spare one: a connection for that one, so that there is another."""
        self.do(what, name or f"{self.vm}:{self.key}")
        with socket.create_connection(("127.0.0.1", self.ssh_port)) as s:
            s.settimeout(LIMIT_S)
            self.gone(s)
        self.eventually("no connection", lambda: self.figures()[0] == 0)
        if os.path.exists(os.path.join(self.top, "hostile.out")):
            os.unlink(os.path.join(self.top, "hostile.out"))

    @staticmethod
    def gone(s):
        try:
            while s.recv(1000):
                pass
        except ConnectionResetError:
            pass

    def hostile(self):
        """The processes of this test's program."""
        found = []
        for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    found += [pid] if self.program in f.read() else []
            except OSError:
                pass
        return found

    def attempt(self, what, name=None):
        """What it said; its connection has ended."""
        self.next_one_does(what, name)
        out = os.path.join(self.top, "hostile.out")
        with socket.create_connection(("127.0.0.1", self.ssh_port)) as s:
            s.settimeout(LIMIT_S)
            self.gone(s)
        self.eventually("no connection", lambda: self.figures()[:2] == [0, 0])
        if not os.path.exists(out):
            return {}
        with open(out) as f:
            found = {}
            for line in f:
                found.update(json.loads(line))
        return found

    def test_what_it_gets(self):
        self.serve()
        self.assertEqual(self.attempt("what_is_allowed"), {"frames": [[1, "hello"], [2, "err\n"], [4, 3]], "did": "what_is_allowed"})
        self.assertEqual(self.attempt("too_many_channels"), {"sessions": 64, "did": "too_many_channels"})
        self.assertEqual(self.attempt("twice_one_program"), {"again": [0, []], "other": [0, []], "fd": True, "did": "twice_one_program"})
        self.assertEqual(self.attempt("guesses"), {"guessed": 6, "yes": 0, "left": "too many attempts"})

    def test_it_is_ended_for_what_it_must_not_say(self):
        self.serve()
        for what in ("before_login", "run_before_login", "listen_before_login", "second_login", "same_channel_twice", "guests_channel", "garbage", "huge",
                     "pandods_message", "bad_frame", "data_after_the_end"):
            with self.subTest(what):
                bad = self.figures()[2]
                self.assertEqual(self.attempt(what), {})
                self.assertGreater(self.figures()[2], bad)
        self.assertFalse(os.path.exists("/tmp/never"))
        self.api("GET", f"/v1/vms/{self.vm}")

    def test_it_cannot_fill_descriptors(self):
        self.serve()
        before = len(os.listdir(f"/proc/{self.proc.pid}/fd"))
        self.next_one_does("hands_descriptors")
        with socket.create_connection(("127.0.0.1", self.ssh_port)):
            self.eventually("its report", lambda: "asked" in self.said())
            self.assertEqual(self.said(), '{"asked": 1}\n')
            self.assertLess(len(os.listdir(f"/proc/{self.proc.pid}/fd")), before + 20)
            for pid in self.hostile():
                os.kill(pid, signal.SIGKILL)
            self.eventually("they are dead", lambda: not self.hostile())
        self.eventually("no connection", lambda: self.figures()[0] == 0)
        self.assertEqual(self.attempt("reads_no_answers"), {})
        self.assertIn("it does not read its answers", self.log_text())

    def said(self):
        try:
            with open(os.path.join(self.top, "hostile.out")) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def test_another_version_is_refused(self):
        self.do("wrong_version")
        self.assertFalse(self.begin(SERVE_SSH_PROGRAM=self.program))
        code, text = self.end()
        self.assertNotEqual(code, 0)
        self.assertIn("speaks version 2 of the protocol", text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
