# SPDX-License-Identifier: Apache-2.0
"""Layers in an object store: a real S3 server beside a whole Pando, outages, damaged objects, an emptied data directory"""
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from case import Case, limit, long, wait_for
from harness import ROOT, Server

sys.path.append(os.path.join(ROOT, "tests/objects"))
sys.path.append(os.path.join(ROOT, "tests/unit"))  # last: files there have the names of files here
import pg  # noqa: E402
import rgw  # noqa: E402

UPLOAD_S = 120  # of the template and the image, on a busy machine


def layers(s):
    return set(os.listdir(os.path.join(s.dir, "layers")))


class Objects(Case):
    own_server = False

    def server(self, store, bucket, **env):
        return Server(env={"PANDO_OBJECTS": store.url(bucket), "PANDO_OBJECTS_KEY": rgw.KEY, "PANDO_OBJECTS_SECRET": rgw.SECRET, **env})

    def objects(self, s):
        return s.request("GET", "/v1/health")[1]["objects"]

    def all_stored(self, s):
        wait_for("everything is uploaded", lambda: self.rows(s, "SELECT COUNT(*) FROM points WHERE stored = 1") and
                 self.objects(s)["state"] == "ok" and self.due(s) == 0, UPLOAD_S)

    def due(self, s):
        """What suspended VMs, snapshots and templates need and is not stored; from the database, since health is a look ago."""
        points = "SELECT point FROM vms WHERE point IS NOT NULL UNION SELECT point FROM snapshots WHERE point IS NOT NULL UNION SELECT point FROM templates"
        return self.rows(s, f"SELECT (SELECT COUNT(*) FROM points WHERE stored = 0 AND id IN ({points})) + "
                            f"(WITH RECURSIVE need (id) AS (SELECT mem_layer FROM points WHERE id IN ({points}) UNION SELECT disk_layer FROM points "
                            f"WHERE id IN ({points}) UNION SELECT parent FROM layers JOIN need ON need.id = layers.id) "
                            "SELECT COUNT(*) FROM layers WHERE stored = 0 AND id IN (SELECT id FROM need))")

    def rows(self, s, sql):
        with sqlite3.connect(f"file:{s.dir}/pando.db?mode=ro", uri=True, timeout=30) as db:
            return db.execute(sql).fetchone()[0]

    def empty(self, s):
        """The server is stopped: all that was uploaded is gone here."""
        for name in layers(s):
            os.unlink(os.path.join(s.dir, "layers", name))
        for name in os.listdir(os.path.join(s.dir, "points")):
            os.unlink(os.path.join(s.dir, "points", name))

    @long
    @limit(900)
    def test_a_machine_that_lost_its_layers(self):
        with rgw.Server() as store:
            store.bucket("pando")
            s = self.server(store, "pando")
            try:
                self.lose(s.start(), store)
            finally:
                s.close()

    def lose(self, s, store):
        vm = s.create()
        s.sh(vm, "head -c 12000000 /dev/urandom > /dev/shm/x; sha256sum < /dev/shm/x > /root/sum; sync")
        want = s.sh(vm, "cat /root/sum")
        s.post(vm, "suspend")
        self.all_stored(s)
        s.stop()
        self.empty(s)
        s.start()
        self.assertEqual(s.sh(vm, "sha256sum < /dev/shm/x; cat /root/sum").split(), want.split() * 2)
        self.assertIn("fetched from the object store", s.log_tail(4000))

        # an outage: a suspend is as always, and uploaded when the store is back
        store.kill()
        s.sh(vm, "echo during > /dev/shm/y")
        s.post(vm, "suspend")
        wait_for("health says so", lambda: self.objects(s)["state"] == "failing", 60)
        self.assertGreater(self.due(s), 0)
        notes = s.request("GET", "/v1/host")[1]["notes"]
        self.assertTrue([n for n in notes if "object store cannot be used" in n["text"]], notes)
        self.assertIn("pando_objects_up 0", str(s.request("GET", "/metrics")[1]))
        self.assertEqual(s.sh(vm, "cat /dev/shm/y").strip(), "during")  # it is here
        s.post(vm, "suspend")
        point = self.rows(s, f"SELECT point FROM vms WHERE id = '{vm}'")
        store.run()
        self.all_stored(s)

        # a damaged object, and no store: each a sentence, and the VM waits for better times
        mem = self.rows(s, f"SELECT mem_layer FROM points WHERE id = '{point}'")
        key = f"/pando/layers/{mem}/0"
        good = store.curl("GET", key)
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 4
        store.curl("PUT", key, bytes(bad))
        os.unlink(os.path.join(s.dir, "layers", mem))
        error = self.refused(500, "OBJECT_DAMAGED", s.sh, vm, "true")
        self.assertIn(f"chunk 0 of layers/{mem} is damaged", error.message)
        self.assertEqual(s.state(vm), "suspended")
        store.curl("PUT", key, good)
        store.kill()
        error = self.refused(503, "SERVICE_UNAVAILABLE", s.sh, vm, "true")
        self.assertIn("cannot be fetched now", error.message)
        self.assertEqual(s.state(vm), "suspended")
        store.run()
        self.assertEqual(s.sh(vm, "cat /dev/shm/y; sha256sum < /dev/shm/x").split(), ["during", *want.split()])

        # what is in the bucket says nothing, and goes when the VM does
        self.assertNotIn(b"during", store.curl("GET", key))
        s.stop()
        s.env["PANDO_OBJECTS_KEEP_S"] = "0"
        s.start()
        s.delete(vm)
        wait_for("its objects are deleted", lambda: mem.encode() not in store.curl("GET", "/pando?list-type=2&max-keys=1000"), 60)

    @long
    @limit(900)
    def test_a_bounded_cache_and_postgresql(self):
        """Layers that nobody uses are dropped and come back, with memory; the state is in PostgreSQL."""
        with rgw.Server() as store, pg.Server() as db:
            os.chmod(db.dir, 0o711)
            store.bucket("pando")
            s = self.server(store, "pando", PANDO_DATABASE=db.url(), PANDO_OBJECTS_CACHE_MB="1")
            try:
                self.bound(s.start(), db)
            finally:
                s.close()

    def bound(self, s, db):
        vms = [s.create() for _ in range(3)]
        for n, vm in enumerate(vms):
            s.sh(vm, f"echo kept{n} > /dev/shm/x; echo disk{n} > /root/x; sync")
            s.post(vm, "suspend")
        wait_for("the layers of suspended VMs are only in the object store",
                 lambda: not [p for p in db.sql("SELECT mem_layer FROM points JOIN vms ON vms.point = points.id WHERE vms.state = 'suspended'").split()
                              if p in layers(s)], UPLOAD_S)
        for n, vm in enumerate(vms):
            self.assertEqual(s.sh(vm, "cat /dev/shm/x /root/x").split(), [f"kept{n}", f"disk{n}"])
        # all at once, from one snapshot whose layers are not here
        snapshot = s.snapshot(vms[0])
        for vm in vms:
            s.delete(vm)
        top = db.sql(f"SELECT mem_layer FROM points JOIN snapshots ON snapshots.point = points.id WHERE snapshots.id = '{snapshot}'")
        wait_for("the snapshot is only in the object store", lambda: top not in layers(s), UPLOAD_S)
        with ThreadPoolExecutor(3) as pool:
            made = list(pool.map(lambda _: s.create(snapshotId=snapshot), range(3)))
        for vm in made:
            self.assertEqual(s.sh(vm, "cat /dev/shm/x").strip(), "kept0")
        self.assertEqual(s.log_text().count(f"layer {top}: fetched"), 1)

    @limit(240)
    def test_what_is_refused_at_start(self):
        with rgw.Server() as store:
            store.bucket("pando")
            store.bucket("other")
            store.curl("PUT", "/other/pando/cluster", b"cl-somebodyelse00000000\n")
            for bucket, secret, sentence in (("other", rgw.SECRET, "belongs to cluster cl-somebodyelse00000000"),
                                             ("missing", rgw.SECRET, "there is no bucket 'missing'"),
                                             ("pando", "wrong", "refuses the credentials (SignatureDoesNotMatch)")):
                s = self.server(store, bucket, PANDO_OBJECTS_SECRET=secret)
                try:
                    s.spawn()
                    self.assertNotEqual(s.proc.wait(60), 0)
                    self.assertIn(sentence, s.log_tail())
                finally:
                    s.close()

    @long
    @limit(900)
    def test_the_client_against_ceph(self):
        """The client's own tests against radosgw with a monitor and an OSD, which is stricter than the one with SQLite."""
        program = os.path.join(ROOT, "build-asan/tests/objects/test_objects")
        if not os.path.exists(program):
            self.skipTest("build-asan has no test_objects: scripts/build.sh asan tests/objects/test_objects")
        out = subprocess.run([sys.executable, os.path.join(ROOT, "tests/objects/test_objects.py"), "--ceph", program], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.assertEqual(out.returncode, 0, out.stdout[-4000:])
        self.assertIn("6 test(s)", out.stdout)
