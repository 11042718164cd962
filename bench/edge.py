#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""edge.py [--seconds N] [--rounds N] - the edge beside nginx and haproxy: TLS, keep-alive, the same upstream, one after the other

The upstream is a constant of nginx on this host, so that the proxies are measured and not an emulated guest. `edgeup` is the edge as pandod has it, in
front of a plain address. All three have the same certificate and two threads or processes; wrk asks with kept connections. Prints requests per second for
small answers and MB/s for large ones, and the edge's share of the better of the two; the target is 0.8.
"""
import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EDGEUP = os.path.join(ROOT, "build/tests/unit/edgeup")
NAME = "bench.edge.test"
TARGET = 0.8
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


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def wrk(port, path, seconds):
    """(requests per second, MB per second)"""
    out = subprocess.run(["wrk", "-t2", "-c16", f"-d{seconds}s", "-H", f"Host: {NAME}", f"https://127.0.0.1:{port}{path}"],
                         capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    n, unit = re.search(r"Transfer/sec:\s+([\d.]+)([KMG]?)B", out).groups()
    return rate, float(n) * {"": 1e-6, "K": 1e-3, "M": 1, "G": 1e3}[unit]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seconds", type=int, default=5)
    ap.add_argument("--rounds", type=int, default=3)
    a = ap.parse_args()
    work = tempfile.mkdtemp(prefix="pando-bench-edge-")
    os.chmod(work, 0o755)
    procs, got = [], {}
    try:
        os.mkdir(f"{work}/www")
        for name, n in (("small", 100), ("large", 1 << 20)):
            with open(f"{work}/www/{name}", "wb") as f:
                f.write(b"x" * n)
        ports = {n: free_port() for n in ("up", "edge", "plain", "nginx", "haproxy")}

        def conf(name, text, port="up"):
            with open(f"{work}/{name}", "w") as f:
                f.write(text.format(dir=work, up=ports["up"], port=ports[port]))
            return f"{work}/{name}"

        def start(argv, port, **kw):
            procs.append(subprocess.Popen(argv, **kw))
            await_port(ports[port], procs[-1])
        start(["nginx", "-c", conf("up.conf", UPSTREAM)], "up")
        start([EDGEUP, f"{work}/certs", f"127.0.0.1:{ports['edge']}", f"127.0.0.1:{ports['plain']}", f"127.0.0.1:{ports['up']}"], "edge",
              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        subprocess.run(["curl", "-sk", "--resolve", f"{NAME}:{ports['edge']}:127.0.0.1", "-o", "/dev/null", f"https://{NAME}:{ports['edge']}/small"], check=True)
        shutil.copy(f"{work}/certs/leaf/edge.test.pem", f"{work}/leaf.pem")  # key and certificate: the same for all
        start(["nginx", "-c", conf("nginx.conf", NGINX, "nginx")], "nginx")
        start(["haproxy", "-f", conf("haproxy.conf", HAPROXY, "haproxy")], "haproxy")
        for _ in range(a.rounds):
            for who in ("edge", "nginx", "haproxy"):
                got.setdefault((who, "requests/s"), []).append(wrk(ports[who], "/small", a.seconds)[0])
                got.setdefault((who, "MB/s"), []).append(wrk(ports[who], "/large", a.seconds)[1])
    finally:
        for p in procs:
            p.terminate()
        for p in procs:
            p.wait(20)
        shutil.rmtree(work, ignore_errors=True)
    missed = False
    for unit in ("requests/s", "MB/s"):
        m = {who: statistics.median(got[who, unit]) for who in ("edge", "nginx", "haproxy")}
        share = m["edge"] / max(m["nginx"], m["haproxy"])
        missed |= share < TARGET
        print(f"{unit:11} edge {m['edge']:9.0f}  nginx {m['nginx']:9.0f}  haproxy {m['haproxy']:9.0f}  edge/better {share:.2f}"
              f" (target {TARGET}: {'met' if share >= TARGET else 'missed'})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
