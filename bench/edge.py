#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""edge.py [--seconds N] [--rounds N] [--build DIR] - the edge beside nginx and haproxy: TLS, keep-alive, the same upstream, one after the other

The upstream is a constant of nginx on this host, so that the proxies are measured and not an emulated guest. `edgeup` is the edge as pandod has it, in
front of a plain address. All three have the same certificate, two threads or processes, no log, kept connections to the upstream; wrk asks with kept
connections. Requests per second for small answers, MB/s for large ones, and the processor time that each takes for one answer, which says more on
a machine that is busy with other things. Part of `make bench` (api.py); by itself it prints the edge's share of the better of the two.
"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import figures

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests/e2e"))
from ports import free_port  # noqa: E402

NAME = "bench.edge.test"
WHO = ("edge", "nginx", "haproxy")
PATHS = (("small", 100), ("large", 1 << 20))
SECONDS = 2        # of one sample
ROUNDS_MAX = 5     # in make bench: 5 rounds of 6 samples
CONNECTIONS = 16
UPSTREAM = """
daemon off; master_process on; worker_processes 1; pid {dir}/up.pid; error_log {dir}/up.log;
events {{ worker_connections 512; }}
http {{ access_log off; keepalive_requests 100000000; server {{ listen 127.0.0.1:{up} backlog=512; root {dir}/www; }} }}
"""
NGINX = """
daemon off; master_process on; worker_processes 2; pid {dir}/nginx.pid; error_log {dir}/nginx.log;
events {{ worker_connections 512; }}
http {{ access_log off; keepalive_requests 100000000; proxy_buffering on; proxy_max_temp_file_size 0;
  upstream up {{ server 127.0.0.1:{up}; keepalive 64; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/leaf.pem; ssl_certificate_key {dir}/leaf.pem;
    location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
HAPROXY = """
global
    nbthread 2
    maxconn 512
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    http-reuse always
frontend f
    bind 127.0.0.1:{port} ssl crt {dir}/leaf.pem
    default_backend b
backend b
    server s 127.0.0.1:{up}
"""


def await_port(port, proc, limit_s=20):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if proc.poll() is not None:
            raise RuntimeError(f"{proc.args[0]} ended with {proc.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{proc.args[0]} does not listen")


def family(pid):
    """A process and those below it."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as f:
            for child in f.read().split():
                found += family(int(child))
    return found


def cpu_s(pid):
    """Processor time of a process, its threads and its children, in seconds."""
    ns = 0
    for p in family(pid):
        for task in os.listdir(f"/proc/{p}/task"):
            with open(f"/proc/{p}/task/{task}/schedstat") as f:
                ns += int(f.read().split()[0])
    return ns / 1e9


class Stand:
    """The three, and what is behind them."""

    def __init__(self, build):
        self.dir = tempfile.mkdtemp(prefix="pando-bench-edge-")
        os.chmod(self.dir, 0o755)
        self.procs = {}
        self.ports = {n: free_port() for n in ("up", "plain", *WHO)}
        try:
            self.open(os.path.join(build, "tests/unit/edgeup"))
        except BaseException:
            self.close()
            raise

    def conf(self, name, text):
        path = f"{self.dir}/{name}.conf"
        with open(path, "w") as f:
            f.write(text.format(dir=self.dir, up=self.ports["up"], port=self.ports[name]))
        return path

    def start(self, name, *argv, **kw):
        self.procs[name] = subprocess.Popen(argv, **kw)
        await_port(self.ports[name], self.procs[name])

    def open(self, edgeup):
        os.mkdir(f"{self.dir}/www")
        for name, n in PATHS:
            with open(f"{self.dir}/www/{name}", "wb") as f:
                f.write(b"x" * n)
        at = {n: f"127.0.0.1:{p}" for n, p in self.ports.items()}
        self.start("up", "nginx", "-c", self.conf("up", UPSTREAM))
        self.start("edge", edgeup, f"{self.dir}/certs", at["edge"], at["plain"], at["up"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        subprocess.run(["curl", "-sk", "--resolve", f"{NAME}:{at['edge'].split(':')[1]}:127.0.0.1", "-o", "/dev/null",
                        f"https://{NAME}:{self.ports['edge']}/small"], check=True, timeout=60)
        shutil.copy(f"{self.dir}/certs/leaf/edge.test.pem", f"{self.dir}/leaf.pem")  # key and certificate: the same for all
        self.start("nginx", "nginx", "-c", self.conf("nginx", NGINX))
        self.start("haproxy", "haproxy", "-f", self.conf("haproxy", HAPROXY))

    def wrk(self, who, path, seconds):
        """(requests per second, MB per second, microseconds of processor time for each request)"""
        before = cpu_s(self.procs[who].pid)
        r = subprocess.run(["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{seconds}s", "-H", f"Host: {NAME}", f"https://127.0.0.1:{self.ports[who]}/{path}"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 60)
        used = cpu_s(self.procs[who].pid) - before
        rate = re.search(r"Requests/sec:\s+([\d.]+)", r.stdout)
        count = re.search(r"(\d+) requests in", r.stdout)
        bad = re.search(r"Non-2xx.*|Socket errors.*", r.stdout)
        if r.returncode or not rate or not count or bad:
            raise RuntimeError(f"wrk, {who}: {bad[0] if bad else r.stdout + r.stderr}")
        return float(rate[1]), float(rate[1]) * dict(PATHS)[path] / 1e6, used * 1e6 / max(1, int(count[1]))

    def round(self, record, seconds=SECONDS):
        for who in WHO:
            rate, _, us = self.wrk(who, "small", seconds)
            record.add(f"edge.rate.{who}", rate)
            record.add(f"edge.cpu.{who}", us)
            _, mb, us = self.wrk(who, "large", seconds)
            record.add(f"edge.mb.{who}", mb)
            record.add(f"edge.cpumb.{who}", us)

    def close(self):
        for p in self.procs.values():
            p.terminate()
        for p in self.procs.values():
            if p.stdin:
                p.stdin.close()
            p.wait(20)
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- as a kind of api.py ----

def prepare(g):
    g.bare = Stand(g.build)
    for who in WHO:
        g.bare.wrk(who, "small", 1)  # the first time warms up


def edge(g):
    g.bare.round(g.record)


KINDS = [("edge", {"PANDO_POOL": "0"}, 0, prepare, edge)]


class Samples(dict):
    def add(self, name, value):
        self.setdefault(name, []).append(value)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seconds", type=int, default=5)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    a = ap.parse_args()
    samples, stand = Samples(), Stand(a.build)
    try:
        for _ in range(a.rounds):
            stand.round(samples, a.seconds)
    finally:
        stand.close()
    found = figures.summarise(samples)
    print(figures.table(found))
    return 1 if any(f["verdict"] == figures.MISSED for f in found) else 0


if __name__ == "__main__":
    sys.exit(main())
