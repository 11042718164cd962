# SPDX-License-Identifier: Apache-2.0
"""Sandboxes and snapshots."""
from __future__ import annotations

import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Type, Union

from . import commands
from .code import Code
from .commands import OUTPUT_MAX, Command, CommandResult, OnText, Process
from .errors import CommandFailed, ConnectionFailed, NotFoundError
from .files import Files
from .pty import Pty
from .transport import Response, Transport, Upload, segment

if TYPE_CHECKING:
    from . import wire

CREATE_TRIES = 3
AWAIT_S = 7 * 86400.0


class _Unset:
    """Left to the server, where None has a meaning of its own."""


UNSET = _Unset()


class Snapshot:
    """A saved state of a sandbox, with its memory."""

    def __init__(self, snapshot_id: str, name: Optional[str] = None, transport: Optional[Transport] = None,
                 data: Optional[Mapping[str, Any]] = None) -> None:
        self.id, self.name = snapshot_id, name
        self._transport = transport or Transport()
        self.data: Dict[str, Any] = dict(data or {})  #: state, sourceVmId, createdAt and more, when it came from list()

    def __repr__(self) -> str:
        return f"<Snapshot {self.id}{' ' + repr(self.name) if self.name else ''}>"

    @classmethod
    def list(cls, transport: Optional[Transport] = None) -> List[Snapshot]:
        t = transport or Transport()
        return [cls(s["snapshotId"], s.get("name"), t, s) for s in t.call("GET", "/v1/vms/snapshots")["snapshots"]]

    def create(self, **kw: Any) -> Sandbox:
        """A new sandbox that continues from here; the arguments are those of Sandbox.create()."""
        return Sandbox.create(snapshot=self, transport=self._transport, **kw)

    def rename(self, name: str) -> None:
        with self._transport.stream("PATCH", f"/v1/vms/snapshots/{segment(self.id)}", body={"name": name}) as r:
            r.read()
        self.name = name

    def delete(self) -> None:
        self._transport.call("DELETE", f"/v1/vms/snapshots/{segment(self.id)}")


class Sandbox:
    """A microVM.

    >>> with Sandbox.create() as sandbox:
    ...     print(sandbox.exec("uname -a").stdout)

    ``files``: its files; ``code``: code that keeps its variables. As a context manager it deletes a sandbox that it created
    or forked, and leaves one that it only connected to.
    """

    def __init__(self, vm_id: str, transport: Optional[Transport] = None, *, user: Optional[str] = None, owned: bool = False) -> None:
        self.id = vm_id
        self._transport = transport or Transport()
        self._user = user
        self._owned = owned
        self.files = Files(self, user)
        self.code = Code(self, user)

    def __repr__(self) -> str:
        return f"<Sandbox {self.id}{' as ' + self._user if self._user else ''}>"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if not self._owned:
            return
        try:
            self.delete()
        except NotFoundError:
            pass  # deleted already

    # ---- what the parts of this package use ----

    def _path(self, rest: str = "") -> str:
        return f"/v1/vms/{segment(self.id)}{rest}"

    def _call(self, method: str, rest: str, body: Any = None, **kw: Any) -> Any:
        return self._transport.call(method, self._path(rest), body, **kw)

    def _stream(self, method: str, rest: str, **kw: Any) -> Response:
        return self._transport.stream(method, self._path(rest), **kw)

    def _upload(self, method: str, rest: str, **kw: Any) -> Upload:
        return self._transport.upload(method, self._path(rest), **kw)

    # ---- making and finding ----

    @classmethod
    def create(cls, *, name: Optional[str] = None, snapshot: Union[Snapshot, str, None] = None, vcpus: Optional[int] = None,
               memory_gb: Optional[int] = None, disk_gb: Optional[int] = None, idle_timeout: Union[int, None, _Unset] = UNSET,
               persistence: Optional[Mapping[str, Any]] = None, options: Optional[Mapping[str, Any]] = None,
               transport: Optional[Transport] = None) -> Sandbox:
        """A new one, from the base image or a snapshot.

        ``idle_timeout``: seconds without network traffic after which it is suspended; None: never. vCPUs and memory are powers
        of two. ``options``: further members of the request, such as ``spec``. Repeated when the connection breaks, without making two.
        """
        t = transport or Transport()
        body: Dict[str, Any] = dict(options or {})
        template = {k: v for k, v in (("vcpuCount", vcpus), ("memSizeGb", memory_gb), ("rootfsSizeGb", disk_gb)) if v is not None}
        if template:
            body["template"] = {**body.get("template", {}), **template}
        if snapshot is not None:
            (body["template"] if template else body)["snapshotId"] = snapshot if isinstance(snapshot, str) else snapshot.id
        if name is not None:
            body["name"] = name
        if not isinstance(idle_timeout, _Unset):
            body["idleTimeoutSeconds"] = idle_timeout
        if persistence is not None:
            body["persistence"] = dict(persistence)
        key = {"Idempotency-Key": str(uuid.uuid4())}
        for last in range(CREATE_TRIES - 1, -1, -1):
            try:
                return cls(t.call("POST", "/v1/vms", body, headers=key)["id"], t, owned=True)
            except ConnectionFailed:
                if not last:
                    raise
        raise AssertionError("not reached")

    @classmethod
    def connect(cls, vm_id: str, transport: Optional[Transport] = None) -> Sandbox:
        """An existing sandbox; NotFoundError if there is none. Does not wake it."""
        sandbox = cls(vm_id, transport)
        sandbox.info()
        return sandbox

    @classmethod
    def list(cls, transport: Optional[Transport] = None, **query: Any) -> List[Sandbox]:
        """All of the account; search=, vmState=, limit=, offset=."""
        t = transport or Transport()
        return [cls(v["id"], t) for v in t.call("GET", "/v1/vms", query=query)["vms"]]

    def as_user(self, user: str) -> Sandbox:
        """The same sandbox, acted in as another Linux user. Never deletes it as a context manager."""
        return Sandbox(self.id, self._transport, user=user)

    # ---- life ----

    def info(self) -> wire.Vm:
        """id, name, state, usage and more, as the server says it."""
        reply: wire.Vm = self._call("GET", "")
        return reply

    @property
    def state(self) -> str:
        """running, suspended, stopped, ..."""
        return str(self.info()["state"])

    def start(self, **options: Any) -> None:
        """Resumes a suspended one, boots a stopped one. Any use does that by itself."""
        self._call("POST", "/start", options)

    def resume(self) -> None:
        self.start()

    def suspend(self) -> None:
        """Freezes it with its memory; the next use thaws it."""
        self._call("POST", "/suspend")

    def stop(self) -> None:
        """Shuts it down; its disk stays."""
        self._call("POST", "/stop")

    def kill(self) -> None:
        """Stops it at once, without a shutdown."""
        self._call("POST", "/kill")

    def delete(self) -> None:
        """Deletes it permanently."""
        self._call("DELETE", "")

    def wait_for_exit(self, timeout: Optional[float] = None) -> str:
        """Until its machine ends: stopped, suspended, deleted, exited, ... ConnectionFailed when it has not within the timeout."""
        return str(self._call("POST", "/await", timeout=AWAIT_S if timeout is None else timeout)["exitStatus"])

    def resize(self, *, vcpus: Optional[int] = None, memory_gb: Optional[int] = None, disk_gb: Optional[int] = None) -> None:
        """A running one is shut down and booted again; a suspended one loses its memory. Disks only grow."""
        body = {k: v for k, v in (("vcpuCount", vcpus), ("memSizeGb", memory_gb), ("rootfsSizeGb", disk_gb)) if v is not None}
        self._call("POST", "/resize", body)

    # ---- the tree ----

    def fork(self, count: int = 1) -> List[Sandbox]:
        """Live copies with the same memory: processes, variables, open files. Each goes its own way from here."""
        reply = self._call("POST", "/fork", {"count": count})
        return [Sandbox(f["id"], self._transport, owned=True) for f in reply["forks"]]

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Takes a snapshot; the sandbox keeps running."""
        reply = self._call("POST", "/snapshot", {"name": name} if name is not None else {})
        return Snapshot(reply["snapshotId"], name, self._transport)

    def rewind(self, snapshot: Union[Snapshot, str, None], *, keep: bool = True) -> Optional[Snapshot]:
        """Rewinds memory and disk to one of its earlier snapshots; ``None``: to its newest point. ``keep``: keeps the current state as a snapshot, which is returned."""
        snapshot_id = snapshot if snapshot is None or isinstance(snapshot, str) else snapshot.id
        before = self._call("POST", "/rewind", {"snapshotId": snapshot_id, "keep": keep}).get("previousSnapshotId")
        return Snapshot(before, "before rewind", self._transport) if before else None

    def tree(self) -> wire.Tree:
        """Its family: points and sandboxes, with parents and sizes."""
        reply: wire.Tree = self._call("GET", "/tree")
        return reply

    def diff(self, other: Union[Sandbox, Snapshot, str], path: Optional[str] = None, *,
             ignore: Optional[Sequence[str]] = None) -> Iterator[wire.FileDiff]:
        """Files that differ from a related sandbox or snapshot: {path, change, kind, size, otherSize, mtime}."""
        query: Dict[str, Any] = {"with": other if isinstance(other, str) else other.id, "path": path}
        if ignore is not None:
            query["ignore"] = ",".join(ignore)
        while True:
            reply = self._call("GET", "/diff", query=query)
            yield from reply["changes"]
            if not reply.get("cursor"):
                return
            query["cursor"] = reply["cursor"]

    # ---- commands ----

    def exec(self, command: Command, *, stdin: Union[str, bytes, None] = None, env: Optional[Mapping[str, str]] = None,
             cwd: Optional[str] = None, user: Optional[str] = None, timeout: Optional[float] = None, on_stdout: OnText = None,
             on_stderr: OnText = None, check: bool = False, max_output: int = OUTPUT_MAX) -> CommandResult:
        """Runs a command and waits for it: a line for the shell, or a list of words.

        ``on_stdout`` and ``on_stderr`` get text while it runs. After ``timeout`` seconds it is ended: ExecTimeout. ``check``: CommandFailed
        unless it ends with 0. Of each output the result keeps ``max_output`` bytes.
        """
        body = commands.body_of(command, stdin, env, cwd, timeout)
        result = commands.run(self, body, user or self._user, on_stdout, on_stderr, max_output)
        if check and not result.ok:
            raise CommandFailed(body["command"], result)
        return result

    def spawn(self, command: Command, *, stdin: Union[str, bytes, None] = None, env: Optional[Mapping[str, str]] = None,
              cwd: Optional[str] = None, user: Optional[str] = None, timeout: Optional[float] = None,
              open_stdin: bool = False) -> Process:
        """Starts a command and leaves it running, even if this client ends."""
        body = {**commands.body_of(command, stdin, env, cwd, timeout), "detach": True}
        if open_stdin:
            body["openStdin"] = True
        reply = self._call("POST", "/exec", body, user=user or self._user, headers={"Accept": "application/json"})
        return Process(self, reply["processId"], reply.get("pid"), user or self._user)

    def processes(self) -> List[Process]:
        """Those that were spawned, and the commands that run."""
        return commands.listed(self, self._user)

    # ---- terminals ----

    def pty(self, command: Optional[str] = None, *, cols: int = 80, rows: int = 24, session_id: Optional[str] = None,
            on_data: Optional[Callable[[bytes], None]] = None, on_reconnect: Optional[Callable[[], None]] = None,
            reconnect_for: float = 60) -> Pty:
        """Opens a terminal, with the login shell or a command in it.

        Without ``on_data`` (called on a thread of its own) use ``read()`` and ``expect()``. For ``reconnect_for`` seconds a lost
        connection is made again; 0: never. After that the first output is a picture of the whole terminal: on_reconnect is
        the moment to clear the screen.
        """
        return Pty(self, self._user, cols=cols, rows=rows, command=command, session_id=session_id, attach=False, on_data=on_data,
                   on_reconnect=on_reconnect, reconnect_for=reconnect_for)

    def attach_pty(self, session_id: str, *, cols: int = 80, rows: int = 24, on_data: Optional[Callable[[bytes], None]] = None,
                   on_reconnect: Optional[Callable[[], None]] = None, reconnect_for: float = 60) -> Pty:
        """Attaches to an existing terminal, also in a fork, also if others are attached."""
        return Pty(self, self._user, cols=cols, rows=rows, command=None, session_id=session_id, attach=True, on_data=on_data,
                   on_reconnect=on_reconnect, reconnect_for=reconnect_for)

    def pty_sessions(self) -> List[wire.PtySession]:
        """sessionId, running, exitCode, cols, rows and more of each terminal."""
        sessions: List[wire.PtySession] = self._call("GET", "/pty/sessions", user=self._user)["sessions"]
        return sessions

    def pty_ticket(self, session_id: Optional[str] = None, *, ttl: int = 60, origin: Optional[str] = None) -> str:
        """An address for a browser's WebSocket that opens (or attaches to) a terminal once, without a key."""
        body: Dict[str, Any] = {"ttlSeconds": ttl}
        if session_id is not None:
            body["sessionId"] = session_id
        if origin is not None:
            body["origin"] = origin
        return str(self._call("POST", "/pty/tickets", body, user=self._user)["url"])
