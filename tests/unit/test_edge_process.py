#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_edge_process.py EDGEUP - the edge as a process of its own: it dies, it is taken over, it is walled in"""
import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import test_edge
from ports import free_port
from test_edge import Stand

HERE = os.path.dirname(os.path.abspath(__file__))


class Dies(Stand, unittest.TestCase):
    """The process is killed while requests flow."""

    @classmethod
    def setUpClass(cls):
        os.environ["EDGEUP_ENDS"] = "1"
        try:
            super().setUpClass()
        finally:
            del os.environ["EDGEUP_ENDS"]

    def kill(self, sig=signal.SIGKILL):
        pid, starts = self.edge_pid(), self.starts()
        os.kill(pid, sig)
        self.wait_for("another process", lambda: self.starts() > starts and self.edge_pid() not in (pid, -1))

    def test_killed_while_requests_flow(self):
        stop, codes = threading.Event(), []

        def load():
            while not stop.is_set():
                codes.append(self.e.curl(f"http://{self.host}/echo", check=False).status)
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        try:
            for _ in range(3):
                self.wait_for("requests", lambda n=len(codes): len(codes) > n + 5)
                self.kill()
                self.assertEqual(self.e.curl(f"http://{self.host}/echo").status, 200)
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertGreater(codes.count(200), 10)

    def places(self):
        """Of the name that leads to one of several machines: taken now, most so far, most that waited, tickets nobody had."""
        words = self.figures()
        at = words.index("places,")
        return [int(words[at + k]) for k in (-1, 1, 4, 6)]

    def test_places_are_given_back(self):
        """A request is a place, however it ends; those that find none wait, and are refused in time; none is lost with the process."""
        host = "many.edge.test"
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            got = list(pool.map(lambda i: self.e.curl(f"{'https' if i % 3 else 'http'}://{host}/echo", *(["--http2"] if i % 3 == 1 else ["--http1.1"])).status, range(40)))
        self.assertEqual(got, [200] * 40)
        self.wait_for("no place is taken", lambda: self.places()[0] == 0)
        _, most, waited, foreign = self.places()
        self.assertLessEqual(most, 4)
        self.assertGreater(waited, 0)
        held = [self.e.plain() for _ in range(4)]
        try:
            for s in held:  # WebSockets: a place each, as long as they are open
                s.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
                self.assertEqual(test_edge.status_of(s.recv(65536)), 101)
            self.assertEqual(self.places()[0], 4)
            r = self.e.curl(f"http://{host}/echo")
            self.assertEqual((r.status, r.headers.get("retry-after")), (503, "3"))
            self.assertIn(b"DEPLOYMENT_BUSY", r.body)
            held.pop().close()
            self.assertEqual(self.e.curl(f"http://{host}/echo").status, 200)
            self.kill()
            self.wait_for("all places are free", lambda: self.places()[0] == 0)
        finally:
            for s in held:
                s.close()
        self.assertEqual(self.places()[3], 0)

    def test_clients_wait_in_the_queue_meanwhile(self):
        """A connection that is made while there is no process is served by the next one."""
        pid = self.edge_pid()
        os.kill(pid, signal.SIGSTOP)
        self.wait_for("all its threads stand still", lambda: all(self.stopped(pid, t) for t in os.listdir(f"/proc/{pid}/task")))
        with self.e.plain() as s:
            s.sendall(f"GET /echo HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(test_edge.status_of(s.recv(65536)), 200)

    def test_it_ends_with_its_server(self):
        """Nothing is left that holds the addresses when the server is killed."""
        other = subprocess.Popen([test_edge.EDGEUP, self.dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with other.stdin, other.stdout:
            self.assertEqual(other.stdout.readline(), "ready\n")
            other.stdin.write("\n")
            other.stdin.flush()
            pid = int(other.stdout.readline().split()[17].rstrip(","))
            os.kill(pid, signal.SIGSTOP)  # one that does not end by itself
            other.kill()
            other.wait()
        self.wait_for("its end", lambda: not os.path.exists(f"/proc/{pid}") or self.stopped(pid, pid, "Z"))

    def test_what_it_knew_is_asked_again(self):
        """TLS, a certificate of its own and a VM, before and after."""
        for _ in range(2):
            self.assertEqual(self.e.curl("https://port-%d.edge.test/echo" % self.up()).status, 200)
            self.assertEqual(self.e.curl("http://vm.edge.test/echo").status, 200)
            self.kill()

    def test_figures_of_all_processes(self):
        before = int(self.figures()[20])
        for _ in range(3):
            self.e.curl(f"http://{self.host}/echo")
        self.wait_for("figures", lambda: int(self.figures()[20]) >= before + 3)
        self.kill()
        self.assertGreaterEqual(int(self.figures()[20]), before + 3)

    @staticmethod
    def stopped(pid, task, state="T"):
        try:
            with open(f"/proc/{pid}/task/{task}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] == state
        except (FileNotFoundError, ProcessLookupError):
            return state != "T"

    def up(self):
        with open(f"/proc/{self.app.pid}/net/tcp") as f:
            rows = [line.split() for line in f][1:]
        inodes = {os.readlink(f"/proc/{self.app.pid}/fd/{n}") for n in os.listdir(f"/proc/{self.app.pid}/fd")}
        return next(int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in inodes)


@unittest.skipUnless(os.environ.get("EDGE_WALLS", "1") == "1", "built with a sanitizer, which needs what the walls forbid")
class Walls(Stand, unittest.TestCase):
    """What the process has, and what it has not."""

    def status(self):
        with open(f"/proc/{self.edge_pid()}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)

    def test_filter_and_privileges(self):
        s = self.status()
        self.assertEqual((s["Seccomp"], s["NoNewPrivs"], int(s["CapEff"], 16), int(s["CapPrm"], 16)), ("2", "1", 0, 0))

    def test_descriptors(self):
        """Its sockets, its events, its log and nothing else: no file, no database, no way to pando-priv."""
        pid = self.edge_pid()
        kinds = {}
        for n in os.listdir(f"/proc/{pid}/fd"):
            to = os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0]
            kinds.setdefault(to, []).append(n)
        self.assertEqual(set(kinds), {"/dev/null", "socket", "pipe", "anon_inode"})
        self.assertEqual(len(kinds["pipe"]), 1)

    def test_root_and_network(self):
        pid = self.edge_pid()
        ours, its = os.readlink("/proc/self/ns/user"), os.readlink(f"/proc/{pid}/ns/user")
        if ours == its:
            self.skipTest("this kernel gives no namespaces to users")
        self.assertEqual(os.listdir(f"/proc/{pid}/root/"), [])
        self.assertNotEqual(os.readlink("/proc/self/ns/net"), os.readlink(f"/proc/{pid}/ns/net"))

    def test_environment(self):
        with open(f"/proc/{self.edge_pid()}/environ") as f:
            self.assertEqual(f.read(), "")


class Hostile(unittest.TestCase):
    """Somebody took the process over: it gets what a visitor gets, and pandod goes on."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pando-edge-")
        self.program = os.path.join(self.dir, "hostile.py")
        shutil.copy(os.path.join(HERE, "edge_hostile.py"), self.program)
        os.chmod(self.program, 0o755)
        self.app = subprocess.Popen([sys.executable, test_edge.APP, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.app.stdout.readline())
        self.p = None

    def tearDown(self):
        if self.p:
            self.p.stdin.close()
            self.p.wait(60)
            self.p.stdout.close()
        self.app.kill()
        self.app.wait()
        self.app.stdout.close()
        shutil.rmtree(self.dir)

    def begin(self, do):
        with open(os.path.join(self.dir, "hostile.do"), "w") as f:
            f.write(do)
        self.http = free_port()
        env = {**os.environ, "EDGEUP_PROGRAM": self.program, "EDGEUP_ENDS": "1"}
        self.p = subprocess.Popen([test_edge.EDGEUP, os.path.join(self.dir, "certs"), "127.0.0.1:0", f"127.0.0.1:{self.http}", f"127.0.0.1:{self.port}"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        return self.p.stdout.readline() == "ready\n"

    figures = Stand.figures
    starts = Stand.starts
    edge_pid = Stand.edge_pid
    wait_for = Stand.wait_for

    def said(self):
        try:
            with open(os.path.join(self.dir, "hostile.out")) as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def test_it_gets_what_visitors_get(self):
        self.assertTrue(self.begin("ask_for_more"))
        self.wait_for("its report", lambda: any("did" in line or "error" in line for line in self.said()))
        found = {}
        for line in self.said():
            found.update({k: v for k, v in line.items() if k != "tallies"})
        tallies = [line["tallies"] for line in self.said() if "tallies" in line]
        self.assertNotIn("error", found)
        self.assertEqual(found["open"]["app.edge.test"], [0, 1])
        self.assertEqual(found["open"]["nowhere.edge.test"], [2, 0])     # ENOENT
        self.assertEqual(found["open"]["broken.edge.test"], [5, 0])      # EIO
        self.assertEqual(found["open"]["silent.edge.test"], [111, 0])    # ECONNREFUSED: no socket to try elsewhere
        self.assertEqual(found["way"]["nowhere.edge.test"][0], 0)
        self.assertEqual(tallies, ["read-only", 1])                        # EPERM
        self.assertEqual(self.figures()[-2:], ["0", "foreign"])          # tickets that it did not have
        self.assertEqual(self.starts(), 1)

    def test_it_is_ended_for_what_it_must_not_say(self):
        for do in ("garbage", "wrong_kind", "bad_host", "huge", "bad_line", "bad_log"):
            with self.subTest(do):
                self.assertTrue(self.begin(do))
                self.wait_for("its end", lambda: self.starts() > 2)
                self.p.stdin.close()
                self.assertEqual(self.p.wait(60), 0)
                self.p.stdout.close()
                self.p = None

    def test_it_cannot_fill_the_access_log(self):
        """Lines count for the VM that their name leads to, and so many in a time; it is not ended for having more."""
        self.assertTrue(self.begin("forges_lines"))
        self.wait_for("its lines", lambda: any("forged" in line for line in self.said()))
        self.wait_for("its flood", lambda: any("packets" in line for line in self.said()))
        packets = next(line["packets"] for line in self.said() if "packets" in line)
        self.assertLess(packets, 5000)  # 1000 in a second are taken
        self.figures("lines")
        self.assertEqual({tuple(line[:2]) for line in self.lines}, {("vm", "vm.edge.test")})
        self.assertEqual(self.starts(), 1)

    def test_it_is_started_again_ever_more_slowly(self):
        self.assertTrue(self.begin("garbage"))
        self.wait_for("some starts", lambda: self.starts() >= 4)
        seen = self.starts()
        time.sleep(3)  # at 0.1 s, 0.2 s, 0.4 s, ... there are few; without a pause there would be dozens
        self.assertLess(self.starts() - seen, 6)

    def test_it_cannot_occupy_the_server(self):
        """64 sockets are waited for at a time, whatever it asks; other questions of pandod's are answered meanwhile."""
        self.assertTrue(self.begin("floods"))
        self.wait_for("it is ended", lambda: self.starts() > 1)
        with open(f"/proc/{self.p.pid}/status") as f:
            threads = int(next(line for line in f if line.startswith("Threads")).split()[1])
        self.assertLessEqual(threads, 64 + 2 + 4)

    def test_it_cannot_fill_descriptors(self):
        self.assertTrue(self.begin("hands_descriptors"))
        self.wait_for("its report", lambda: any("did" in line or "error" in line for line in self.said()))
        self.assertIn({"call": [0, 1]}, self.said())
        self.assertLess(len(os.listdir(f"/proc/{self.p.pid}/fd")), 40)

    def test_it_cannot_close_the_door_for_the_next_one(self):
        self.assertTrue(self.begin("shuts_listeners"))
        self.wait_for("it shut them", lambda: any("shut" in line for line in self.said()))
        self.wait_for("the next one", lambda: self.starts() > 1)

        def open_again():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.http)) == 0
        self.wait_for("connections are taken again", open_again)

    def test_another_version_is_refused(self):
        self.assertFalse(self.begin("wrong_version"))
        self.assertEqual(self.p.wait(60), 1)


if __name__ == "__main__":
    test_edge.EDGEUP = sys.argv.pop(1)
    unittest.main(verbosity=2)
