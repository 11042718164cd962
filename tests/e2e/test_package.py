# SPDX-License-Identifier: Apache-2.0
"""The Debian package on a machine of its own: a VM that runs a clean Debian of this host's release, with the package as its service

Theory of operation: the base image is of another release than this host, for which the package is made. So a VM gets a second root file system
beside its own, the clean Debian of tests/package/tree.sh with the guest's agent, network unit and kernel modules, and an init that
changes into it: after the next boot the VM is that system. In there everything is as for a user: apt, systemctl, the pando command. The base image is brought
along, because an emulated machine would need an hour to make it; pando-image.service finds it in its cache. VMs of that Pando are emulated by an emulated
machine: deadlines are long.
"""
import http.client
import os
import shlex
import subprocess
import tempfile
import urllib.parse

from case import Case, limit, wait_for
from harness import ROOT, image_dir, say

BOOT_S = 900
START_S = 2400  # a cold boot, emulated twice
UPLOAD_S = 1800

# Before systemd: the clean Debian becomes the root, the old one is below /mnt.
INIT = """#!/bin/sh
mount -n --bind /clean /clean
mount -n --move /dev /clean/dev
cd /clean
pivot_root . mnt
exec chroot . /usr/lib/systemd/systemd </dev/console >/dev/console 2>&1
"""
# What of the guest's own system makes it a VM of ours.
MOVE_IN = """set -e
cd /clean
mkdir -p mnt usr/lib/modules usr/lib/pando etc/systemd/network
cp -a /usr/lib/modules/$(uname -r) usr/lib/modules/
cp -a /usr/lib/pando/. usr/lib/pando/
cp -a /usr/lib/systemd/system/pando-agent.service /usr/lib/systemd/system/pando-network.service etc/systemd/system/
mkdir -p etc/systemd/system/multi-user.target.wants
for unit in pando-agent pando-network; do ln -sf ../$unit.service etc/systemd/system/multi-user.target.wants/; done
ln -sf /dev/null etc/systemd/network/99-default.link
cp --remove-destination /etc/resolv.conf /etc/hosts etc/
echo clean >etc/hostname
: >etc/machine-id
: >etc/fstab
for unit in systemd-resolved systemd-timesyncd systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer; do
	ln -sf /dev/null etc/systemd/system/$(echo $unit | sed '/\\./!s/$/.service/')
done
"""
CONF = "PANDO_VM_VCPUS=1\nPANDO_VM_MEM_MB=512\nPANDO_POOL=0\nPANDO_SHELLS=0\nPANDO_EDGE_LISTEN=none\n"


def shell(command, **kw):
    return subprocess.run(["bash", "-o", "pipefail", "-euc", command], cwd=ROOT, check=True, stdin=subprocess.DEVNULL, **kw)


def answer(command):
    return shell(command, stdout=subprocess.PIPE, text=True).stdout.strip()


class InstalledPackage(Case):
    long = True
    limit_s = 3600
    vm = None

    # ---- in the machine ----

    def sh(self, command, timeout_s=300):
        return self.s.sh(self.vm, command, timeout_ms=timeout_s * 1000)

    def work(self, what, command, limit_s):
        """A command that takes longer than one call may; it must succeed."""
        self.upload("/root/work.sh", f"({command})\necho $? >/root/work.status.new\nmv /root/work.status.new /root/work.status\n".encode())
        self.sh("rm -f /root/work.status; setsid sh /root/work.sh </dev/null >/root/work.log 2>&1 &")
        status = wait_for(what, lambda: self.s.run(self.vm, "cat /root/work.status", timeout_ms=120000).out.strip(), limit_s, 3)
        if status != "0":
            self.fail(f"{what}: exit code {status}: {self.s.run(self.vm, 'tail -n 30 /root/work.log; journalctl -n 60 --no-pager -u pando -u pando-image').out}")
        return self.s.run(self.vm, "cat /root/work.log", timeout_ms=120000).out

    def upload(self, path, data):
        """data: bytes, or a file, which is sent as it is read."""
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=UPLOAD_S)
        size = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
        c.request("PUT", f"/v1/vms/{self.vm}/raw-files/{urllib.parse.quote(path, safe='')}", body=data,
                  headers={"Authorization": f"Bearer {self.s.key()}", "Content-Length": str(size)})
        r = c.getresponse()
        body = r.read()
        c.close()
        self.assertLess(r.status, 300, f"upload of {path}: {r.status} {body[:300]}")

    def upload_tar(self, path, command):
        """What a command of this host writes, as a file in the machine; a file here first, for its size."""
        with tempfile.TemporaryFile(dir=self.s.dir) as f:
            shell(command, stdout=f)
            f.flush()
            say(f"  ({path}: {os.fstat(f.fileno()).st_size >> 20} MB)")
            f.seek(0)
            self.upload(path, f)

    def until(self, what, command, want, limit_s=600):
        wait_for(what, lambda: self.s.run(self.vm, command, timeout_ms=120000).out.strip() == want, limit_s, 2)

    def pando(self, *args, timeout_s=590):
        return self.sh("pando " + shlex.join(args), timeout_s)

    def inner_state(self):
        return self.pando("vm", "get", "inner", "--json")

    # ---- the story ----

    @limit(3600)
    def test_a_a_clean_machine(self):
        type(self).deb = answer("scripts/deb.sh")
        tree = answer(f"tests/package/tree.sh {shlex.quote(self.deb)}")
        type(self).vm = self.s.create(name="clean", idleTimeoutSeconds=None)
        self.upload_tar("/root/clean.tar.zst", f"tar -C {shlex.quote(tree)} --exclude='./dev/*' --numeric-owner -c . | zstd -q -3 -T0")
        self.work("the clean Debian is unpacked", "mkdir -p /clean && zstd -q -dc /root/clean.tar.zst | tar -x -C /clean --numeric-owner && rm /root/clean.tar.zst", 1800)
        self.work("the agent moves in", MOVE_IN, 600)
        image = image_dir()
        self.upload_tar("/clean/root/image.tar.zst", f"tar -C {shlex.quote(os.path.dirname(image))} -S --numeric-owner -c {os.path.basename(image)} | zstd -q -1 -T0")
        with open(self.deb, "rb") as f:
            self.upload("/clean/root/pando.deb", f)
        self.upload("/root/init", INIT.encode())
        self.sh("install -m 0755 /root/init /usr/sbin/init.new && mv -f /usr/sbin/init.new /usr/sbin/init && sync")
        self.s.post(self.vm, "resize", {"memSizeGb": 4}, timeout=BOOT_S)  # shut down and booted again, which is what we are after
        self.assertEqual(self.sh("hostname; . /etc/os-release; echo $VERSION_CODENAME", BOOT_S).split()[1], answer(". /etc/os-release; echo $VERSION_CODENAME"))
        self.until("the system is up", "systemctl is-system-running | grep -v -e starting -e initializing >/dev/null && echo UP", "UP", BOOT_S)

    @limit(1800)
    def test_b_installed_by_apt(self):
        self.assertTrue(self.vm, "there is no machine")
        type(self).before = self.left()
        out = self.work("the package is installed", "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /root/pando.deb", 900)
        self.assertIn("systemctl enable --now pando", out)
        self.assertEqual(self.s.run(self.vm, "systemctl is-active pando").out.strip(), "inactive")
        # the image of this host, and what of this host its name depends on
        mirrors = answer("SUITE=trixie; . image/lib/host.sh; shopt -s extglob; die() { exit 1; }; host_mirrors; echo $mirror $security_mirror").split()
        options = answer("apt-config dump | grep Check-Valid-Until || true")
        self.upload("/etc/apt/apt.conf.d/99test", options.encode())
        self.sh("mkdir -p /etc/systemd/system/pando-image.service.d")
        names = ["PANDO_DEBIAN_MIRROR", "PANDO_DEBIAN_SECURITY_MIRROR"]
        self.upload("/etc/systemd/system/pando-image.service.d/mirror.conf",
                    ("[Service]\nEnvironment=" + " ".join(f"{n}={m}" for n, m in zip(names, mirrors)) + "\n").encode())
        self.work("the image is unpacked", "mkdir -p /var/cache/pando/images && zstd -q -dc /root/image.tar.zst | tar -x -S -C /var/cache/pando/images --numeric-owner && rm /root/image.tar.zst", 1200)
        self.sh(f"printf '%s' {shlex.quote(CONF)} >>/etc/pando/pando.conf")

    @limit(START_S + 600)
    def test_c_the_service_starts(self):
        self.work("systemctl enable --now pando", "systemctl enable --now pando", START_S)
        self.assertEqual(self.sh("systemctl is-active pando"), "active")
        self.assertEqual(self.sh("systemctl show -P StatusText pando"), "serving")
        self.assertEqual(self.sh("readlink /var/cache/pando/images/current"), os.path.basename(image_dir()))
        self.assertEqual(self.sh("stat -c '%U %a' /var/lib/pando /var/lib/pando/api-key | sort -u").split("\n"), ["pando 600", "pando 700"])
        self.assertEqual(self.sh("ps -o user= -p $(pgrep -x pandod)"), "pando")
        caps = int(self.sh("sed -n 's/^CapEff:[[:space:]]*//p' /proc/$(systemctl show -P MainPID pando)/status"), 16)
        self.assertFalse(caps & (1 << 16 | 1 << 22 | 1 << 25), f"modules, reboot and clock are not its business: {caps:x}")  # SYS_MODULE, SYS_BOOT, SYS_TIME

    @limit(2400)
    def test_d_a_vm(self):
        self.work("a VM", "pando vm create --name inner --idle never", 1800)
        self.work("a command in it", "pando vm exec inner 'uname -n; echo kept >/dev/shm/memory'", 900)
        self.assertIn('"running"', self.inner_state())

    def qemu(self):
        """Process ids of the QEMU in the machine, and when they began."""
        return self.sh("for p in $(pgrep -f '^/usr/bin/qemu-system-x86_64'); do echo $p $(cut -d ' ' -f 22 /proc/$p/stat); done")

    @limit(1800)
    def test_e_vms_outlive_both_processes(self):
        before, priv = self.qemu(), self.sh("systemctl show -P MainPID pando")
        self.assertTrue(before)
        pandod = self.sh("pgrep -x pandod")
        self.sh(f"kill -9 {pandod}")
        self.until("another pandod serves", f"test \"$(pgrep -x pandod)\" != {pandod} && pando whoami >/dev/null 2>&1 && echo YES", "YES", 900)
        self.assertEqual((self.qemu(), self.sh("systemctl show -P MainPID pando")), (before, priv))
        self.sh("systemctl kill --kill-who=main --signal=KILL pando")
        self.until("systemd started it again", "test \"$(systemctl show -P NRestarts pando)\" = 1 && systemctl is-active pando", "active", 900)
        self.assertEqual(self.qemu(), before)
        self.assertEqual(self.work("its memory", "pando vm exec inner cat /dev/shm/memory", 900), "kept\n")

    @limit(2400)
    def test_f_restart_keeps_vms(self):
        self.work("systemctl restart pando", "systemctl restart pando", 1800)
        self.assertIn('"suspended"', self.inner_state())
        self.assertEqual(self.work("it wakes with its memory", "pando vm exec inner cat /dev/shm/memory", 900), "kept\n")

    @limit(1800)
    def test_g_stop_suspends(self):
        self.assertIn('"running"', self.inner_state())
        self.work("systemctl stop pando", "systemctl stop pando", 900)
        self.assertEqual(self.s.run(self.vm, "systemctl is-active pando").out.strip(), "inactive")
        self.assertEqual(self.sh("systemctl show -P Result pando"), "success")
        self.assertEqual(self.qemu(), "")
        self.assertEqual(self.sh("ls /run/pando 2>/dev/null | grep -v '^net$' || true"), "")
        self.assertEqual(self.sh("ls -d /sys/fs/cgroup/pando-* 2>/dev/null || true"), "")
        self.work("systemctl start pando", "systemctl start pando", START_S)
        self.assertIn('"suspended"', self.inner_state())

    def left(self):
        """What a package could leave behind; apt's and dpkg's own records aside."""
        return set(self.sh("find /etc /usr /var /run/systemd/system /sys/fs/cgroup -maxdepth 6 -path /var/lib/dpkg -prune -o -path /var/lib/apt -prune -o -path /var/cache/apt -prune "
                           "-o -path /var/log -prune -o -iname '*pando*' -print; grep -h pando /etc/passwd /etc/group; ip -o link | grep -o 'pd[^:@]*' ; nft list tables 2>/dev/null; true").split("\n"))

    @limit(1800)
    def test_h_purge_leaves_nothing(self):
        self.work("apt-get purge", "rm -rf /etc/systemd/system/pando-image.service.d && DEBIAN_FRONTEND=noninteractive apt-get purge -y pando", 1200)
        self.assertEqual(sorted(self.left() - self.before), [])
        self.assertEqual(self.qemu(), "")
        self.assertEqual(self.s.run(self.vm, "systemctl list-units --all --no-legend 'pando*' | grep -v -e pando-agent -e pando-network").out.strip(), "")
        self.s.delete(self.vm)
