# SPDX-License-Identifier: Apache-2.0
"""Two real servers with one PostgreSQL and one radosgw: what one of them made lives on when it is killed with everything, and when it is drained"""
import os
import shutil
import signal
import subprocess
import sys
import time

import host
from case import Case, limit, wait_for
from harness import ROOT, Server
from ports import free_port, free_ports

sys.path.append(os.path.join(ROOT, "tests/objects"))
sys.path.append(os.path.join(ROOT, "tests/unit"))  # last: files there have the names of files here
import pg  # noqa: E402
import rgw  # noqa: E402

PORT = free_ports(1)
PORTS_AT = {"one": "127.119.0.2", "two": "127.119.0.3"}  # as if they were two machines
UPLOAD_S = 120  # of the template and the image, on a busy machine

# A process with something in its memory that is nowhere else, and that says it when it is asked.
PROCESS = """
import os, signal
x = os.urandom(16).hex()
def say(name):
    with open(name + ".new", "w") as f:
        f.write(f"{os.getpid()} {x}")
    os.rename(name + ".new", name)
signal.signal(signal.SIGUSR1, lambda *a: say("/run/now"))
say("/run/first")
while True:
    signal.pause()
"""


class Elsewhere(Case):
    own_server = False
    long = True  # a lease runs out; the image is uploaded and fetched

    @limit(1200)
    def test_a_node_dies_and_one_is_drained(self):
        with rgw.Server() as store, pg.Server() as db:
            os.chmod(db.dir, 0o711)  # the user pando reaches the socket
            store.bucket("pando")
            self.store, self.db = store, db
            one, two = (self.node(name) for name in ("one", "two"))
            try:
                one.start()
                self.stored()
                for name in ("secret.key", "api-key"):
                    shutil.copy(os.path.join(one.dir, name), two.dir)
                    shutil.chown(os.path.join(two.dir, name), "pando", "pando")
                two.start()
                self.assertIn("fetching another node's template", two.log_tail(4000))
                self.prepare(one)
                self.killed(one, two)
                self.resumed(two)
                self.fetched_or_not(two)
                self.rewound(two)
                self.back(one, two)
                self.drained(one, two)
            finally:
                two.close()
                one.close()

    @limit(900)
    def test_a_fork_is_spread_over_nodes(self):
        with rgw.Server() as store, pg.Server() as db:
            os.chmod(db.dir, 0o711)
            store.bucket("pando")
            self.store, self.db = store, db
            one, two = (self.node(name) for name in ("one", "two"))
            try:
                one.start()
                self.stored()
                for name in ("secret.key", "api-key"):
                    shutil.copy(os.path.join(one.dir, name), two.dir)
                    shutil.chown(os.path.join(two.dir, name), "pando", "pando")
                vm = self.begin(one)
                reply = one.api("POST", f"/v1/vms/{vm}/fork", {"count": 2, "spread": True})
                self.assertIn("no other node", reply["spread"]["note"])
                self.assertEqual(reply["spread"]["nodes"], ["one", "one"])
                for f in reply["forks"]:
                    one.delete(f["id"])
                two.start()
                wait_for("both are known", lambda: list(self.health(one).values()) == ["alive", "alive"], 60)
                self.spread(one, two, vm)
            finally:
                two.close()
                one.close()

    def spread(self, one, two, vm):
        """Asked of the node that has not the VM; the copies run on both, with its memory, and know their numbers."""
        t0 = time.monotonic()
        reply = two.api("POST", f"/v1/vms/{vm}/fork", {"count": 2, "spread": True})
        print(f"    a fork in two, over two nodes: {time.monotonic() - t0:.2f} s", flush=True)
        self.assertEqual((sorted(reply["spread"]["nodes"]), reply["spread"]["note"]), (["one", "two"], None))
        for i, (fork, node) in enumerate(zip(reply["forks"], reply["spread"]["nodes"])):
            info = one.info(fork["id"])
            self.assertEqual((info["state"], info["parentVmId"]), ("running", vm))
            self.assertEqual(self.db.sql(f"SELECT nodes.name FROM vms JOIN nodes ON vms.node = nodes.id WHERE vms.id = '{fork['id']}'"), node)
            self.same({"one": two, "two": one}[node], fork["id"])  # through the other one
            self.assertIn(f'"index":{i + 1},', one.sh(fork["id"], "cat /run/pando/self.json").replace(" ", ""))
        self.same(one, vm)
        for fork in reply["forks"]:
            one.delete(fork["id"])

    def node(self, name):
        return Server(env={"PANDO_DATABASE": self.db.url(), "PANDO_NODE_ADDRESS": f"127.0.0.1:{free_port()}", "PANDO_NODE_NAME": name,
                           "PANDO_OBJECTS": self.store.url("pando"), "PANDO_OBJECTS_KEY": rgw.KEY, "PANDO_OBJECTS_SECRET": rgw.SECRET,
                           "PANDO_PORT_RANGE": f"{PORT}-{PORT}", "PANDO_PORT_LISTEN": PORTS_AT[name]})

    def health(self, s):
        return {n["name"]: n["health"] for n in s.api("GET", "/v1/cluster")["nodes"]}

    def stored(self):
        """Everything that points of VMs at rest, snapshots and templates need."""
        points = ("SELECT point FROM vms WHERE point IS NOT NULL UNION SELECT point FROM snapshots WHERE point IS NOT NULL "
                  "UNION SELECT point FROM templates")
        due = (f"SELECT (SELECT COUNT(*) FROM points WHERE stored = 0 AND id IN ({points})) + "
               f"(WITH RECURSIVE need (id) AS (SELECT mem_layer FROM points WHERE id IN ({points}) UNION SELECT disk_layer FROM points "
               f"WHERE id IN ({points}) UNION SELECT parent FROM layers JOIN need ON need.id = layers.id) "
               "SELECT COUNT(*) FROM layers WHERE stored = 0 AND id IN (SELECT id FROM need))")
        wait_for("everything is stored", lambda: self.db.sql("SELECT COUNT(*) FROM points") != "0" and self.db.sql(due) == "0", UPLOAD_S)

    def begin(self, s):
        vm = s.create()
        s.sh(vm, f"cat > /run/p.py <<'EOF'\n{PROCESS}\nEOF\nsetsid python3 /run/p.py < /dev/null > /dev/null 2>&1 &\n"
                 "while [ ! -e /run/first ]; do sleep 0.1; done")
        return vm

    def same(self, s, vm):
        """The process is the one that was started, and knows what it knew."""
        s.sh(vm, "rm -f /run/now; read pid x < /run/first; kill -USR1 $pid; while [ ! -e /run/now ]; do sleep 0.1; done")
        self.assertEqual(s.sh(vm, "cat /run/now"), s.sh(vm, "cat /run/first"))

    def prepare(self, one):
        self.asleep, self.damaged, self.running = (self.begin(one) for _ in range(3))
        self.snap = one.api("POST", f"/v1/vms/{self.running}/snapshot", {})["snapshotId"]
        for vm in (self.asleep, self.damaged, self.running):
            one.post(vm, "suspend")
        self.stored()
        one.sh(self.running, "touch /run/after")  # which nobody will see again

    def killed(self, one, two):
        for pid in (one.pandod_pid(), one.proc.pid):
            host.kill(pid, signal.SIGKILL)
        one.proc.wait(30)
        wait_for("it is dead", lambda: self.health(two)["one"] == "dead", 90)
        wait_for("it is taken over", lambda: self.db.sql("SELECT alive FROM nodes WHERE name = 'one'") == "0", 90)

    def resumed(self, two):
        t0 = time.monotonic()
        two.sh(self.asleep, "true")
        print(f"    resume elsewhere, to the first answer: {time.monotonic() - t0:.2f} s", flush=True)
        self.same(two, self.asleep)
        self.assertEqual(self.db.sql(f"SELECT epoch, nodes.name FROM vms JOIN nodes ON vms.node = nodes.id WHERE vms.id = '{self.asleep}'"), "2|two")
        child = two.create(snapshotId=self.snap)
        self.same(two, child)
        two.delete(child)

    def fetched_or_not(self, two):
        """No object store, then a lying one: the VM is claimed and waits."""
        mem = self.db.sql(f"SELECT mem_layer FROM points JOIN vms ON vms.point = points.id WHERE vms.id = '{self.damaged}'")
        key = f"/pando/layers/{mem}/0"
        good = self.store.curl("GET", key)
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 4
        self.store.curl("PUT", key, bytes(bad))
        error = self.refused(500, "OBJECT_DAMAGED", two.sh, self.damaged, "true")
        self.assertIn(f"chunk 0 of layers/{mem} is damaged", error.message)
        self.store.curl("PUT", key, good)
        self.store.kill()
        self.refused(503, "SERVICE_UNAVAILABLE", two.sh, self.damaged, "true")
        self.assertEqual(two.state(self.damaged), "suspended")
        self.store.run()
        self.same(two, self.damaged)

    def rewound(self, two):
        self.assertEqual(two.state(self.running), "lost")
        error = self.refused(503, "NODE_UNAVAILABLE", two.sh, self.running, "true")
        self.assertIn("rewind", error.message)
        reply = two.post(self.running, "rewind", {"snapshotId": None})
        self.assertEqual((reply["state"], reply["snapshotId"]), ("suspended", None))
        self.same(two, self.running)
        self.assertEqual(two.sh(self.running, "ls /run/after || true").strip(), "")

    def back(self, one, two):
        one.start()
        wait_for("it is back", lambda: self.health(two)["one"] == "alive", 60)
        self.same(two, self.asleep)
        self.assertEqual(self.db.sql("SELECT COUNT(*) FROM vms JOIN nodes ON vms.node = nodes.id WHERE nodes.name = 'one'"), "0")

    def drained(self, one, two):
        two.delete(self.damaged)
        two.sh(self.asleep, "mkdir -p /srv/w && echo served >/srv/w/f && cd /srv/w && setsid python3 -m http.server 3000 </dev/null >/dev/null 2>&1 & "
                            "timeout 60 sh -c 'until curl -s http://127.0.0.1:3000/; do sleep 0.2; done' >/dev/null", timeout_ms=90000)
        two.api("POST", f"/v1/vms/{self.asleep}/ports", {"port": PORT, "targetPort": 3000})
        one.api("POST", "/v1/cluster/nodes/two/drain", {})

        def left():
            return [n["vms"] for n in one.api("GET", "/v1/cluster")["nodes"] if n["name"] == "two"][0]
        wait_for("its VMs are given up", lambda: left() == 0, 120)
        two.stop()  # nobody waits for it
        # by a mapped port and by SSH, too: whoever is asked has it from then on
        r = subprocess.run(["curl", "-sS", "--max-time", "100", f"http://{PORTS_AT['one']}:{PORT}/f"], capture_output=True, text=True, timeout=120)
        self.assertEqual(r.stdout, "served\n", r.stderr)
        r = subprocess.run(["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                            "-o", "BatchMode=yes", "-p", str(one.ssh_port), "-l", f"{self.running}:{one.key()}", "127.0.0.1", "echo by ssh"],
                           capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(r.stdout, "by ssh\n", r.stderr)
        for vm in (self.asleep, self.running):
            self.same(one, vm)
            one.delete(vm)
