# SPDX-License-Identifier: Apache-2.0
"""case.py - what the test programs of pando-priv share: arguments, a world per test, results one per line

Each program is called with the paths of pando-priv, the stand-in and the probe, then names of tests.
"""
import os
import pwd
import re
import subprocess
import sys
import unittest

import world
from world import Priv, World, sh

EXE, STANDIN, PROBE = (os.path.abspath(a) for a in (sys.argv[1:4] + [""] * 3)[:3])
QEMU_IDLE = "-S -nodefaults -display none -M q35 -m 64 -monitor none -serial none"
QEMU_NET = QEMU_IDLE + " -netdev tap,id=n0,fd=9 -device virtio-net-pci,netdev=n0,romfile="
CAPS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def alive(pid):
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def leftovers(tag, host_name):
    """Names with the instance's tag, wherever the host keeps names."""
    found = []
    for ns in ([], ["-n", host_name]):
        found += re.findall(rf"pn{tag}-\d+", sh("ip", *ns, "-br", "link").stdout)
    found += re.findall(rf"pando_{tag}", sh("ip", "netns", "exec", host_name, "nft", "list", "tables").stdout)
    with open("/proc/self/mountinfo") as f:
        found += re.findall(rf"\S*{tag}\S*", f.read())
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(root, d) for d in dirs if tag in d]
    if os.path.exists(f"/run/pando/{tag}"):
        found.append(f"/run/pando/{tag}")
    for claim in os.listdir("/run/pando/net"):
        with open(f"/run/pando/net/{claim}") as f:
            if tag in f.read():
                found.append(f"claim {claim}")
    return found


class Base(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def priv(self, name="data"):
        p = Priv(self.world, EXE, STANDIN, name)
        self.addCleanup(p.clean)
        return p

    def spawn_line(self, p, vm, slot=-1, fds=0, qemu=None, options=""):
        return f"spawn {vm} {slot} {fds} 0 64 1 {p.data}/qemu.log {options} -- {qemu or (QEMU_NET if slot >= 0 else QEMU_IDLE)}"

    def spawn(self, p, vm, *args, **more):
        return int(p.ask(self.spawn_line(p, vm, *args, **more)).split()[0])


class Result(unittest.TextTestResult):
    """One line per test, in the form of the C tests."""

    def line(self, word, test):
        self.stream.writeln(f"[{word:>9} ] {test.id().split('.')[-1]}")

    def startTest(self, test):
        unittest.TestResult.startTest(self, test)
        self.stream.writeln(f"[ RUN      ] {test.id().split('.')[-1]}")

    def addSuccess(self, test):
        self.line("OK", test)

    def addSkip(self, test, reason):
        unittest.TestResult.addSkip(self, test, reason)
        self.stream.writeln(reason)
        self.line("SKIPPED", test)

    def addFailure(self, test, err):
        unittest.TestResult.addFailure(self, test, err)
        self.line("FAILED", test)

    def addError(self, test, err):
        unittest.TestResult.addError(self, test, err)
        self.line("FAILED", test)


def main():
    if len(sys.argv) < 4 or os.geteuid() != 0:
        print("usage (as root): test_... PANDO-PRIV STAND-IN PROBE [TEST...]", file=sys.stderr)
        sys.exit(77)
    try:
        pwd.getpwnam("pando")
    except KeyError:
        subprocess.run(["useradd", "--system", "--home-dir", "/var/lib/pando", "--no-create-home", "--shell",
                        "/usr/sbin/nologin", "pando"], check=True)
    # A pando-priv that was killed leaves its children to us.
    world.libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result)
    program = unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[4:]], exit=False, testRunner=runner)
    sys.exit(0 if program.result.wasSuccessful() else 1)
