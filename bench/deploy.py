# SPDX-License-Identifier: Apache-2.0
"""deploy.py - deployments: a request that finds no instance, 50 requests a second from zero

One server, with VMs kept ready as by default. A cold request is sent when all instances are gone; whether it found a VM of its snapshot ready is read
from the pool's own count, because that decides how long it takes. Requests of the burst are sent at their times, whether or not earlier ones have come back.
"""
import concurrent.futures
import http.client
import os
import statistics
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/e2e"))
import harness  # noqa: E402
from harness import wait_for  # noqa: E402
from kinds import Clock  # noqa: E402

ROUNDS_MAX = 5
NAME = "bench-deploy.style.dev"
PER_S, BURST_S, WORK_MS = 50, 10, 100  # each request takes its server so long
SMALL = {"PANDO_VM_VCPUS": "1", "PANDO_VM_MEM_MB": "512", "PANDO_VM_DISK_GB": "20"}
SERVER = """
import http from "node:http";
http.createServer((req, res) => setTimeout(() => res.end("ok"), Number(new URL(req.url, "http://x").searchParams.get("ms") ?? 0))).listen(process.env.PORT);
"""


def get(s, path="/", timeout=90):
    c = http.client.HTTPConnection("127.0.0.1", s.edge_http_port, timeout=timeout)
    try:
        c.request("GET", path, headers={"Host": NAME})
        r = c.getresponse()
        body = r.read()
        if r.status != 200 or body != b"ok":
            raise RuntimeError(f"the deployment answers {r.status}: {body[:200]}")
    finally:
        c.close()


def asleep(s, deployment):
    return not [v for v in s.vms().values() if (v["name"] or "").startswith(deployment)]


def pool(s):
    return s.api("GET", "/v1/health")["pool"]


def cold(record, s, deployment):
    wait_for("no instance", lambda: asleep(s, deployment), 120)
    before = pool(s)["given"]
    clock = Clock()
    get(s)
    took = clock.ms()
    record.add("deploy.cold.ready" if pool(s)["given"] > before else "deploy.cold.thaw", took)
    clock = Clock()
    get(s)
    record.add("deploy.warm", clock.ms())


def burst(record, s, deployment):
    """From zero; a request that fails or gets another answer ends the sample."""
    wait_for("no instance", lambda: asleep(s, deployment), 120)
    begin, most = time.monotonic(), 0

    def one(i):
        time.sleep(max(0, begin + i / PER_S - time.monotonic()))  # its time
        clock = Clock()
        get(s, f"/?ms={WORK_MS}")
        return clock.ms()
    with concurrent.futures.ThreadPoolExecutor(PER_S * 4) as threads:
        took = [threads.submit(one, i) for i in range(PER_S * BURST_S)]
        while not all(t.done() for t in took):
            most = max(most, len(s.api("GET", f"/web/v1/deployments/{deployment}")["info"]["instances"]))
            time.sleep(0.5)
        times = [t.result() for t in took]
    record.add("deploy.burst.lost", 0)
    record.add("deploy.burst.median", statistics.median(times))
    record.add("deploy.burst.max", max(times))
    record.add("deploy.burst.instances", most)


def suspended(record, s):
    """The same request for a suspended VM behind a name, beside it."""
    vm = s.create()
    try:
        s.sh(vm, "setsid python3 -m http.server 3000 --bind 0.0.0.0 >/dev/null 2>&1 </dev/null & "
                 "for i in $(seq 300); do ss -ltnH 'sport = :3000' | grep -q . && exit 0; sleep 0.1; done; exit 1", timeout_ms=60000)
        s.post(vm, "suspend")
        c = http.client.HTTPConnection("127.0.0.1", s.edge_http_port, timeout=90)
        clock = Clock()
        c.request("HEAD", "/", headers={"Host": f"{vm}.style.dev"})
        status = c.getresponse().status
        record.add("deploy.suspended", clock.ms())
        c.close()
        if status != 200:
            raise RuntimeError(f"the suspended VM answers {status}")
    finally:
        s.delete(vm)


def run(record, rounds, top, say):
    s = harness.Server(env={**SMALL, "PANDO_POOL": "2"}, data_dir=os.path.join(top, "deploy"))
    try:
        s.start()
        deployment = s.api("POST", "/web/v1/deployment", {
            "source": {"kind": "files", "files": {"main.mjs": {"content": SERVER}}},
            "config": {"domains": [NAME], "timeout": 3000, "instances": 4, "requestsPerInstance": 10}}, timeout=290)["deploymentId"]
        for i in range(rounds):
            cold(record, s, deployment)
            suspended(record, s)
            say(f"deploy: round {i + 1} of {rounds}")
        burst(record, s, deployment)
        wait_for("no instance", lambda: asleep(s, deployment), 120)
        s.api("DELETE", f"/web/v1/deployments/{deployment}")
        return s.api("GET", "/v1/health")
    finally:
        s.close()
