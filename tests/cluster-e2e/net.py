# SPDX-License-Identifier: Apache-2.0
"""net.py - a network of machines on one machine: a bridge, and a network namespace for each machine

Theory of operation: the test itself moves into a network and a mount namespace of its own (enter()), where the bridge is. So nothing has a
name on the host, and the kernel takes everything away with the last process, however the test ends. A machine's namespace is held by a
process that reads from a pipe of ours and ends with it. All addresses are of 198.18.0.0/24, which is for measurements and nobody's.

A cut is a rule in the machine's namespace that drops packets from (in) or to (out) some addresses: nobody is told anything, as with a cable that
is pulled. A machine that died gets a new namespace: the kernel of the old one would still answer for sockets of processes that have gone.
"""
import ctypes
import subprocess

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
PREFIX = "198.18.0."
CLIENT, DATABASES, OBJECTS = PREFIX + "1", (PREFIX + "11", PREFIX + "12"), PREFIX + "13"
BRIDGE = "hub"


def run(*argv, text=None):
    r = subprocess.run(argv, input=text, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {r.stderr.strip()}")
    return r.stdout


def enter():
    """Before any thread is started."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "link", "set", BRIDGE, "up")
    for address in (CLIENT, *DATABASES, OBJECTS):
        run("ip", "addr", "add", f"{address}/24", "dev", BRIDGE)


class Machine:
    """A namespace with one address on the bridge."""

    def __init__(self, name, number):
        self.name, self.number, self.holder = name, number, None
        self.address = f"{PREFIX}{100 + number}"
        self.mac = f"02:50:00:00:00:{number:02x}"  # a new namespace is the same machine to everybody's tables
        self.up()

    def up(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "up\n":
            raise RuntimeError(f"no namespace for {self.name}")
        outside = f"p{self.number}"
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
        run("ip", "link", "set", outside, "master", BRIDGE, "up")
        self.inside("ip", "link", "set", "eth0", "address", self.mac, "up")
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.inside("ip", "route", "add", "default", "via", CLIENT)

    @property
    def prefix(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def inside(self, *argv, text=None):
        return run(*self.prefix, *argv, text=text)

    def down(self):
        if self.holder:
            subprocess.run(["ip", "link", "del", f"p{self.number}"], capture_output=True)
            self.holder.stdin.close()
            self.holder.wait()
            self.holder.stdout.close()
            self.holder = None

    def replaced(self):
        """The machine that died is switched on again: no socket is left."""
        self.down()
        self.up()

    def cut(self, addresses, ways=("in", "out")):
        """Packets from and to them are dropped; heals what was cut before."""
        self.heal()
        some = "{ " + ", ".join(addresses) + " }"
        rules = ""
        if "in" in ways:
            rules += f"chain in_cut {{\ntype filter hook input priority -300;\nip saddr {some} drop\n}}\n"
        if "out" in ways:
            rules += f"chain out_cut {{\ntype filter hook output priority -300;\nip daddr {some} drop\n}}\n"
        self.inside("nft", "-f", "-", text=f"table inet cut {{\n{rules}}}\n")

    def heal(self):
        subprocess.run([*self.prefix, "nft", "delete", "table", "inet", "cut"], capture_output=True)
