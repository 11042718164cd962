# SPDX-License-Identifier: Apache-2.0
"""service.py - the story of the package on a machine made of namespaces: the clean Debian with its systemd as process 1, on this host's kernel

Its mounts, processes, network and cgroups are its own and end with its first process. Its VMs are emulated or not as this host's are, so this is the quick way to
see the service at work; e2e/test_package.py tells the same story in a VM. Data and cache lie on this host's disk, outside of the overlay, as they would on
a disk of their own: the settings file says so.
"""
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from story import ROOT, Story, answer

BOOT_S = 300
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
BOOT = """set -eu
mount -t overlay -o lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/overlay overlay $WORK/root
cd $WORK/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 666 dev/null c 1 3; mknod -m 666 dev/zero c 1 5; mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8; mknod -m 666 dev/urandom c 1 9; mknod -m 666 dev/tty c 5 0
mkdir dev/net dev/pts dev/shm
mknod -m 666 dev/net/tun c 10 200
test ! -e /dev/kvm || mknod -m 666 dev/kvm c 10 232
mount -t devpts devpts dev/pts
touch dev/console
mkdir -p srv/disk
mount --bind $WORK/disk srv/disk
echo clean >etc/hostname
ln -sf /dev/null etc/systemd/system/console-getty.service
ip link set lo up
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin /usr/lib/systemd/systemd --log-target=console --show-status=no
"""


def cgroup_mount():
    with open("/proc/self/mountinfo") as f:
        return next(line.split()[4] for line in f if " - cgroup2 " in line)


def remove_cgroups(top):
    """The groups of a machine that has ended; its last processes may take a moment to be gone."""
    end = time.monotonic() + 30
    while os.path.isdir(top):
        for path, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass
        if os.path.isdir(top) and time.monotonic() > end:
            raise AssertionError(f"{top} is still in use")
        time.sleep(0.05)


class Service(Story, unittest.TestCase):
    deb_path, data_dir, cache_dir = "/srv/disk/pando.deb", "/srv/disk/data", "/srv/disk/cache"
    # sizes as those of the end-to-end tests' servers: their template serves here too
    conf = (f"PANDO_DATA_DIR={data_dir}\nPANDO_CACHE_DIR={cache_dir}\nPANDO_VM_VCPUS=2\nPANDO_VM_MEM_MB=1024\nPANDO_VM_DISK_GB=20\n"
            "PANDO_POOL=0\nPANDO_BLANKS=0\nPANDO_SIZES=none\nPANDO_SEEDS=0\n")

    @classmethod
    def setUpClass(cls):
        cls.proc = None
        image = os.environ.get("PANDO_IMAGE") or answer("scripts/image.sh")
        cls.image_name, cls.image = os.path.basename(image), image
        cls.work = tempfile.mkdtemp(prefix="pando-test-service-", dir=os.environ.get("PANDO_TEST_DIR", "/var/tmp"))
        cls.group = os.path.join(cgroup_mount(), os.path.basename(cls.work))
        cls.addClassCleanup(cls.take_down)
        os.chmod(cls.work, 0o755)
        for name in ("root", "upper", "overlay", "disk"):
            os.mkdir(os.path.join(cls.work, name), 0o755)
        deb = answer(f"scripts/deb.sh {cls.work}")
        shutil.copy(deb, f"{cls.work}/disk/pando.deb")
        os.mkdir(cls.group)
        env = {**os.environ, "WORK": cls.work, "LOWER": answer(f"tests/package/tree.sh {deb}"), "GROUP": cls.group}
        cls.log = open(f"{cls.work}/console", "wb")
        cls.proc = subprocess.Popen(["bash", "-euc", "echo $$ >$GROUP/cgroup.procs; exec unshare --mount --pid --fork --kill-child --net --uts --ipc "
                                     "--cgroup --propagation private bash -c \"$BOOT\""],
                                    env={**env, "BOOT": BOOT}, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=cls.log, stderr=subprocess.STDOUT)

    @classmethod
    def take_down(cls):
        if cls.proc:
            cls.proc.kill()  # unshare, and with it process 1 and everything below
            cls.proc.wait()
            cls.log.close()
        remove_cgroups(cls.group)
        shutil.rmtree(cls.work, ignore_errors=True)

    # ---- the machine ----

    def first_process(self):
        with open(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children") as f:
            pids = f.read().split()
        return pids[0] if pids else None

    def enter(self, command, limit_s, **kw):
        return subprocess.run(["nsenter", "-t", self.first_process(), "-a", "env", "-i", *(f"{k}={v}" for k, v in ENV.items()), "sh", "-c", command],
                              timeout=limit_s, text=not kw, capture_output=True, **(kw or {"stdin": subprocess.DEVNULL}))

    def sh(self, command, limit_s=300):
        r = self.enter(command, limit_s)
        if r.returncode != 0:
            journal = self.ask("journalctl -m --no-pager -n 40 -u pando -u pando-image")
            self.fail(f"'{command}' ended with {r.returncode}: {r.stdout}{r.stderr}\n{journal}")
        return r.stdout.strip()

    def ask(self, command):
        return self.enter(command, 300).stdout.strip()

    def put(self, path, data):
        r = self.enter(f"cat >{path}", 60, input=data)
        self.assertEqual(r.returncode, 0, r.stderr)

    # ---- the story, and how it begins ----

    def test_a_the_machine_is_up(self):
        end = time.monotonic() + BOOT_S
        while True:
            self.assertIsNone(self.proc.poll(), "process 1 has ended")
            if self.first_process() and self.enter("systemctl is-system-running", 60).stdout.strip() in ("running", "degraded"):
                break
            self.assertLess(time.monotonic(), end, "systemd is not up")
            time.sleep(0.2)
        self.assertEqual(self.ask("systemctl --failed --no-legend --plain"), "")

    def move_image_in(self):
        """As if it had been made here: the image, and the template that this host's tests have booted from it."""
        cache = os.path.dirname(os.path.dirname(self.image))
        target = f"{self.work}/disk/cache"
        os.makedirs(f"{target}/images")
        answer(f"cp -r --sparse=always --reflink=auto {self.image} {target}/images/")
        if os.path.isdir(f"{cache}/templates"):
            answer(f"cp -r --sparse=always --reflink=auto {cache}/templates {target}/")
            self.sh(f"chown -R pando:pando {self.cache_dir}/templates && chmod 700 {self.cache_dir}/templates")
