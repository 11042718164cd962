# SPDX-License-Identifier: Apache-2.0
"""The whole server with its state in PostgreSQL: VMs live on through lost connections, a restart of the database and kill -9"""
import os
import subprocess
import sys
import time

from case import Case, limit, long
from harness import ROOT, Server
from pando_tool import PANDO

sys.path.append(os.path.join(ROOT, "tests/unit"))  # last: files there have the names of files here
import pg  # noqa: E402


class Database(Case):
    own_server = False

    @limit(240)
    def test_a_life_in_postgresql(self):
        with pg.Server() as db:
            os.chmod(db.dir, 0o711)  # the user pando reaches the socket
            server = Server(env={"PANDO_DATABASE": db.url()})
            try:
                self.live(server.start(), db)
            finally:
                server.close()

    def live(self, s, db):
        vm = s.create()
        s.sh(vm, "echo kept > /run/x")
        s.post(vm, "suspend")
        self.assertEqual(s.sh(vm, "cat /run/x").strip(), "kept")
        db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pandod'")
        s.post(vm, "suspend")
        db.kill()
        time.sleep(0.1)
        db.run()
        self.assertEqual(s.sh(vm, "cat /run/x").strip(), "kept")
        s.kill9_pandod()
        self.assertEqual(s.state(vm), "running")
        self.assertEqual(s.sh(vm, "cat /run/x").strip(), "kept")
        self.assertEqual(db.sql("SELECT id, state FROM vms"), f"{vm}|running")
        self.assertNotIn("pando.db", os.listdir(s.dir))
        s.delete(vm)
        # the data directory belongs to that database now
        s.stop()
        del s.env["PANDO_DATABASE"]
        s.spawn()
        self.assertNotEqual(s.proc.wait(60), 0)
        self.assertIn("set PANDO_DATABASE", s.log_tail())

    @long
    @limit(480)
    def test_rows_move_to_postgresql_and_back(self):
        """The data directory of a machine with a suspended VM, a snapshot and an account goes to PostgreSQL and back; the VM keeps its memory."""
        with pg.Server() as db:
            os.chmod(db.dir, 0o711)
            server = Server()
            try:
                self.move(server.start(), db)
            finally:
                server.close()

    def migrate(self, s, *args, code=0, **env):
        r = subprocess.run([PANDO, "--data-dir", s.dir, "migrate", *args], env={**s.env, **env}, capture_output=True, text=True, timeout=300)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r.stdout + r.stderr

    def move(self, s, db):
        vm = s.create(name="mover")
        s.sh(vm, "echo kept > /run/x; (while :; do date +%s > /run/beat; sleep 1; done) > /dev/null 2>&1 &")
        snapshot = s.api("POST", f"/v1/vms/{vm}/snapshot", {"name": "before"})["snapshotId"]
        s.api("POST", "/v1/accounts", {"name": "someone"})
        self.assertIn("in use", self.migrate(s, "--to", db.url(), code=1))
        s.stop()
        self.assertIn("1 suspended", self.migrate(s, "--to", db.url(), "--dry-run"))
        self.assertIn("pando.db", os.listdir(s.dir))
        self.assertIn("the same on both sides", self.migrate(s, "--to", "database", PANDO_DATABASE=db.url()))
        self.assertNotIn("pando.db", os.listdir(s.dir))
        s.env["PANDO_DATABASE"] = db.url()
        self.same(s.start(), vm, snapshot)
        self.assertEqual(db.sql("SELECT COUNT(*) FROM vms WHERE name = 'mover'"), "1")
        s.stop()
        self.assertIn("the same on both sides", self.migrate(s, "--to", "file"))
        s.spawn()  # with the database still
        self.assertNotEqual(s.proc.wait(60), 0)
        del s.env["PANDO_DATABASE"]
        self.same(s.start(), vm, snapshot)
        self.assertIn("pando.db", os.listdir(s.dir))

    def same(self, s, vm, snapshot):
        self.assertEqual(s.state(vm), "suspended")
        self.assertEqual(s.sh(vm, "cat /run/x").strip(), "kept")
        self.assertEqual(s.sh(vm, "pgrep -fc 'date +%s > /run/bea[t]' || pgrep -c sleep").strip() != "0", True)
        self.assertIn("someone", [a["name"] for a in s.api("GET", "/v1/accounts")["accounts"]])
        child = s.create(snapshotId=snapshot)
        self.assertEqual(s.sh(child, "cat /run/x").strip(), "kept")
        s.delete(child)
