# SPDX-License-Identifier: Apache-2.0
"""Unpacking an untrusted archive.

Theory of operation: who made the archive is not trusted, and may know what is below the directory already. So a name is taken
apart, and every directory on the way is looked at without following links: one that is a link is refused. A link is
made only if what it names, from where it stands, is inside; and since no link is ever gone through while writing, a chain of
harmless ones leads nowhere either. What exists is replaced, not written into.
"""
from __future__ import annotations

import os
import stat
import tarfile
from typing import Any, List, Optional

from .errors import StreamBroken, UnsafeArchive

COPY = 64 * 1024


def parts_of(name: str) -> List[str]:
    """The parts of a name below the top; refuses what would leave it."""
    parts = [p for p in name.split("/") if p not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or (os.sep != "/" and os.sep in name):
        raise UnsafeArchive(f"the archive names '{name[:200]}', which is outside of the directory")
    return parts


def make_parent(top: str, parts: List[str]) -> str:
    """The directory that holds the last part, made when missing; no link on the way."""
    path = top
    for p in parts:
        path = os.path.join(path, p)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            os.mkdir(path)
            continue
        if not stat.S_ISDIR(mode):
            raise UnsafeArchive(f"'{path}' is not a directory, but the archive has something below it")
    return path


def clear(path: str) -> None:
    """Makes room for a file or link; a directory stays, and is an error."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise UnsafeArchive(f"'{path}' is a directory here and something else in the archive")
        os.unlink(path)
    except FileNotFoundError:
        pass


def inside(parts: List[str], target: str) -> bool:
    """Does a link at parts, naming target, stay below the top?"""
    if target.startswith("/"):
        return False
    depth = len(parts) - 1
    for p in target.split("/"):
        if p == "..":
            depth -= 1
        elif p not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True


class Unpacker:
    def __init__(self, top: str, max_bytes: Optional[int]) -> None:
        self.top, self.max_bytes = top, max_bytes
        self.bytes = 0
        self.files = 0

    def file(self, tar: tarfile.TarFile, m: tarfile.TarInfo, path: str) -> None:
        source = tar.extractfile(m)
        assert source
        clear(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(fd, "wb") as f:
            while True:
                data = source.read(COPY)
                if not data:
                    break
                self.bytes += len(data)
                if self.max_bytes is not None and self.bytes > self.max_bytes:
                    raise UnsafeArchive(f"the archive has more than {self.max_bytes} bytes")
                f.write(data)
        os.chmod(path, m.mode & 0o777 | 0o600)
        try:
            os.utime(path, (m.mtime, m.mtime))
        except (OverflowError, ValueError, OSError):
            pass  # a time that this machine does not know
        self.files += 1

    def hard_link(self, m: tarfile.TarInfo, path: str) -> None:
        """To a file that was unpacked before."""
        parts = parts_of(m.linkname)
        source = os.path.join(make_parent(self.top, parts[:-1]), parts[-1]) if parts else self.top
        if not stat.S_ISREG(os.lstat(source).st_mode):
            raise UnsafeArchive(f"a link in the archive names '{m.linkname[:200]}', which is not a file")
        if os.path.abspath(source) != os.path.abspath(path):
            clear(path)
            os.link(source, path)
        self.files += 1

    def member(self, tar: tarfile.TarFile, m: tarfile.TarInfo) -> None:
        parts = parts_of(m.name)
        if not parts:
            return
        path = os.path.join(make_parent(self.top, parts[:-1]), parts[-1])
        if m.isdir():
            make_parent(self.top, parts)
            os.chmod(path, m.mode & 0o777 | 0o700)
        elif m.isreg():
            self.file(tar, m, path)
        elif m.issym():
            if not inside(parts, m.linkname):
                raise UnsafeArchive(f"the link '{m.name[:200]}' names '{m.linkname[:200]}', which is outside of the directory")
            clear(path)
            os.symlink(m.linkname, path)
            self.files += 1
        elif m.islnk():
            self.hard_link(m, path)


def unpack(source: Any, top: str, max_bytes: Optional[int] = None) -> int:
    """A packed archive below top; the number of files and links."""
    os.makedirs(top, exist_ok=True)
    u = Unpacker(os.path.realpath(top), max_bytes)
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as tar:
            for m in tar:
                u.member(tar, m)
                tar.members = []  # type: ignore[attr-defined]  # else it keeps them all
        source.read()  # to the end: a reply that was cut off is noticed here
    except (tarfile.TarError, EOFError) as e:
        raise StreamBroken(f"the archive is incomplete: {e}") from e
    return u.files
