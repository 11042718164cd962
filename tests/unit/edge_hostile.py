#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""edge_hostile.py - stands in for a pando-edge that somebody took over; run by edgeup as EDGEUP_PROGRAM

Takes the sockets that pandod gives pando-edge, does what the file hostile.do says (the name of a function here) and adds what it got to hostile.out,
as lines of JSON. Its environment is empty, so both are beside this file, which is copied into the test's directory.
"""
import array
import json
import mmap
import os
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START, READY, OPEN, OPENED, CERT, CERTED, ENDED, STATS, WAY, WAY_IS, CHALLENGE, CHALLENGE_IS = range(1, 13)
LINES, DONE = 14, 15
VERSION = 5


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack(">I", len(b)) + b


def message(kind, ident=0, body=b""):
    return struct.pack(">HI", kind, ident) + body


class Stand:
    def __init__(self):
        self.control = socket.socket(fileno=3)
        fds = array.array("i")
        packet, ancillary, _, _ = self.control.recvmsg(98304, socket.CMSG_SPACE(4 * 16))
        for _, _, data in ancillary:
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
        workers = struct.unpack(">I", packet[10:14])[0]
        self.fds = list(fds)
        self.tallies = self.fds[0]
        self.lanes = [socket.socket(fileno=n) for n in self.fds[1:1 + workers]]
        self.log = socket.socket(fileno=self.fds[1 + workers])
        self.listeners = self.fds[2 + workers:]
        for s in self.lanes + [self.control]:
            s.settimeout(20)

    def ready(self):
        self.control.send(message(READY, 0, struct.pack(">I", VERSION)))

    def way(self, host):
        """(kind, look, speaks, many, port)"""
        self.lanes[0].send(message(WAY, 7, text(host)))
        got = self.lanes[0].recv(4096)
        return list(struct.unpack(">BBBBH", got[6:12]))

    def call(self, kind, host, ident=9):
        """(errno, number of descriptors)"""
        self.control.send(message(kind, ident, text(host) + (struct.pack(">I", 1 << 31) if kind == OPEN else b"")))
        while True:
            packet, ancillary, _, _ = self.control.recvmsg(98304, socket.CMSG_SPACE(4 * 4))
            got, ident_got = struct.unpack(">HI", packet[:6])
            n = 0
            for _, _, data in ancillary:
                fds = array.array("i")
                fds.frombytes(data)
                n += len(fds)
                for fd in fds:
                    os.close(fd)
            if got in (OPENED, CERTED) and ident_got == ident:
                return struct.unpack(">I", packet[6:10])[0], n


def say(**words):
    with open(os.path.join(HERE, "hostile.out"), "a") as f:
        f.write(json.dumps(words) + "\n")


def ask_for_more(s):
    """What it may ask, and names that lead nowhere: VM ids, paths, other people's hosts. It gives back tickets it never had."""
    for ticket in (0, 1, 2, 2**64 - 1):
        s.control.send(message(DONE, 0, struct.pack(">Q", ticket)))
    say(fds=len(s.fds), open={h: s.call(OPEN, h) for h in ("app.edge.test", "nowhere.edge.test", "", "broken.edge.test", "silent.edge.test")},
        way={h: s.way(h) for h in ("app.edge.test", "nowhere.edge.test", "vm.edge.test")})
    try:
        mmap.mmap(s.tallies, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        say(tallies="writable")
    except PermissionError:
        say(tallies="read-only")
    try:
        os.pwrite(s.tallies, b"x" * 8, 0)
        say(tallies="writable")
    except OSError as e:
        say(tallies=e.errno)


def garbage(s):
    s.lanes[0].send(b"\0\x09" + os.urandom(300))
    s.lanes[0].recv(10)


def wrong_kind(s):
    s.control.send(message(WAY, 1, text("app.edge.test")))
    s.control.recv(10)


def bad_host(s):
    s.control.send(message(OPEN, 1, text("../../etc/passwd") + bytes(4)))
    s.control.recv(10)


def huge(s):
    s.control.send(message(OPEN, 1, text("a" * 60000) + bytes(4)))
    s.control.recv(10)


def short(s):
    return struct.pack(">H", len(s)) + s.encode()


def line(host, place, path="/forged"):
    """A line of the access log, as wire/edge_line.c writes it."""
    head = struct.pack(">QQQIIHBB", int(time.time() * 1000), 1, 2, 3, 0, 200, 11, 0)
    return head + short(host) + short(place) + short("GET") + short(path) + short("192.0.2.1")


def bad_line(s):
    s.log.send(message(LINES, 0, struct.pack(">I", 0) + text(line("vm.edge.test", "x" * 16)[:-1])))
    s.control.recv(10)


def bad_log(s):
    s.log.send(message(OPEN, 1, text("app.edge.test") + bytes(4)))
    s.control.recv(10)


def forges_lines(s):
    """Lines of names that lead elsewhere, or nowhere; then as many as it can."""
    s.lanes[0].send(message(WAY, 7, text("vm.edge.test")))
    got = s.lanes[0].recv(4096)
    place = got[36:36 + struct.unpack(">I", got[32:36])[0]].decode()
    lines = [line("vm.edge.test", "0" * 16), line("nowhere.edge.test", place), line("silent.edge.test", place), line("app.edge.test", ""),
             line("vm.edge.test", place, "/true")]
    s.log.send(message(LINES, 0, struct.pack(">I", 5) + text(b"".join(lines))))
    say(forged=len(lines))
    s.log.settimeout(0.05)
    packet, sent = message(LINES, 0, struct.pack(">I", 0) + text(b"".join([line("vm.edge.test", place)] * 100))), 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            s.log.send(packet)
            sent += 1
        except OSError:
            pass
    say(packets=sent)


def floods(s):
    """Asks without end and reads nothing; a VM that never wakes, as often as it can."""
    s.control.setblocking(False)
    n = 0
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            s.control.send(message(OPEN, n, text("stuck.edge.test") + bytes(4)))
            n += 1
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return


def hands_descriptors(s):
    """Descriptors that pandod did not ask for."""
    for _ in range(200):
        socket.send_fds(s.control, [message(STATS, 0, struct.pack(">QQQQIII", 1, 2, 3, 4, 5, 6, 7))], [0] * 16)
    say(call=s.call(OPEN, "app.edge.test"))


def shuts_listeners(s):
    s.way("app.edge.test")  # pandod has seen that it is ready
    for fd in s.listeners:
        socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR)
    say(shut=len(s.listeners))
    os._exit(1)


def wrong_version(s):
    s.control.send(message(READY, 0, struct.pack(">I", 99)))
    time.sleep(60)


def main():
    stand = Stand()
    with open(os.path.join(HERE, "hostile.do")) as f:
        do = f.read().strip()
    if do != "wrong_version":
        stand.ready()
    globals()[do](stand)
    say(did=do)
    while stand.control.recv(98304):
        pass


if __name__ == "__main__":
    try:
        main()
    except OSError as e:
        say(error=str(e))
        sys.exit(1)
