#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/ssh.py SERVE_AGENT [ROUNDS] - what a connection to the SSH server costs: time to the first answer, memory while it is open

SERVE_AGENT is tests/unit/serve_agent of a build without sanitizers, PANDO_FAKEHOST and PANDO_KERNEL as in tests/vm/meson.build. Prints JSON: medians in
milliseconds, and KB of private memory per open connection of the server and of its processes for SSH.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HELD = 16  # connections that are open while memory is looked at


def private_kb(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Clean", "Private_Dirty")))
    except OSError:
        return 0


def processes(server):
    """The server's children for SSH."""
    found = []
    for task in os.listdir(f"/proc/{server}/task"):
        with open(f"/proc/{server}/task/{task}/children") as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/comm") as c:
                    found += [int(pid)] if c.read() == "pando-ssh\n" else []
    return found


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    p = subprocess.Popen([sys.argv[1], "--ssh", os.path.join(ROOT, "agent/kernels")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ssh_port, port, key, _ = p.stdout.readline().split()
    q = urllib.request.Request(f"http://127.0.0.1:{port}/v1/vms", b"{}", {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
    vm = json.load(urllib.request.urlopen(q))["id"]
    with tempfile.TemporaryDirectory() as top:
        argv = ["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={top}/known", "-o", "LogLevel=ERROR",
                "-o", "BatchMode=yes", "-p", ssh_port, "-l", f"{vm}:{key}", "127.0.0.1"]

        def offer():
            """Until the server's list of algorithms is there: what a stranger can make it do."""
            began = time.perf_counter()
            with socket.create_connection(("127.0.0.1", int(ssh_port))) as s:
                s.sendall(b"SSH-2.0-bench\r\n")
                got = b""
                while len(got) < 200:
                    got += s.recv(4096)
            return (time.perf_counter() - began) * 1000

        def answer():
            began = time.perf_counter()
            subprocess.run([*argv, "echo"], check=True, capture_output=True, stdin=subprocess.DEVNULL)
            return (time.perf_counter() - began) * 1000
        answer()
        figures = {"offer_ms": [], "answer_ms": []}
        for _ in range(rounds):
            figures["offer_ms"].append(offer())
            figures["answer_ms"].append(answer())
            time.sleep(0.05)
        out = {k: {"median": round(statistics.median(v), 1), "p90": round(sorted(v)[int(len(v) * 0.9)], 1)} for k, v in figures.items()}
        before = private_kb(p.pid), {pid: private_kb(pid) for pid in processes(p.pid)}
        held = [subprocess.Popen([*argv, "echo up; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(HELD)]
        for h in held:
            assert h.stdout.readline() == b"up\n"
        after = private_kb(p.pid), {pid: private_kb(pid) for pid in processes(p.pid)}
        out["server_kb"] = round((after[0] - before[0]) / HELD)
        out["process_kb"] = round(sum(after[1].values()) / max(len(after[1]), 1))
        out["spare_kb"] = round(sum(before[1].values()))
        for h in held:
            h.kill()
            h.wait()
    p.stdin.close()
    p.wait(60)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
