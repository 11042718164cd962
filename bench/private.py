# SPDX-License-Identifier: Apache-2.0
"""private.py - private networks: two VMs of a VPC, and a client in a tunnel, each by latency and by throughput"""
import re

from harness import wait_for
from test_wireguard import Client

PINGS = 20
MB = 16
SEND = ("python3 -c \"import socket; s=socket.create_server(('0.0.0.0',7000)); c,_=s.accept(); b=bytes(65536)\n"
        f"for i in range({MB}*16): c.sendall(b)\n\"")
TAKE = ("import socket,time; s=socket.create_connection(('{}',7000),20); t=time.monotonic(); n=0\n"
        "while True:\n d=s.recv(1<<18)\n if not d: break\n n+=len(d)\n"
        "print(n/1e6/(time.monotonic()-t))")


def average(text):
    return float(re.search(r"= [\d.]+/([\d.]+)/", text).group(1))


def listen(b, vm):
    b.s.sh(vm, f"setsid {SEND} >/dev/null 2>&1 </dev/null &\nfor i in $(seq 100); do ss -ltn | grep -q :7000 && exit 0; sleep 0.1; done; exit 1")


def between(b, far, near):
    b.record.add("vpc.ping", average(b.s.sh(near, f"ping -q -c {PINGS} -i 0.2 192.168.44.10")))
    listen(b, far)
    b.record.add("vpc.rate", float(b.s.sh(near, f"python3 -c \"{TAKE.format('192.168.44.10')}\"")))


def tunnel(b, vpc, far):
    client = Client()
    try:
        client.open()
        t = b.s.api("POST", f"/v1/vpcs/{vpc}/wireguard/ephemeral", {})
        client.quick("up", re.sub(r"Endpoint = .*:", "Endpoint = 192.0.2.129:", t["clientConfig"]))
        wait_for("the tunnel carries", lambda: client.ping("192.168.44.10"), 40)
        b.record.add("wg.ping", average(client.run("ping", "-q", "-c", str(PINGS), "-i", "0.2", "192.168.44.10").stdout))
        listen(b, far)
        out = client.run("python3", "-c", TAKE.format("192.168.44.10"), timeout=300)
        if out.returncode:
            raise RuntimeError(out.stderr)
        b.record.add("wg.rate", float(out.stdout))
    finally:
        client.close()


def private(b):
    b.rest()
    vpc = b.s.api("POST", "/v1/vpcs", {"cidr": "192.168.44.0/24"})["vpcId"]
    vms = []
    try:
        for ipv4 in ("192.168.44.10", True):
            vms.append(b.s.create(nics=[{"vpc": vpc, "mode": "routed", "default": True, "ipv4": ipv4}]))
        between(b, *vms)
        tunnel(b, vpc, vms[0])
    finally:
        for vm in vms:
            b.s.delete(vm)
        b.s.api("DELETE", f"/v1/vpcs/{vpc}")


ROUND = [("private", private)]
