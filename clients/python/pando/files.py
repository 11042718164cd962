# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox: whole, in pieces, as directories, and as they change.

Paths are those of the sandbox; a relative one starts at ``/``. Large files pass through in pieces and are never in memory as a
whole unless asked for by read().
"""
from __future__ import annotations

import json
import os
import shlex
import stat as stat_bits
import tarfile
import tempfile
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Iterable, Iterator, List, Optional, Type, Union

from .commands import run
from .errors import NotFoundError, PandoError, StreamBroken
from .transport import PIECE, STREAM_S, Response, Upload, segment
from .unpack import unpack

if TYPE_CHECKING:
    from .sandbox import Sandbox

STAT_FORMAT = "%f|%s|%Y|%U|%G"
STAT_S = 60.0

LocalPath = Union[str, "os.PathLike[str]"]


@dataclass
class Entry:
    """Of a directory."""

    name: str
    kind: str  #: "file" or "directory"
    path: str


@dataclass
class FileStat:
    """About one file; a symbolic link is not followed."""

    path: str
    size: int
    mode: int        #: with the kind of file, as in os.stat
    mtime: float     #: seconds since 1970
    user: str
    group: str

    @property
    def is_dir(self) -> bool:
        return stat_bits.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat_bits.S_ISREG(self.mode)

    @property
    def is_symlink(self) -> bool:
        return stat_bits.S_ISLNK(self.mode)


@dataclass
class FileEvent:
    """A change: create, modify, delete, rename, overflow (some were lost), error."""

    type: str
    path: str
    message: Optional[str] = None


class Watch:
    """Changes as they happen: iterate over it, close it (from any thread) to end."""

    def __init__(self, response: Response) -> None:
        self._response, self._closed = response, False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __iter__(self) -> Iterator[FileEvent]:
        try:
            for line in self._response.lines():
                if line:
                    d = json.loads(line)
                    yield FileEvent(d.get("eventType") or "", d.get("filename") or "", d.get("message"))
        except StreamBroken:
            if not self._closed:
                raise
        finally:
            self._response.close()

    def close(self) -> None:
        self._closed = True
        self._response.abort()


def file_pieces(f: BinaryIO) -> Iterator[bytes]:
    while True:
        data = f.read(PIECE)
        if not data:
            return
        yield data


class Files:
    """``sandbox.files``."""

    def __init__(self, sandbox: Sandbox, user: Optional[str]) -> None:
        self._sandbox, self._user = sandbox, user

    # ---- whole files ----

    def read(self, path: str) -> bytes:
        with self._raw(path) as r:
            return b"".join(r.pieces())

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return self.read(path).decode(encoding)

    def write(self, path: str, data: Union[str, bytes, BinaryIO, Iterable[bytes]], *, mode: Optional[int] = None) -> None:
        """Text, bytes, an open binary file or anything that gives bytes. The old file stays until the new one is whole.

        Directories above it are made.
        """
        query = {"mode": f"{mode:04o}" if mode is not None else None}
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, (bytes, bytearray, memoryview)):
            with self._sandbox._stream("PUT", f"/raw-files/{segment(path)}", data=bytes(data), query=query, user=self._user) as r:
                r.read()
            return
        pieces = file_pieces(data) if hasattr(data, "read") else data  # type: ignore[arg-type]
        up = self._sandbox._upload("PUT", f"/raw-files/{segment(path)}", query=query, user=self._user)
        try:
            for piece in pieces:
                up.write(piece)
                if up.refused:
                    break
        except BaseException:
            up.abort()
            raise
        up.finish()

    # ---- in pieces ----

    def _raw(self, path: str, offset: int = 0, length: Optional[int] = None) -> Response:
        headers = {}
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length cannot be negative")
        if offset or length is not None:
            headers["Range"] = f"bytes={offset}-" + (str(offset + length - 1) if length else "")
        return self._sandbox._stream("GET", f"/raw-files/{segment(path)}", user=self._user, headers=headers)

    def stream(self, path: str, *, offset: int = 0, length: Optional[int] = None) -> Iterator[bytes]:
        """The bytes of a file in pieces, from an offset on."""
        if length == 0:
            return
        with self._raw(path, offset, length) as r:
            yield from r.pieces()

    def download(self, path: str, local: LocalPath) -> int:
        """To a file here, which is in place only when it is whole; the number of bytes."""
        local = os.fspath(local)
        if os.path.isdir(local):
            local = os.path.join(local, os.path.basename(path.rstrip("/")))
        with self._raw(path) as r:
            fd, temporary = tempfile.mkstemp(dir=os.path.dirname(local) or ".", prefix=".pando-")
            try:
                n = 0
                with os.fdopen(fd, "wb") as f:
                    for piece in r.pieces():
                        n += f.write(piece)
                os.chmod(temporary, int(r.headers.get("X-Pando-Mode") or "0644", 8) & 0o777 | 0o600)
                os.replace(temporary, local)
                return n
            except BaseException:
                os.unlink(temporary)
                raise

    def upload(self, local: LocalPath, path: str, *, mode: Optional[int] = None) -> None:
        """A file from here, with its permissions unless they are given."""
        with open(local, "rb") as f:
            bits = stat_bits.S_IMODE(os.fstat(f.fileno()).st_mode) & 0o777
            self.write(path, f, mode=bits if mode is None else mode)

    # ---- directories ----

    def list(self, path: str = "/") -> List[Entry]:
        reply = self._sandbox._call("GET", f"/files/{segment(path)}", user=self._user)
        if "files" not in reply:
            raise PandoError(f"{path} is not a directory")
        top = path if path.endswith("/") else path + "/"
        return [Entry(e["name"], e["kind"], top + e["name"]) for e in reply["files"]]

    def upload_dir(self, local: LocalPath, path: str) -> None:
        """All that is below a directory here, to below a directory there (made when missing)."""
        if not os.path.isdir(local):
            raise NotADirectoryError(os.fspath(local))
        up = self._sandbox._upload("PUT", f"/tar/{segment(path)}", query={"gzip": True}, user=self._user)
        try:
            out: Any = _Writer(up)
            with tarfile.open(fileobj=out, mode="w|gz", bufsize=PIECE, format=tarfile.PAX_FORMAT) as tar:
                tar.add(os.fspath(local), arcname=".", filter=_wanted)
        except _Refused:
            pass  # the reply says why
        except BaseException:
            up.abort()
            raise
        up.finish()

    def download_dir(self, path: str, local: LocalPath, *, max_bytes: Optional[int] = None) -> int:
        """All that is below a directory there, to below a directory here (made when missing); the number of files.

        The sandbox is not trusted: nothing is written outside of the directory, links out of it are refused
        (UnsafeArchive), devices are left out, set-user-id bits are dropped. ``max_bytes`` bounds what is unpacked.
        """
        with self._sandbox._stream("GET", f"/tar/{segment(path)}", query={"gzip": True}, user=self._user) as r:
            return unpack(_Reader(r.pieces()), os.fspath(local), max_bytes)

    # ---- about files ----

    def _sh(self, command: str) -> str:
        result = run(self._sandbox, {"command": command, "env": {"LC_ALL": "C.UTF-8"}, "timeoutMs": int(STAT_S * 1000)}, self._user,
                     None, None, PIECE)
        if result.exit_code == 0:
            return result.stdout
        if "No such file" in result.stderr:
            raise NotFoundError(404, "FILE_NOT_FOUND", result.stderr.strip())
        raise PandoError(result.stderr.strip() or f"'{command}' ended with {result.exit_code}")

    def stat(self, path: str) -> FileStat:
        """Of the file itself, not of what a link names."""
        mode, size, mtime, user, group = self._sh(f"stat -c '{STAT_FORMAT}' -- {shlex.quote(path)}").strip().split("|")
        return FileStat(path, int(size), int(mode, 16), float(mtime), user, group)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
            return True
        except NotFoundError:
            return False

    def mkdir(self, path: str) -> None:
        """With the directories above it; no error when it is there."""
        self._sh(f"mkdir -p -- {shlex.quote(path)}")

    def rename(self, path: str, new_path: str) -> None:
        self._sh(f"mv -T -- {shlex.quote(path)} {shlex.quote(new_path)}")

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._sandbox._call("DELETE", f"/raw-files/{segment(path)}", query={"recursive": recursive or None}, user=self._user)

    def watch(self, path: Optional[str] = None) -> Watch:
        """Changes below a directory; without one everywhere but in the system's own directories."""
        body = {"path": path} if path is not None else None
        return Watch(self._sandbox._stream("POST", "/watch-files", body=body, user=self._user, timeout=STREAM_S))


def _wanted(m: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    """Sockets, pipes and devices stay here."""
    return m if m.isfile() or m.isdir() or m.issym() or m.islnk() else None


class _Refused(Exception):
    """The server stopped reading."""


class _Writer:
    def __init__(self, up: Upload) -> None:
        self._up = up

    def write(self, data: bytes) -> int:
        if self._up.refused:
            raise _Refused
        return self._up.write(data)


class _Reader:
    """A file object over pieces, for tarfile."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def read(self, n: int = -1) -> bytes:
        while n < 0 or len(self._rest) < n:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        n = len(self._rest) if n < 0 else n
        data, self._rest = self._rest[:n], self._rest[n:]
        return data
