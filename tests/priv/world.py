# SPDX-License-Identifier: Apache-2.0
"""world.py - a small internet of network namespaces, with pando-priv in its middle

    guest --(wire)-- slot of pando-priv -- host --(veth)-- inet

host is the namespace that pando-priv takes for the machine: its routes, rules and ip_forward are not this
machine's. inet stands for everything outside; it has public, private and link-local addresses, all of
which the host could reach. guest is a namespace whose tap is wired, frame by frame, to the tap of a slot, in
place of QEMU.
"""
import ctypes
import fcntl
import os
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
GUEST_MAC = "02:50:4e:44:4f:02"
PUBLIC, RESOLVER, PRIVATE = "198.51.100.10", "198.51.100.53", ["10.9.9.9", "192.168.50.1", "172.20.0.1",
                                                               "169.254.169.254", "100.64.9.9"]
HOST_UPLINK = "203.0.113.2"
libc = ctypes.CDLL(None, use_errno=True)


def enter_netns(path):
    fd = os.open(path, os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {path}")
    os.close(fd)


def sh(*argv, check=True):
    r = subprocess.run(argv, capture_output=True, text=True)
    if check and r.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {r.stderr.strip()}")
    return r


def crc32c(data):
    """Castagnoli, as base/crc32c.c: an instance's tag is that of its data directory."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def wait_for(what, fn, seconds=10):
    """Waits until fn() is true; there is no event for what other programs do to /proc and links."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s: {what}")


class Child:
    """A forked Python function in a network namespace; ends with the object."""

    def __init__(self, netns, fn, *args):
        ready_r, ready_w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(ready_r)
                libc.prctl(1, signal.SIGKILL)  # with its parent
                if netns:
                    enter_netns(netns)
                fn(lambda: os.write(ready_w, b"r"), *args)
                os._exit(0)
            except BaseException as e:
                os.write(2, f"helper: {e!r}\n".encode())
                os._exit(1)
        os.close(ready_w)
        r, _, _ = select.select([ready_r], [], [], 10)
        ok = r and os.read(ready_r, 1) == b"r"
        os.close(ready_r)
        if not ok:
            self.stop()
            raise AssertionError("helper did not start")

    def stop(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


PING = """
import os, select, socket, struct, sys
v6, dst, times, src = sys.argv[1] == '6', sys.argv[2], int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, 58 if v6 else 1)
if src:
    s.bind((src, 0))
ident = os.getpid() & 0xffff
p = struct.pack('>BBHHH', 128 if v6 else 8, 0, 0, ident, 1)
if not v6:  # the kernel fills in that of ICMPv6
    p = p[:2] + struct.pack('>H', 0xffff - sum(struct.unpack('>4H', p)) % 0xffff) + p[4:]
for _ in range(times):
    try:
        s.sendto(p, (dst, 0))
        while select.select([s], [], [], 1)[0]:
            got = s.recv(2000)
            got = got if v6 else got[20:]
            if got[0] == (129 if v6 else 0) and struct.unpack('>H', got[4:6])[0] == ident:
                sys.exit(0)
    except OSError:
        select.select([], [], [], 0.1)
sys.exit(1)
"""


def ping(netns, addr, source=None, times=1):
    """Does an echo request get its answer within a second, or one of those sent so many times? (There may be no ping program.)"""
    argv = ["nsenter", f"--net={netns}", "/usr/bin/python3", "-c", PING, "6" if ":" in addr else "4", addr, str(times)]
    return subprocess.run(argv + ([source] if source else []), capture_output=True).returncode == 0


def serve_tcp(ready, addr, port, text):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((addr, port))
    s.listen(64)
    ready()
    while True:
        c, peer = s.accept()
        c.sendall(f"{text} {peer[0]}\n".encode())
        c.close()


def serve_dns(ready, addr, answer):
    """Answers every A query with one address, over UDP and TCP."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((addr, 53))
    tcp = socket.socket()
    tcp.bind((addr, 53))
    tcp.listen(8)
    ready()

    def reply(q):
        end = 12
        while q[end]:
            end += q[end] + 1
        question = q[12:end + 5]
        head = q[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
        return head + question + b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(answer)

    while True:
        for s in select.select([udp, tcp], [], [])[0]:
            if s is udp:
                q, peer = udp.recvfrom(4096)
                udp.sendto(reply(q), peer)
            else:
                c, _ = tcp.accept()
                n = struct.unpack(">H", c.recv(2))[0]
                r = reply(c.recv(n))
                c.sendall(struct.pack(">H", len(r)) + r)
                c.close()


def open_tap(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def run_wire(ready, slot_ns, guest_ns):
    enter_netns(slot_ns)
    slot = open_tap("tap0")
    enter_netns(guest_ns)
    guest = open_tap("g0")
    ready()
    while True:
        for a in select.select([slot, guest], [], [])[0]:
            try:
                frame = os.read(a, 65536)
                os.write(guest if a == slot else slot, frame)
            except (BlockingIOError, OSError):
                pass  # the other end is down: that is what a closed gate does


class World:
    def __init__(self):
        self.children, self.netns = [], []
        self.dir = tempfile.mkdtemp(prefix="pando-priv-test-")
        os.chmod(self.dir, 0o755)
        tag = f"pt{os.getpid()}"
        self.host = self._netns(f"{tag}h")
        self.inet = self._netns(f"{tag}i")
        sh("ip", "-n", f"{tag}h", "link", "add", "up0", "type", "veth", "peer", "name", "e0", "netns", f"{tag}i")
        for ns, dev, addrs in ((f"{tag}h", "up0", [HOST_UPLINK + "/24"]),
                               (f"{tag}i", "e0", ["203.0.113.1/24", PUBLIC + "/32", RESOLVER + "/32"] +
                                [p + "/32" for p in PRIVATE])):
            for a in addrs:
                sh("ip", "-n", ns, "addr", "add", a, "dev", dev)
            sh("ip", "-n", ns, "link", "set", dev, "up")
            sh("ip", "-n", ns, "link", "set", "lo", "up")
        sh("ip", "-n", f"{tag}h", "route", "add", "default", "via", "203.0.113.1")
        # Some machines have it on in every new namespace.
        sh("nsenter", f"--net=/run/netns/{tag}h", "sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
        # No route back to the slots' addresses: what arrives must have been rewritten to the host's.
        self.host_name, self.inet_name = f"{tag}h", f"{tag}i"

    def _netns(self, name):
        sh("ip", "netns", "add", name)
        self.netns.append(name)
        return f"/run/netns/{name}"

    def child(self, netns, fn, *args):
        c = Child(netns, fn, *args)
        self.children.append(c)
        return c

    def guest(self, slot_ns):
        """A guest's network stack on the given slot; its namespace."""
        name = f"pt{os.getpid()}g{len(self.netns)}"
        ns = self._netns(name)
        wire = self.child(None, run_wire, slot_ns, ns)
        sh("ip", "-n", name, "link", "set", "g0", "address", GUEST_MAC)
        sh("ip", "-n", name, "link", "set", "g0", "up")
        sh("ip", "-n", name, "addr", "add", "10.0.0.2/30", "dev", "g0")
        sh("ip", "-n", name, "route", "add", "default", "via", "10.0.0.1")
        return Guest(self, name, ns, wire)

    def close(self):
        for c in self.children:
            c.stop()
        for n in self.netns:
            sh("ip", "netns", "del", n, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


class Guest:
    def __init__(self, world, name, ns, wire):
        self.world, self.name, self.ns, self.wire = world, name, ns, wire

    def run(self, *argv):
        return sh("nsenter", f"--net={self.ns}", *argv, check=False)

    def fetch(self, addr, port=80, seconds=1.0):
        """What a TCP server says, or the name of the failure."""
        code = ("import socket,sys\n"
                "try:\n"
                f"    s = socket.create_connection(('{addr}', {port}), {seconds})\n"
                "    print(s.recv(100).decode().strip())\n"
                "except OSError as e:\n"
                "    print(type(e).__name__)\n")
        return self.run("/usr/bin/python3", "-c", code).stdout.strip()

    def ping(self, addr, source=None):
        return ping(self.ns, addr, source)

    def reaches(self, addr, source=None):
        """As a ping that must be answered: on a busy machine the first may wait too long for its way to be found."""
        return ping(self.ns, addr, source, times=30)


class Priv:
    """pando-priv on a data directory of its own, with the stand-in as pandod."""

    def __init__(self, world, exe, standin, name="data"):
        self.world, self.exe, self.standin = world, exe, standin
        self.data = os.path.join(world.dir, name)
        self.log_path = os.path.join(world.dir, name + ".log")
        self.proc = None
        pw = pwd.getpwnam("pando")
        os.mkdir(self.data)
        os.chown(self.data, pw.pw_uid, pw.pw_gid)

    def command(self, *options, args=()):
        return ["nsenter", f"--net={self.world.host}", self.exe, "--data", self.data, "--log-level", "debug",
                *options, "--", self.standin, *args]

    def start(self, *options, args=(), env=None):
        try:
            os.unlink(self.data + "/ctl")
        except FileNotFoundError:
            pass
        with open(self.log_path, "a") as log:
            self.proc = subprocess.Popen(self.command(*options, args=args), stdout=log, stderr=log,
                                         stdin=subprocess.DEVNULL, env={**os.environ, "PANDO_TEST_DNS": RESOLVER,
                                                                        **(env or {})})
        return self

    def up(self, *options, **kw):
        self.start(*options, **kw)
        wait_for("stand-in listens", self.connect)
        self.tag = dict(w.split("=", 1) for w in self.ask("info").split()[:3])["tag"]
        return self

    def connect(self):
        if self.proc.poll() is not None:
            raise AssertionError(f"pando-priv ended with {self.proc.returncode}:\n{self.log()}")
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(self.data + "/ctl")
        except OSError:
            s.close()
            return False
        self.sock = s.makefile("rw")
        s.close()
        return True

    def starts(self):
        return self.log().count("pandod runs as process")

    def crash(self, how):
        """Ends the stand-in with how(); returns when the next one answers."""
        before = self.starts()
        how()
        wait_for("the next pandod", lambda: self.starts() > before)
        wait_for("it listens", self.connect)

    def raw(self, line):
        self.sock.write(line + "\n")
        self.sock.flush()
        got = self.sock.readline().rstrip("\n")
        text, _, us = got.rpartition("\t")
        self.us = int(us) if us.isdigit() else 0
        return text

    def ask(self, line):
        got = self.raw(line)
        if not got.startswith("ok"):
            raise AssertionError(f"{line}: {got}\n{self.log()}")
        return got[3:].strip()

    def fails(self, line):
        """The errno of a refused command."""
        got = self.raw(line)
        if not got.startswith("err "):
            raise AssertionError(f"{line}: expected a refusal, got: {got}")
        return int(got.split()[1])

    def slot_ns(self, idx):
        return f"/run/pando/{self.tag}/netns/{idx}"

    def take(self):
        idx, addr = self.ask("take").split()
        return int(idx), addr

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def wait(self, seconds=30):
        return self.proc.wait(seconds)

    def quit(self, code=0):
        self.raw(f"quit {code}")
        return self.wait()

    def clean(self):
        """Whatever happened: end it and remove what it left."""
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        sh("nsenter", f"--net={self.world.host}", self.exe, "--data", self.data, "--clean", check=False)
