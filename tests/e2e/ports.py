# SPDX-License-Identifier: Apache-2.0
"""ports.py - ports of this host that nothing else will take before a test's server does

Theory of operation: a port that the kernel chose for a socket and that was closed again may be anybody's next client port. So ports are taken from
below the range the kernel chooses from, and each is reserved for this process with a name in the abstract namespace, which goes away with it.
"""
import os
import random
import socket

FIRST, LAST = 20000, 32767  # below net.ipv4.ip_local_port_range
_names = []


def _reserve(port):
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0pando-test-port-{port}")
    except OSError:
        name.close()
        return False
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                return False
    _names.append(name)
    return True


def free_ports(n):
    """The first of n ports in a row, all of them this process's until it ends."""
    choice = random.Random(os.urandom(8))
    for _ in range(1000):
        first, held = choice.randrange(FIRST, LAST - n + 2), len(_names)
        if all(_reserve(first + i) for i in range(n)):
            return first
        while len(_names) > held:
            _names.pop().close()
    raise RuntimeError(f"no {n} free ports in a row between {FIRST} and {LAST}")


def free_port():
    return free_ports(1)
