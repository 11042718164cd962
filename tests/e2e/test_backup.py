# SPDX-License-Identifier: Apache-2.0
"""A backup of a server that runs, and a second server made from it: memory, disks, repositories and secrets are there"""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from case import Case, Holder, limit, wait_for
from git_checks import GitTools
from harness import ROOT, Server

PANDO = os.path.join(ROOT, "build/cli/pando")
SECRET = "a-password-that-must-not-be-readable"


def holding(top, text):
    """Files below a directory that have the text, but for the disks, memory and sparse logs of VMs."""
    found = []
    for d, _, names in os.walk(top):
        for n in names:
            path = os.path.join(d, n)
            if "/layers/" in path or "/run/" in path[len(top):] or not os.path.isfile(path) or os.path.islink(path):
                continue
            with open(path, "rb") as f:
                if text.encode() in f.read():
                    found.append(path)
    return found


class Backup(GitTools, Case):
    limit_s = 300
    other = out = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.out = tempfile.mkdtemp(prefix="pando-backup-", dir=os.environ.get("PANDO_TEST_DIR", "/var/tmp"))

    @classmethod
    def tearDownClass(cls):
        if cls.other:
            cls.other.close()
        shutil.rmtree(cls.out or "/nonexistent", ignore_errors=True)
        super().tearDownClass()

    def setUp(self):
        self.port, self.key, self.data_dir = self.s.port, self.s.key(), self.s.dir
        self.make_top()

    def env(self, server):
        return {"PATH": os.environ["PATH"], "HOME": self.out, "PANDO_API_URL": f"http://127.0.0.1:{server.port}",
                "PANDO_API_KEY": server.key()}

    def pando(self, *args, code=0):
        r = subprocess.run([PANDO, *args], env=self.env(self.s), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
        self.assertEqual(r.returncode, code, f"pando {' '.join(args)}: {r.stdout}{r.stderr}")
        return r.stdout + r.stderr

    def backups(self):
        return sorted(n for n in os.listdir(f"{self.out}/b") if not n.startswith("."))

    def test_a_backup_while_everything_runs(self):
        cls = type(self)
        cls.live, cls.slept, cls.off = (self.s.create(name=n) for n in ("live", "slept", "off"))
        cls.h = Holder(self.s, self.live, "before")
        cls.hs = Holder(self.s, self.slept, "asleep")
        cls.pid = self.h.pid()
        self.s.sh(self.live, "echo live-disk >/root/f; sync")
        self.s.sh(self.off, "echo off-disk >/root/f; sync")
        self.s.post(self.slept, "suspend")
        self.s.post(self.off, "stop")
        cls.repo = self.s.api("POST", "/git/v1/repo", {})["repoId"]
        w = self.work()
        cls.commit_id = self.save(w, {"a": "one\n", "b": os.urandom(300000)})
        self.git("push", "-q", self.url(self.repo), "HEAD:main", cwd=w)
        self.s.api("PUT", "/git/v1/credentials", {"server": "https://git.example", "token": SECRET})
        self.assertIn("key 2", self.pando("key", "rotate"))
        self.assertEqual(holding(self.s.dir, SECRET), [])
        said = self.pando("backup", f"{self.out}/b")
        self.assertIn("1 running VMs with their memory", said)
        self.assertIn("without the key", said)
        # it went on, and what it does now is not in the backup
        self.assertEqual((self.h.get(), self.h.pid()), ("before", self.pid))
        self.h.set("after")
        self.s.sh(self.live, "echo newer >/root/f; sync")
        self.assertEqual([self.s.state(v) for v in (self.live, self.slept, self.off)], ["running", "suspended", "stopped"])
        self.assertEqual(os.listdir(f"{self.s.dir}/backup"), [])
        self.assertEqual(holding(self.out, SECRET), [])

    def test_b_the_next_one_copies_what_is_new(self):
        cls = type(self)
        (cls.first,) = self.backups()
        os.makedirs(f"{self.out}/b/20260101T000000Z.part/data")  # of one that was killed
        said = self.pando("--json", "backup", f"{self.out}/b")
        self.assertEqual(json.loads(said)["frozen"], 1)
        self.assertEqual(len(self.backups()), 2, self.backups())
        second = self.backups()[1]
        was, now = (json.load(open(f"{self.out}/b/{n}/manifest.json"))["files"] for n in (self.first, second))
        both = {f["path"] for f in was} & {f["path"] for f in now}
        layers = [p for p in both if p.startswith("layers/") and not p.endswith("/")]
        self.assertTrue(layers)
        for p in layers:
            self.assertTrue(os.path.samefile(f"{self.out}/b/{self.first}/data/{p}", f"{self.out}/b/{second}/data/{p}"), p)
        # each is whole without the other
        shutil.rmtree(f"{self.out}/b/{second}")
        self.assertIn("is whole", self.pando("restore", "--check", f"{self.out}/b"))

    def test_c_half_a_backup_is_none(self):
        p = subprocess.Popen([PANDO, "backup", f"{self.out}/c"], env=self.env(self.s), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for("it copies, or is done", lambda: p.poll() is not None or (os.path.isdir(f"{self.out}/c") and os.listdir(f"{self.out}/c")), 60)
        p.send_signal(signal.SIGTERM)
        text = p.communicate(timeout=300)[0].decode()
        left = os.listdir(f"{self.out}/c")
        if p.returncode == 0:  # it was quicker: then it must be a whole one
            self.assertIn("is whole", self.pando("restore", "--check", f"{self.out}/c"))
        else:
            self.assertEqual((p.returncode, left), (130, []), text)
            self.assertIn("no complete backup", self.pando("restore", "--check", f"{self.out}/c", code=1))
        self.assertEqual(os.listdir(f"{self.s.dir}/backup"), [], text)
        shutil.rmtree(f"{self.out}/c")

    def test_d_damage_is_found_before_anything_is_written(self):
        copy = f"{self.out}/damaged"
        for path, how in (("pando.db", "changed"), ("audit.db", "cut"), ("api-key", "gone")):
            shutil.copytree(f"{self.out}/b/{self.first}", copy, copy_function=os.link)
            full = f"{copy}/data/{path}"
            with open(full, "rb") as f:
                data = f.read()
            os.unlink(full)
            if how != "gone":
                with open(full, "wb") as f:
                    f.write(data[:-1] + (b"" if how == "cut" else bytes([data[-1] ^ 1])))
            said = self.pando("restore", copy, "--to", f"{self.out}/never", code=1)
            self.assertIn(path, said)
            self.assertIn("use another one", said)
            self.assertFalse(os.path.exists(f"{self.out}/never"))
            shutil.rmtree(copy)
        os.makedirs(f"{self.out}/full/x")
        self.assertIn("not empty", self.pando("restore", f"{self.out}/b", "--to", f"{self.out}/full", code=1))

    @limit(400)
    def test_e_without_the_key_it_says_so(self):
        os.chmod(self.out, 0o755)
        to = f"{self.out}/nokey"
        self.assertIn("secret.key", self.pando("restore", f"{self.out}/b", "--to", to))
        s = Server(data_dir=to)
        try:
            s.spawn()
            self.assertEqual(s.proc.wait(120), 2, s.log_tail())
            self.assertIn(f"{to}/secret.key", s.log_text())
        finally:
            s.close()
            shutil.rmtree(to)

    @limit(600)
    def test_f_a_second_server_goes_on_from_it(self):
        cls = type(self)
        to = f"{self.out}/restored"
        self.pando("restore", f"{self.out}/b", "--to", to, "--key", f"{self.s.dir}/secret.key")
        cls.other = o = Server(data_dir=to)
        o.start()
        self.assertEqual([o.state(v) for v in (self.live, self.slept, self.off)], ["suspended", "suspended", "stopped"])
        h = Holder(o, self.live)
        self.assertEqual((h.get(), h.pid()), ("before", self.pid))  # a variable of a program that ran
        self.assertEqual(o.sh(self.live, "cat /root/f"), "live-disk")
        self.assertEqual(Holder(o, self.slept).get(), "asleep")
        self.assertEqual(o.sh(self.off, "cat /root/f"), "off-disk")
        self.port, self.key = o.port, o.key()
        w = self.work(self.repo)
        self.assertEqual(self.git("rev-parse", "HEAD", cwd=w).strip(), self.commit_id)
        self.git("-c", "safe.directory=*", "--git-dir", f"{to}/git/repos/{self.repo}.git", "fsck", "--strict", "--full")
        self.git("fsck", "--full", cwd=w)
        (c,) = o.api("GET", "/git/v1/credentials")["credentials"]
        self.assertEqual(c["server"], "https://git.example")
        self.save(w, {"c": "new\n"})
        self.git("push", "-q", self.url(self.repo), "HEAD:main", cwd=w)
        # the first one is as it was
        self.assertEqual(self.h.get(), "after")
        for v in (self.live, self.slept, self.off):
            o.delete(v)
            self.s.delete(v)
        self.s.api("DELETE", f"/git/v1/repo/{self.repo}")
        o.api("DELETE", f"/git/v1/repo/{self.repo}")
        self.assertIn(o.stop(), (0, 130, -signal.SIGINT), o.log_tail())
        self.assertEqual(o.debris(), [])
