# SPDX-License-Identifier: Apache-2.0
"""guest_serial.py SECONDS - run by root in a guest: takes the serial device from the kernel and sends QEMU control messages that it complains about

Theory of operation: the device is unbound from its driver and driven from here, as a hostile kernel would: registers through the PCI region in /sys, the
queue in one locked page whose physical address /proc/self/pagemap tells. Only the queue for control messages to the host is set up, and it is filled again as soon as it is empty. Every
message is a line on QEMU's standard error: ports that do not exist, a driver and a port that failed. Then the kernel gets its device back, and with it the agent
its port.
"""
import ctypes
import glob
import mmap
import os
import random
import struct
import sys
import time

VENDOR, SERIAL = 0x1AF4, 0x1043
CAP_VENDOR, CAP_COMMON, CAP_NOTIFY = 9, 1, 2
ACK, DRIVER, DRIVER_OK, FEATURES_OK = 1, 2, 4, 8
F_MULTIPORT, F_VERSION_1 = 1 << 1, 1 << 0  # of feature words 0 and 1
CONTROL_OUT = 3
SIZE = 32
DESC, AVAIL, USED, TEXT = 0, 1024, 2048, 3072  # in the page
NO_INTERRUPT = 1
# event and value: "device ready", "port ready" and "port open", with the value 0 for failure
BAD = [(0xFFFFFFFF, 0, 0), (0xFFFFFFFF, 6, 1), (7, 3, 1), (1, 3, 0), (0, 0xFFFF, 0xFFFF)]


def find():
    for path in glob.glob("/sys/bus/pci/devices/*"):
        with open(path + "/config", "rb") as f:
            if struct.unpack("<HH", f.read(4)) == (VENDOR, SERIAL):
                return path
    sys.exit("no serial device")


def capabilities(config):
    """Kind -> (region, offset, the notification's step)."""
    found, at = {}, config[0x34]
    while at:
        if config[at] == CAP_VENDOR:
            kind, region = config[at + 3], config[at + 4]
            offset, _, step = struct.unpack_from("<III", config, at + 8)
            found.setdefault(kind, (region, offset, step))
        at = config[at + 1]
    return found


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def physical(address):
    with open("/proc/self/pagemap", "rb", buffering=0) as f:
        entry = struct.unpack("<Q", os.pread(f.fileno(), 8, address // 4096 * 8))[0]
    return (entry & ((1 << 55) - 1)) * 4096


class Device:
    def __init__(self, path):
        with open(path + "/config", "r+b", buffering=0) as f:
            config = os.pread(f.fileno(), 256, 0)
            command = struct.unpack_from("<H", config, 4)[0]
            os.pwrite(f.fileno(), struct.pack("<H", command | 6), 4)  # memory and bus master
        caps = capabilities(config)
        region, self.common, _ = caps[CAP_COMMON]
        with open(f"{path}/resource{region}", "r+b", buffering=0) as f:
            self.regs = mmap.mmap(f.fileno(), os.fstat(f.fileno()).st_size)
        same, self.notify, self.step = caps[CAP_NOTIFY]
        assert same == region, "registers in two regions"
        self.page = mmap.mmap(-1, 4096)
        self.page[:] = bytes(4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        if ctypes.CDLL(None, use_errno=True).mlock(ctypes.c_void_p(address), ctypes.c_size_t(4096)):
            sys.exit("mlock failed")
        self.at = physical(address)

    def reg(self, kind, offset):
        return kind.from_buffer(self.regs, self.common + offset)

    def start(self):
        status = self.reg(ctypes.c_uint8, 20)
        status.value = 0
        while status.value:
            pass
        status.value = ACK | DRIVER
        for word, bits in ((0, F_MULTIPORT), (1, F_VERSION_1)):
            self.reg(ctypes.c_uint32, 8).value = word
            self.reg(ctypes.c_uint32, 12).value = bits
        status.value = ACK | DRIVER | FEATURES_OK
        assert status.value & FEATURES_OK, "it does not take these features"
        self.reg(ctypes.c_uint16, 22).value = CONTROL_OUT
        assert self.reg(ctypes.c_uint16, 24).value >= SIZE
        self.reg(ctypes.c_uint16, 24).value = SIZE
        for offset, part in ((32, DESC), (40, AVAIL), (48, USED)):
            self.reg(ctypes.c_uint32, offset).value = (self.at + part) & 0xFFFFFFFF
            self.reg(ctypes.c_uint32, offset + 4).value = (self.at + part) >> 32
        self.bell = ctypes.c_uint16.from_buffer(self.regs, self.notify + self.step * self.reg(ctypes.c_uint16, 30).value)
        self.reg(ctypes.c_uint16, 28).value = 1
        status.value = ACK | DRIVER | FEATURES_OK | DRIVER_OK
        for n in range(SIZE):
            struct.pack_into("<QIHH", self.page, DESC + 16 * n, self.at + TEXT + 8 * n, 8, 0, 0)
            struct.pack_into("<H", self.page, AVAIL + 4 + 2 * n, n)
            struct.pack_into("<IHH", self.page, TEXT + 8 * n, *random.choice(BAD))
        struct.pack_into("<H", self.page, AVAIL, NO_INTERRUPT)

    def flood(self, seconds):
        filled = ctypes.c_uint16.from_buffer(self.page, AVAIL + 2)
        used = ctypes.c_uint16.from_buffer(self.page, USED + 2)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            filled.value += SIZE
            self.bell.value = CONTROL_OUT
            while used.value != filled.value and time.monotonic() < end:
                time.sleep(0)

    def stop(self):
        self.reg(ctypes.c_uint8, 20).value = 0


def main():
    path = find()
    name = os.path.basename(path)
    write("/sys/bus/pci/drivers/virtio-pci/unbind", name)
    device = Device(path)
    device.start()
    try:
        device.flood(float(sys.argv[1]))
    finally:
        device.stop()
        write("/sys/bus/pci/drivers/virtio-pci/bind", name)


main()
