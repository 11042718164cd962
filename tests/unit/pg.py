# SPDX-License-Identifier: Apache-2.0
"""pg.py - a PostgreSQL server of a test's own, from Debian's packages

Theory of operation: a cluster in a directory of its own with a socket beside it and no port, as the user postgres when we are root
(PostgreSQL refuses root), without fsync because nothing in it outlives the test. The process ends with stop(), by its pid, and by
itself when the test program dies. Bytes as they come (SQL_ASCII), as Pando wants them; the database utf8 is for the refusal.

Roles: pando (superuser, trusted) and guarded, whose password is right.
"""
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

WAIT_S = 60
PR_SET_PDEATHSIG = 1


def bindir():
    """Where initdb and postgres are; Debian keeps them out of PATH."""
    return subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()


class Server:
    def __init__(self):
        self.bin = bindir()
        self.dir = tempfile.mkdtemp(prefix="pg-")
        self.data = os.path.join(self.dir, "data")
        self.proc = None
        self.who = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
            self.who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def url(self, database="pando", user="pando", password=""):
        return f"postgresql://{user}{':' + password if password else ''}@/{database}?host={self.dir}"

    def tool(self, *argv):
        subprocess.run([os.path.join(self.bin, argv[0]), *argv[1:]], check=True, cwd=self.dir, stdout=subprocess.DEVNULL, **self.who)

    def sql(self, text, database="pando"):
        out = subprocess.run([os.path.join(self.bin, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-c", text],
                             check=True, capture_output=True, text=True)
        return out.stdout.strip()

    def start(self):
        self.tool("initdb", "-D", self.data, "-N", "-A", "trust", "-U", "pando", "--locale=C", "--encoding=SQL_ASCII")
        with open(os.path.join(self.data, "pg_hba.conf"), "w") as f:
            f.write("local all guarded scram-sha-256\nlocal all all trust\n")
        self.run()
        self.sql("CREATE DATABASE pando", "postgres")
        self.sql("CREATE DATABASE utf8 TEMPLATE template0 ENCODING 'UTF8'", "postgres")
        self.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'", "postgres")
        return self

    def run(self):
        """Also again, after kill()."""
        libc = ctypes.CDLL(None)
        log = open(os.path.join(self.dir, "log"), "ab")
        self.proc = subprocess.Popen(
            [os.path.join(self.bin, "postgres"), "-D", self.data, "-k", self.dir, "-c", "listen_addresses=", "-c", "fsync=off",
             "-c", "shared_buffers=24MB", "-c", "max_connections=60", "-c", "autovacuum=off", "-c", "full_page_writes=off"],
            cwd=self.dir, stdout=log, stderr=log, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT), **self.who)
        log.close()
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if self.proc.poll() is not None:
                break
            try:
                self.sql("SELECT 1", "postgres")
                return
            except subprocess.CalledProcessError:
                time.sleep(0.05)
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            raise RuntimeError("PostgreSQL did not start: " + f.read()[-2000:])

    def kill(self, sig=signal.SIGQUIT):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(sig)
            self.proc.wait(WAIT_S)

    def stop(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *why):
        self.stop()
