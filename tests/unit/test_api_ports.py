#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mapped ports without machines behind them: who has which, limits, restarts; usage: test_api_ports.py SERVE_GIT [TEST...]"""
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools  # noqa: E402
from ports import free_ports  # noqa: E402
from served import Restarted  # noqa: E402

FIRST = free_ports(4)
LAST = FIRST + 3


class Base(Restarted, GitTools, unittest.TestCase):
    env = {"FX_PORTS": f"{FIRST}-{LAST}"}

    def vm(self, **body):
        return self.call("POST", "/v1/vms", body)["id"]

    def map(self, vm, target, **body):
        return self.call("POST", f"/v1/vms/{vm}/ports", {"targetPort": target, **body})

    def ports(self, vm):
        return {p["port"]: p["targetPort"] for p in self.call("GET", f"/v1/vms/{vm}/ports")["ports"]}

    def refuse(self, status, code, says, method, path, body=None, **kw):
        self.assertIn(says, self.refused(status, code, method, path, body, **kw)["message"])

    def listens(self, port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0


class Ports(Base):
    def test_mapping(self):
        a, b = self.vm(), self.vm()
        self.assertEqual(self.ports(a), {443: 3000})
        one = self.map(a, 5000)["port"]
        self.assertTrue(FIRST <= one <= LAST)
        self.assertTrue(self.listens(one))
        self.assertEqual(self.map(a, 5001, port=one)["targetPort"], 5001)  # the same one, elsewhere
        self.assertEqual(self.ports(a), {443: 3000, one: 5001})
        self.refuse(409, "CONFLICT", "leads to another VM", "POST", f"/v1/vms/{b}/ports", {"port": one, "targetPort": 22})
        for n in range(3):
            self.map(b, 6000 + n)
        self.refuse(503, "UNAVAILABLE", "PANDO_PORT_RANGE", "POST", f"/v1/vms/{b}/ports", {"targetPort": 22})
        self.call("DELETE", f"/v1/vms/{a}/ports/{one}")
        self.assertFalse(self.listens(one))
        self.refuse(404, "NOT_FOUND", f"no port {one}", "DELETE", f"/v1/vms/{a}/ports/{one}")
        self.assertEqual(self.map(b, 7000)["port"], one)
        self.assertEqual(len(self.ports(b)), 5)
        self.call("DELETE", f"/v1/vms/{b}")
        end = time.monotonic() + 60  # the delete does not wait for its ports to close
        while any(self.listens(p) for p in range(FIRST, LAST + 1)):
            self.assertLess(time.monotonic(), end, "ports of a deleted VM are open")
            time.sleep(0.05)

    def test_udp(self):
        """The same number by TCP and UDP is two ports."""
        a, b = self.vm(), self.vm()
        self.assertEqual(self.map(a, 53, port=FIRST, protocol="udp")["protocol"], "udp")
        self.map(b, 53, port=FIRST)
        self.refuse(409, "CONFLICT", "leads to another VM", "POST", f"/v1/vms/{b}/ports", {"port": FIRST, "targetPort": 53, "protocol": "udp"})
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, self.assertRaises(OSError):
            s.bind(("127.0.0.1", FIRST))
        self.call("DELETE", f"/v1/vms/{a}/ports/{FIRST}?protocol=udp")
        self.assertEqual(self.ports(a), {443: 3000})
        self.assertEqual(self.ports(b), {443: 3000, FIRST: 53})

    def test_stays_across_a_restart(self):
        a = self.vm(ports=[{"targetPort": 22}, {"port": 443, "targetPort": 8000}])
        before = self.ports(a)
        self.assertEqual(sorted(before.values()), [22, 8000])
        port = next(p for p in before if p != 443)
        self.stop()
        self.assertFalse(self.listens(port))
        self.start()
        self.assertEqual(self.ports(a), before)
        self.assertTrue(self.listens(port))
        copy = self.call("POST", f"/v1/vms/{a}/fork", {"count": 1})["forks"][0]["id"]
        self.assertEqual(self.ports(copy), {443: 8000})

    def test_create(self):
        self.assertEqual(self.ports(self.vm(ports=[])), {443: None})
        self.assertEqual(self.ports(self.vm(ports=None)), {443: 3000})
        self.assertEqual(self.ports(self.vm(spec={"ports": [{"port": 443, "targetPort": 80}]})), {443: 80})
        v = self.vm(ports=[{"port": FIRST, "targetPort": 22, "protocol": "tcp"}])
        self.assertEqual(self.ports(v), {443: None, FIRST: 22})
        n = len(self.call("GET", "/v1/vms")["vms"])
        bad = self.refuse
        for status, code, says, ports in (
                (400, "CREATE_VM_BAD_REQUEST", "allowed are 443", [{"port": 8081, "targetPort": 80}]),
                (400, "CREATE_VM_BAD_REQUEST", "by TCP alone", [{"port": 443, "targetPort": 80, "protocol": "udp"}]),
                (400, "CREATE_VM_BAD_REQUEST", "'protocol'", [{"targetPort": 80, "protocol": "sctp"}]),
                (400, "CREATE_VM_BAD_REQUEST", "map this one as", [{"targetPort": 80, "protocol": "tls"}]),
                (400, "CREATE_VM_BAD_REQUEST", "targetPort", [{"port": 443}]),
                (400, "CREATE_VM_BAD_REQUEST", "targetPort", [{"port": 443, "targetPort": 70000}]),
                (400, "CREATE_VM_BAD_REQUEST", "a list of up to 16", [{"targetPort": 1}] * 17),
                (400, "CREATE_VM_BAD_REQUEST", "'ports' must be a list", {}),
                (409, "CONFLICT", "leads to another VM", [{"port": FIRST, "targetPort": 80}])):
            bad(status, code, says, "POST", "/v1/vms", {"ports": ports})
        self.assertEqual(len(self.call("GET", "/v1/vms")["vms"]), n)
        bad(400, "CREATE_VM_BAD_REQUEST", "WireGuard", "POST", "/v1/vms", {"udpHolePunchPorts": [{"targetPort": 80}]})
        account = self.call("POST", "/v1/accounts", {"name": "other"})["id"]
        other = self.call("POST", f"/v1/keys?accountId={account}", {})["key"]
        for method, path, body in (("GET", "", None), ("POST", "", {"targetPort": 80}), ("DELETE", f"/{FIRST}", None)):
            self.refused(404, "VM_NOT_FOUND", method, f"/v1/vms/{v}/ports{path}", body, key=other)

    def test_a_port_of_someone_else(self):
        """One that another program has is not given; asked for, it is refused and not kept."""
        vm = self.vm()
        with socket.create_server(("127.0.0.1", FIRST)):
            got = {self.map(vm, 22)["port"] for _ in range(3)}
            self.assertEqual(got, {FIRST + 1, FIRST + 2, FIRST + 3})
            self.refuse(409, "CONFLICT", f"port {FIRST} cannot be had", "POST", f"/v1/vms/{vm}/ports", {"port": FIRST, "targetPort": 22})
        self.assertNotIn(FIRST, self.ports(vm))


class NoRange(Base):
    env = {}

    def test_no_range(self):
        vm = self.vm()
        self.refuse(400, "INVALID_PARAMETERS", "PANDO_PORT_RANGE", "POST", f"/v1/vms/{vm}/ports", {"targetPort": 22})
        self.assertEqual(self.map(vm, 8080, port=443)["targetPort"], 8080)
        self.assertEqual(self.map(vm, 8443, port=443, protocol="tls")["protocol"], "tls")  # in place of the other
        self.assertEqual(self.ports(vm), {443: 8443})
        self.call("DELETE", f"/v1/vms/{vm}/ports/443")
        self.assertEqual(self.ports(vm), {443: None})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
