# SPDX-License-Identifier: Apache-2.0
"""story.py - what a user does with the package, in order: install, start, use, restart, stop, purge; the same on every kind of machine

A machine is a class with sh(), ask() and put() (below), and `deb_path`, `image_name`: where the package is in the machine, and the name of the image in
its cache. Tests build on each other: when one fails, the next ones have nothing to stand on.
"""
import os
import re
import shlex
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_S = 5400  # a cold boot, on a machine that may itself be emulated, and busy
CALL_S = 1200
# caches and records that every installation renews, and what systemd keeps of units it has seen
RENEWED = "/var/lib/dpkg /var/lib/apt /var/cache/apt /var/cache/debconf /var/log /var/lib/systemd /run/systemd /var/tmp"


def answer(command):
    """stdout of a shell command on this host, in the source."""
    return subprocess.run(["bash", "-o", "pipefail", "-euc", command], cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


class Story:
    run_files = ("net",)  # in /run/pando, of nobody that the package starts

    # ---- a machine has these ----

    def sh(self, command, limit_s=300):
        """stdout of a command that must succeed"""
        raise NotImplementedError

    def ask(self, command):
        """stdout of a command, however it ends"""
        raise NotImplementedError

    def put(self, path, data):
        """a file in the machine"""
        raise NotImplementedError

    # ---- questions ----

    def until(self, what, command, want, limit_s=CALL_S):
        end = time.monotonic() + limit_s
        while self.ask(command) != want:
            if time.monotonic() > end:
                self.fail(f"not within {limit_s} s: {what}; the journal ends with:\n" + self.ask("journalctl -m --no-pager -n 40 -u pando -u pando-image"))
            time.sleep(1)

    def pando(self, text, limit_s=CALL_S):
        return self.sh(f"pando --data-dir {self.data_dir} {text}", limit_s)

    def state(self):
        return re.search(r'"state":\s*"(\w+)"', self.pando("vm get inner --json"))[1]

    def qemu(self):
        """Process ids of the machine's QEMUs and when they began."""
        return self.ask("for p in $(pgrep -f '^/usr/bin/qemu-system-x86_64'); do echo $p $(cut -d ' ' -f 22 /proc/$p/stat); done")

    def traces(self):
        """What could be left of a package: files, cgroups, users, links, tables."""
        prune = " -o ".join(f"-path {p}" for p in RENEWED.split())
        return set(self.sh(f"find /etc /usr /var /run /sys/fs/cgroup -xdev \\( {prune} \\) -prune -o -iname '*pando*' -print; "
                           "find /sys/fs/cgroup -name 'pando*' -print; grep -h pando /etc/passwd /etc/group; ip -o link | cut -d : -f 2; "
                           "nft list tables; true").split("\n"))

    # ---- the story ----

    def test_b_installed(self):
        type(self).before = self.traces()
        out = self.sh(f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {self.deb_path}", CALL_S)
        self.assertIn("systemctl enable --now pando", out)
        self.assertEqual(self.ask("systemctl is-active pando"), "inactive")
        # the image's name depends on the mirror that its apt shall use: that of this host
        mirrors = answer("SUITE=trixie; shopt -s extglob; die() { exit 1; }; . image/lib/host.sh; host_mirrors; echo $mirror $security_mirror").split()
        names = ("PANDO_DEBIAN_MIRROR", "PANDO_DEBIAN_SECURITY_MIRROR")
        self.sh("mkdir -p /etc/systemd/system/pando-image.service.d")
        self.put("/etc/systemd/system/pando-image.service.d/mirror.conf",
                 ("[Service]\nEnvironment=" + " ".join(f"{n}={m}" for n, m in zip(names, mirrors)) + "\n").encode())
        self.put("/etc/apt/apt.conf.d/99test", answer("apt-config dump | grep Check-Valid-Until || true").encode())
        self.sh(f"printf '%s' {shlex.quote(self.conf)} >>/etc/pando/pando.conf")

    def test_c_started(self):
        self.move_image_in()
        self.sh("systemctl enable --now pando", START_S)
        self.assertEqual(self.sh("systemctl is-active pando"), "active")
        self.assertEqual(self.sh("systemctl show -P StatusText pando"), "serving")
        self.assertEqual(self.sh(f"readlink {self.cache_dir}/images/current"), self.image_name)
        self.assertEqual(self.sh(f"stat -c '%U %a' {self.data_dir} {self.data_dir}/api-key").split("\n"), ["pando 700", "pando 600"])
        self.assertEqual(self.sh("ps -o user= -C pandod"), "pando")
        self.assertEqual(int(self.sh("sed -n 's/^CapEff:[[:space:]]*//p' /proc/$(pgrep -x pandod)/status"), 16), 0)
        caps = int(self.sh("sed -n 's/^CapEff:[[:space:]]*//p' /proc/$(systemctl show -P MainPID pando)/status"), 16)
        # what nobody has given it: raw sockets, kernel modules, raw I/O, reboot, the clock, resource limits
        self.assertEqual([n for n in (13, 16, 17, 22, 24, 25) if caps >> n & 1], [], f"{caps:x}")

    def test_d_a_vm(self):
        # the server makes a template of its own after the first one, on a machine that comes and goes (vm/template_own.c)
        self.until("the server's own template is made", f"ls {self.data_dir}/points | wc -l; pgrep -fc '^/usr/bin/qemu-system-x86_64'", "2\n0", START_S)
        self.pando("vm create --name inner --idle never")
        self.pando("vm exec inner 'echo kept >/dev/shm/memory'")
        self.assertEqual(self.state(), "running")
        self.assertEqual(len(self.qemu().split("\n")), 1)

    def test_e_vms_outlive_both_processes(self):
        before, priv, pandod = self.qemu(), self.sh("systemctl show -P MainPID pando"), self.sh("pgrep -x pandod")
        self.assertTrue(before)
        self.sh(f"kill -9 {pandod}")
        self.until("another pandod serves", f"p=$(pgrep -x pandod) && test $p != {pandod} && pando --data-dir {self.data_dir} whoami >/dev/null 2>&1 && echo YES", "YES")
        self.assertEqual((self.qemu(), self.sh("systemctl show -P MainPID pando")), (before, priv))
        self.sh("systemctl kill --kill-who=main --signal=KILL pando")
        self.until("systemd has started it again", "systemctl show -P NRestarts -P ActiveState pando | sort | xargs", "1 active")
        self.assertEqual(self.qemu(), before)
        self.assertEqual(self.pando("vm exec inner cat /dev/shm/memory"), "kept")

    def test_f_restart_keeps_vms(self):
        self.sh("systemctl restart pando", START_S)
        self.assertEqual(self.state(), "suspended")
        self.assertEqual(self.pando("vm exec inner cat /dev/shm/memory"), "kept")

    def test_g_stop_suspends_and_cleans_up(self):
        self.assertEqual(self.state(), "running")
        self.sh("systemctl stop pando", CALL_S)
        self.assertEqual(sorted(self.sh("systemctl show -P ActiveState -P Result pando").split()), ["inactive", "success"])
        self.assertEqual(self.qemu(), "")
        self.assertEqual(self.ask("ls /run/pando | grep -vx " + " ".join(f"-e {name}" for name in self.run_files) + "; find /sys/fs/cgroup -name 'pando-????????'; nft list tables; ip netns list"), "")
        self.sh("systemctl start pando", START_S)
        self.assertEqual(self.state(), "suspended")
        self.assertEqual(self.pando("vm exec inner cat /dev/shm/memory"), "kept")

    def test_h_purge_leaves_nothing(self):
        """While a VM runs: removing the package suspends it first, and purging deletes it."""
        self.assertTrue(self.qemu())
        self.sh("rm -rf /etc/systemd/system/pando-image.service.d /etc/systemd/system/pando.service.d; DEBIAN_FRONTEND=noninteractive apt-get purge -y pando", CALL_S)
        self.assertEqual(self.qemu(), "")
        self.assertEqual(sorted(self.traces() - self.before), [])
        self.assertEqual(self.ask("systemctl list-units --all --plain --no-legend 'pando*' | grep -v -e ^pando-agent -e ^pando-network"), "")
