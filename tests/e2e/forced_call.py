# SPDX-License-Identifier: Apache-2.0
"""forced_call.py - makes another process call the kernel, as if an attacker had it; x86-64 only"""
import ctypes
import os
import signal
import struct

PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_CONT, PTRACE_SEIZE, PTRACE_INTERRUPT = 12, 13, 7, 0x4206, 0x4207
ORIG_RAX, RAX, RIP = 15, 10, 16  # in struct user_regs_struct
SYS_MOUNT = 165
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(what, pid, data=None):
    if libc.ptrace(what, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {what}")


def make_it_call(pid, number):
    """The main thread, which waits in a system call, makes another one instead."""
    ptrace(PTRACE_SEIZE, pid)
    ptrace(PTRACE_INTERRUPT, pid)
    os.waitpid(pid, 0x40000000)  # __WALL
    regs = ctypes.create_string_buffer(27 * 8)
    ptrace(PTRACE_GETREGS, pid, regs)
    r = list(struct.unpack("27Q", regs.raw))
    r[RIP] -= 2  # back onto the syscall instruction
    r[RAX], r[ORIG_RAX] = number, 2**64 - 1
    ptrace(PTRACE_SETREGS, pid, ctypes.create_string_buffer(struct.pack("27Q", *r), 27 * 8))
    ptrace(PTRACE_CONT, pid)
    while True:  # the signal is passed on
        _, status = os.waitpid(pid, 0x40000000)
        if not os.WIFSTOPPED(status):
            return
        sig = os.WSTOPSIG(status)
        ptrace(PTRACE_CONT, pid, sig if sig != signal.SIGTRAP and status >> 16 == 0 else None)
