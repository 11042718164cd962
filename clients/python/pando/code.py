# SPDX-License-Identifier: Apache-2.0
"""Code in kernels that keep their variables: cells, results, contexts."""
from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from .commands import OUTPUT_MAX, OnText, Sink, event_bytes
from .errors import PandoError, StreamBroken, from_reply
from .transport import STREAM_S, Transport, segment

if TYPE_CHECKING:
    from .sandbox import Sandbox

BINARY_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


class RichResult(Dict[str, Any]):
    """One result of a cell, by MIME type: ``r["text/html"]``, or ``r.html``. Images and PDFs as bytes: ``r.png``."""

    def _bytes(self, mime: str) -> Optional[bytes]:
        data = self.get(mime)
        return None if data is None else base64.b64decode(data)

    def _text(self, mime: str) -> Optional[str]:
        data = self.get(mime)
        return data if data is None or isinstance(data, str) else json.dumps(data)

    @property
    def text(self) -> Optional[str]:
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def svg(self) -> Optional[str]:
        return self._text("image/svg+xml")

    @property
    def json(self) -> Any:
        return self.get("application/json")

    @property
    def png(self) -> Optional[bytes]:
        return self._bytes("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self._bytes("image/jpeg")

    @property
    def pdf(self) -> Optional[bytes]:
        return self._bytes("application/pdf")

    def data(self, mime: str) -> Optional[bytes]:
        """Of any type, as bytes."""
        if mime in BINARY_TYPES:
            return self._bytes(mime)
        text = self._text(mime)
        return None if text is None else text.encode()


@dataclass
class ChangedFile:
    """A file that a cell made or changed."""

    path: str
    size: int
    mime: str


@dataclass
class CodeError:
    """How a cell failed."""

    name: str
    value: str
    traceback: str


class CellFailed(PandoError):
    """``cell.check()`` of a cell with an error."""

    def __init__(self, cell: Cell) -> None:
        assert cell.error
        self.cell = cell
        super().__init__(f"{cell.error.name}: {cell.error.value}\n{cell.error.traceback}".rstrip())


@dataclass
class Cell:
    """The outcome of a cell."""

    stdout: str
    stderr: str
    results: List[RichResult]
    error: Optional[CodeError]
    files: List[ChangedFile]
    context: str
    language: str
    execution_count: int
    duration: float                 #: seconds
    timed_out: bool = False
    interrupted: bool = False
    kernel_restarted: bool = False  #: variables from before are gone
    truncated: bool = False         #: output was cut
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def text(self) -> Optional[str]:
        """The last result as text: the value of the last expression."""
        return self.results[-1].text if self.results else None

    @property
    def png(self) -> Optional[bytes]:
        """The first image."""
        return next((r.png for r in self.results if r.png is not None), None)

    def check(self) -> Cell:
        """Raises CellFailed if there was an error, else itself."""
        if self.error:
            raise CellFailed(self)
        return self


def cell_of(d: Mapping[str, Any]) -> Cell:
    e = d.get("error")
    error = CodeError(str(e.get("name")), str(e.get("value")), str(e.get("traceback") or "")) if isinstance(e, dict) else None
    return Cell(d.get("stdout") or "", d.get("stderr") or "", [RichResult(r) for r in d.get("results") or []], error,
                [ChangedFile(f["path"], int(f["size"]), f.get("mime") or "") for f in d.get("files") or []],
                d.get("contextId") or "", d.get("language") or "", int(d.get("executionCount") or 0),
                float(d.get("durationMs") or 0) / 1000, bool(d.get("timedOut")), bool(d.get("interrupted")),
                bool(d.get("kernelRestarted")), bool(d.get("stdoutTruncated") or d.get("stderrTruncated")), dict(d))


OnResult = Optional[Callable[[RichResult], None]]


def run_cell(transport: Transport, path: str, body: Dict[str, Any], user: Optional[str], on_stdout: OnText, on_stderr: OnText,
             on_result: OnResult) -> Cell:
    """Always streamed: a cell may take longer than the read timeout, and leaving interrupts it."""
    out, err = Sink(on_stdout, OUTPUT_MAX), Sink(on_stderr, OUTPUT_MAX)
    results: List[RichResult] = []
    with transport.stream("POST", path, body={**body, "stream": True}, user=user, timeout=STREAM_S) as r:
        for name, data in r.events():
            if name == "stdout":
                out.feed(event_bytes(data))
            elif name == "stderr":
                err.feed(event_bytes(data))
            elif name == "result":
                results.append(RichResult(data))
                if on_result:
                    on_result(results[-1])
            elif name == "error":
                raise from_reply(409, data)
            elif name == "end":
                r.drain()
                whole = {**data, "stdout": out.end().decode("utf-8", "replace"), "stderr": err.end().decode("utf-8", "replace"),
                         "results": results}
                return cell_of(whole)
    raise StreamBroken("the connection ended before the cell did; the cell was interrupted, its context is still there")


def timeout_member(timeout: Optional[float]) -> Dict[str, Any]:
    return {} if timeout is None else {"timeoutMs": max(1, int(timeout * 1000))}


class Context:
    """A context with its own kernel: variables, imports, open files."""

    def __init__(self, code: Code, context_id: str, language: str) -> None:
        self._code, self.id, self.language = code, context_id, language

    def __repr__(self) -> str:
        return f"<Context {self.id}: {self.language}>"

    def __call__(self, code: str, **kw: Any) -> Cell:
        """Runs a cell in it; the arguments are those of ``sandbox.code``."""
        return self._code(code, context=self, **kw)

    def _post(self, verb: str) -> None:
        self._code._sandbox._call("POST", f"/code/contexts/{segment(self.id)}/{verb}", user=self._code._user)

    def restart(self) -> None:
        """Starts a new kernel; variables are lost."""
        self._post("restart")

    def interrupt(self) -> None:
        """Interrupts the running cell, from another thread or process."""
        self._post("interrupt")

    def delete(self) -> None:
        self._code._sandbox._call("DELETE", f"/code/contexts/{segment(self.id)}", user=self._code._user)


class Code:
    """``sandbox.code``: call it to run a cell.

    >>> sandbox.code("x = 6")
    >>> sandbox.code("x * 7").text
    '42'
    """

    def __init__(self, sandbox: Sandbox, user: Optional[str]) -> None:
        self._sandbox, self._user = sandbox, user

    def __call__(self, code: str, language: str = "python", *, context: Optional[Context] = None, timeout: Optional[float] = None,
                 on_stdout: OnText = None, on_stderr: OnText = None, on_result: OnResult = None) -> Cell:
        """Runs a cell: python, javascript, typescript, bash or ruby. State stays for the next one.

        Without a context, the default one of that language is used. An error in the code does not raise an exception:
        see ``cell.error``, or ``cell.check()``. After ``timeout`` seconds (290) the cell is interrupted and the kernel stays.
        """
        where: Dict[str, Any] = {"contextId": context.id} if context else {"language": language}
        return run_cell(self._sandbox._transport, self._sandbox._path("/code"), {"code": code, **where, **timeout_member(timeout)},
                        self._user, on_stdout, on_stderr, on_result)

    def create_context(self, language: str = "python", *, cwd: Optional[str] = None,
                       env: Optional[Mapping[str, str]] = None) -> Context:
        """Creates another kernel next to the default one."""
        body: Dict[str, Any] = {"language": language}
        if cwd is not None:
            body["cwd"] = cwd
        if env:
            body["env"] = dict(env)
        reply = self._sandbox._call("POST", "/code/contexts", body, user=self._user)
        return Context(self, reply["contextId"], reply.get("language") or language)

    def contexts(self) -> List[Context]:
        reply = self._sandbox._call("GET", "/code/contexts", user=self._user)
        return [Context(self, c["contextId"], c["language"]) for c in reply["contexts"]]


def run_once(code: str, language: str = "python", *, timeout: Optional[float] = None, on_stdout: OnText = None,
             on_stderr: OnText = None, on_result: OnResult = None, transport: Optional[Transport] = None) -> Cell:
    """Runs one cell in a temporary sandbox."""
    return run_cell(transport or Transport(), "/v1/code", {"language": language, "code": code, **timeout_member(timeout)}, None,
                    on_stdout, on_stderr, on_result)
