# SPDX-License-Identifier: Apache-2.0
"""Runs and schedules with the unmodified npm package and CLI: tests/sdk/{runs,cron}.test.mjs; packages come from a registry of the test's own"""
import os
import signal
import time

import node
from case import AS_MAKE_RUN, Case, limit
from harness import ROOT, wait_for
from site_net import SiteRegistry

DIR = os.path.join(ROOT, "tests/sdk")


class Runs(SiteRegistry, Case):
    keeps_specs = True
    server_env = AS_MAKE_RUN  # the second run takes a ready VM

    @limit(240)
    def test_install(self):
        node.install(self, DIR)

    @limit(560)
    def test_runs(self):
        node.run(self, DIR, ["runs.test.mjs", "cron.test.mjs"], {
            "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(),
            "NODE_OPTIONS": "--experimental-websocket", "PANDO_RUN_MODULE": "pando-site-test"}, 540)
        self.assertIn("/npm/pando-site-test", [e.get("mirror") for e in self.net.seen()])

    @limit(400)
    def test_schedules_survive_a_crash_and_execute_each_time_once(self):
        made = self.s.api("POST", "/v1/cron/schedules", {"cron": "* * * * *", "run": {"code": "export default () => 1"}})["schedule"]
        path = f"/v1/cron/schedules/{made['id']}"

        def executions():
            return self.s.api("GET", path + "/executions")["executions"]

        try:
            wait_for("the first execution is over", lambda: [x for x in executions() if x["status"] == "succeeded"], 120)
            old = self.s.pandod_pid()
            os.kill(old, signal.SIGKILL)
            self.s.await_pandod(old)
            first = len(executions())
            wait_for("another one after the crash", lambda: len([x for x in executions() if x["status"] == "succeeded"]) > first, 120)
            times = [x["runAt"] for x in executions()]
            self.assertEqual(len(times), len(set(times)), times)
            self.assertTrue(all(t.endswith(":00.000Z") or t.endswith(":00Z") for t in times), times)
        finally:
            self.s.api("DELETE", path)
        wait_for("no VM of an execution is left", lambda: not [v for v in self.s.vms().values() if (v["name"] or "").startswith("run-")], 60)

    @limit(200)
    def test_the_second_run_is_quick(self):
        """Not a time, but the way: its VM comes from those that are kept ready."""
        body = {"script": "import n from 'pando-site-test'; export default () => n", "config": {"nodeModules": {"pando-site-test": "1.0.0"}}}
        self.s.api("POST", "/execute/v3/script", body)
        before = wait_for("a VM with the packages is ready", lambda: self.s.api("GET", "/v1/health")["pool"]["ready"] > 2 and self.s.api("GET", "/v1/health")["pool"], 90)
        t = time.monotonic()
        self.assertEqual(self.s.api("POST", "/execute/v3/script", body)["result"], 43)
        print(f"     the second run took {(time.monotonic() - t) * 1000:.0f} ms", flush=True)
        self.assertGreater(self.s.api("GET", "/v1/health")["pool"]["given"], before["given"])
