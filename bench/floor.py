# SPDX-License-Identifier: Apache-2.0
"""floor.py - bubblewrap runs the same command on the same root file system: a namespace without a kernel of its own

As a program it is the process that holds that tree: `floor.py --serve IMAGE DIR` unpacks the image into DIR (a tmpfs in
a mount namespace of this process alone, so nothing is left when it ends, however it ends), prints "ready", and for each
line "N" on stdin runs the command N times and prints the milliseconds as JSON. debugfs reads the image: no loop device,
no mount of it.
"""
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

COMMAND = "echo hi"
UNPACK_S = 300   # 1 GB in 50 000 files
SAMPLE_S = 30
MEM_FREE_MB = 4096  # below this the tree goes to the disk
PR_SET_PDEATHSIG = 1


def bwrap_argv(tree):
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", tree, "/", "--proc", "/proc", "--dev", "/dev",
            "--tmpfs", "/tmp", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "sh", "-c", COMMAND]


def sample(tree):
    t0 = time.perf_counter()
    r = subprocess.run(bwrap_argv(tree), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SAMPLE_S)
    ms = (time.perf_counter() - t0) * 1e3
    if r.returncode != 0 or r.stdout != "hi\n":
        raise RuntimeError(f"bwrap ended with {r.returncode}: {r.stdout}{r.stderr}")
    return ms


def mem_available_mb():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) >> 10


def serve(image, tree):
    if mem_available_mb() >= MEM_FREE_MB:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g,mode=0755", "pando-bench", tree], check=False)
    r = subprocess.run(["debugfs", "-R", f"rdump / {tree}", os.path.join(image, "rootfs.raw")], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True)
    if not os.path.exists(os.path.join(tree, "usr/bin/dash")):
        raise RuntimeError(f"debugfs could not unpack the image: {r.stderr[-300:]}")
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([sample(tree) for _ in range(int(line))]), flush=True)


class Floor:
    """The holder of the tree, asked for samples."""

    def __init__(self, image, tree):
        os.mkdir(tree)
        self.proc = subprocess.Popen(["unshare", "--mount", "--propagation", "private", sys.executable,
                                      os.path.abspath(__file__), "--serve", image, tree],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.out = b""

    def _line(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\n" not in self.out:
            if not select.select([self.proc.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"no answer of bwrap's helper within {limit_s} s")
            data = os.read(self.proc.stdout.fileno(), 1 << 16)
            if not data:
                raise RuntimeError("bwrap's helper ended; its reason is above")
            self.out += data
        line, _, self.out = self.out.partition(b"\n")
        return line.decode()

    def wait_ready(self):
        if self._line(UNPACK_S) != "ready":
            raise RuntimeError("bwrap's helper said something else than ready")

    def samples(self, n):
        self.proc.stdin.write(b"%d\n" % n)
        self.proc.stdin.flush()
        return json.loads(self._line(n * SAMPLE_S))

    def close(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "--serve":
        sys.exit("floor.py is started by run.py")
    serve(sys.argv[2], sys.argv[3])
