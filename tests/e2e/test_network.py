# SPDX-License-Identifier: Apache-2.0
"""What a guest reaches and what it does not

Everything that must not be reached is really there and answers the host, so that a hole in the rules would
show; the listeners count whom they accepted. Addresses of private ranges are in a namespace made for this test.
"""
import os
import re
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

import host
from case import Case, limit, long
from harness import wait_for

PRIVATE = ["10.219.77.2", "172.29.77.2", "192.168.219.2", "169.254.219.2"]  # in a namespace beside the host
PORT = 4711
KNOCK = "timeout 4 bash -c 'exec 3<>/dev/tcp/{}/{} && head -c 2 <&3'"


def mirror():
    """An address of the package mirror this host's apt uses, or None."""
    out = host.output("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)", "Created-By: Packages")
    for line in out.splitlines():
        uri, _, release = line.partition("|")
        if uri.startswith("http://") and release:
            return f"{uri.rstrip('/')}/dists/{release}/Release"
    return None


# the same, as a program for another namespace
SERVE = f"""
import socket
s = socket.create_server(("0.0.0.0", {PORT}))
print("ready", flush=True)
while True:
    c, peer = s.accept()
    print(peer[0], flush=True)
    c.sendall(b"hi")
    c.close()
"""


class Neighbour:
    """A namespace beside the host with the private addresses, reachable from the host."""

    def __init__(self):
        self.ns = f"pt-{os.getpid()}"
        self.link = f"ptv{os.getpid() % 1000000}"
        self.proc = None

    def open(self):
        subprocess.run(["ip", "netns", "add", self.ns], check=True)
        for command in (f"ip link add {self.link} type veth peer name eth0 netns {self.ns}",
                        f"ip link set {self.link} up", f"ip -n {self.ns} link set eth0 up", f"ip -n {self.ns} link set lo up"):
            subprocess.run(command.split(), check=True)
        for address in PRIVATE:
            near = address[:-1] + "1"
            subprocess.run(["ip", "addr", "add", near + "/30", "dev", self.link], check=True)
            subprocess.run(["ip", "-n", self.ns, "addr", "add", address + "/30", "dev", "eth0"], check=True)
        subprocess.run(["ip", "-n", self.ns, "route", "add", "default", "via", PRIVATE[0][:-1] + "1"], check=True)
        self.log = open(f"/tmp/{self.ns}.log", "w+")
        self.proc = subprocess.Popen(["ip", "netns", "exec", self.ns, sys.executable, "-c", SERVE], stdout=self.log,
                                     stdin=subprocess.DEVNULL)
        wait_for("the neighbour listens", lambda: "ready" in self.text(), 15)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def callers(self):
        return self.text().split()[1:]

    def close(self):
        if self.proc:
            self.proc.kill()
            self.proc.wait()
            os.unlink(self.log.name)
            self.log.close()
        subprocess.run(["ip", "link", "del", self.link], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.ns], capture_output=True)


def answers(address, port):
    try:
        with socket.create_connection((address, port), timeout=4) as c:
            return c.recv(2) == b"hi"
    except OSError:
        return False


class Network(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()
        cls.other = cls.s.create()

    def slots(self):
        """(host side, slot side) addresses of all slots of this server."""
        found = re.findall(rf"pn{self.s.tag}-\d+\s+inet (\d+\.\d+\.\d+\.)(\d+)/", host.output("ip", "-o", "-4", "addr"))
        return [(f"{net}{last}", f"{net}{int(last) + 1}") for net, last in found]

    def assert_unreachable(self, address, port):
        r = self.s.run(self.vm, KNOCK.format(address, port))
        self.assertNotEqual(r.code, 0, f"the guest reached {address}:{port}")
        self.assertNotIn("hi", r.out)

    def host_resolves(self, name):
        try:
            return bool(socket.getaddrinfo(name, 80, socket.AF_INET))
        except OSError:
            return False

    def test_address_and_route(self):
        self.assertIn("10.0.0.2/30", self.s.sh(self.vm, "ip -4 -o addr show"))
        self.assertIn("default via 10.0.0.1", self.s.sh(self.vm, "ip route"))

    def test_names(self):
        url = mirror()
        name = urllib.parse.urlsplit(url or "").hostname
        if not name or not self.host_resolves(name):
            self.skipTest("this host cannot resolve the name of its own package mirror")
        self.assertTrue(self.s.sh(self.vm, f"getent ahostsv4 {name}"))

    def test_unknown_name(self):
        self.assertEqual(self.s.run(self.vm, "timeout 30 getent ahosts nothing.invalid").code, 2)

    def need_mirror(self):
        url = mirror()
        try:
            urllib.request.urlopen(url or "", timeout=15).read(1)
        except (OSError, ValueError) as e:
            self.skipTest(f"this host itself does not reach its package mirror: {e}")
        return url

    def test_outbound(self):
        url = self.need_mirror()
        type(self).online = True
        self.assertEqual(self.s.sh(self.vm, f"curl -sS -m 40 -o /dev/null -w '%{{http_code}}' '{url}'"), "200")

    @long  # test_spec installs a package, too
    @limit(300)
    def test_apt(self):
        self.need_mirror()
        r = self.s.run(self.vm, "apt-get update && apt-get install -y --no-install-recommends hello && hello",
                       timeout_ms=280000)
        self.assertEqual(r.code, 0, r.out[-2000:] + r.err[-2000:])
        self.assertIn("Hello, world!", r.out)

    @limit(180)
    def test_not_the_hosts_services(self):
        listener = host.Listener()
        try:
            addresses = {"10.0.0.1", *re.findall(r"inet (\d+\.\d+\.\d+\.\d+)/", host.output("ip", "-o", "-4", "addr"))}
            addresses -= {"127.0.0.1"}
            mine = sorted(a for a in addresses if a != "10.0.0.1")
            self.assertTrue(mine)
            for address in mine[:1] + mine[-1:]:
                self.assertTrue(answers(address, listener.port), f"{address} does not even answer the host")
            before = len(listener.seen)
            # a few are enough: every slot's host side looks the same
            slots = {a for pair in self.slots() for a in pair}
            chosen = sorted(addresses - slots) + sorted(slots & addresses)[:2]
            for address in chosen[:8]:
                self.assert_unreachable(address, listener.port)
            self.assertEqual(listener.seen[before:], [])
        finally:
            listener.close()

    def test_not_the_api(self):
        for address in {"10.0.0.1", self.slots()[0][0]}:
            self.assertNotEqual(self.s.run(self.vm, f"curl -s -m 4 http://{address}:{self.s.port}/v1/health").code, 0)

    @limit(120)
    def test_not_private_ranges(self):
        n = Neighbour()
        try:
            n.open()
            for address in PRIVATE:
                self.assertTrue(answers(address, PORT), f"{address} does not even answer the host")
            before = len(n.callers())
            for address in PRIVATE:
                self.assert_unreachable(address, PORT)
            self.assertEqual(n.callers()[before:], [])
        finally:
            n.close()

    def test_not_the_metadata_address(self):
        self.assertNotEqual(self.s.run(self.vm, "curl -s -m 4 http://169.254.169.254/").code, 0)

    @limit(120)
    def test_not_another_guest(self):
        self.s.sh(self.other, "mkdir -p /srv/w && cd /srv/w && "
                              "setsid python3 -m http.server 8000 </dev/null >/dev/null 2>&1 &")
        wait_for("the other guest serves", lambda: self.s.run(self.other, "curl -s -m 4 http://10.0.0.2:8000/").code == 0, 40)
        sides = [a for pair in self.slots() for a in pair]
        self.assertGreaterEqual(len(sides), 4)
        # one command: each knock may wait for its own time-out
        command = "for a in {}; do timeout 2 bash -c \"exec 3<>/dev/tcp/$a/8000\" 2>/dev/null && echo open $a & done; wait".format(
            " ".join(sides[:16]))
        self.assertEqual(self.s.sh(self.vm, command), "")

    def test_still_there_after_sleep_and_fork(self):
        url = mirror()
        name = urllib.parse.urlsplit(url or "").hostname
        self.s.post(self.vm, "suspend")
        (child,) = self.s.fork(self.vm, 1)
        for vm in (self.vm, child):
            self.assertIn("10.0.0.2/30", self.s.sh(vm, "ip -4 -o addr show"))
            if getattr(self, "online", False):
                self.assertTrue(self.s.sh(vm, f"getent ahostsv4 {name}"))
                self.assertEqual(self.s.sh(vm, f"curl -sS -m 40 -o /dev/null -w '%{{http_code}}' '{url}'"), "200")

    def test_slots_are_clean_when_reused(self):
        """A new VM in a used slot sees nothing of the previous one."""
        vm = self.s.create()
        self.s.sh(vm, "ip addr add 10.0.0.77/32 dev lo")
        self.s.delete(vm)
        vm = self.s.create()
        self.assertNotIn("10.0.0.77", self.s.sh(vm, "ip -4 -o addr show"))
        self.assertIn("10.0.0.2/30", self.s.sh(vm, "ip -4 -o addr show"))
