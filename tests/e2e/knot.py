# SPDX-License-Identifier: Apache-2.0
"""knot.py - a real name server (Knot DNS) with one zone, on a loopback address of its own; records change by dynamic update"""
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

# All of 127/8 is this host, and each process has an address of its own there: knotd lets others listen on the same one, and the kernel then deals
# the questions out among them. Port 53, because resolvers have no other.
ADDRESS = f"127.{64 + (os.getpid() >> 16 & 63)}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"

CONF = """
server:
    rundir: "{dir}"
    listen: {address}@53
    user: {user}
log:
  - target: stderr
    any: error
database:
    storage: "{dir}"
{modules}acl:
  - id: here
    address: 127.0.0.0/8
    action: update
zone:
  - domain: {zone}
    file: "{dir}/zone"
    acl: here
"""

ZONE = """
$ORIGIN {zone}.
$TTL 1
@ SOA ns hostmaster 1 3600 600 86400 1
@ NS ns
ns A 127.0.0.1
* A 127.0.0.1
@ A 127.0.0.1
"""

# what is not in the zone is asked for elsewhere
FORWARD = """
remote:
  - id: host
    address: {resolver}
mod-dnsproxy:
  - id: default
    remote: host
    fallback: on
template:
  - id: default
    global-module: mod-dnsproxy/default
"""


def resolver():
    """The first name server of this host."""
    with open("/etc/resolv.conf") as f:
        return next(line.split()[1] for line in f if line.startswith("nameserver "))


class Knot:
    def __init__(self, zone, forward=False):
        self.zone = zone
        # in memory: an update is answered after its journal was flushed, and a busy disk takes longer than clients wait
        self.dir = tempfile.mkdtemp(prefix="pando-knot-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        user = pwd.getpwuid(os.geteuid()).pw_name
        with open(os.path.join(self.dir, "conf"), "w") as f:
            f.write(CONF.format(dir=self.dir, address=ADDRESS, zone=zone, user=user, modules=FORWARD.format(resolver=resolver()) if forward else ""))
        with open(os.path.join(self.dir, "zone"), "w") as f:
            f.write(ZONE.format(zone=zone))
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.p = subprocess.Popen(["knotd", "-c", os.path.join(self.dir, "conf")], stdin=subprocess.DEVNULL, stdout=self.log,
                                  stderr=self.log,
                                  preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))

    def says(self):
        self.log.flush()
        with open(os.path.join(self.dir, "log")) as f:
            return f.read()

    def ask(self, name, kind="TXT"):
        r = subprocess.run(["kdig", f"@{ADDRESS}", "+short", "+time=1", "+retry=0", name, kind], capture_output=True, text=True)
        return r.stdout.split() if r.returncode == 0 else None

    def ready(self):
        if self.p.poll() is not None:
            raise AssertionError(f"knotd ended: {self.says()}")
        return self.ask(self.zone, "SOA")

    def update(self, *lines):
        text = "\n".join([f"server {ADDRESS}", f"zone {self.zone}.", *lines, "send", "quit", ""])
        r = subprocess.run(["knsupdate", "-v", "-t", "60", "-r", "10"], input=text, capture_output=True, text=True, timeout=90)
        assert r.returncode == 0 and not r.stderr.strip(), f"knsupdate: {r.stdout}{r.stderr}"

    def close(self):
        self.p.terminate()
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
