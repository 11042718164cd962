# SPDX-License-Identifier: Apache-2.0
"""zygote.py - a warm Python that the kernels of contexts are forked from

Theory of operation: the libraries are imported and a shell has run its first cells, then packets of the agent come on
descriptor 3: number of the kernel, uid, gid, groups, OOM score, directory and variables, each with a NUL behind it, and three
descriptors (the kernel's socket, stdout, stderr). Each packet is one fork; the answer is "forked NUMBER PID", with 0 when
it failed. CLONE_PARENT makes the new process a child of the agent. It seeds its generators anew, becomes the user, and
serves cells. It runs the program anew instead, slowly, when what was imported is not what an import would find now, or a
variable says something that Python reads when it starts.
"""
import array
import ctypes
import os
import platform
import signal
import site
import socket
import sys

CONTROL_FD = 3
PACKET_MAX = 1 << 17
CLONE_CHILD_CLEARTID, CLONE_PARENT, CLONE_CHILD_SETTID = 0x00200000, 0x00008000, 0x01000000
PR_GET_TID_ADDRESS = 40
SYS_CLONE = {"x86_64": 56}
# variables with these beginnings are read once, by Python or a library that is imported already
EARLY = ("PYTHON", "LD_", "MPL", "IPYTHON", "OPENBLAS", "OMP_", "MKL_", "NUMEXPR", "LANG", "LC_", "TZ", "MALLOC_", "GLIBC_", "SSL_",
         "OPENSSL")


class Forker:
    """fork() whose child is our parent's child. Only for a process with one thread."""

    def __init__(self):
        self.libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock
        self.number = SYS_CLONE[platform.machine()]
        address = ctypes.c_void_p()
        if self.libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0 or not address.value:
            raise OSError("prctl(PR_GET_TID_ADDRESS) does not work here")
        self.tid = address.value  # where libc keeps this thread's number

    def fork(self):
        if len(os.listdir("/proc/self/task")) != 1:
            return -1
        flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | signal.SIGCHLD
        self.libc.PyOS_BeforeFork()
        self.libc.syscall.restype = ctypes.c_long
        pid = self.libc.syscall(ctypes.c_long(self.number), ctypes.c_ulong(flags), ctypes.c_void_p(0), ctypes.c_void_p(0),
                                ctypes.c_void_p(self.tid), ctypes.c_void_p(0))
        if pid == 0:
            self.libc.PyOS_AfterFork_Child()
        else:
            self.libc.PyOS_AfterFork_Parent()
        return pid


def stamp(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


class Imported:
    """What was imported from where packages are installed, to notice that an import would find something else."""

    def __init__(self):
        self.env = {k: v for k, v in os.environ.items() if k.startswith(EARLY)}
        self.dirs = [*site.getsitepackages(), *(d for d in sys.path if d.endswith("-packages"))]
        self.dirs = list(dict.fromkeys(self.dirs))
        self.stamps = {d: stamp(d) for d in self.dirs}
        self.starts = self.start_files()
        self.found = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if "." in name or not path:
                continue
            home = next((i for i, d in enumerate(self.dirs) if path.startswith(d + "/")), None)
            if home is not None:
                self.found[name] = (home, path, stamp(path))

    def start_files(self):
        """Files that add to the path when Python starts."""
        return {(d, n) for d in self.dirs if os.path.isdir(d) for n in os.listdir(d) if n.endswith(".pth")}

    def is_stale(self, env, home):
        if {k: v for k, v in env.items() if k.startswith(EARLY)} != {k: v for k, v in self.env.items() if k in env or k != "MPLBACKEND"}:
            return True
        user = os.path.join(home, ".local/lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
        if os.path.isdir(user) and user not in self.stamps:
            return True
        now = {d: stamp(d) for d in self.dirs}
        if now == self.stamps:
            return False
        if any(before is None and now[d] is not None for d, before in self.stamps.items()) or self.start_files() != self.starts:
            return True
        for name, (at, path, when) in self.found.items():
            if stamp(path) != when:
                return True
            if any(os.path.exists(os.path.join(d, name)) or os.path.exists(os.path.join(d, name + ".py")) for d in self.dirs[:at]):
                return True
        return False


class Zygote:
    def __init__(self, kernels):
        self.kernels = kernels
        self.sock = socket.socket(fileno=CONTROL_FD)
        self.forker = Forker()
        self.kernel = kernels.Kernel(kernels.Mute())
        self.kernel.warm()
        self.imported = Imported()

    def receive(self):
        """(fields, descriptors), or None when the agent is gone."""
        fds = array.array("i")
        data, more, _flags, _from = self.sock.recvmsg(PACKET_MAX, socket.CMSG_SPACE(3 * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
        for level, kind, piece in more:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(piece[:len(piece) - len(piece) % fds.itemsize])
        return (data.split(b"\0")[:-1], list(fds)) if data else None

    def serve(self):
        self.sock.send(b"ready")
        while True:
            packet = self.receive()
            if packet is None:
                os._exit(0)
            fields, fds = packet
            pid = self.forker.fork()
            if pid == 0:
                self.become(fields, fds)
            for fd in fds:
                os.close(fd)
            self.sock.send(b"forked %d %d" % (int(fields[0]), max(pid, 0)))

    def become(self, fields, fds):
        """In the child: a kernel; never returns."""
        try:
            self.put_in_place(fields, fds)
            self.begin()
        except BaseException as e:
            os.write(2, f"cannot start a kernel: {e!r}\n".encode("utf-8", "replace"))
        finally:
            os._exit(126)

    def put_in_place(self, fields, fds):
        os.setsid()
        self.sock.detach()
        for fd, place in zip(fds, (CONTROL_FD, 1, 2)):
            os.dup2(fd, place)
            os.close(fd)
        for fd in self.kernel.output.kept.values():
            os.close(fd)
        uid, gid = int(fields[1]), int(fields[2])
        if fields[4]:
            with open("/proc/self/oom_score_adj", "wb") as f:
                f.write(fields[4])
        self.is_other = uid != os.geteuid()
        if self.is_other:
            os.setgroups([int(g) for g in fields[3].split(b",") if g])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.chdir(fields[5])
        env = {os.fsdecode(k): os.fsdecode(v) for k, _, v in (f.partition(b"=") for f in fields[6:])}
        if self.imported.is_stale(env, env.get("HOME", "/")):
            os.execve(sys.executable, [sys.executable, self.kernels.HERE], env)
        os.environ.clear()
        os.environ.update({"MPLBACKEND": self.imported.env.get("MPLBACKEND", ""), **env})

    def begin(self):
        kernel = self.kernel
        kernel.channel = self.kernels.Channel(CONTROL_FD)
        kernel.seeds = self.kernels.Seeds()
        kernel.seeds.renew()
        kernel.output = self.kernels.Output()
        kernel.output.restore()
        if self.is_other:  # the shell has files of its user
            type(kernel.shell).clear_instance()
            kernel.shell = kernel.make_shell()
        kernel.serve()


def serve(kernels):
    """The agent starts kernels in another way when this ends."""
    Zygote(kernels).serve()
