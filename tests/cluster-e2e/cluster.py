# SPDX-License-Identifier: Apache-2.0
"""cluster.py - three nodes, PostgreSQL with a synchronous standby, and an object store, each on a machine of net.py's

Theory of operation: every node is a whole server (harness.Server) in the namespace of its machine. Nothing is made ahead of need, so the QEMU
processes are exactly the VMs that run; a thread (Twice) looks all the time that no two nodes have one. What a client was told is remembered by the
test (Guest): a process in the VM counts, and says what it had before.
"""
import http.client
import os
import shutil
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.append(os.path.join(TESTS, "e2e"))
sys.path.append(os.path.join(TESTS, "objects"))

import harness  # noqa: E402
import host  # noqa: E402
import liar  # noqa: E402
import net  # noqa: E402
import pair  # noqa: E402
import rgw  # noqa: E402
from harness import ApiError, say, wait_for  # noqa: E402

NAMES = ("one", "two", "three")
STORED_S = 300
BUSY = ("NODE_UNAVAILABLE", "SERVICE_UNAVAILABLE", "DATABASE_ERROR", "VM_BUSY", "STARTING")

# Counts up to what it is told in /run/want, and says what it had: pid, something that is nowhere else, before, now.
COUNTER = """
import os, signal
x, n = os.urandom(16).hex(), 0
def say(name, before):
    with open(name + ".new", "w") as f:
        f.write(f"{os.getpid()} {x} {before} {n}")
    os.rename(name + ".new", name)
def count(*a):
    global n
    before = n
    n = int(open("/run/want").read())
    say("/run/now", before)
signal.signal(signal.SIGUSR1, count)
say("/run/first", 0)
while True:
    signal.pause()
"""


class Node(harness.Server):
    def __init__(self, cluster, machine):
        self.machine, self.at, self.name = machine, machine.address, machine.name
        super().__init__(env={
            "PANDO_DATABASE": cluster.db.url(), "PANDO_NODE_ADDRESS": f"{self.at}:8790", "PANDO_NODE_NAME": self.name,
            "PANDO_OBJECTS": f"s3://pando?endpoint={cluster.liar.endpoint}", "PANDO_OBJECTS_KEY": rgw.KEY, "PANDO_OBJECTS_SECRET": rgw.SECRET,
            "PANDO_BLANKS": "0", "PANDO_SEEDS": "0"})  # a process is a VM that runs
        self.prefix = machine.prefix

    def clean(self, prefix=()):
        super().clean(self.machine.prefix if self.machine.holder else prefix)

    def die(self):
        """As a machine dies: nobody hears of it, and nothing of it is left but its disk."""
        self.machine.cut([a for a in ADDRESSES if a != self.at])
        host.kill(self.proc.pid, signal.SIGSTOP)  # it would notice that its processes end, and start others
        host.kill(self.pandod_pid() or self.proc.pid, signal.SIGSTOP)
        all_of_it = [*host.descendants(self.proc.pid), self.proc.pid]
        for pid in all_of_it:
            host.kill(pid, signal.SIGKILL)
        self.proc.wait(30)

        def gone():
            harness.reap()
            return not any(host.alive(pid) for pid in all_of_it)
        wait_for(f"all processes of {self.name} are gone", gone, 60)
        self.clean()
        left = self.debris()
        assert not left, f"left of the dead machine: {left}"

    def boot(self):
        """The machine that died is switched on."""
        self.machine.replaced()
        self.prefix = self.machine.prefix
        self.start()

    def layer_files(self):
        return {name for part in ("layers", "points") for name in os.listdir(os.path.join(self.dir, part))}

    def records(self):
        """Instances of which a process lives."""
        top, found = f"/run/pando/{self.tag}/vm", set()
        for instance in os.listdir(top) if os.path.isdir(top) else []:
            try:
                with open(os.path.join(top, instance)) as f:
                    pid = int(f.read().split()[0])
            except (OSError, IndexError, ValueError):
                continue  # it is being written, or removed
            if host.alive(pid):
                found.add(instance)
        return found


ADDRESSES = [*net.DATABASES, net.OBJECTS, *(f"{net.PREFIX}{100 + n}" for n in range(1, len(NAMES) + 1))]


class Cluster:
    def __init__(self):
        self.nodes, self.machines, self.db, self.rgw, self.liar = [], [], None, None, None

    def start(self):
        begin = time.monotonic()
        self.rgw = rgw.Server()
        self.rgw.start()
        self.rgw.bucket("pando")
        self.liar = liar.Liar(net.OBJECTS, self.rgw.port)
        self.db = pair.Pair()
        self.db.start()
        say(f"  (PostgreSQL, its standby and the object store: {time.monotonic() - begin:.0f} s)")
        self.machines = [net.Machine(name, n) for n, name in enumerate(NAMES, 1)]
        one, *others = self.nodes = [Node(self, m) for m in self.machines]
        one.start()
        self.stored()
        for node in others:
            for name in ("secret.key", "api-key"):  # all nodes have the key of secrets; the other one is for this test
                shutil.copy(os.path.join(one.dir, name), node.dir)
                shutil.chown(os.path.join(node.dir, name), "pando", "pando")
            node.spawn()
        for node in others:
            node.wait_ready()
        self.all_alive()
        say(f"  (three nodes are ready after {time.monotonic() - begin:.0f} s)")

    def close(self):
        for part in (*self.nodes, self.liar):
            if part:
                part.close()
        for part in (self.db, self.rgw):
            if part:
                part.stop()
        for m in self.machines:
            m.down()

    def recover(self):
        """After a case that failed: as it was before, or an exception."""
        self.liar.mode = None
        for node in self.nodes:
            if node.proc.poll() is None:
                node.machine.heal()
                for pid in [node.proc.pid, *host.descendants(node.proc.pid)]:
                    host.kill(pid, signal.SIGCONT)
            else:
                node.clean()
                node.boot()
        self.all_alive()
        self.nodes[0].delete_all()
        self.agree()

    # ---- what is known ----

    def health(self, node):
        return {n["name"]: n["health"] for n in node.api("GET", "/v1/cluster")["nodes"]}

    def all_alive(self, limit_s=120):
        want = dict.fromkeys(NAMES, "alive")
        for node in self.nodes:
            wait_for(f"{node.name} sees all nodes alive", lambda n=node: quiet(lambda: self.health(n)) == want, limit_s)

    def owner(self, vm):
        name = self.db.sql(f"SELECT nodes.name FROM vms JOIN nodes ON vms.node = nodes.id WHERE vms.id = '{vm}'")
        return next((n for n in self.nodes if n.name == name), None)

    def epoch(self, vm):
        return int(self.db.sql(f"SELECT epoch FROM vms WHERE id = '{vm}'"))

    def others(self, node):
        return [n for n in self.nodes if n is not node]

    def dead(self, node, seen_by):
        """Until it is taken over; how long that took."""
        begin = time.monotonic()
        wait_for(f"{node.name} is taken over", lambda: self.db.sql(f"SELECT alive FROM nodes WHERE name = '{node.name}'") == "0", 90)
        wait_for(f"{seen_by.name} knows it", lambda: self.health(seen_by)[node.name] == "dead", 60)
        return time.monotonic() - begin

    def stored(self):
        """Everything that VMs at rest, snapshots and templates need is in the object store."""
        points = ("SELECT point FROM vms WHERE point IS NOT NULL UNION SELECT point FROM snapshots WHERE point IS NOT NULL "
                  "UNION SELECT point FROM templates")
        due = (f"SELECT (SELECT COUNT(*) FROM points WHERE stored = 0 AND id IN ({points})) + "
               f"(WITH RECURSIVE need (id) AS (SELECT mem_layer FROM points WHERE id IN ({points}) UNION SELECT disk_layer FROM points "
               f"WHERE id IN ({points}) UNION SELECT parent FROM layers JOIN need ON need.id = layers.id) "
               "SELECT COUNT(*) FROM layers WHERE stored = 0 AND id IN (SELECT id FROM need))")
        wait_for("everything is stored", lambda: self.db.sql("SELECT COUNT(*) FROM points") != "0" and self.db.sql(due) == "0", STORED_S)

    # ---- what must hold after each case ----

    def settled(self, guests=()):
        """All is well again: nodes, VMs, processes and files agree, each VM counts on through a node that does not own it, then it is deleted."""
        self.all_alive()
        for g in guests:
            owner = self.owner(g.vm)
            for node in self.others(owner)[:1]:
                g.count(node)
            assert not (rest := self.db.sql("SELECT id FROM vms WHERE state NOT IN ('running', 'suspended', 'stopped', 'lost')")), rest
        self.agree()
        for g in guests:
            self.nodes[0].delete(g.vm)
        self.agree()
        assert self.db.sql("SELECT COUNT(*) FROM vms") == "0"

    def agree(self):
        """Each running VM has one process, on its node; there are no other processes and no directories of such."""
        def odd():
            one = self.nodes[0]
            running = {one.info(vm)["vmInstanceId"] for vm, v in one.vms().items() if v["state"] == "running"}
            found = [i for n in self.nodes for i in sorted(n.records())]
            dirs = [d for n in self.nodes for d in (os.listdir(os.path.join(n.dir, "run")) if os.path.isdir(os.path.join(n.dir, "run")) else [])]
            return None if sorted(running) == sorted(found) == sorted(dirs) else (running, found, dirs)
        try:
            wait_for("processes, directories and VMs agree", lambda: odd() is None, 30)
        except AssertionError as e:
            raise AssertionError(f"{e}: running, processes, directories: {odd()}") from None


def quiet(call):
    try:
        return call()
    except (OSError, http.client.HTTPException, ApiError):
        return None


def until(what, call, limit_s=120, codes=BUSY):
    """call()'s answer, once it is not refused any more with one of these codes; what it was refused with."""
    refused = []

    def attempt():
        try:
            return (call(),)
        except ApiError as e:
            if e.code not in codes:
                raise
            refused.append(e)
        except (OSError, http.client.HTTPException) as e:
            refused.append(e)
        return None
    try:
        return wait_for(what, attempt, limit_s, 0.3)[0], refused
    except AssertionError as e:
        raise AssertionError(f"{e}: {refused[-1] if refused else ''}") from None


class Guest:
    """A VM with a process that counts; n is what a client was told last."""

    def __init__(self, cluster, node, **body):
        self.cluster, self.n = cluster, 0
        self.vm = node.create(**body)
        node.sh(self.vm, f"cat > /run/c.py <<'EOF'\n{COUNTER}\nEOF\nsetsid python3 /run/c.py < /dev/null > /dev/null 2>&1 &\n"
                         "while [ ! -e /run/first ]; do sleep 0.1; done")
        self.pid, self.x = node.sh(self.vm, "cat /run/first").split()[:2]
        self.count(node)

    def count(self, node, limit_s=120):
        """One more, in memory and on the disk. The same process answers, and had what it had told."""
        want = self.n + 1
        text, refused = until(f"{self.vm} counts through {node.name}", lambda: node.sh(
            self.vm, f"rm -f /run/now; echo {want} > /run/want; kill -USR1 {self.pid}; while [ ! -e /run/now ]; do sleep 0.05; done; "
                     f"echo {want} > /root/n; sync; cat /run/now"), limit_s)
        pid, x, before, now = text.split()
        assert (pid, x) == (self.pid, self.x), f"{self.vm}: another process answers"
        # an attempt that was refused may have been done
        assert int(before) in ((self.n, want) if refused else (self.n,)) and int(now) == want, f"{self.vm} had {before}, not {self.n}"
        self.n = want
        return refused

    def cold(self, node, limit_s=120):
        """Its memory is gone, its disk is not; it counts from now on as a new process."""
        text, _ = until(f"{self.vm} boots on {node.name}", lambda: node.sh(self.vm, "cat /root/n"), limit_s)
        assert int(text) == self.n, f"the disk of {self.vm} has {text}, not {self.n}"


class Twice:
    """While it is open: no two nodes have processes of VMs at a time (a case has one VM that runs), and never more than `most`."""

    def __init__(self, cluster, most=1):
        self.cluster, self.most, self.over, self.found, self.looks = cluster, most, threading.Event(), [], 0
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.05):
            seen = {n.name: r for n in self.cluster.nodes if (r := n.records())}
            self.looks += 1
            if len(seen) > 1 or sum(map(len, seen.values())) > self.most:
                # a look is not of one moment: what is still so is true
                again = {n.name: r for n in self.cluster.nodes if (r := n.records())}
                both = {name: r & again.get(name, set()) for name, r in seen.items()}
                both = {name: r for name, r in both.items() if r}
                if len(both) > 1 or sum(map(len, both.values())) > self.most:
                    self.found.append(both)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if kind is None:
            assert self.looks > 0 and not self.found, f"VMs run twice: {self.found[:3]}"
