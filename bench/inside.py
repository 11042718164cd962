# SPDX-License-Identifier: Apache-2.0
"""inside.py - a VM that clones from its own platform, beside the same clone on the host

10 MB that do not compress, by HTTPS through the edge, by git with an API key; in the VM by exec. One VM for all rounds; before the first
one each side asks once for the references, so that certificates are made and programs loaded.
"""
import os
import shutil
import subprocess
import tempfile

from kinds import Clock

ROUNDS_MAX = 5
FILES, BYTES = 2, 5 << 20
DOMAIN = "pando.localhost"


def git(*args, cwd=None):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
           "GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@example.org", "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@example.org"}
    r = subprocess.run(["git", *args], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(f"git {' '.join(args)}: {r.stderr}")


def fill(top, url):
    work = os.path.join(top, "work")
    git("init", "-q", "-b", "main", work)
    for i in range(FILES):
        with open(os.path.join(work, f"{i}.bin"), "wb") as f:
            f.write(os.urandom(BYTES))
    git("add", "-A", cwd=work)
    git("commit", "-qm", "10 MB", cwd=work)
    git("push", "-q", url, "main", cwd=work)


def inside(b, rounds):
    s, top = b.s, tempfile.mkdtemp(prefix="pando-bench-", dir="/var/tmp")
    repo = s.api("POST", "/git/v1/repo", {})["repoId"]
    who = f"x-access-token:{s.key()}"
    here = ["-c", f"http.sslCAInfo={os.path.join(s.dir, 'certs/ca.crt')}"]
    outside = f"https://{who}@git.{DOMAIN}:{s.edge_port}/{repo}"
    try:
        fill(top, f"http://{who}@127.0.0.1:{s.port}/{repo}")
        vm = b.create()
        s.sh(vm, f"git ls-remote https://{who}@git.{DOMAIN}/{repo}")
        git(*here, "ls-remote", outside)
        for i in range(rounds):
            clock = Clock()
            git(*here, "clone", "-q", outside, os.path.join(top, f"clone-{i}"))
            b.record.add("inside.clone.host", clock.ms())
            clock = Clock()
            s.sh(vm, f"git clone -q https://{who}@git.{DOMAIN}/{repo} /root/clone-{i}")
            b.record.add("inside.clone.vm", clock.ms())
            s.sh(vm, f"rm -r /root/clone-{i}")
            shutil.rmtree(os.path.join(top, f"clone-{i}"))
    finally:
        s.api("DELETE", f"/git/v1/repo/{repo}")
        shutil.rmtree(top, ignore_errors=True)
