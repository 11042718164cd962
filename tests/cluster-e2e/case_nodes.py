# SPDX-License-Identifier: Apache-2.0
"""case_nodes.py - a machine dies, or its pandod hangs, at each moment of a VM's life"""
import os
import signal
import subprocess
import tempfile
import threading
import time

import host
from cluster import Guest, Twice, quiet, until, wait_for
from harness import ApiError
from table import case


def rewound(g, node, n):
    """A VM that is lost goes back to its newest stored point, where its client had been told n."""
    answer, _ = until("it is lost", lambda: node.post(g.vm, "rewind", {"snapshotId": None}), codes=("NODE_UNAVAILABLE", "VM_BUSY"))
    assert answer["state"] == "suspended", answer
    g.n = n


@case(400)
def killed_running(c):
    """The machine of a running VM dies: the VM is lost, and goes on from its newest stored point on another node."""
    one, two, three = c.nodes
    g = Guest(c, one)
    one.post(g.vm, "snapshot", {})
    c.stored()
    at_snapshot = g.n
    g.count(two)  # of which nothing is stored
    with Twice(c):
        begin = time.monotonic()
        one.die()
        took = c.dead(one, two)
        wait_for("it is lost", lambda: two.state(g.vm) == "lost", 30)
        try:
            two.sh(g.vm, "true")
            raise AssertionError("a lost VM answers")
        except ApiError as e:
            assert e.code == "NODE_UNAVAILABLE" and "rewind" in e.message, e
        rewound(g, two, at_snapshot)
        g.count(two)
        all_s = time.monotonic() - begin
        one.boot()
        assert c.owner(g.vm) is two and c.epoch(g.vm) >= 2
        g.count(one)
    two.delete_snapshots()
    c.settled([g])
    return f"taken over after {took:.1f} s, counts on after {all_s:.1f} s"


@case(400)
def killed_suspended(c):
    """The machine of a suspended VM dies: the VM resumes with its memory on the node that is asked."""
    one, two, three = c.nodes
    g = Guest(c, two)
    two.post(g.vm, "suspend")
    c.stored()
    with Twice(c):
        begin = time.monotonic()
        two.die()
        g.count(three)
        all_s = time.monotonic() - begin
        assert c.owner(g.vm) is three and c.epoch(g.vm) == 2
        two.boot()
        g.count(two)
    c.settled([g])
    return f"counts on after {all_s:.1f} s"


@case(400)
def killed_suspending(c):
    """It dies while it suspends a VM: what was acknowledged is suspended and waits for its node, else it is lost until that is back."""
    one, two, _ = c.nodes
    g = Guest(c, one)
    answers = []

    def suspend():
        answers.append(quiet(lambda: one.post(g.vm, "suspend")))
    t = threading.Thread(target=suspend)
    files = one.layer_files()
    with Twice(c):
        t.start()
        wait_for("its layers are being written", lambda: one.layer_files() != files, 30, 0.002)
        one.die()
        t.join()
        c.dead(one, two)
        wait_for("its state is known", lambda: two.state(g.vm) in ("lost", "suspended"), 30)
        state, stored = two.state(g.vm), c.db.sql(f"SELECT stored FROM points JOIN vms ON vms.point = points.id WHERE vms.id = '{g.vm}'")
        assert state == "suspended" or answers == [None], f"the suspend was acknowledged, and the VM is {state}"
        if state == "lost" or stored != "1":
            try:
                two.sh(g.vm, "true")
                raise AssertionError(f"a VM whose memory is only on a dead machine answers ({state})")
            except ApiError as e:
                assert e.code == "NODE_UNAVAILABLE", e
        one.boot()
        if state == "lost":
            wait_for("its disk is back", lambda: two.state(g.vm) == "stopped", 60)
            g.cold(two)
        else:
            g.count(two)
    if state == "lost":
        two.delete(g.vm)
    c.settled([] if state == "lost" else [g])
    return f"the VM was {state}, the client {'was told so' if answers != [None] else 'was told nothing'}"


@case(400)
def killed_uploading(c):
    """It dies while a suspended VM is uploaded: the VM waits for its node, whose next start uploads it."""
    one, two, _ = c.nodes
    g = Guest(c, one)
    with Twice(c):
        before = c.liar.did["hang"]
        c.liar.mode = "hang"
        try:
            one.post(g.vm, "suspend")
            wait_for("it is being uploaded", lambda: c.liar.did["hang"] > before, 60)
            one.die()
        finally:
            c.liar.mode = None
        c.dead(one, two)
        try:
            two.sh(g.vm, "true")
            raise AssertionError("a VM that is not stored answers on another node")
        except ApiError as e:
            assert e.code == "NODE_UNAVAILABLE", e
        assert c.owner(g.vm) is one
        one.boot()
        c.stored()
        g.count(two)
        assert c.owner(g.vm) is one and c.epoch(g.vm) == 1
    c.settled([g])


@case(500)
def killed_resuming(c):
    """It dies while it resumes a VM of a dead node: the third node claims the VM, with its memory."""
    one, two, three = c.nodes
    g = Guest(c, one)
    one.post(g.vm, "suspend")
    c.stored()
    with Twice(c):
        one.die()
        c.dead(one, two)
        before = c.liar.did["hang"]
        c.liar.mode = "hang"  # the fetch takes until it is dead
        try:
            t = threading.Thread(target=lambda: quiet(lambda: two.sh(g.vm, "true")))
            t.start()
            wait_for("it is claimed", lambda: c.epoch(g.vm) == 2, 60)
            wait_for("it is being fetched", lambda: c.liar.did["hang"] > before, 60)
            two.die()
            t.join()
        finally:
            c.liar.mode = None
        begin = time.monotonic()
        g.count(three)
        took = time.monotonic() - begin
        assert c.owner(g.vm) is three and c.epoch(g.vm) == 3
        two.boot()
        one.boot()
    c.settled([g])
    return f"counts on after {took:.1f} s"


@case(300)
def killed_pandod(c):
    """pandod alone is killed: it starts again, adopts its VMs and joins before the lease is over."""
    one, two, _ = c.nodes
    g = Guest(c, one)
    with Twice(c):
        instance = one.info(g.vm)["vmInstanceId"]
        one.kill9_pandod()
        g.count(two)
        assert one.info(g.vm)["vmInstanceId"] == instance and c.epoch(g.vm) == 1
    c.settled([g])


@case(400)
def hung(c):
    """pandod is stopped for longer than the lease: pando-priv ends its VMs before another node has them, and it begins anew."""
    _, two, three = c.nodes
    at_rest, g = Guest(c, three), None
    three.post(at_rest.vm, "suspend")
    c.stored()
    g = Guest(c, three)
    with Twice(c):
        pid, instance = three.pandod_pid(), three.info(g.vm)["vmInstanceId"]
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        try:
            wait_for("its VM has ended", lambda: instance not in three.records(), 60)
            ended = time.monotonic() - begin
            took = c.dead(three, two) + ended
            assert two.state(g.vm) == "lost"
            at_rest.count(two)  # claimed, and the hung node does not know
            assert c.owner(at_rest.vm) is two
            two.post(at_rest.vm, "suspend")
        finally:
            host.kill(pid, signal.SIGCONT)
        three.await_pandod(pid)
        c.all_alive()
        wait_for("its disk is back", lambda: two.state(g.vm) == "stopped", 60)
        g.cold(two)
        two.delete(g.vm)
        at_rest.count(three)
        assert c.owner(at_rest.vm) is two
    c.settled([at_rest])
    return f"VMs ended after {ended:.1f} s, taken over after {took:.1f} s"


# A repository is files of its node today. Where packs are objects and references are rows this becomes True: then the other nodes answer for it
# while its node is dead.
REPOSITORIES_OUTLIVE_NODES = False


@case(500)
def killed_pushing(c):
    """It dies while a push goes on: what was acknowledged is there, the rest is whole or not there, and the push can be repeated."""
    one, two, three = c.nodes
    repo = one.api("POST", "/git/v1/repo", {})["repoId"]
    with tempfile.TemporaryDirectory() as top:
        def git(*argv, **kw):
            return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=top, timeout=300, capture_output=True, text=True,
                                  env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, **kw)

        def url(node):
            return f"http://x:{node.key()}@{node.at}:{node.port}/{repo}"

        def commit(name, size):
            with open(os.path.join(top, "w", name), "wb") as f:
                f.write(os.urandom(size))
            git("-C", "w", "add", name, check=True)
            git("-C", "w", "commit", "-q", "-m", name, check=True)
            return git("-C", "w", "rev-parse", "HEAD", check=True).stdout.strip()
        git("init", "-q", "-b", "main", "w", check=True)
        told = commit("a", 1000)
        git("-C", "w", "push", "-q", url(two), "main", check=True)
        later = commit("b", 24 << 20)
        p = subprocess.Popen(["git", "-C", "w", "push", "-q", url(two), "main"], cwd=top, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
        try:
            wait_for("git of the node takes the pack", lambda: any((host.name(q) or "").startswith("git") for q in host.descendants(one.proc.pid)), 60, 0.01)
            one.die()
            acknowledged = p.wait(300) == 0
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
        c.dead(one, two)
        if not REPOSITORIES_OUTLIVE_NODES:
            r = git("ls-remote", url(three))
            assert r.returncode != 0, "a repository of a dead node answers"
            one.boot()
        heads = git("ls-remote", url(three), "main", check=True).stdout.split()
        assert heads[0] == later if acknowledged else heads[0] in (told, later), (heads, told, later)
        git("-C", "w", "push", "-q", url(three), "main", check=True)
        git("clone", "-q", url(two), "c", check=True)
        assert git("-C", "c", "rev-parse", "HEAD", check=True).stdout.strip() == later
        git("-C", "c", "fsck", "--full", "--strict", check=True)
        if REPOSITORIES_OUTLIVE_NODES:
            one.boot()
    two.api("DELETE", f"/git/v1/repo/{repo}")
    c.settled()
    return "the push was acknowledged" if acknowledged else "the push was not acknowledged"
