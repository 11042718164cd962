# SPDX-License-Identifier: Apache-2.0
"""elsewhere.py - resume on another node: to the first answer, with so much memory of its own

Two servers on this machine with one PostgreSQL and one radosgw. A VM's program holds so many MB, half of them random; it is suspended and
uploaded, its node is drained (which is quicker to arrange than a death, and the same for who takes over), and the other one is asked for a
command. The layers of template and image are there already: the first resume of a run fetches them and is not counted.
"""
import os
import shutil
import sys

import harness
from kinds import Clock

sys.path.append(os.path.join(harness.ROOT, "tests/objects"))
sys.path.append(os.path.join(harness.ROOT, "tests/unit"))  # last: files there have the names of files elsewhere
import pg  # noqa: E402
import rgw  # noqa: E402
from ports import free_port  # noqa: E402

SIZES_MB = (0, 60)  # beside what an idle VM writes
WAIT_S = 300

HOLD = """
import os, signal
half = %d << 19
x = [os.urandom(half), b"pando" * (half // 5)]
open("/run/held", "w").write(str(half))
signal.pause()
"""


class Pair:
    def __init__(self, size, top, store, db):
        env = {**size, "PANDO_POOL": "0", "PANDO_DATABASE": db.url(), "PANDO_OBJECTS": store.url("pando"), "PANDO_OBJECTS_KEY": rgw.KEY,
               "PANDO_OBJECTS_SECRET": rgw.SECRET}
        self.db, self.nodes = db, []
        for name in ("one", "two"):
            self.nodes.append(harness.Server(env={**env, "PANDO_NODE_NAME": name, "PANDO_NODE_ADDRESS": f"127.0.0.1:{free_port()}"},
                                             data_dir=os.path.join(top, f"elsewhere-{name}")))

    def start(self):
        one, two = self.nodes
        one.start()
        self.await_sql("SELECT COUNT(*) FROM templates JOIN points ON points.id = templates.point WHERE stored = 0", "0")
        os.makedirs(two.dir, exist_ok=True)
        for name in ("secret.key", "api-key"):
            shutil.copy(os.path.join(one.dir, name), two.dir)
            shutil.chown(os.path.join(two.dir, name), "pando", "pando")
        two.start()

    def close(self):
        for s in self.nodes:
            s.close()

    def await_sql(self, sql, want):
        harness.wait_for(sql, lambda: self.db.sql(sql) == want, WAIT_S)

    def drain(self, s, on):
        name = s.env["PANDO_NODE_NAME"]
        s.api("POST", f"/v1/cluster/nodes/{name}/drain", {"drain": on})
        if on:
            self.await_sql(f"SELECT COUNT(*) FROM vms JOIN nodes ON nodes.id = vms.node WHERE nodes.name = '{name}'", "0")
        else:
            harness.wait_for("it takes VMs again", lambda: self.takes(s), WAIT_S)

    def takes(self, s):
        try:
            s.delete(s.create())
            return True
        except harness.ApiError:
            return False

    def one(self, mb):
        """Milliseconds to the answer at the other node, and the MB of the VM's own layers."""
        a, b = self.nodes
        vm = a.create()
        a.sh(vm, f"cat > /run/hold.py <<'EOF'\n{HOLD % mb}\nEOF\nsetsid python3 /run/hold.py < /dev/null > /dev/null 2>&1 &\n"
                 "while [ ! -s /run/held ]; do sleep 0.1; done")
        self.drain(a, True)
        own = self.db.sql(f"SELECT SUM(l.bytes) FROM points p JOIN vms v ON v.point = p.id JOIN layers l ON l.id IN (p.mem_layer, p.disk_layer) "
                          f"WHERE v.id = '{vm}'")
        clock = Clock()
        b.sh(vm, "true")
        ms = clock.ms()
        b.delete(vm)
        self.drain(a, False)
        return ms, int(own) / 1e6


def run(record, rounds, size, top, say):
    with rgw.Server() as store, pg.Server() as db:
        os.chmod(db.dir, 0o711)  # the user pando reaches the socket
        store.bucket("pando")
        pair = Pair(size, top, store, db)
        try:
            pair.start()
            pair.one(0)  # fetches what all VMs stand on
            for i in range(rounds):
                for mb in SIZES_MB:
                    ms, own = pair.one(mb)
                    record.add(f"elsewhere.{mb}", ms)
                    record.add(f"elsewhere.{mb}.own", own)
                say(f"elsewhere: round {i + 1} of {rounds}")
            return pair.nodes[0].api("GET", "/v1/health")
        finally:
            pair.close()
