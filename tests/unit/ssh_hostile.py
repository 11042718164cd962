#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a client that is logged in may try, with paramiko as peer; usage: ssh_hostile.py PORT VM KEY. For test_ssh.py

Prints one word per check that went as it should, and ends with status 0 when all did.
"""
import logging
import os
import socket
import sys
import time

import paramiko

PORT, VM, KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3]
CHANNELS = 64
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


def login():
    t = paramiko.Transport(("127.0.0.1", PORT))
    t.start_client(timeout=60)
    t.auth_none(f"{VM}:{KEY}")
    t._sanitize_packet_size = lambda n: 32768 if n is None else n
    return t


def drain(ch, seconds=60):
    ch.settimeout(seconds)
    got = b""
    while b := ch.recv(65536):
        got += b
    return got


def request(ch, name, *fields, reply=False):
    m = paramiko.Message()
    m.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    m.add_int(ch.remote_chanid)
    m.add_string(name)
    m.add_boolean(reply)
    for f in fields:
        m.add_string(f)
    ch.transport._send_user_message(m)


def tiny_packets():
    """A packet size of 10 makes libssh send nothing for ever: that connection ends, the server goes on."""
    t = login()
    ch = t.open_session(max_packet_size=10)
    ch.exec_command("echo hello; sleep 1000")
    assert drain(ch) == b""
    t.join(60)
    assert not t.is_alive()
    t = login()
    ch = t.open_session(max_packet_size=11)  # one byte each: slow, and well
    ch.exec_command("echo hello")
    assert drain(ch) == b"hello\n"
    t.close()


def signals():
    t = login()
    ch = t.open_session()
    ch.exec_command("trap 'echo got it; exit 6' USR1; echo up; while :; do sleep 0.05; done")
    ch.settimeout(60)
    got = b""
    while b"up\n" not in got:
        got += ch.recv(100)
    request(ch, "signal", "NONSENSE")
    request(ch, "signal", "USR1")
    assert drain(ch).endswith(b"got it\n")
    assert ch.recv_exit_status() == 6
    t.close()


def too_many_channels():
    t = login()
    held = []
    try:
        for _ in range(CHANNELS + 10):
            held.append(t.open_session())
        raise AssertionError("there is no limit")
    except paramiko.ChannelException:
        pass
    assert len(held) == CHANNELS, len(held)
    held[0].close()
    deadline = time.monotonic() + 60
    while True:
        try:
            ch = t.open_session()
            break
        except paramiko.ChannelException:
            assert time.monotonic() < deadline
    ch.exec_command("echo room")
    assert drain(ch) == b"room\n"
    t.close()


def requests_out_of_order():
    """Twice, without a program, after it, unknown, with absurd sizes: refused or ignored."""
    t = login()
    ch = t.open_session()
    request(ch, "window-change")
    request(ch, "no-such-request@example.org", b"\xff" * 1000)
    ch.get_pty(width=100000, height=100000)
    ch.exec_command("stty size; sleep 0.2; echo end")
    request(ch, "exec", "echo second")
    request(ch, "shell")
    request(ch, "env", "LANG", "x" * 100000)
    assert b"end" in drain(ch)
    ch = t.open_session()
    for n in range(200):
        request(ch, "env", f"LC_{'A' * (n % 50)}", "v" * 5000)
    ch.exec_command("echo still")
    assert drain(ch) == b"still\n"
    try:
        t.open_session().invoke_subsystem("no-such-subsystem")
        raise AssertionError("a subsystem that is not there")
    except paramiko.SSHException:
        pass
    t.close()


def writes_nobody_takes():
    """A program that reads nothing holds its client up, not the server, and other channels go on."""
    t = login()
    stuck = t.open_session()
    stuck.exec_command("sleep 1000")
    stuck.settimeout(3)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += stuck.send(b"x" * 30000)
        raise AssertionError("the server took everything")
    except socket.timeout:
        pass
    assert sent < 8 << 20, sent
    ch = t.open_session()
    ch.exec_command("echo goes on")
    assert drain(ch) == b"goes on\n"
    t.close()


def floods_nobody_reads():
    """Output nobody takes stays in the guest; requests without end are answered at the client's pace."""
    t = login()
    ch = t.open_session()
    ch.exec_command("cat /dev/zero")
    t2 = login()
    for _ in range(3000):
        t2.global_request("keepalive@openssh.com", wait=False)
    ch2 = t2.open_session()
    ch2.exec_command("echo alive")
    assert drain(ch2) == b"alive\n"
    t2.close()
    t.close()


def direct_nonsense():
    t = login()
    for dest in (("", 1), ("x" * 300, 80), ("a b;c", 80), ("$(id)", 80), ("-h", 80), ("127.0.0.1", 0), ("127.0.0.1", 70000), ("999.1.1.1", 80)):
        try:
            t.open_channel("direct-tcpip", dest, ("127.0.0.1", 1), timeout=60)
            raise AssertionError(dest)
        except paramiko.ChannelException:
            pass
    for kind in ("x11", "no-such-channel@example.org"):
        try:
            t.open_channel(kind, ("127.0.0.1", 1), ("127.0.0.1", 1), timeout=60) if kind == "x11" else t.open_channel(kind, timeout=60)
            raise AssertionError(kind)
        except paramiko.ChannelException:
            pass
    ch = t.open_session()
    ch.exec_command("echo fine")
    assert drain(ch) == b"fine\n"
    t.close()


def bytes_instead_of_packets():
    t = login()
    ch = t.open_session()
    ch.exec_command("sleep 1000")
    t.packetizer._Packetizer__socket.sendall(os.urandom(100000))
    t.join(60)
    assert not t.is_alive()


for check in (tiny_packets, signals, too_many_channels, requests_out_of_order, writes_nobody_takes, floods_nobody_reads, direct_nonsense,
              bytes_instead_of_packets):
    check()
    print(check.__name__, flush=True)
