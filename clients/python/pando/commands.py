# SPDX-License-Identifier: Apache-2.0
"""Commands in a sandbox: waited for, or left running."""
from __future__ import annotations

import base64
import codecs
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .errors import ExecTimeout, StreamBroken, from_reply
from .transport import STREAM_S, segment

if TYPE_CHECKING:
    from . import wire
    from .sandbox import Sandbox

OUTPUT_MAX = 64 * 1024 * 1024  # of each output that a result keeps; callbacks get all of it

Command = Union[str, Sequence[str]]
OnText = Optional[Callable[[str], None]]


@dataclass
class CommandResult:
    """The exit status and output of a command."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    duration: float                #: seconds
    signal: Optional[str] = None   #: SIGTERM, when a signal ended it
    truncated: bool = False        #: one of the outputs was larger than what is kept

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def command_text(command: Command) -> str:
    """A shell's line; a list is quoted word by word."""
    return command if isinstance(command, str) else " ".join(shlex.quote(w) for w in command)


def event_bytes(data: Mapping[str, Any]) -> bytes:
    text = str(data.get("data") or "")
    return base64.b64decode(text) if data.get("encoding") == "base64" else text.encode()


def stdin_members(stdin: Union[str, bytes, None]) -> Dict[str, Any]:
    if stdin is None:
        return {}
    if isinstance(stdin, str):
        return {"stdin": stdin, "stdinEncoding": "utf8"}
    return {"stdin": base64.b64encode(stdin).decode(), "stdinEncoding": "base64"}


class Sink:
    """One output of a command: kept up to a limit, and passed to a callback as text."""

    def __init__(self, callback: OnText, limit: int = OUTPUT_MAX) -> None:
        self._callback, self._limit = callback, limit
        self._kept = bytearray()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.truncated = False

    def feed(self, data: bytes) -> None:
        room = self._limit - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room
        if self._callback:
            text = self._decode(data)
            if text:
                self._callback(text)

    def end(self) -> bytes:
        rest = self._decode(b"", True)
        if rest and self._callback:
            self._callback(rest)
        return bytes(self._kept)


def body_of(command: Command, stdin: Union[str, bytes, None], env: Optional[Mapping[str, str]], cwd: Optional[str],
            timeout: Optional[float]) -> Dict[str, Any]:
    body: Dict[str, Any] = {"command": command_text(command), **stdin_members(stdin)}
    if env:
        body["env"] = dict(env)
    if cwd is not None:
        body["cwd"] = cwd
    if timeout is not None:
        body["timeoutMs"] = max(1, int(timeout * 1000))
    return body


def run(sandbox: Sandbox, body: Dict[str, Any], user: Optional[str], on_stdout: OnText, on_stderr: OnText,
        max_output: int) -> CommandResult:
    """To its end. Leaving early, by an exception of a callback or ^C, ends the command."""
    out, err = Sink(on_stdout, max_output), Sink(on_stderr, max_output)
    with sandbox._stream("POST", "/exec", body=body, user=user, timeout=STREAM_S) as r:
        for name, data in r.events():
            if name == "stdout":
                out.feed(event_bytes(data))
            elif name == "stderr":
                err.feed(event_bytes(data))
            elif name == "error":
                raise from_reply(409, data)
            elif name == "exit":
                r.drain()
                result = CommandResult(int(data.get("statusCode") or 0), out.end(), err.end(), float(data.get("durationMs") or 0) / 1000,
                                       data.get("signal"), out.truncated or err.truncated)
                if data.get("timedOut"):
                    raise ExecTimeout(408, "EXEC_TIMED_OUT", f"the command was ended after {result.duration:.1f} s",
                                      {"stdout": result.stdout, "stderr": result.stderr})
                return result
    raise StreamBroken("the connection ended before the command did; the outcome of the command is unknown")


class Process:
    """A command that runs on its own in a sandbox: it outlives this client, suspend and resume, and forks have their own copy."""

    def __init__(self, sandbox: Sandbox, process_id: str, pid: Optional[int] = None, user: Optional[str] = None) -> None:
        self._sandbox, self._user = sandbox, user
        self.id, self.pid = process_id, pid

    def __repr__(self) -> str:
        return f"<Process {self.id} in {self._sandbox.id}>"

    def _path(self, rest: str = "") -> str:
        return f"/processes/{segment(self.id)}{rest}"

    def info(self) -> wire.Process:
        """processId, pid, command, running, statusCode, signal, stdoutBytes and more."""
        reply: wire.Process = self._sandbox._call("GET", self._path(), user=self._user)
        return reply

    @property
    def running(self) -> bool:
        return bool(self.info()["running"])

    def follow(self, stdout_from: int = 0) -> Iterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) from an offset on, while it runs and until it has ended."""
        with self._sandbox._stream("GET", self._path("/output"), query={"follow": True, "offset": stdout_from}, user=self._user,
                                   headers={"Accept": "text/event-stream"}, timeout=STREAM_S) as r:
            for name, data in r.events():
                if name in ("stdout", "stderr"):
                    yield name, event_bytes(data)
                elif name == "error":
                    raise from_reply(409, data)
                elif name == "exit":
                    return
        raise StreamBroken("the connection ended before the process did; follow() it again")

    def output(self, stream: str = "stdout") -> bytes:
        """Its output so far: the newest 4 MiB."""
        with self._sandbox._stream("GET", self._path("/output"), query={"stream": stream}, user=self._user) as r:
            return r.read()

    def wait(self) -> int:
        """Waits until it has ended; returns its exit code."""
        for _ in self.follow():
            pass
        return int(self.info()["statusCode"])

    def signal(self, signal: Union[str, int] = "TERM") -> None:
        """Sends a signal to it and its group."""
        self._sandbox._call("POST", self._path("/signal"), {"signal": signal}, user=self._user)

    def kill(self) -> None:
        self.signal("KILL")

    def write(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """To its stdin, which must have been left open (spawn(open_stdin=True)); eof closes it after that."""
        raw = data.encode() if isinstance(data, str) else data
        with self._sandbox._stream("POST", self._path("/stdin"), data=raw, query={"eof": eof or None}, user=self._user) as r:
            r.json()

    def forget(self) -> None:
        """Removes a finished process from the list."""
        self._sandbox._call("DELETE", self._path(), user=self._user)


def listed(sandbox: Sandbox, user: Optional[str]) -> List[Process]:
    reply = sandbox._call("GET", "/processes", user=user)
    return [Process(sandbox, p["processId"], p.get("pid"), user) for p in reply["processes"]]
