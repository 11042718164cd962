# SPDX-License-Identifier: Apache-2.0
"""What the server says of itself, with real VMs: counters rise with what is done, history shows work, /readyz follows the template"""
import os
import re
import subprocess

from case import Case, wait_for
from harness import ROOT

BURST_S = 300
KEY = "e2e-watcher-0123456789"
PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")


class Metrics(Case):
    server_env = {"PANDO_METRICS_KEY": KEY, "PANDO_POOL": "1"}
    limit_s = 240

    def page(self):
        status, text = self.s.request("GET", "/metrics", key=KEY)
        self.assertEqual(status, 200, text)
        return text

    def value(self, series, page=None):
        m = re.search(rf"^{re.escape(series)} (\S+)$", page or self.page(), re.M)
        return float(m[1]) if m else 0

    def counts(self):
        page = self.page()
        total = lambda name: sum(float(x) for x in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M))  # noqa: E731
        return {v: total(f"pando_vm_{v}_duration_seconds_count") for v in ("create", "fork", "exec", "suspend", "resume", "thaw", "wake")} | {
            "pause": total("pando_vm_freeze_pause_seconds_count"), "copies": total("pando_vm_fork_copies_total")}

    def test_counters_rise(self):
        before = self.counts()
        vm = self.s.create()
        self.s.sh(vm, "true")
        child = self.s.fork(vm)[0]
        self.s.post(vm, "suspend")
        self.s.sh(vm, "true")  # wakes it
        after = self.counts()
        for name, least in {"create": 1, "exec": 2, "fork": 1, "copies": 1, "suspend": 1, "resume": 1, "wake": 1, "thaw": 2, "pause": 1}.items():
            self.assertGreaterEqual(after[name] - before[name], least, name)
        lat = self.s.api("GET", "/v1/host/latency")["verbs"]
        self.assertGreater(lat["create"]["p50"], 0)
        self.assertLess(lat["freezePause"]["p50"], lat["fork"]["p99"] + 60)  # both are there, in seconds
        page = self.page()
        self.assertGreaterEqual(self.value('pando_vms{state="running"}', page), 2)
        self.assertEqual(self.value("pando_ready", page), 1)
        self.assertGreater(self.value("process_threads", page), 5)
        for x in (vm, child):
            self.s.delete(x)

    def test_history_shows_a_burst(self):
        vm = self.s.create(idleTimeoutSeconds=None)
        path = f"/v1/vms/{vm}/history"
        rest = min(x["cpuPercent"] for x in wait_for("a sample at rest", lambda: self.s.api("GET", path)["samples"], 60))
        # both processors, until it was seen: on a busy host a guest gets little of them
        self.s.sh(vm, f"for i in 1 2; do timeout {BURST_S} sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & done; dd if=/dev/zero of=/root/x bs=1M count=40 conv=fsync 2>/dev/null")
        seen = wait_for("the burst", lambda: (s := self.s.api("GET", path)["samples"]) and any(x["cpuPercent"] > 2 * rest + 3 for x in s) and s, 100)
        self.assertTrue(any(x["diskWriteBytesPerSec"] > 100000 for x in seen), seen)
        self.assertTrue(all(0 < x["privateBytes"] <= x["memoryBytes"] for x in seen), seen)
        host = self.s.api("GET", "/v1/host")
        m = host["memory"]
        self.assertEqual(m["totalBytes"], sum(m[k] for k in ("freeBytes", "privateBytes", "sharedBytes", "cacheBytes", "otherBytes")))
        self.assertGreater(m["byState"]["running"]["privateBytes"], 1 << 20)
        self.assertGreater(host["disk"]["layers"], 0)
        self.s.post(vm, "suspend")
        wait_for("its rest is noted", lambda: self.s.api("GET", path)["samples"][-1]["state"] == "suspended", 60)
        self.assertEqual(self.s.state(vm), "suspended")  # looking wakes nothing
        self.s.delete(vm)

    def test_ready(self):
        status = lambda path: self.s.request("GET", path, key="wrong")[0]  # noqa: E731
        self.assertEqual((status("/healthz"), status("/readyz")), (200, 200))
        self.assertEqual(status("/metrics"), 401)
        self.assertFalse([n for n in self.s.api("GET", "/v1/host")["notes"] if n["level"] == "error"])
        out = subprocess.run([PANDO, "--url", f"http://127.0.0.1:{self.s.port}", "host"], env={**os.environ, "PANDO_API_KEY": self.s.key()},
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(out.returncode, 0, out.stderr)
        for line in ("server    ", "CPU       ", "memory    ", "disk      ", "VMs       ", "pool      "):
            self.assertIn("\n" + line, "\n" + out.stdout)
