# SPDX-License-Identifier: Apache-2.0
"""host.py - state of this machine for the tests: its processes, and everything that carries an instance's tag"""
import ctypes
import os
import re
import signal
import socket
import subprocess
import threading

libc = ctypes.CDLL(None, use_errno=True)


def crc32c(data):
    """Castagnoli, as base/crc32c.c; names on the host are made from it."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


# ---- processes ----

def _stat(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            text = f.read()
    except OSError:
        return None
    rest = text.rpartition(")")[2].split()
    return rest[0], int(rest[1])  # state, parent


def _parents():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            s = _stat(name)
            if s:
                found[int(name)] = s
    return found


def descendants(pid):
    """Living processes below pid, in every pid namespace."""
    table = _parents()
    below, grown = {pid}, True
    while grown:
        more = {p for p, (_, parent) in table.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return sorted(p for p in below - {pid} if table[p][0] != "Z")


def capable(pid):
    """It has a capability, in whatever user namespace; a process that is gone has none."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"^CapPrm:\s*(\w+)", f.read(), re.M)[1], 16) != 0
    except (OSError, TypeError):
        return False


def same_file(a, fd_a, b, fd_b):
    """Two descriptors of two processes are one open file, as after a fork."""
    kcmp, kcmp_file = 312, 0  # x86-64
    r = libc.syscall(kcmp, a, b, kcmp_file, int(fd_a), int(fd_b))
    if r < 0:
        raise OSError(ctypes.get_errno(), "kcmp")
    return r == 0


def parent(pid):
    return (_stat(pid) or (None, None))[1]


def children():
    return [p for p, (state, parent) in _parents().items() if parent == os.getpid() and state != "Z"]


def reap(keep=()):
    """Reaps orphans that became our children; not processes that something else waits for."""
    for pid, (state, parent) in _parents().items():
        if parent == os.getpid() and state == "Z" and pid not in keep:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def exe(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def name(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().rstrip("\n")
    except OSError:
        return None


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def describe(pid):
    return f"{pid} ({exe(pid)}: {cmdline(pid)[:120]})"


def kill(pid, sig=signal.SIGKILL):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def alive(pid):
    s = _stat(pid)
    return s is not None and s[0] != "Z"


# ---- names ----

def output(*argv):
    r = subprocess.run(argv, capture_output=True, text=True)
    return r.stdout if r.returncode == 0 else ""


def _cgroup_dirs(tag):
    found = []
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split()[4] for line in f if re.search(r" - cgroup2? ", line)]
    for top in mounts:
        for path, dirs, _ in os.walk(top):
            hit = [d for d in dirs if tag in d]
            found += [os.path.join(path, d) for d in hit]
            dirs[:] = [d for d in dirs if d not in hit]
    return found


def named(tag):
    """Everything on the host whose name has the tag: links, namespaces, tables, cgroups, mounts, run files, processes."""
    found = []
    found += [f"link {line.split(':')[1].strip()}" for line in output("ip", "-o", "link").splitlines() if tag in line]
    found += [f"netns {line}" for line in output("ip", "netns", "list").splitlines() if tag in line]
    found += [f"nft {line}" for line in output("nft", "list", "tables").splitlines() if tag in line]
    found += [f"route {line}" for line in output("ip", "route", "show", "table", "all").splitlines() if tag in line]
    with open("/proc/self/mountinfo") as f:
        found += [f"mount {line.split()[4]}" for line in f if tag in line]
    found += [f"cgroup {path}" for path in _cgroup_dirs(tag)]
    if os.path.exists(f"/run/pando/{tag}"):
        found.append(f"directory /run/pando/{tag}")
    for name in os.listdir("/run/pando/net") if os.path.isdir("/run/pando/net") else []:
        with open(f"/run/pando/net/{name}", errors="replace") as f:
            if tag in f.read():
                found.append(f"address block {name}")
    return found


# ---- what guests may try to reach ----

class Listener:
    """Accepts connections on all addresses of this host, sends "hi", and records the peers."""

    def __init__(self):
        self.seen = []
        self.sock = socket.create_server(("0.0.0.0", 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                c, peer = self.sock.accept()
            except OSError:
                return
            self.seen.append(peer[0])
            c.sendall(b"hi")
            c.close()

    def close(self):
        self.sock.close()
