# SPDX-License-Identifier: Apache-2.0
"""served.py - tests of a server without machines: it is there for the class, and each test has a deadline

serve_agent and serve_git print "port key directory" when they are ready, do a word per line of their input, saying ok, and end with it.
"""
import signal
import subprocess


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
