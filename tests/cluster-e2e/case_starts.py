# SPDX-License-Identifier: Apache-2.0
"""case_starts.py - a machine that is set up wrongly is refused at its start, with the reason and the way out; the others do not notice

What needs no second server is in unit/test_store_server.c, unit/test_node.c and objects/.
"""
import os
import shutil

import net
import pair
from cluster import Node
from table import case


def start_of(c, machine, words, own_key=False, **env):
    """A new machine with these settings ends at once, and says this."""
    node = Node(c, machine)
    try:
        node.env.update(env)
        if not own_key:
            shutil.copy(os.path.join(c.nodes[0].dir, "secret.key"), node.dir)
            shutil.chown(os.path.join(node.dir, "secret.key"), "pando", "pando")
        node.spawn()
        code = node.proc.wait(180)
        log = node.log_text()
        assert code != 0, f"it ended with 0:\n{log}"
        missing = [w for w in words if w not in log]
        assert not missing, f"its log does not say {missing}:\n{node.log_tail(20)}"
    finally:
        node.close()


@case(600)
def wrong_starts(c):
    """Credentials, bucket, database, key of secrets, name, address and clock: each refused with a sentence."""
    primary = c.db.primary
    guarded = f"postgresql://guarded:%s@{primary.address}:{pair.PORT}/pando"
    c.rgw.bucket("theirs")
    c.rgw.curl("PUT", "/theirs/readme", b"not ours")
    machine = net.Machine("four", 4)
    objects = f"endpoint={c.liar.endpoint}"
    try:
        start_of(c, machine, ["does not accept our credentials", "PANDO_DATABASE"], PANDO_DATABASE=guarded % "wrong")
        start_of(c, machine, ["there is no database", "CREATE DATABASE"], PANDO_DATABASE=c.db.url("missing"))
        start_of(c, machine, ["has a node 'one' already", "PANDO_NODE_NAME"], PANDO_NODE_NAME="one")
        start_of(c, machine, ["has the address", "PANDO_NODE_ADDRESS"], PANDO_NODE_ADDRESS=f"{c.nodes[1].at}:8790")
        start_of(c, machine, ["PANDO_OBJECTS_CREDENTIALS"], PANDO_OBJECTS_SECRET="wrong")
        start_of(c, machine, ["PANDO_OBJECTS"], PANDO_OBJECTS=f"s3://missing?{objects}")
        start_of(c, machine, ["PANDO_OBJECTS"], PANDO_OBJECTS=f"s3://theirs?{objects}")
        start_of(c, machine, ["secret.key"], own_key=True)
        # a clock five minutes off: the database's, as nothing here has a clock of its own
        primary.sql("CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                    "'SELECT pg_catalog.clock_timestamp() + interval ''5 min'''", "another")
        primary.sql("ALTER DATABASE another SET search_path = public, pg_catalog", "another")
        start_of(c, machine, ["behind the database's", "set the clocks"], PANDO_DATABASE=c.db.url("another"), PANDO_OBJECTS="")
    finally:
        machine.down()
    assert c.health(c.nodes[0]) == {n.name: "alive" for n in c.nodes}, c.health(c.nodes[0])
    c.settled()


@case(300)
def another_clusters_database(c):
    """A node that is started with another database does not use it, and goes on with its own."""
    three = c.nodes[2]
    three.stop()
    own = three.env["PANDO_DATABASE"]
    try:
        c.db.primary.sql("CREATE DATABASE theirs", "postgres")
        three.env["PANDO_DATABASE"] = c.db.url("theirs")
        three.spawn()
        assert three.proc.wait(180) != 0
        for words in ("is empty, but the data directory", "belongs to cluster", "set PANDO_DATABASE to that one's database"):
            assert words in three.log_tail(), three.log_tail()
    finally:
        three.env["PANDO_DATABASE"] = own
    three.start()
    c.settled()
