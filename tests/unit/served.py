# SPDX-License-Identifier: Apache-2.0
"""served.py - tests of a server without machines: one server per class, and a deadline per test

serve_agent and serve_git print "port key directory" when they are ready, do a word per line of their input, saying ok, and end with it.
"""
import http.server
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../agent/kernels")  # for serve_agent


class Served:
    limit_s = 120

    @classmethod
    def serve(cls, *argv, **kw):
        cls.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kw)
        port, cls.key, cls.dir = cls.proc.stdout.readline().split()
        cls.port = int(port)

    @classmethod
    def command(cls, word):
        cls.proc.stdin.write(word + "\n")
        cls.proc.stdin.flush()
        answer = cls.proc.stdout.readline()
        assert answer == "ok\n", answer

    @classmethod
    def tearDownClass(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        cls.proc.stdout.close()
        assert code == 0, f"the server ended with {code}"

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {self.limit_s} s"))
        signal.alarm(self.limit_s)

    def tearDown(self):
        signal.alarm(0)


class ServedGit(Served):
    """serve_git, which is the first argument or `program`; for classes that have GitTools as well."""
    program = sys.argv[1]
    limit_s = 200
    server_env = {}

    @classmethod
    def setUpClass(cls):
        cls.serve(cls.program, env={**os.environ, **cls.server_env})
        cls.data_dir = cls.dir

    def setUp(self):
        super().setUp()
        self.make_top()


class Restarted:
    """serve_git, one for each test, with a data directory that outlives it: tests stop it, kill it and start it again."""
    program = sys.argv[1]
    limit_s = 200
    env = {}

    def start(self):
        self.proc = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                     env={**os.environ, "FX_DATA": self.data_dir, **self.env})
        port, self.key, _ = self.proc.stdout.readline().split()
        self.port = int(port)

    def stop(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            self.assertEqual(self.proc.wait(60), 0)
        self.proc.stdout.close()

    def crash(self):
        self.proc.kill()
        self.proc.wait(60)
        self.proc.stdin.close()
        self.proc.stdout.close()

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {self.limit_s} s"))
        signal.alarm(self.limit_s)
        self.addCleanup(signal.alarm, 0)
        self.data_dir = tempfile.mkdtemp(prefix="pando-served-")
        self.addCleanup(shutil.rmtree, self.data_dir, ignore_errors=True)
        self.start()
        self.addCleanup(self.stop)


def listen(test, handler, **attributes):
    """An HTTP server on this host until the test ends."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    vars(server).update(attributes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return server
