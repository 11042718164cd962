# SPDX-License-Identifier: Apache-2.0
"""The Debian package on a machine of its own: a VM that runs a clean Debian of this host's release, with the package as its service

Theory of operation: the base image is of another release than this host, for which the package is made. So a VM gets a second root file system
beside its own, the clean Debian of tests/package/tree.sh with the guest's agent, network unit and kernel modules, and an init that
changes into it: after the next boot the VM is that system. In there everything is as for a user: apt, systemctl, the pando command. The base image is brought
along, because an emulated machine would need an hour to make it; pando-image.service finds it in its cache. VMs of that Pando run in a VM, and either or
both may be emulated: deadlines are long. The story's tests are inherited and come after test_a; test_zz deletes the machine.
"""
import http.client
import os
import shlex
import subprocess
import sys
import tempfile
import urllib.parse

from case import Case, limit, wait_for
from harness import ROOT, image_dir, say

sys.path.insert(0, os.path.join(ROOT, "tests/package"))
from story import Story, answer  # noqa: E402

BOOT_S = 900
UPLOAD_S = 1800
EXEC_S = 540  # what one call of exec-await may take, and a bit less

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


class InstalledPackage(Story, Case):
    long = True
    limit_s = 3600
    vm = None
    deb_path, data_dir, cache_dir = "/root/pando.deb", "/var/lib/pando", "/var/cache/pando"
    run_files = ("net", "generation", "machine-id")  # the last two are the agent's of this VM
    # small, and nothing made ahead of need: everything in there is slow. An emulated machine may have an emulated KVM, which is slow too, but
    # much quicker than an emulator that is emulated.
    conf = "PANDO_KVM_PROBE_S=600\nPANDO_BOOT_S=3600\nPANDO_VM_VCPUS=1\nPANDO_VM_MEM_MB=512\nPANDO_POOL=0\nPANDO_BLANKS=0\nPANDO_SIZES=none\nPANDO_SEEDS=0\nPANDO_EDGE_LISTEN=none\n"

    # ---- the machine ----

    def sh(self, command, limit_s=300):
        return self.s.sh(self.vm, command, timeout_ms=limit_s * 1000) if limit_s <= EXEC_S else self.work(command, limit_s)

    def ask(self, command):
        return self.s.run(self.vm, command, timeout_ms=120000).out.strip()

    def put(self, path, data):
        """data: bytes, or a file, which is sent as it is read."""
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=UPLOAD_S)
        size = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
        c.request("PUT", f"/v1/vms/{self.vm}/raw-files/{urllib.parse.quote(path, safe='')}", body=data,
                  headers={"Authorization": f"Bearer {self.s.key()}", "Content-Length": str(size)})
        r = c.getresponse()
        body = r.read()
        c.close()
        self.assertLess(r.status, 300, f"upload of {path}: {r.status} {body[:300]}")

    def put_output(self, path, command):
        """What a command of this host writes; a file here first, for its size."""
        with tempfile.TemporaryFile(dir=self.s.dir) as f:
            subprocess.run(["bash", "-o", "pipefail", "-euc", command], cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=f)
            say(f"  ({path}: {os.fstat(f.fileno()).st_size >> 20} MB)")
            f.seek(0)
            self.put(path, f)

    def work(self, command, limit_s):
        """A command that takes longer than one call may; it must succeed."""
        self.put("/root/work.sh", f"({command})\necho $? >/root/work.status.new\nmv /root/work.status.new /root/work.status\n".encode())
        self.sh("rm -f /root/work.status; setsid sh /root/work.sh </dev/null >/root/work.log 2>/root/work.err &")
        status = wait_for(f"'{command}' is done", lambda: self.ask("cat /root/work.status"), limit_s, 3)
        if status != "0":
            self.fail(f"'{command}' ended with {status}: " + self.ask("tail -n 30 /root/work.log /root/work.err; journalctl -m --no-pager -n 40 -u pando -u pando-image"))
        return self.ask("cat /root/work.log")

    # ---- the story, and how it begins ----

    @limit(3600)
    def test_a_a_clean_machine(self):
        deb = answer("scripts/deb.sh")
        tree = answer(f"tests/package/tree.sh {shlex.quote(deb)}")
        image = image_dir()
        type(self).image_name = os.path.basename(image)
        type(self).vm = self.s.create(name="clean")
        self.put_output("/root/clean.tar.zst", f"tar -C {shlex.quote(tree)} --exclude='./dev/*' --numeric-owner -c . | zstd -q -3 -T0")
        self.work("mkdir -p /clean && zstd -q -dc /root/clean.tar.zst | tar -x -C /clean --numeric-owner && rm /root/clean.tar.zst", 1800)
        self.work(MOVE_IN, 600)
        self.put_output("/clean/root/image.tar.zst",
                        f"tar -C {shlex.quote(os.path.dirname(image))} -S --numeric-owner -c {self.image_name} | zstd -q -1 -T0")
        with open(deb, "rb") as f:
            self.put("/clean/root/pando.deb", f)
        self.put("/root/init", INIT.encode())
        self.sh("install -m 0755 /root/init /usr/sbin/init.new && mv -f /usr/sbin/init.new /usr/sbin/init && sync")
        self.s.post(self.vm, "resize", {"memSizeGb": 4}, timeout=BOOT_S)  # shut down and booted again, which is what we are after
        release = ". /etc/os-release; echo $VERSION_CODENAME"
        self.assertEqual(self.sh(release), answer(release))
        self.until("the system is up", "systemctl is-system-running | grep -q -e running -e degraded && echo UP", "UP", BOOT_S)

    def move_image_in(self):
        # the unit's half hour is for machines that are emulated once
        self.sh("mkdir -p /etc/systemd/system/pando.service.d && printf '[Service]\\nTimeoutStartSec=infinity\\n' "
                ">/etc/systemd/system/pando.service.d/slow.conf && systemctl daemon-reload")
        self.sh("mkdir -p /var/cache/pando/images && zstd -q -dc /root/image.tar.zst | tar -x -S -C /var/cache/pando/images --numeric-owner "
                "&& rm /root/image.tar.zst", 1200)
