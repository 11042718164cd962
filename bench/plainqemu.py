# SPDX-License-Identifier: Apache-2.0
"""plainqemu.py - the same VM on QEMU alone: no jail, no layer library; saved and restored by QEMU's own migration to a file

One guest is cold booted and then kept standing still. A save lets it run, does one command, stops it and migrates all
of it (memory and devices) into a file. A restore is a new QEMU with -incoming from that file and a new overlay on the
guest's disk, which nobody writes to meanwhile. Machine, CPU, size and accelerator are taken from the command line of a
Pando VM, the kernel's words from its guest: they cannot drift apart.
"""
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import time

import agentwire

BOOT_S = 300
QMP_S = 60
SAVE_S = 300
RESTORE_S = 120
EXEC_S = 60
COPIED = ("-machine", "-accel", "-cpu", "-smp", "-m")
PR_SET_PDEATHSIG = 1
EVENTS = {"capability": "events", "state": True}
# what server/vm/template.c does before it freezes the template, so that both save the same guest
SETTLE = (
    "systemctl is-system-running --wait",
    "python3 -c 'import sys' && sh -c 'true' && bash -c 'true' && git --version && node -e 0 && ls / > /dev/null",
    "journalctl --sync; sync; echo 1 > /proc/sys/vm/compact_memory; true",
)


def copied_options(pid):
    """The options of a running Pando VM that make a machine what it is."""
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        argv = f.read().decode().split("\0")
    found = {argv[i]: argv[i + 1] for i in range(len(argv) - 1) if argv[i] in COPIED}
    if set(found) != set(COPIED):
        raise RuntimeError(f"the command line of process {pid} lacks {set(COPIED) - set(found)}")
    found["-machine"] = found["-machine"].replace(",memory-backend=ram", "")
    return [word for option in COPIED for word in (option, found[option])]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def disk_nodes(chain):
    """-blockdev options of a chain of (path, format), bottom first; the last one is written to."""
    words = []
    for i, (path, kind) in enumerate(chain):
        top = i == len(chain) - 1
        words += ["-blockdev", json.dumps({"driver": "file", "node-name": f"f{i}", "filename": path, "locking": "off",
                                           "read-only": not top})]
        node = {"driver": kind, "node-name": f"d{i}", "file": f"f{i}", "read-only": not top}
        if i:
            node["backing"] = f"d{i - 1}"
        words += ["-blockdev", json.dumps(node)]
    return words + ["-device", f"virtio-blk-pci,id=disk,drive=d{len(chain) - 1},num-queues=1,disable-legacy=on"]


class Machine:
    """One QEMU process with its monitor and its agent channel."""

    def __init__(self, qemu, options, chain, log, more):
        self.qmp, qmp_far = socket.socketpair()
        agent_near, agent_far = socket.socketpair()
        self.agent_sock, self.agent = agent_near, agentwire.Agent(agent_near)
        self.lines, self.buf = [], b""
        fds = [qmp_far.fileno(), agent_far.fileno()]
        argv = [qemu, "-nodefaults", "-no-user-config", "-display", "none", *options,
                "-global", "migration.send-configuration=off",
                "-chardev", f"socket,id=qmp,fd={fds[0]}", "-mon", "chardev=qmp,mode=control",
                "-chardev", "null,id=console", "-serial", "chardev:console",
                "-chardev", f"socket,id=agent,fd={fds[1]}",
                "-device", "virtio-serial-pci,id=serial,max_ports=2,disable-legacy=on",
                "-device", "virtserialport,bus=serial.0,nr=1,chardev=agent,name=pando.agent",
                "-object", "rng-builtin,id=rng", "-device", "virtio-rng-pci,rng=rng,disable-legacy=on",
                *disk_nodes(chain), "-netdev", "hubport,id=net,hubid=0",
                "-device", "virtio-net-pci,id=nic,netdev=net,mac=02:50:4e:44:4f:02,disable-legacy=on,rombar=0", *more]
        with open(log, "ab") as out:
            self.log = log
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=fds,
                                         preexec_fn=die_with_parent)
        qmp_far.close()
        agent_far.close()

    def why(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-300:].strip()

    def _message(self, end):
        while b"\n" not in self.buf:
            if not select.select([self.qmp], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("QEMU's monitor does not answer")
            data = self.qmp.recv(1 << 16)
            if not data:
                raise RuntimeError(f"QEMU ended: {self.why()}")
            self.buf += data
        line, _, self.buf = self.buf.partition(b"\n")
        return json.loads(line)

    def command(self, name, fds=(), **arguments):
        end = time.monotonic() + QMP_S
        data = json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n"
        if fds:
            socket.send_fds(self.qmp, [data], list(fds))
        else:
            self.qmp.sendall(data)
        while True:
            m = self._message(end)
            if "error" in m:
                raise RuntimeError(f"QEMU refused {name}: {m['error'].get('desc')}")
            if "return" in m:
                return m["return"]
            if "event" in m:
                self.lines.append(m)

    def greet_monitor(self):
        self._message(time.monotonic() + QMP_S)
        self.command("qmp_capabilities")

    def await_migration(self, limit_s):
        end = time.monotonic() + limit_s
        while True:
            m = self.lines.pop(0) if self.lines else self._message(end)
            status = m.get("data", {}).get("status") if m.get("event") == "MIGRATION" else None
            if status == "completed":
                return
            if status == "failed":
                raise RuntimeError("QEMU's migration failed")

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.qmp.close()
        self.agent_sock.close()


class PlainQemu:
    def __init__(self, qemu, options, image, cmdline, work):
        self.qemu, self.options, self.image, self.work = qemu, options, image, work
        self.base = (os.path.join(image, "rootfs.raw"), "raw")
        self.disk = (self._overlay("disk", self.base), "qcow2")
        self.state = os.path.join(work, "migrate.state")
        self.generation, self.restored = 1, None
        self.source = Machine(qemu, options, [self.base, self.disk], os.path.join(work, "source.log"), (
            "-kernel", os.path.join(image, "vmlinux"), "-initrd", os.path.join(image, "initrd"), "-append", cmdline))

    def _overlay(self, name, backing):
        path = os.path.join(self.work, name + ".qcow2")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", backing[0], "-F", backing[1], path], check=True,
                       stdin=subprocess.DEVNULL)
        return path

    def boot(self):
        """Waits for the guest; then it stands still. Returns the milliseconds to its agent's first reply."""
        m, t0 = self.source, time.perf_counter()
        m.greet_monitor()
        m.agent.hello(agentwire.BOOT, self.generation, "plain", BOOT_S)
        ms = (time.perf_counter() - t0) * 1e3
        for step in SETTLE:
            m.agent.run(step, BOOT_S)
        m.command("migrate-set-capabilities", capabilities=[EVENTS])
        m.command("migrate-set-parameters", **{"max-bandwidth": 1 << 40})  # the default is 128 MB/s
        m.command("stop")
        return ms

    def save(self):
        """{"save", "flush": ms, "bytes"} of a full save; the guest stands still all that time"""
        m = self.source
        m.command("cont")
        m.agent.run("echo hi", EXEC_S)
        m.lines.clear()
        with open(self.state, "wb") as f:
            t0 = time.perf_counter()
            m.command("stop")
            m.command("getfd", fds=[f.fileno()], fdname="state")
            m.command("migrate", uri="fd:state")
            m.await_migration(SAVE_S)
            t1 = time.perf_counter()
            os.fsync(f.fileno())
            t2 = time.perf_counter()
        return {"save": (t1 - t0) * 1e3, "flush": (t2 - t1) * 1e3, "bytes": os.stat(self.state).st_size}

    def restore(self):
        """{"agent", "echo": ms} from the start of a new QEMU to its guest's first reply and first command"""
        top = self._overlay("restored", self.disk)
        self.generation += 1
        t0 = time.perf_counter()
        m = self.restored = Machine(self.qemu, self.options, [self.base, self.disk, (top, "qcow2")],
                                    os.path.join(self.work, "restored.log"), ("-incoming", "defer"))
        try:
            m.greet_monitor()
            m.command("migrate-set-capabilities", capabilities=[EVENTS])
            with open(self.state, "rb") as f:
                m.command("getfd", fds=[f.fileno()], fdname="state")
            m.command("migrate-incoming", uri="fd:state")
            m.await_migration(RESTORE_S)
            m.command("cont")  # it was saved standing still, and so it comes back
            m.agent.hello(agentwire.THAW, self.generation, "restored", RESTORE_S)
            t1 = time.perf_counter()
            if m.agent.run("echo hi", EXEC_S) != "hi\n":
                raise RuntimeError("the restored guest says something else")
            t2 = time.perf_counter()
        except agentwire.AgentError as e:
            raise RuntimeError(f"restored QEMU: {e}; {m.why()}") from None
        finally:
            m.close()
            self.restored = None
            os.unlink(top)
        return {"agent": (t1 - t0) * 1e3, "echo": (t2 - t0) * 1e3}

    def close(self):
        for m in (self.restored, self.source):
            if m:
                m.close()
