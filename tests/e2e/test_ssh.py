# SPDX-License-Identifier: Apache-2.0
"""SSH into a real VM: all of ssh_checks.py; identities, Linux users, suspend, stop, delete, idle, restart"""
import os
import signal
import stat
import subprocess

import host
from case import Case, limit, long
from harness import ROOT, wait_for
from ssh_checks import SshBase, SshChecks, SshIdentityChecks
from tty_client import Tty

PANDO = os.path.join(ROOT, "build/cli/pando")


class OnVm(SshBase):
    limit_s = 150
    slow = 120

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()
        cls.port, cls.key, cls.ssh_port = cls.s.port, cls.s.key(), cls.s.ssh_port

    def guest(self, command):
        return self.s.sh(self.vm, command)

    def log_text(self):
        return self.s.log_text()


class Ssh(SshChecks, SshIdentityChecks, OnVm, Case):
    """All of ssh_checks.py on one VM."""

    @limit(200)
    def test_y_linux_users(self):
        """Any account of the guest, and nobody else's files."""
        self.s.sh(self.vm, "useradd -m -s /bin/bash dev; useradd -m -s /bin/sh other; touch /home/other/x; chmod 700 /home/other")
        self.assertEqual(self.out("id -un; pwd; echo $HOME $SHELL", user="dev").split(), ["dev", "/home/dev", "/home/dev", "/bin/bash"])
        self.ssh("ls /home/other", user="dev", code=2)
        self.ssh("echo from dev >file", user="dev")
        self.assertEqual(self.s.sh(self.vm, "stat -c %U /home/dev/file").strip(), "dev")
        t = Tty(self, self.argv("-tt", user="dev"))
        t.send("PS1='$ '; stat -c '%U owns it' $(tty); shopt -q login_shell && echo log''in\n")
        t.expect("dev owns it")
        t.expect("login")
        t.send("exit\n")
        self.assertEqual(t.code(), 0)
        _, narrow, _ = self.identity(["dev"])
        self.assertEqual(self.out("id -un", user="dev", secret=narrow), "dev\n")
        self.ssh("true", user="other", secret=narrow, code=255)
        self.ssh("true", secret=narrow, code=255)
        top = self.tree()
        self.copy("scp", *self.opts("-P"), "-q", "-r", top, f"{self.name(user='dev', secret=narrow, sep=',')}@127.0.0.1:up")
        self.assertEqual(self.s.sh(self.vm, "stat -c %U /home/dev/up/one").strip(), "dev")
        # a port below 1024 is not theirs
        self.ssh("-o", "ExitOnForwardFailure=yes", "-R", "80:127.0.0.1:1", "true", user="dev", code=255)

    def test_y_names_are_the_guests(self):
        """-W to a name: looked up and dialled in the guest."""
        there = self.serve_in_guest()
        self.s.sh(self.vm, "echo 127.0.0.1 only-in-the-guest >>/etc/hosts")
        r = self.ssh("-W", f"only-in-the-guest:{there}", input=b"GET / HTTP/1.0\r\n\r\n")
        self.assertTrue(r.stdout.endswith(b"from the guest"), r.stdout)

    def test_y_there_is_no_sshd_in_the_guest(self):
        self.assertEqual(self.s.sh(self.vm, "ls /usr/sbin/sshd 2>/dev/null; ss -Hltn 'sport = :22'; ssh -V 2>&1 | cut -c1-7").strip(), "OpenSSH")

    def test_y_host_keys_stay(self):
        """Made once, closed to others, the same after a restart."""
        def keys():
            out = subprocess.run(["ssh-keyscan", "-p", str(self.ssh_port), "127.0.0.1"], capture_output=True, text=True, timeout=60).stdout
            return sorted(line for line in out.splitlines() if not line.startswith("#"))
        before = keys()
        self.assertEqual({k.split()[1] for k in before}, {"ssh-ed25519", "ssh-rsa"})
        for f in os.listdir(os.path.join(self.s.dir, "ssh")):
            st = os.stat(os.path.join(self.s.dir, "ssh", f))
            self.assertEqual(stat.S_IMODE(st.st_mode), 0o600, f)
        self.s.restart()
        self.assertEqual(keys(), before)
        self.assertEqual(self.out("echo back"), "back\n")


    def pando(self, *args, code=0):
        env = {**os.environ, "PANDO_URL": f"http://127.0.0.1:{self.port}", "PANDO_API_KEY": self.key, "HOME": self.dir,
               "XDG_STATE_HOME": self.path("state")}
        r = subprocess.run([PANDO, *args], capture_output=True, timeout=self.slow, env=env, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        return r.stdout

    def test_y_ssh_config(self):
        """ssh finds a VM by its id and its name, with the file that pando prints."""
        self.s.api("PATCH", f"/v1/vms/{self.vm}", {"name": "by-name"})
        config = self.path("config", self.pando("ssh-config", "--key").decode(), 0o600)
        for called in (self.vm, "by-name"):
            r = subprocess.run(["ssh", "-F", config, "-oBatchMode=yes", "-oUserKnownHostsFile=/dev/null", called, "echo $((6*7))"],
                               capture_output=True, timeout=self.slow, stdin=subprocess.DEVNULL)
            self.assertEqual((r.returncode, r.stdout), (0, b"42\n"), r.stderr)
        # Freestyle's CLI names the host itself; the user has VM and token.
        r = subprocess.run(["ssh", "-F", config, "-oBatchMode=yes", "-oUserKnownHostsFile=/dev/null", "-p", "22",
                            f"{self.name()}@vm-ssh.freestyle.sh", "echo $((6*7))"], capture_output=True, timeout=self.slow, stdin=subprocess.DEVNULL)
        self.assertEqual((r.returncode, r.stdout), (0, b"42\n"), r.stderr)
        self.assertNotIn(self.key.encode(), self.pando("ssh-config"))

    def test_y_pando_vm_ssh_and_scp(self):
        self.assertEqual(self.pando("vm", "ssh", self.vm, "echo $((6*7)); exit 5", code=5), b"42\n")
        self.assertIn(b"not available", self.pando("vm", "ssh", "-u", "daemon", self.vm, "true", code=1))
        self.assertTrue(os.path.exists(os.path.join(self.path("state"), "pando/known_hosts")))
        top = self.tree()
        self.pando("vm", "scp", "-r", "-p", top, f"{self.vm}:pando-scp")
        self.pando("vm", "scp", "-r", f"{self.vm}:/root/pando-scp", self.path("scp-back"))
        self.same(top, self.path("scp-back"))
        self.pando("vm", "scp", top, "/tmp/nowhere", code=1)


class SshLife(OnVm, Case):
    """One VM through everything that happens to it."""

    @limit(300)
    def test_a_login_wakes(self):
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.out("echo woken"), "woken\n")
        self.assertEqual(self.s.state(self.vm), "running")
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        self.s.post(self.vm, "suspend")
        self.assertEqual(p.wait(60), 255)
        self.assertIn(b"suspended", p.stderr.read())
        self.assertEqual(self.s.state(self.vm), "suspended")
        self.s.post(self.vm, "stop")
        self.slow = 200
        self.assertEqual(self.out("echo booted"), "booted\n")

    @limit(300)
    def test_b_snapshots_and_forks_do_not_disturb(self):
        p = self.spawn("while read x; do echo got $x; done")
        p.stdin.write(b"1\n")
        p.stdin.flush()
        self.line(p, b"got 1")
        child = self.s.fork(self.vm)[0]
        p.stdin.write(b"2\n")
        p.stdin.flush()
        self.line(p, b"got 2")
        self.assertEqual(self.out("echo child", vm=child), "child\n")
        self.s.delete(child)

    @long
    @limit(300)
    def test_c_idle(self):
        """Where only traffic counts, bytes keep it awake; a client that says nothing does not."""
        self.s.api("POST", f"/v1/vms/{self.vm}/start", {"idleTimeoutSeconds": 8, "countExecAsActivity": False})
        p = self.spawn("for i in $(seq 14); do echo tick $i; sleep 1; done; echo quiet; cat")
        self.line(p, b"tick 14", 120)
        self.assertEqual(self.s.state(self.vm), "running")
        wait_for("idle", lambda: self.s.state(self.vm) == "suspended", 120)
        self.assertEqual(p.wait(60), 255)

    def speakers(self):
        """The processes that speak SSH; the spare one is among them."""
        return [pid for pid in self.s.descendants() if os.path.basename(host.exe(pid) or "") == "pando-ssh"]

    @staticmethod
    def sockets(pid):
        return {t for t in (os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")) if t.startswith("socket:")}

    @limit(300)
    def test_c_processes_have_nothing_and_end_alone(self):
        """A process per connection: without database, CA key or a way to pando-priv; all of them killed, VM, pandod and API go on."""
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        pandod, qemu = self.s.pandod_pid(), self.s.qemu_of(self.vm)
        with open("/proc/net/tcp") as f:
            clients = {f"socket:[{line.split()[9]}]" for line in f}
        busy = [pid for pid in self.speakers() if self.sockets(pid) & clients]
        self.assertEqual(len(busy), 1)
        for pid in self.speakers():
            self.assertLessEqual(self.sockets(pid) & self.sockets(pandod), clients)  # not pando-priv's, which pandod has
            for n in os.listdir(f"/proc/{pid}/fd"):
                self.assertRegex(os.readlink(f"/proc/{pid}/fd/{n}"), r"^(socket:|pipe:|/dev/null$)")
            with open(f"/proc/{pid}/maps") as f:
                self.assertNotIn(self.s.dir, f.read())
            if os.readlink("/proc/self/ns/user") != os.readlink(f"/proc/{pid}/ns/user"):
                self.assertEqual(os.listdir(f"/proc/{pid}/root/"), [])
        killed = self.speakers()
        for pid in killed:
            host.kill(pid, signal.SIGKILL)
        self.assertEqual(p.wait(60), 255)
        wait_for("the spare one has ended, too", lambda: not set(killed) & set(self.speakers()), 60)
        self.assertEqual(self.out("echo again"), "again\n")
        self.assertEqual((self.s.pandod_pid(), self.s.qemu_of(self.vm), self.s.state(self.vm)), (pandod, qemu, "running"))

    @limit(200)
    def test_d_delete(self):
        vm = self.s.create()
        p = self.spawn("echo up; cat", vm=vm)
        self.line(p, b"up")
        self.s.delete(vm)
        self.assertEqual(p.wait(60), 255)
        self.ssh("true", vm=vm, code=255)
