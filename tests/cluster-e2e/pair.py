# SPDX-License-Identifier: Apache-2.0
"""pair.py - PostgreSQL with a synchronous standby, each at an address of its own

A commit is acknowledged when both have it on disk, in so far as a test has disks: without fsync, since only processes die here. fail_over() is what
an operator does, or Patroni: the standby becomes the primary, and waits for nobody. The old primary is made a standby of it again by rebuilt().
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

import net

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "unit"))
import pg  # noqa: E402

PORT = 5432
SETTINGS = ["fsync=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=24MB", "max_connections=80", "wal_keep_size=64MB"]


class One(pg.Server):
    """At an address, as PostgreSQL of a machine is."""

    def __init__(self, name, address):
        super().__init__()
        self.name, self.address = name, address

    def run(self):
        options = [w for s in (*SETTINGS, f"listen_addresses={self.address}", f"port={PORT}") for w in ("-c", s)]
        libc = ctypes.CDLL(None)
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.proc = subprocess.Popen([os.path.join(self.bin, "postgres"), "-D", self.data, "-k", self.dir, *options], cwd=self.dir, stdout=log,
                                         stderr=log, preexec_fn=lambda: libc.prctl(pg.PR_SET_PDEATHSIG, signal.SIGQUIT), **self.who)
        end = time.monotonic() + pg.WAIT_S
        while time.monotonic() < end and self.proc.poll() is None:
            try:
                self.sql("SELECT 1", "postgres")
                return
            except subprocess.CalledProcessError:
                time.sleep(0.05)
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            raise RuntimeError("PostgreSQL did not start: " + f.read()[-2000:])

    def first(self):
        self.tool("initdb", "-D", self.data, "-N", "-A", "trust", "-U", "pando", "--locale=C", "--encoding=SQL_ASCII")
        with open(os.path.join(self.data, "pg_hba.conf"), "w") as f:
            f.write(f"local all all trust\nhost all guarded {net.PREFIX}0/24 scram-sha-256\n"
                    f"host all all {net.PREFIX}0/24 trust\nhost replication all {net.PREFIX}0/24 trust\n")
        self.run()
        for name in ("pando", "another"):
            self.sql(f"CREATE DATABASE {name}", "postgres")
        self.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'", "postgres")

    def copy_of(self, primary):
        subprocess.run(["rm", "-rf", self.data], check=True)
        self.tool("pg_basebackup", "-h", primary.address, "-p", str(PORT), "-U", "pando", "-D", self.data, "-R", "--checkpoint=fast",
                  "-d", f"application_name={self.name}")
        self.run()
        primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{self.name}'", "postgres")
        primary.sql("SELECT pg_reload_conf()", "postgres")

    def sql(self, text, database="pando"):
        out = subprocess.run([os.path.join(self.bin, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d",
                              f"postgresql://pando@/{database}?host={self.dir}&port={PORT}", "-c", text],
                             check=True, capture_output=True, text=True)
        return out.stdout.strip()


class Pair:
    def __init__(self):
        self.primary, self.standby = (One(f"pg{n}", a) for n, a in enumerate(net.DATABASES))

    def start(self):
        self.primary.first()
        self.standby.copy_of(self.primary)
        self.await_sync()

    def await_sync(self):
        end = time.monotonic() + pg.WAIT_S
        while self.primary.sql("SELECT sync_state FROM pg_stat_replication", "postgres") != "sync":
            if time.monotonic() > end:
                raise RuntimeError("the standby is not synchronous")
            time.sleep(0.05)

    def url(self, database="pando", user="pando"):
        return f"postgresql://{user}@{','.join(f'{a}:{PORT}' for a in net.DATABASES)}/{database}"

    def sql(self, text):
        return self.primary.sql(text)

    def fail_over(self):
        """The primary is dead."""
        new = self.standby
        new.tool("pg_ctl", "promote", "-w", "-D", new.data)
        new.sql("ALTER SYSTEM RESET synchronous_standby_names", "postgres")
        new.sql("SELECT pg_reload_conf()", "postgres")
        self.primary, self.standby = new, self.primary

    def dies(self, silently):
        """The primary's process ends; silently: and its address answers nothing any more, as when its machine has no power."""
        if silently:
            chains = "".join(f"chain {h} {{\ntype filter hook {h} priority -300;\nip {d} {self.primary.address} drop\n}}\n"
                             for h, d in (("input", "daddr"), ("output", "saddr")))
            net.run("nft", "-f", "-", text=f"table inet dead {{\n{chains}}}\n")
        self.primary.kill(signal.SIGQUIT)

    def rebuilt(self):
        subprocess.run(["nft", "delete", "table", "inet", "dead"], capture_output=True)
        self.standby.copy_of(self.primary)
        self.await_sync()

    def stop(self):
        subprocess.run(["nft", "delete", "table", "inet", "dead"], capture_output=True)
        for one in (self.standby, self.primary):
            one.stop()
