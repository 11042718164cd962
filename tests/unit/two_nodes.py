# SPDX-License-Identifier: Apache-2.0
"""two_nodes.py - two servers without machines that are nodes of one database: serve_agent twice"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from served import KERNELS


PORTS_AT = {"one": "127.119.0.2", "two": "127.119.0.3"}  # as if they were two machines


def free_port():
    with socket.socket() as s:
        s.bind(("127.119.0.1", 0))  # not 127.0.0.1, from which others connect
        return s.getsockname()[1]


class Node:
    def __init__(self, program, top, name, env=None):
        self.name, self.address = name, f"127.119.0.1:{free_port()}"
        self.proc = subprocess.Popen([program, "--ssh", KERNELS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={
            **os.environ, "SERVE_NODE": f"{name} {self.address}", "RIG_DATABASE": os.path.join(top, "pando.db"),
            "RIG_SECRET": os.path.join(top, "secret.key"), "FX_PORTS_AT": PORTS_AT[name], **(env or {})})
        line = self.proc.stdout.readline()
        assert line, f"node {name} ended at its start"
        ssh_port, port, self.own_key, self.dir = line.split()
        self.ssh_port, self.port = int(ssh_port), int(port)

    def command(self, word):
        """What it prints before its ok."""
        self.proc.stdin.write(word + "\n")
        self.proc.stdin.flush()
        lines = []
        while (line := self.proc.stdout.readline()) != "ok\n":
            assert line, f"node {self.name} ended"
            lines.append(line.strip())
        return lines

    def call(self, method, path, body=None, key=None, headers=None):
        """Status, fields and bytes."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            c.request(method, path, body=data, headers={"Authorization": f"Bearer {key}", **(headers or {})} if key else headers or {})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()

    def end(self):
        if self.proc.poll() is None:  # else a test has killed it
            self.proc.stdin.close()
            code = self.proc.wait(90)
            assert code == 0, f"node {self.name} ended with {code}"
        self.proc.stdout.close()


class TwoNodes:
    """For a class of tests: cls.one and cls.two, and one key for both."""
    node_env = {}

    @classmethod
    def start_nodes(cls, program):
        cls.top = tempfile.mkdtemp(prefix="pando-nodes-")
        os.chmod(cls.top, 0o755)
        cls.one = Node(program, cls.top, "one", cls.node_env)
        cls.key = cls.one.own_key
        cls.two = Node(program, cls.top, "two", cls.node_env)
        cls.wait_alive()

    @classmethod
    def wait_alive(cls):
        until = time.monotonic() + 60
        for n in (cls.one, cls.two):
            while not cls.sees_both(n):
                assert time.monotonic() < until, "the nodes do not see each other"
                time.sleep(0.1)

    @classmethod
    def sees_both(cls, n):
        status, _, body = n.call("GET", "/v1/cluster", key=cls.key)
        return status == 200 and [v["health"] for v in json.loads(body)["nodes"]] == ["alive", "alive"]

    @classmethod
    def end_nodes(cls):
        try:
            for n in (cls.two, cls.one):
                n.end()
        finally:
            shutil.rmtree(cls.top, ignore_errors=True)
