#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The SSH front over the real agent, without a machine; usage: test_ssh.py SERVE_AGENT [TEST...]

The "guest" is this machine: commands run here, as root.
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ssh_checks import SshChecks  # noqa: E402
from served import KERNELS  # noqa: E402

SERVE = sys.argv[1]
LIMIT_S = 120


class Ssh(SshChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("acting as other users needs root")
        cls.log = tempfile.TemporaryFile()
        cls.proc = subprocess.Popen([SERVE, "--ssh", KERNELS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=cls.log, text=True)
        ssh_port, port, cls.key, _ = cls.proc.stdout.readline().split()
        cls.ssh_port, cls.port = int(ssh_port), int(port)
        cls.vm = cls.api(cls(), "POST", "/v1/vms", {})["id"]

    @classmethod
    def tearDownClass(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        cls.proc.stdout.close()
        text = cls.log_text(cls)
        cls.log.close()
        assert code == 0, f"the server ended with {code}: {text}"

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)

    def tearDown(self):
        signal.alarm(0)

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def guest(self, command):
        return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True).stdout

    def tell(self, word):
        self.proc.stdin.write(word + "\n")
        self.proc.stdin.flush()
        while self.proc.stdout.readline() not in ("ok\n", ""):
            pass

    def front(self):
        self.proc.stdin.write("status\n")
        self.proc.stdin.flush()
        connections, channels, _ = self.proc.stdout.readline().split()
        assert self.proc.stdout.readline() == "ok\n"
        return {"connections": int(connections), "channels": int(channels)}

    def offered(self):
        """The lists of the server's SSH_MSG_KEXINIT: exchange, host keys, ciphers and MACs both ways, compression both ways."""
        with self.raw() as s:
            s.settimeout(60)
            f = s.makefile("rb")
            while not f.readline().startswith(b"SSH-2.0-"):
                pass
            s.sendall(b"SSH-2.0-lists\r\n")
            n = int.from_bytes(f.read(4), "big")
            packet = f.read(n)
        pad, kind, rest = packet[0], packet[1], packet[2 + 16:]
        self.assertEqual((kind, pad < n), (20, True))
        lists = []
        for _ in range(8):
            n = int.from_bytes(rest[:4], "big")
            lists.append(rest[4:4 + n].decode().split(","))
            rest = rest[4 + n:]
        return lists

    def test_algorithms(self):
        """No curves of NIST, no MAC over plain text, no CBC, nothing with SHA-1; a hybrid exchange comes first where libssh has one."""
        kex, keys, *more = self.offered()
        ciphers, macs, compression = more[0:2], more[2:4], more[4:6]
        marks = {"ext-info-s", "kex-strict-s-v00@openssh.com"}
        hybrid = [k for k in kex if k.startswith(("mlkem", "sntrup"))]
        self.assertEqual([k for k in kex if k not in marks], hybrid + ["curve25519-sha256", "curve25519-sha256@libssh.org"])
        self.assertIn("kex-strict-s-v00@openssh.com", kex)  # without it chacha20 and EtM are open to CVE-2023-48795
        self.assertEqual(keys, ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"])
        for c in ciphers:
            self.assertEqual(c, ["chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com", "aes128-gcm@openssh.com",
                                 "aes256-ctr", "aes192-ctr", "aes128-ctr"])
        for m in macs:
            self.assertEqual(m, ["hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com"])
        self.assertTrue(all("none" in c for c in compression))

    def test_y_hostile_clients(self):
        """paramiko can send what OpenSSH never would; it is a Debian package."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ssh_hostile.py")
        before = self.memory_kb()
        r = subprocess.run(["/usr/bin/python3", script, str(self.ssh_port), self.vm, self.key], capture_output=True, text=True, timeout=110)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.eventually("all of them are gone", lambda: self.front() == {"connections": 0, "channels": 0})
        self.assertLess(self.memory_kb() - before, 64 << 10)

    def memory_kb(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def test_y_slow_strangers_have_a_deadline(self):
        s = self.raw()
        s.sendall(b"SSH-2.0-slow")
        s.settimeout(60)
        while s.recv(1000):
            pass  # it is closed without a login: ten seconds here, a minute by default

    def test_z_the_end_of_the_machine_ends_sessions(self):
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        q = self.spawn("-tt", "echo up; cat")
        self.line(q, b"up")
        self.tell("suspend")
        self.assertEqual(p.wait(60), 255)
        self.assertIn(b"the connection to VM", p.stderr.read())
        self.assertEqual(q.wait(60), 255)
        self.assertEqual(self.out("echo again"), "again\n")

    def test_zz_clients_do_not_hold_up_the_servers_end(self):
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        self._cleanups.clear()
        Ssh.still_open = p


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
