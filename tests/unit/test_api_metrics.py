#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics, health, the host and the lists of builds, certificates and tunnels, without machines; usage: test_api_metrics.py SERVE_GIT [TEST...]"""
import base64
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from served import Served

OPEN = "application/openmetrics-text; version=1.0.0"
# Debian's module, for Debian's Python: prints the families and the names of all samples.
PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
f = list(text_string_to_metric_families(sys.stdin.read()))
print(json.dumps([len(f), sorted({s.name for x in f for s in x.samples})]))
"""
KEY = "watcher-0123456789abcdef"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Base(Served, unittest.TestCase):
    limit_s = 200
    program = sys.argv[1]

    @classmethod
    def setUpClass(cls):
        cls.listen = free_port()
        cls.serve(cls.program, env={**os.environ, "FX_METRICS_KEY": KEY, "FX_METRICS_LISTEN": f"127.0.0.1:{cls.listen}", "FX_HISTORY_MS": "200"})

    def get(self, path, key=None, port=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        try:
            c.request("GET", path, headers={**({"Authorization": f"Bearer {key}"} if key else {}), **headers})
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read().decode()
        finally:
            c.close()

    def call(self, method, path, body=None, key=None, want=200):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {key or self.key}"})
            r = c.getresponse()
            text = r.read()
        finally:
            c.close()
        self.assertEqual(r.status, want, text)
        return json.loads(text)

    def page(self, **headers):
        status, h, text = self.get("/metrics", self.key, **headers)
        self.assertEqual(status, 200, text)
        return h, text

    def value(self, series):
        """One sample of the page; 0 when it is not there."""
        m = re.search(rf"^{re.escape(series)} (\S+)$", self.page()[1], re.M)
        return float(m[1]) if m else 0

    def wait(self, what, fn):
        end = time.monotonic() + 100
        while not (got := fn()):
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.1)
        return got


class Text(Base):
    def test_promtool(self):
        """Prometheus' own checker has nothing to say."""
        self.call("GET", "/v1/vms")
        self.get("/there/is/no/such/route")
        h, text = self.page()
        self.assertEqual(h["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        promtool = shutil.which("promtool")
        self.assertTrue(promtool, "promtool is missing: scripts/deps.sh test")
        out = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=100)
        self.assertEqual((out.returncode, out.stdout + out.stderr), (0, ""))
        bad = subprocess.run([promtool, "check", "metrics"], input=text.replace(" 1\n", " one\n"), capture_output=True, text=True, timeout=100)
        self.assertNotEqual(bad.returncode, 0)  # it does look

    def test_open_metrics(self):
        """A strict parser takes the other format, and finds the same series in it."""
        h, text = self.page(Accept=OPEN)
        self.assertEqual(h["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        parse = lambda t: subprocess.run(["/usr/bin/python3", "-c", PARSE], input=t, capture_output=True, text=True, timeout=100)  # noqa: E731
        out = parse(text)
        self.assertEqual(out.returncode, 0, out.stderr)
        families, names = json.loads(out.stdout)
        self.assertGreater(families, 40)
        plain = {re.match(r"[a-z0-9_]+", line)[0] for line in self.page()[1].splitlines() if not line.startswith("#")}
        self.assertEqual(set(names), plain)
        self.assertNotEqual(parse(text.replace("# EOF\n", "")).returncode, 0)  # it does look

    def test_open_metrics_by_promtool(self):
        """Prometheus' own parser of that format, which wants times."""
        text = re.sub(r"^(?!#)(.+)$", r"\1 1700000000", self.page(Accept=OPEN)[1], flags=re.M)
        where = os.path.join(self.dir, "openmetrics")
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, "page"), "w", encoding="utf-8") as f:
            f.write(text)
        out = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", os.path.join(where, "page"), os.path.join(where, "db")],
                             capture_output=True, text=True, timeout=100)
        shutil.rmtree(where)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)

    def test_labels_are_bounded(self):
        vm = self.call("POST", "/v1/vms", {"name": "secret-name"})["id"]
        self.call("GET", f"/v1/vms/{vm}")
        for n in range(20):
            self.get(f"/no/such/path/{n}", self.key)
        text = self.page()[1]
        self.assertIn('pando_http_requests_total{method="GET",route="/v1/vms/{vm_id}",code="2xx"}', text)
        self.assertIn('pando_http_requests_total{method="other",route="other",code="4xx"}', text)
        for word in (vm, "secret-name", "such/path", self.key):
            self.assertNotIn(word, text)


class Access(Base):
    def test_who_may_read(self):
        other = self.call("POST", "/v1/accounts", {"name": "other"})
        key = self.call("POST", f"/v1/keys?accountId={other['id']}", {"name": "k"})["key"]
        self.assertEqual(self.get("/metrics")[0], 401)
        self.assertEqual(self.get("/metrics", "wrong")[0], 401)
        self.assertEqual(self.get("/metrics", KEY + "0")[0], 401)
        self.assertEqual(self.get("/metrics", key)[0], 403)
        self.assertEqual(self.get("/metrics", KEY)[0], 200)
        self.assertEqual(self.get("/metrics", self.key)[0], 200)
        for path in ("/v1/vms", "/v1/host", "/v1/accounts", "/auth/v1/whoami"):
            self.assertEqual(self.get(path, KEY)[0], 401, path)  # it is for that alone
        for path in ("/v1/host", "/v1/host/history", "/v1/host/latency"):
            self.assertEqual(self.get(path, key)[0], 403, path)
            self.assertEqual(self.get(path)[0], 401, path)

    def test_own_address(self):
        """Three pages without a key, and nothing else."""
        for path in ("/metrics", "/healthz", "/readyz"):
            self.assertEqual(self.get(path, port=self.listen)[0], 200, path)
        for path in ("/v1/vms", "/v1/health", "/", "/v1/host"):
            self.assertEqual(self.get(path, self.key, port=self.listen)[0], 404, path)

    def test_health(self):
        self.assertEqual(json.loads(self.get("/healthz")[2]), {"status": "ok"})
        status, _, text = self.get("/readyz")
        self.assertEqual((status, json.loads(text)), (200, {"status": "ready"}))


    def test_not_ready(self):
        """Without pando-priv nothing can be created, and every page says so; the process itself is well."""
        self.command("gone")
        try:
            status, text = self.wait("it is noticed", lambda: (x := self.get("/readyz")) and x[0] == 503 and (x[0], x[2]))
            self.assertIn("pando-priv does not answer", json.loads(text)["message"])
            self.assertEqual(self.get("/healthz")[0], 200)
            notes = self.call("GET", "/v1/host")["notes"]
            self.assertEqual([n["level"] for n in notes if "pando-priv" in n["text"]], ["error"])
            self.assertEqual((self.value("pando_ready"), self.value('pando_notes{level="error"}')), (0, 1))
        finally:
            self.command("back")
        self.wait("it is back", lambda: self.get("/readyz")[0] == 200)


class Given(Base):
    """A certificate of the operator's that nobody renewed."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp()
        cert, key = (os.path.join(cls.top, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3", "-subj",
                        "/CN=old.example", "-addext", "subjectAltName=DNS:old.example,DNS:*.old.example", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        cls.serve(cls.program, env={**os.environ, "FX_TLS_CERT": cert, "FX_TLS_KEY": key})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.top)

    def test_ends_soon(self):
        certs = self.call("GET", "/domains/v1/certs")["certs"]
        self.assertEqual([(c["name"], c["source"], c["state"]) for c in certs], [("*.old.example", "given", "expiring"), ("old.example", "given", "expiring")])
        notes = [n for n in self.call("GET", "/v1/host")["notes"] if "old.example" in n["text"]]
        self.assertEqual([n["level"] for n in notes], ["warning"])
        self.assertIn("PANDO_TLS_CERT", notes[0]["whatToDo"])
        left = self.value("pando_certificate_expiry_timestamp_seconds") - time.time()
        self.assertTrue(2 * 86400 < left < 4 * 86400, left)


class Counts(Base):
    def test_verbs(self):
        names = {"create": 'pando_vm_create_duration_seconds_count{source="template"}', "exec": "pando_vm_exec_duration_seconds_count",
                 "suspend": 'pando_vm_suspend_duration_seconds_count{reason="requested"}', "resume": "pando_vm_resume_duration_seconds_count",
                 "wake": "pando_vm_wake_duration_seconds_count", "fork": "pando_vm_fork_duration_seconds_count",
                 "copies": "pando_vm_fork_copies_total", "snapshot": "pando_vm_snapshot_duration_seconds_count",
                 "from": 'pando_vm_create_duration_seconds_count{source="snapshot"}', "thaw": "pando_vm_thaw_duration_seconds_count",
                 "pause": "pando_vm_freeze_pause_seconds_count", "deletes": "pando_vm_deletes_total",
                 "failed": 'pando_vm_failures_total{operation="create"}'}
        before = {k: self.value(v) for k, v in names.items()}
        vm = self.call("POST", "/v1/vms", {})["id"]
        self.call("POST", f"/v1/vms/{vm}/exec-await", {"command": "true"})
        self.call("POST", f"/v1/vms/{vm}/suspend")
        self.call("POST", f"/v1/vms/{vm}/exec-await", {"command": "true"})  # wakes it
        forks = self.call("POST", f"/v1/vms/{vm}/fork", {"count": 2})
        snap = self.call("POST", f"/v1/vms/{vm}/snapshot", {})["snapshotId"]
        new = self.call("POST", "/v1/vms", {"snapshotId": snap})["id"]
        self.call("POST", "/v1/vms", {"snapshotId": "sc-" + "0" * 20}, want=404)
        self.call("DELETE", f"/v1/vms/{new}")
        after = {k: self.value(v) for k, v in names.items()}
        self.assertEqual({k: after[k] - before[k] for k in names},
                         {"create": 1, "exec": 2, "suspend": 1, "resume": 1, "wake": 1, "fork": 1, "copies": 2, "snapshot": 1, "from": 1,
                          "thaw": 5, "pause": 2, "deletes": 1, "failed": 1})
        running = self.value('pando_vms{state="running"}')
        self.assertGreaterEqual(running, 3, forks)
        lat = self.call("GET", "/v1/host/latency")["verbs"]
        self.assertEqual(lat["create"]["count"], sum(self.value(f'pando_vm_create_duration_seconds_count{{source="{s}"}}') for s in ("pool", "template", "snapshot")))
        for verb in ("create", "resume", "fork", "exec", "thaw", "freezePause", "suspend", "snapshot", "wake"):
            self.assertGreater(lat[verb]["count"], 0, verb)
            self.assertEqual(lat[verb]["buckets"][-1], {"leSeconds": None, "count": lat[verb]["count"]})
            self.assertLessEqual(lat[verb]["p50"], lat[verb]["p99"])

    def test_requests(self):
        series = 'pando_http_requests_total{method="GET",route="/v1/vms",code="2xx"}'
        took = 'pando_http_request_duration_seconds_count{method="GET",route="/v1/vms"}'
        before = self.value(series), self.value(took)
        for _ in range(5):
            self.call("GET", "/v1/vms")
        self.assertEqual((self.value(series) - before[0], self.value(took) - before[1]), (5, 5))


class History(Base):
    def test_vm(self):
        vm = self.call("POST", "/v1/vms", {"idleTimeoutSeconds": None})["id"]
        path = f"/v1/vms/{vm}/history"
        h = self.wait("samples", lambda: (x := self.call("GET", path)) and len(x["samples"]) >= 3 and x)
        self.assertEqual(h["intervalSeconds"], 10)
        for s in h["samples"]:
            self.assertEqual(s["state"], "running")
            self.assertGreater(s["memoryBytes"], 0)
            self.assertLessEqual(s["privateBytes"], s["memoryBytes"])
            self.assertEqual(set(s), {"at", "cpuPercent", "memoryBytes", "privateBytes", "diskReadBytesPerSec", "diskWriteBytesPerSec",
                                      "netRxBytesPerSec", "netTxBytesPerSec", "state"})
        self.call("POST", f"/v1/vms/{vm}/suspend")
        self.wait("its rest is noted", lambda: self.call("GET", path)["samples"][-1]["state"] == "suspended")
        last = self.call("GET", path)["samples"][-1]
        self.assertEqual((last["cpuPercent"], last["memoryBytes"]), (0, 0))
        self.assertEqual(self.call("GET", f"/v1/vms/{vm}")["state"], "suspended")  # nothing woke it
        other = self.call("POST", "/v1/accounts", {"name": "someone"})
        key = self.call("POST", f"/v1/keys?accountId={other['id']}", {"name": "k"})["key"]
        self.call("GET", path, key=key, want=404)
        self.call("DELETE", f"/v1/vms/{vm}")
        self.call("GET", path, want=404)

    def test_host(self):
        self.call("POST", "/v1/vms", {"idleTimeoutSeconds": None})
        h = self.wait("memory of the VM", lambda: (x := self.call("GET", "/v1/host")) and x["memory"]["byState"]["running"]["residentBytes"] and x)
        m = h["memory"]
        self.assertEqual(m["totalBytes"], sum(m[k] for k in ("freeBytes", "privateBytes", "sharedBytes", "cacheBytes", "otherBytes")))
        self.assertLessEqual(m["sharedBytes"], m["mappedBytes"])
        self.assertGreater(m["byState"]["running"]["givenBytes"], 0)
        self.assertGreaterEqual(h["vms"]["byState"]["running"], 1)
        self.assertGreater(h["disk"]["sizeBytes"], h["disk"]["freeBytes"])
        self.assertEqual(len(h["cpu"]["load"]), 3)
        self.wait("layers are counted", lambda: self.call("GET", "/v1/host")["disk"]["layers"] > 0)
        for n in h["notes"]:
            self.assertIn(n["level"], ("error", "warning", "info"))
            self.assertTrue(n["text"] and n["whatToDo"] and n["link"].startswith("docs/"), n)
        s = self.wait("samples", lambda: (x := self.call("GET", "/v1/host/history")["samples"]) and len(x) >= 2 and x)
        self.assertGreaterEqual(s[-1]["running"], 1)
        self.assertTrue(all(0 <= x["cpuPercent"] <= 100 for x in s))
        self.assertGreater(self.value("pando_history_round_duration_seconds_count"), 2)


class Lists(Base):
    def test_builds(self):
        self.assertEqual(self.call("GET", "/v1/vms/builds"), {"builds": []})
        snap = self.call("POST", "/v1/vms/snapshots", {"template": {"additionalFiles": {"/tmp/list-test": {"content": "x"}}}})
        b = self.call("GET", "/v1/vms/builds?state=succeeded")["builds"]
        self.assertEqual([x["buildId"] for x in b], [snap["buildId"]])
        self.assertEqual(b[0], self.call("GET", f"/v1/vms/builds/{snap['buildId']}"))
        self.assertEqual(self.call("GET", "/v1/vms/builds?state=failed"), {"builds": []})
        self.assertIn("'state' must be", self.call("GET", "/v1/vms/builds?state=odd", want=400)["message"])
        other = self.call("POST", "/v1/accounts", {"name": "builder"})
        key = self.call("POST", f"/v1/keys?accountId={other['id']}", {"name": "k"})["key"]
        self.assertEqual(self.call("GET", "/v1/vms/builds", key=key), {"builds": []})
        self.call("GET", f"/v1/vms/builds?accountId={b[0]['accountId']}", key=key, want=403)
        self.assertEqual(self.call("GET", f"/v1/vms/builds?accountId={other['id']}"), {"builds": []})

    def test_certs(self):
        self.call("GET", "/domains/v1/certs")  # none may be made yet
        vm = self.call("POST", "/v1/vms", {})["id"]
        self.call("POST", "/domains/v1/mappings/certs.pando.localhost", {"vmId": vm, "vmPort": 80})
        self.command("leaf certs.pando.localhost")
        certs = self.call("GET", "/domains/v1/certs")["certs"]
        self.assertEqual([(c["name"], c["source"], c["state"]) for c in certs], [("*.pando.localhost", "local", "valid")])
        self.assertLess(certs[0]["notBefore"], certs[0]["notAfter"])
        other = self.call("POST", "/v1/accounts", {"name": "names"})
        key = self.call("POST", f"/v1/keys?accountId={other['id']}", {"name": "k"})["key"]
        self.assertEqual(self.call("GET", "/domains/v1/certs", key=key), {"certs": []})  # none of its names

    def test_tunnels(self):
        vpc = self.call("POST", "/v1/vpcs", {"cidr": "192.168.50.0/24"})["vpcId"]
        path = f"/v1/vpcs/{vpc}/wireguard"
        self.assertEqual(self.call("GET", path), {"vpcId": vpc, "sessions": []})
        vm = self.call("POST", "/v1/vms", {"nics": [{"vpc": vpc, "mode": "routed", "default": True}]})["id"]
        key = base64.b64encode(bytes(range(32))).decode()
        t = self.call("POST", f"{path}/peers", {"gatewayVmId": vm, "clientPublicKey": key})
        got = self.call("GET", path)["sessions"]
        self.assertEqual([(s["sessionId"], s["clientPublicKey"], s["clientTunnelIp"]) for s in got], [(t["sessionId"], t["clientPublicKey"], t["clientTunnelIp"])])
        self.assertEqual((got[0]["gatewayVmId"], got[0]["expiresAt"], got[0]["lastHandshakeAt"]), (vm, None, None))
        self.assertFalse([k for k in got[0] if "private" in k.lower()])
        self.call("DELETE", f"{path}/ephemeral", {"sessionId": t["sessionId"]})
        self.assertEqual(self.call("GET", path)["sessions"], [])
        other = self.call("POST", "/v1/accounts", {"name": "elsewhere"})
        key = self.call("POST", f"/v1/keys?accountId={other['id']}", {"name": "k"})["key"]
        self.call("GET", path, key=key, want=404)


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
