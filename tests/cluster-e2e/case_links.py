# SPDX-License-Identifier: Apache-2.0
"""case_links.py - a node cannot reach the others, or the database, in one direction or both, and can again"""
import time

import net
from cluster import ADDRESSES, Guest, Twice, wait_for
from harness import ApiError
from table import case


def is_cut(c, node, ways):
    """The node loses database, object store and other nodes: its VMs end before it is taken over; then it joins again by itself."""
    other, third = c.others(node)
    at_rest = Guest(c, node)
    node.post(at_rest.vm, "suspend")
    c.stored()
    g = Guest(c, node)
    with Twice(c):
        instance = node.info(g.vm)["vmInstanceId"]
        begin = time.monotonic()
        node.machine.cut([a for a in ADDRESSES if a != node.at], ways)
        try:
            wait_for("its VM has ended", lambda: instance not in node.records(), 60)
            ended = time.monotonic() - begin
            c.dead(node, other)
            took = time.monotonic() - begin
            assert other.state(g.vm) == "lost"
            at_rest.count(other)
            assert c.owner(at_rest.vm) is other
        finally:
            node.machine.heal()
        healed = time.monotonic()
        c.all_alive()
        back = time.monotonic() - healed
        wait_for("its disk is back", lambda: other.state(g.vm) == "stopped", 60)
        other.post(at_rest.vm, "suspend")
        if len(ways) == 2:  # an emulated boot takes a minute, and shows the same each time
            g.cold(other)
        other.delete(g.vm)
        at_rest.count(node)
        assert c.owner(at_rest.vm) is other
    c.settled([at_rest])
    return f"VM ended after {ended:.1f} s, taken over after {took:.1f} s, back {back:.1f} s after the link"


@case(500)
def link_cut(c):
    """A node's link is cut both ways, and healed."""
    return is_cut(c, c.nodes[0], ("in", "out"))


@case(500)
def link_cut_in(c):
    """What a node sends arrives, the answers do not: it counts from answers, so its VMs end all the same."""
    return is_cut(c, c.nodes[1], ("in",))


@case(500)
def link_cut_out(c):
    """A node hears the others and cannot send."""
    return is_cut(c, c.nodes[2], ("out",))


@case(300)
def link_cut_between_nodes(c):
    """Two nodes reach the database, but not each other: 503 there, everything works through the third one, no VM ends."""
    one, two, three = c.nodes
    g = Guest(c, one)
    with Twice(c):
        instance = one.info(g.vm)["vmInstanceId"]
        one.machine.cut([two.at])
        try:
            try:
                two.sh(g.vm, "true")
                raise AssertionError("what cannot be reached answers")
            except ApiError as e:
                assert (e.status, e.code) == (503, "NODE_UNAVAILABLE"), e
            g.count(three)
            assert two.state(g.vm) == "running"  # what the database knows
        finally:
            one.machine.heal()
        refused = g.count(two)
        assert one.info(g.vm)["vmInstanceId"] == instance and c.epoch(g.vm) == 1
    c.settled([g])
    return f"{len(refused)} more refused after the link was back"


@case(300)
def link_cut_to_objects(c):
    """A node does not reach the object store: its VMs run, suspend and resume, and are uploaded later."""
    one, two, _ = c.nodes
    g = Guest(c, one)
    with Twice(c):
        one.machine.cut([net.OBJECTS])
        try:
            one.post(g.vm, "suspend")
            g.count(two)
            one.post(g.vm, "suspend")
        finally:
            one.machine.heal()
        c.stored()
    c.settled([g])
