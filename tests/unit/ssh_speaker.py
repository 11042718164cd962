#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ssh_speaker.py - stands in for a pando-ssh that its client took over; run by serve_agent as SERVE_SSH_PROGRAM

Waits for a client as pando-ssh does and then does what the first word of the file hostile.do says (the name of a function here); the second word is the
user name of a login. What it got is added to hostile.out, as lines of JSON. Its environment is empty, so both are beside this file, which is copied into the
test's directory.
"""
import array
import json
import os
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
(START, READY, CONNECT, ANSWER, LEAVE, AUTH, SESSION, ENV, PTY, RUN, RESIZE, SIGNAL, CLOSE, DIRECT, DIALED, LISTEN, CANCEL, KNOCK) = range(1, 19)
DATA, ERR, EOF, EXIT, KILLED = range(1, 6)
EXEC = 1
VERSION = 1


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack(">I", len(b)) + b


def message(kind, ident=0, body=b""):
    return struct.pack(">HI", kind, ident) + body


def say(**words):
    with open(os.path.join(HERE, "hostile.out"), "a") as f:
        f.write(json.dumps(words) + "\n")


class Speaker:
    def __init__(self):
        self.sock = socket.socket(fileno=3)
        self.receive()

    def receive(self):
        """kind, body, descriptors"""
        packet, ancillary, _, _ = self.sock.recvmsg(1 << 18, socket.CMSG_SPACE(4 * 4))
        if not packet:
            sys.exit(0)
        fds = array.array("i")
        for _, _, data in ancillary:
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
        return struct.unpack(">H", packet[:2])[0], packet[6:], list(fds)

    def tell(self, *m):
        self.sock.send(message(*m))

    def ask(self, *m):
        """(yes or no, descriptors)"""
        self.tell(*m)
        while True:
            kind, body, fds = self.receive()
            if kind == LEAVE:
                say(left=body[4:].decode())
                sys.exit(0)
            if kind in (ANSWER, DIALED):
                return body[0], fds

    def log_in(self, name):
        return self.ask(AUTH, 0, text(name) + b"\0" + text(""))[0]

    def run(self, ident, command):
        return self.ask(RUN, ident, bytes([EXEC]) + text(command))

    def stream(self, ident, command):
        self.ask(SESSION, ident)
        ok, fds = self.run(ident, command)
        assert ok and len(fds) == 1, (ok, fds)
        st = socket.socket(fileno=fds[0])
        st.setblocking(True)
        return st

    def wait_for_the_end(self):
        while True:
            self.receive()


# ---- what it does; "killed" is said when it was not ----

def what_is_allowed(s, name):
    """A login, a command, input and output."""
    assert s.log_in(name) == 1
    st = s.stream(1, "cat; echo err >&2; exit 3")
    st.send(bytes([DATA]) + b"hello")
    st.send(bytes([EOF]))
    frames = []
    while f := st.recv(1 << 16):
        frames.append([f[0], f[1:].decode(errors="replace") if f[0] != EXIT else f[1]])
    say(frames=sorted(frames))


def before_login(s, name):
    s.tell(SESSION, 1)
    s.wait_for_the_end()


def run_before_login(s, name):
    s.tell(RUN, 1, bytes([EXEC]) + text("touch /tmp/never"))
    s.wait_for_the_end()


def listen_before_login(s, name):
    s.tell(LISTEN, 0, text("127.0.0.1") + struct.pack(">H", 0))
    s.wait_for_the_end()


def second_login(s, name):
    assert s.log_in(name) == 1
    s.tell(AUTH, 0, text(name) + b"\0" + text(""))
    s.wait_for_the_end()


def same_channel_twice(s, name):
    assert s.log_in(name) == 1
    s.ask(SESSION, 1)
    s.tell(SESSION, 1)
    s.wait_for_the_end()


def guests_channel(s, name):
    assert s.log_in(name) == 1
    s.tell(SESSION, 0x80000001)
    s.wait_for_the_end()


def garbage(s, name):
    s.sock.send(b"\xff" * 100)
    s.wait_for_the_end()


def huge(s, name):
    s.sock.send(message(AUTH, 0, b"x" * 150000))
    s.wait_for_the_end()


def pandods_message(s, name):
    s.tell(ANSWER, 0, b"\1\0\0")
    s.wait_for_the_end()


def bad_frame(s, name):
    """An exit status is for pandod to say."""
    assert s.log_in(name) == 1
    st = s.stream(1, "cat")
    st.send(bytes([EXIT, 0]))
    s.wait_for_the_end()


def data_after_the_end(s, name):
    assert s.log_in(name) == 1
    st = s.stream(1, "sleep 1000")
    st.send(bytes([EOF]))
    st.send(bytes([DATA]) + b"more")
    s.wait_for_the_end()


def guesses(s, name):
    """Other accounts' VMs, and no VM: no, after the same time, six times."""
    got = []
    for _ in range(10):
        got.append(s.log_in(name[:-1] + "x"))
        say(guessed=len(got), yes=sum(got))


def too_many_channels(s, name):
    assert s.log_in(name) == 1
    say(sessions=sum(s.ask(SESSION, i)[0] for i in range(1, 101)))


def twice_one_program(s, name):
    """A channel has one program; others that are not there have none."""
    assert s.log_in(name) == 1
    st = s.stream(1, "sleep 1000")
    say(again=s.run(1, "echo again"), other=s.run(77, "echo other"), fd=st.fileno() >= 0)


def hands_descriptors(s, name):
    """What pandod does not ask for it does not get."""
    assert s.log_in(name) == 1
    for _ in range(100):
        with open("/dev/null") as f:
            s.sock.sendmsg([message(RESIZE, 1, b"\0" * 8)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno()] * 8))])
    say(asked=s.ask(SESSION, 1)[0])
    time.sleep(1000)


def reads_no_answers(s, name):
    """Each answer has a descriptor; they must not pile up."""
    assert s.log_in(name) == 1
    i = 0
    while True:
        i += 1
        s.tell(SESSION, i)
        s.tell(RUN, i, bytes([EXEC]) + text("true"))


def main():
    s = Speaker()
    with open(os.path.join(HERE, "hostile.do")) as f:
        do, name = f.read().split()
    s.tell(READY, 0, struct.pack(">I", VERSION + (do == "wrong_version")))
    kind, _, _ = s.receive()
    assert kind == CONNECT, kind
    try:
        globals()[do](s, name)
        say(did=do)
    except Exception as e:  # the test shows it
        say(error=repr(e))


main()
