# SPDX-License-Identifier: Apache-2.0
"""the walls around pandod with the settings of `make run`: everything works behind them, and what breaks a rule is ended and named"""
import os
import re
import shutil
import signal
import subprocess
import tempfile

import host
from case import Case, Holder, limit, wait_for
from forced_call import SYS_MOUNT, make_it_call
from harness import Server, test_dir


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


class Walls(Case):
    limit_s = 200

    def starter(self):
        pandod = self.s.pandod_pid()
        for pid in self.s.descendants():
            st = status_of(pid)
            if st["Name"] == "pando-starter" and int(st["PPid"]) == pandod:
                return pid
        raise AssertionError("there is no starter")

    def test_they_are_up(self):
        text = self.s.request("GET", "/v1/health")[1]["walls"]
        self.assertIn("seccomp", text)
        st = status_of(self.s.pandod_pid())
        self.assertEqual((st["Seccomp"], st["NoNewPrivs"]), ("2", "1"))
        self.assertIn(f"walls: {text}", self.s.log_text())
        if "no Landlock" not in text:
            self.assertRegex(text, r"Landlock \(ABI \d+\)")
        filters = int(status_of(self.s.pandod_pid()).get("Seccomp_filters", "2"))
        self.assertGreater(filters, int(status_of(self.starter()).get("Seccomp_filters", "1")), "the starter is outside")

    def test_verbs(self):
        vm = self.s.create()
        h = Holder(self.s, vm, "kept")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        snap = self.s.snapshot(vm)
        made = self.s.create(snapshotId=snap)
        self.assertEqual(h.on(made).get(), "kept")
        (kid,) = self.s.fork(vm, 1)
        self.assertEqual(h.on(kid).get(), "kept")
        for v in (kid, made, vm):
            self.s.delete(v)
        self.s.request("DELETE", f"/v1/vms/snapshots/{snap}")

    def test_git(self):
        status, repo = self.s.request("POST", "/git/v1/repo", {"name": "walled"})
        self.assertLess(status, 300, repo)
        repo = repo["repoId"]
        with tempfile.TemporaryDirectory() as top:
            url = f"http://x-access-token:{self.s.key()}@127.0.0.1:{self.s.port}/{repo}"
            env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}

            def git(*argv):
                r = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@example.com", *argv], cwd=top, env=env,
                                   capture_output=True, text=True, timeout=120)
                self.assertEqual(r.returncode, 0, r.stderr)

            git("init", "-q", "-b", "main", "a")
            with open(f"{top}/a/file", "w") as f:
                f.write("behind a wall\n")
            git("-C", "a", "add", "file")
            git("-C", "a", "commit", "-qm", "one")
            git("-C", "a", "push", "-q", url, "main")
            git("clone", "-q", url, "b")
            with open(f"{top}/b/file") as f:
                self.assertEqual(f.read(), "behind a wall\n")
        self.s.request("DELETE", f"/git/v1/repo/{repo}")

    def test_a_forbidden_call_ends_pandod_and_is_named(self):
        vm = self.s.create()
        h = Holder(self.s, vm, "alive")
        qemu, pandod = self.s.qemu_of(vm), self.s.pandod_pid()
        make_it_call(pandod, SYS_MOUNT)
        self.s.await_pandod(pandod)
        self.assertRegex(self.s.log_text(), r"pandod: system call 'mount' \(165\) is not allowed")
        self.assertRegex(self.s.log_text(), rf"pandod ended unexpectedly with code {128 + signal.SIGSYS}")
        self.assertEqual((self.s.qemu_of(vm), h.get()), (qemu, "alive"))
        self.s.delete(vm)

    @limit(200)
    def test_without_its_starter_pandod_is_started_again(self):
        vm = self.s.create()
        h = Holder(self.s, vm, "alive")
        qemu, pandod = self.s.qemu_of(vm), self.s.pandod_pid()
        host.kill(self.starter(), signal.SIGKILL)
        self.s.await_pandod(pandod)
        self.assertIn("the starter of programs has ended", self.s.log_text())
        self.assertEqual((self.s.qemu_of(vm), h.get()), (qemu, "alive"))
        self.s.delete(vm)

    def test_the_starter_ends_with_pandod(self):
        starter = self.starter()
        self.s.kill9_pandod()
        wait_for("it has ended", lambda: not os.path.exists(f"/proc/{starter}") or
                 re.match(r"[ZX]", status_of(starter)["State"]), 20)
        self.assertNotEqual(self.starter(), starter)

    @limit(300)
    def test_log_and_keys_may_be_elsewhere(self):
        top = test_dir()
        shutil.chown(top, "pando", "pando")
        key, log = f"{top}/keys/secret.key", f"{top}/logs/pandod.log"
        s = Server(env={"PANDO_SECRET_KEY": key, "PANDO_LOG_FILE": log})
        try:
            for path in (key, log):
                os.mkdir(os.path.dirname(path))
                shutil.chown(os.path.dirname(path), "pando", "pando")
            s.start()
            with open(key) as f:
                first = f.read()
            status, said = s.request("POST", "/v1/secrets/rotate")
            self.assertEqual(status, 200, said)
            with open(key) as f:
                self.assertNotEqual(f.read(), first)
            with open(log) as f:
                self.assertIn("everything is sealed with key", f.read())
        finally:
            s.close()
            shutil.rmtree(top)
