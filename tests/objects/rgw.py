# SPDX-License-Identifier: Apache-2.0
"""rgw.py - an S3 server of a test's own: radosgw with its SQLite backend, from Debian's package (rgw.sh)

Theory of operation: the tree is only read. The server runs in a mount namespace of its own, where a directory of this test is mounted over
what it writes (/srv, /etc/ceph, /run/ceph, /var/log/ceph), and listens on a free port of 127.0.0.1. It ends with stop(), by its pid, and by
itself when the test dies. kill() and run() are an outage: what was stored is still there.

This backend has whole objects only and answers ranges with wrong bytes, which we never ask for; signatures it checks like the big one.
"""
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT_S = 120
USER_S = 60  # it takes a second
PR_SET_PDEATHSIG = 1
KEY, SECRET = "PANDOTESTKEY", "pandotestsecret"

CONF = """[global]
auth cluster required = none
auth service required = none
auth client required = none
keyring = /etc/ceph/keyring
rgw backend store = dbstore
rgw config store = dbstore
dbstore db dir = /srv/db
dbstore config uri = file:/srv/db/config.db
rgw frontends = beast endpoint=127.0.0.1:%d tcp_nodelay=1
rgw enable ops log = false
rgw enable usage log = false
rgw dns name = localhost
log file = /var/log/ceph/$name.log
"""

# $1: the tree, $2: the test's directory; the rest is run in it
INSIDE = r"""
set -e
tree=$1 own=$2
shift 2
for dir in srv etc/ceph run/ceph var/log/ceph var/lib/ceph; do mount --bind "$own/$dir" "$tree/$dir"; done
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
exec chroot "$tree" "$@"
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tree(kind):
    out = subprocess.run([os.path.join(HERE, "rgw.sh"), kind], check=True, stdout=subprocess.PIPE, text=True)
    return out.stdout.strip().splitlines()[-1]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """radosgw 18 with SQLite: starts in half a second"""
    KIND = "dbstore"

    def __init__(self):
        self.tree = tree(self.KIND)
        self.dir = tempfile.mkdtemp(prefix="rgw-", dir="/var/tmp")
        for sub in ("srv/db", "etc/ceph", "run/ceph", "var/log/ceph", "var/lib/ceph"):
            os.makedirs(os.path.join(self.dir, sub))
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.proc = None

    def inside(self, *argv):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh", self.tree, self.dir, *argv]

    def start(self):
        with open(os.path.join(self.dir, "etc/ceph/ceph.conf"), "w") as f:
            f.write(CONF % self.port)
        self.make_user()
        self.run()
        return self

    def make_user(self):
        """radosgw-admin waits for one of its own threads for ever, now and then: then once more, with an empty database."""
        for _ in range(3):
            try:
                subprocess.run(self.inside("radosgw-admin", "user", "create", "--uid=pando", "--display-name=pando", f"--access-key={KEY}",
                                           f"--secret={SECRET}", "--no-mon-config"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               timeout=USER_S)
                return
            except subprocess.TimeoutExpired:
                shutil.rmtree(os.path.join(self.dir, "srv/db"))
                os.makedirs(os.path.join(self.dir, "srv/db"))
        raise AssertionError("radosgw-admin has not made a user in three tries")

    def run(self):
        """Also again, after kill()."""
        log = open(os.path.join(self.dir, "log"), "ab")
        self.proc = subprocess.Popen(self.inside("radosgw", "-n", "client.rgw", "--no-mon-config", "--setuser", "root", "--setgroup", "root", "-f"),
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        log.close()
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.proc.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            raise RuntimeError("radosgw did not start: " + f.read()[-2000:])

    def kill(self):
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
        if self.proc:
            self.proc.wait()

    def stop(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    # ---- what a client of the test does ----

    def curl(self, method, path, data=None, check=True):
        """A signed request; its body."""
        argv = ["curl", "-sS", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{KEY}:{SECRET}", "-X", method, self.endpoint + path]
        # always: without it libcurl's signature is one that radosgw refuses
        argv += ["-H", "x-amz-content-sha256: " + hashlib.sha256(data or b"").hexdigest()]
        if data is not None:
            argv += ["--data-binary", "@-", "-H", "Content-Type: application/octet-stream"]
        if check:
            argv.insert(1, "-f")
        return subprocess.run(argv, check=check, input=data, stdout=subprocess.PIPE).stdout

    def bucket(self, name):
        self.curl("PUT", "/" + name)
        return name

    def url(self, bucket):
        return f"s3://{bucket}?endpoint={self.endpoint}"


# In the tree, as the first process of a namespace of its own: whatever it started ends with it.
CEPH = r"""
set -e
mkdir -p /var/lib/ceph/mon/ceph-a /var/lib/ceph/osd/ceph-0 /var/lib/ceph/radosgw/ceph-rgw
monmaptool --create --addv a "[v2:127.0.0.1:$1,v1:127.0.0.1:$2]" --fsid "$3" --clobber /run/ceph/monmap
ceph-authtool --create-keyring /etc/ceph/keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool /etc/ceph/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-authtool /etc/ceph/keyring --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *'
ceph-authtool /etc/ceph/keyring --gen-key -n client.rgw --cap mon 'allow *' --cap osd 'allow *'
ceph-mon --mkfs -i a --monmap /run/ceph/monmap --keyring /etc/ceph/keyring --setuser root --setgroup root
ceph-mon -i a --setuser root --setgroup root -f &
ceph osd new "$3" 0
printf %s "$3" >/var/lib/ceph/osd/ceph-0/fsid
ceph-osd -i 0 --mkfs --osd-uuid "$3" --setuser root --setgroup root
ceph-osd -i 0 --setuser root --setgroup root -f &
until ceph osd stat | grep -q '1 up'; do sleep 0.2; done
radosgw-admin user create --uid=pando --display-name=pando --access-key="$4" --secret="$5"
radosgw -n client.rgw --setuser root --setgroup root -f &
wait
"""

CEPH_CONF = """[global]
keyring = /etc/ceph/keyring
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon},v1:127.0.0.1:{mon1}]
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
osd pool default pg autoscale mode = off
mon data avail warn = 2
public addr = 127.0.0.1
cluster addr = 127.0.0.1
log file = /var/log/ceph/$name.log
[osd]
osd objectstore = bluestore
osd memory target = 939524096
bluestore block size = 21474836480
bluestore block create = true
osd max object name len = 2048
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name = localhost
rgw enable ops log = false
rgw enable usage log = false
"""


class Ceph(Server):
    """radosgw 16 over a monitor and an OSD (on a sparse file): half a minute, 400 MB; the stricter one"""
    KIND = "ceph"

    def start(self):
        self.args = [str(free_port()), str(free_port()), str(uuid.uuid4()), KEY, SECRET]
        with open(os.path.join(self.dir, "etc/ceph/ceph.conf"), "w") as f:
            f.write(CEPH_CONF.format(fsid=self.args[2], mon=self.args[0], mon1=self.args[1], port=self.port))
        self.run()
        return self

    def inside(self, *_):
        argv = super().inside("sh", "-c", CEPH, "sh", *self.args)
        return [argv[0], "--pid", "--fork", "--kill-child", *argv[1:]]
