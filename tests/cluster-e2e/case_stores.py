# SPDX-License-Identifier: Apache-2.0
"""case_stores.py - PostgreSQL and the object store fail"""
import threading
import time

from cluster import Guest, Twice, quiet
from harness import ApiError, wait_for
from table import case


class Writer:
    """Makes keys through all nodes in turn while it is open, and remembers those it was told of."""

    def __init__(self, c):
        self.c, self.over, self.told, self.times = c, threading.Event(), [], {n.name: [] for n in c.nodes}
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in c.nodes]

    def write(self, node):
        while not self.over.is_set():
            key = quiet(lambda: node.api("POST", "/v1/keys", {"name": "k"}, timeout=60))
            if key:
                self.told.append(key["id"])
                self.times[node.name].append(time.monotonic())
            time.sleep(0.05)

    def await_one_more(self, after):
        """Until each node has written once more; the time of the last of them."""
        wait_for("all nodes write", lambda: all(t and t[-1] > after for t in self.times.values()), 120)
        return max(next(x for x in t if x > after) for t in self.times.values())

    def __enter__(self):
        for t in self.threads:
            t.start()
        self.await_one_more(time.monotonic())
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        for t in self.threads:
            t.join()
        if kind is None:
            known = {k["id"] for k in self.c.nodes[0].api("GET", "/v1/keys")["keys"]}
            missing = set(self.told) - known
            assert not missing, f"{len(missing)} of {len(self.told)} acknowledged keys are not there"
            for key in known & set(self.told):
                self.c.nodes[0].api("DELETE", f"/v1/keys/{key}")


@case(400)
def database_restarted(c):
    """PostgreSQL is killed and started again at once: VMs run on, nothing that was acknowledged is missing."""
    one, two, _ = c.nodes
    g = Guest(c, one)
    instance = one.info(g.vm)["vmInstanceId"]
    with Twice(c), Writer(c) as w:
        begin = time.monotonic()
        c.db.dies(silently=False)
        c.db.primary.run()
        took = w.await_one_more(time.monotonic()) - begin
        g.count(two)
        assert one.info(g.vm)["vmInstanceId"] == instance, "the VM did not run on"
    c.db.await_sync()
    c.settled([g])
    return f"all nodes write again after {took:.1f} s; {len(w.told)} keys"


def failed_over(c, silently):
    one, two, _ = c.nodes
    g = Guest(c, one)
    instance = one.info(g.vm)["vmInstanceId"]
    with Twice(c), Writer(c) as w:
        begin = time.monotonic()
        c.db.dies(silently)
        c.db.fail_over()
        promoted = time.monotonic()
        took = w.await_one_more(promoted)
        g.count(two)
        assert one.info(g.vm)["vmInstanceId"] == instance, "the VM did not run on"
    c.db.rebuilt()
    c.settled([g])
    return f"promoted after {promoted - begin:.1f} s, all nodes write after {took - begin:.1f} s; {len(w.told)} keys"


@case(500)
def database_failed_over(c):
    """PostgreSQL is killed and the synchronous standby is promoted: VMs run on, nothing that was acknowledged is missing."""
    return failed_over(c, silently=False)


@case(500)
def database_machine_dead(c):
    """The same, and PostgreSQL's machine is silent: nobody is told that connections have ended."""
    return failed_over(c, silently=True)


@case(600)
def database_down(c):
    """PostgreSQL is down for longer than the lease: all VMs end, and all nodes join again by themselves."""
    one, two, three = c.nodes
    at_rest = Guest(c, two)
    two.post(at_rest.vm, "suspend")
    g = Guest(c, one)
    with Twice(c):
        c.db.dies(silently=False)
        begin = time.monotonic()
        wait_for("the VM has ended", lambda: not one.records(), 60)
        ended = time.monotonic() - begin
        c.db.primary.run()
        up = time.monotonic()
        c.all_alive(180)
        back = time.monotonic() - up
        wait_for("its disk is there", lambda: quiet(lambda: two.state(g.vm)) == "stopped", 60)
        g.cold(three)
        one.delete(g.vm)
        at_rest.count(three)
    c.db.await_sync()
    c.settled([at_rest])
    return f"VM ended after {ended:.1f} s, nodes were back {back:.1f} s after the database"


@case(400)
def objects_down(c):
    """The object store is down: VMs suspend and resume where they are, a claim waits for it; then all is stored."""
    one, two, three = c.nodes
    g = Guest(c, one)
    with Twice(c):
        c.liar.mode = "down"
        try:
            one.post(g.vm, "suspend")
            g.count(two)
            assert one.api("GET", "/v1/health")["status"], "no health"
            one.post(g.vm, "suspend")
        finally:
            c.liar.mode = None
        c.stored()
        one.die()
        c.dead(one, two)
        c.liar.mode = "down"
        try:
            try:
                two.sh(g.vm, "true")
                raise AssertionError("a VM without its layers answers")
            except ApiError as e:
                assert (e.status, e.code) == (503, "SERVICE_UNAVAILABLE"), e
            assert two.state(g.vm) == "suspended" and c.owner(g.vm) is two
        finally:
            c.liar.mode = None
        g.count(three)
        one.boot()
    c.settled([g])


@case(500)
def objects_slow(c):
    """The object store takes a second more for each answer: a suspend does not wait for it, a claim does."""
    one, two, three = c.nodes
    g = Guest(c, one)
    with Twice(c):
        c.liar.mode = "slow"
        try:
            one.post(g.vm, "suspend")
            c.stored()
            one.die()
            c.dead(one, two)
            begin = time.monotonic()
            g.count(three)
            took = time.monotonic() - begin
            assert c.owner(g.vm) is three
        finally:
            c.liar.mode = None
        one.boot()
    c.settled([g])
    return f"counts on after {took:.1f} s"


@case(600)
def objects_lie(c):
    """Flipped bits and chunks that end early are found: the VM stays suspended, and resumes when the store is honest."""
    one, two, three = c.nodes
    g = Guest(c, one)
    one.post(g.vm, "suspend")
    c.stored()
    with Twice(c):
        one.die()
        c.dead(one, two)
        for mode, node in (("flip", two), ("cut", two)):
            before = c.liar.did[mode]
            c.liar.mode = mode
            try:
                try:
                    node.sh(g.vm, "true")
                    raise AssertionError(f"a VM resumes from damaged layers ({mode})")
                except ApiError as e:
                    assert (e.status, e.code) == (500, "OBJECT_DAMAGED") and "is damaged" in e.message, e
            finally:
                c.liar.mode = None
            assert c.liar.did[mode] > before, "the test did not lie"
            assert node.state(g.vm) == "suspended" and c.owner(g.vm) is node
        g.count(three)
        one.boot()
    c.settled([g])
