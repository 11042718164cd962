# SPDX-License-Identifier: Apache-2.0
"""The whole server with its state in PostgreSQL: VMs live on through lost connections, a restart of the database and kill -9"""
import os
import sys
import time

from case import Case, limit
from harness import ROOT, Server

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
