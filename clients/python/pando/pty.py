# SPDX-License-Identifier: Apache-2.0
"""Terminals in a sandbox.

Theory of operation: the session lives in the sandbox; this end is only attached to it. A thread reads what comes (so that the
server's pings are answered whether or not anybody reads) into a buffer, or hands it to a callback. When the connection is lost
without the program having ended (the network, a suspend, a restart of the server) it attaches again for as long as it was
told to; the server then sends a picture of the whole terminal first. What could not be sent waits until then: a message that
was cut off in the middle was not delivered, so it is sent again.
"""
from __future__ import annotations

import json
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, Type, Union

from . import calls
from .errors import ApiError, ConnectionFailed, NotFoundError, PandoError
from .transport import USER_HEADER, segment
from .websocket import BINARY, TEXT, WebSocket, WebSocketError

if TYPE_CHECKING:
    from .sandbox import Sandbox

BUFFER_MAX = 8 * 1024 * 1024  # output that nobody has read; the oldest goes
MESSAGE = 32 * 1024           # typed, per message
SILENCE_S = 70.0              # the server pings every 20 s: longer than this and it is gone
ATTACH_S = 120.0              # for one attempt: the sandbox may have to be resumed first
RETRY_FIRST_S, RETRY_MAX_S = 0.25, 4.0


class PtyClosed(PandoError):
    """The terminal has ended, or could not be attached to again."""


class Pty:
    """A terminal session; made by ``sandbox.pty()`` and ``sandbox.attach_pty()``.

    As a context manager it ends what it opened, and detaches from what it attached to.
    """

    def __init__(self, sandbox: Sandbox, user: Optional[str], *, cols: int, rows: int, command: Optional[str],
                 session_id: Optional[str], attach: bool, on_data: Optional[Callable[[bytes], None]],
                 on_reconnect: Optional[Callable[[], None]], reconnect_for: float) -> None:
        self._sandbox, self._user = sandbox, user
        self._cols, self._rows = cols, rows
        self._on_data, self._on_reconnect, self._reconnect_for = on_data, on_reconnect, reconnect_for
        self._opened = not attach
        self._state = threading.Condition()
        self._buffer = bytearray()
        self._late: List[Tuple[bytes, int]] = []  # what a callback typed while the connection broke
        self._error: Optional[BaseException] = None
        self._detached = False
        self._ended = False
        self.dropped = 0                      #: bytes that nobody read in time
        self.reconnects = 0
        self.exit_code: Optional[int] = None  #: once the program has ended
        self.id = session_id or ""
        query: Dict[str, Any] = {"cols": cols, "rows": rows}
        path = self._attach_path() if attach else "/pty"
        if not attach:
            query.update(exec=command, sessionId=session_id)
        self._ws: Optional[WebSocket] = self._connect(path, query)
        self._thread = threading.Thread(target=self._run, args=(self._ws,), name=f"pando-{self.id}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Pty {self.id} in {self._sandbox.id}>"

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if not self._opened:
            self.detach()
            return
        try:
            self.close()
        except (ApiError, ConnectionFailed):
            if error is None:  # else the first error is the one to hear about
                raise

    # ---- the connection ----

    def _attach_path(self) -> str:
        return f"/pty/sessions/{segment(self.id)}"

    def _connect(self, path: str, query: Dict[str, Any]) -> WebSocket:
        t = self._sandbox._transport
        headers = {**t.auth, **({USER_HEADER: self._user} if self._user else {})}
        ws = WebSocket(t, self._sandbox._path(path), query=query, headers=headers, timeout=ATTACH_S)
        try:
            first = ws.recv(ATTACH_S)
            info = json.loads(first[1]) if first and first[0] == TEXT else None
            if not isinstance(info, dict) or info.get("type") != "sessionInfo":
                raise ConnectionFailed("the server did not send the session's id")
            self.id = str(info["sessionId"])
        except (WebSocketError, TimeoutError, ValueError) as e:
            ws.terminate()
            raise ConnectionFailed(f"the terminal was lost while it was opened: {e}") from e
        except BaseException:
            ws.terminate()
            raise
        return ws

    def _run(self, ws: Optional[WebSocket]) -> None:
        try:
            while ws is not None:
                try:
                    self._pump(ws)
                except (WebSocketError, TimeoutError):
                    pass
                finally:
                    with self._state:
                        self._ws = None
                    ws.terminate()
                with self._state:
                    if self.exit_code is not None or self._detached:
                        return
                ws = self._again()
                for data, opcode in self._late:
                    self._send(data, opcode)
                self._late.clear()
        except BaseException as e:  # a callback's too: it is raised where somebody waits
            with self._state:
                self._error = self._error or e
        finally:
            with self._state:
                self._ended = True
                self._ws = None
                self._state.notify_all()

    def _pump(self, ws: WebSocket) -> None:
        """Takes what comes until the server closes."""
        while True:
            message = ws.recv(SILENCE_S)
            if message is None:
                return
            kind, data = message
            if kind == BINARY:
                self._take(data)
                continue
            try:
                said = json.loads(data)
            except ValueError:
                continue  # not for us
            if isinstance(said, dict) and said.get("type") == "exited":
                with self._state:
                    self.exit_code = int(said.get("exitCode") or 0)
                    self._state.notify_all()

    def _take(self, data: bytes) -> None:
        if self._on_data:
            self._on_data(data)
            return
        with self._state:
            self._buffer += data
            over = len(self._buffer) - BUFFER_MAX
            if over > 0:
                del self._buffer[:over]
                self.dropped += over
            self._state.notify_all()

    def _again(self) -> Optional[WebSocket]:
        """Attaches again; None when it was told not to any more. Raises when there is nothing to attach to."""
        end, pause = time.monotonic() + self._reconnect_for, RETRY_FIRST_S
        while True:
            why: BaseException = PtyClosed("the connection to the terminal was lost")
            try:
                if self._reconnect_for > 0:
                    ws = self._connect(self._attach_path(), {"cols": self._cols, "rows": self._rows})
                    with self._state:
                        if self._detached:
                            ws.terminate()
                            return None
                        self._ws = ws
                        self.reconnects += 1
                        self._state.notify_all()
                    if self._on_reconnect:
                        try:
                            self._on_reconnect()
                        except BaseException:
                            ws.terminate()
                            raise
                    return ws
            except NotFoundError:
                raise
            except (ApiError, ConnectionFailed) as e:
                if isinstance(e, ApiError) and e.status in (400, 401, 403):
                    raise
                why = e
            if time.monotonic() + pause > end:
                raise PtyClosed(f"the terminal could not be attached to again: {why}") from why
            with self._state:
                if self._state.wait_for(lambda: self._detached, pause):
                    return None
            pause = min(pause * 2, RETRY_MAX_S)

    def _send(self, data: bytes, opcode: int) -> None:
        """Over the connection there is, or the next one."""
        while True:
            with self._state:
                calls.wait_for(self._state, lambda: self._ws is not None or self._ended or self.exit_code is not None or self._detached)
                ws = self._ws
                if ws is None or self._ended or self._detached:
                    raise PtyClosed("the terminal is closed") from self._error
            try:
                ws.send(data, opcode, SILENCE_S)
                return
            except (WebSocketError, TimeoutError):
                ws.abort()  # whoever reads notices, and attaches again
                with self._state:
                    if self.exit_code is not None:
                        raise PtyClosed("the program has ended") from None
                    if threading.current_thread() is self._thread:  # a callback: nobody else can attach again
                        self._late.append((data, opcode))
                        return
                    calls.wait_for(self._state, lambda: self._ws is not ws)

    # ---- for the user ----

    def write(self, data: Union[str, bytes]) -> None:
        """Types; waits while the connection is being made again."""
        raw = data.encode() if isinstance(data, str) else bytes(data)
        for at in range(0, len(raw), MESSAGE):
            self._send(raw[at:at + MESSAGE], BINARY)

    def read(self, timeout: Optional[float] = None) -> bytes:
        """What has come, at least a byte; b"" when the program has ended or the terminal was detached from.

        TimeoutError when nothing comes in time. Not with on_data, which gets everything.
        """
        with self._state:
            if not calls.wait_for(self._state, lambda: self._buffer or self._ended, timeout):
                raise TimeoutError(f"no output from {self.id} within {timeout} s")
            if not self._buffer and self._error:
                raise self._error
            data = bytes(self._buffer)
            self._buffer.clear()
            return data

    def expect(self, text: Union[str, bytes], timeout: Optional[float] = 30) -> bytes:
        """Reads until the text was there; everything up to its end. What came after it stays for the next read."""
        want = text.encode() if isinstance(text, str) else text
        seen: bytearray

        def found() -> bool:
            return want in self._buffer or self._ended

        with self._state:
            in_time = calls.wait_for(self._state, found, timeout)
            seen = self._buffer
            at = seen.find(want)
            if at >= 0:
                data = bytes(seen[:at + len(want)])
                del seen[:at + len(want)]
                return data
            if self._error:
                raise self._error
            tail = bytes(seen[-500:])
        if not in_time:
            raise TimeoutError(f"{want!r} was not received within {timeout} s; the last output was: {tail!r}")
        raise PtyClosed(f"the terminal ended without {want!r}; the last output was: {tail!r}")

    def wait(self, timeout: Optional[float] = None) -> int:
        """Until the program has ended; its exit code, 128 + n for the signal n."""
        with self._state:
            if not calls.wait_for(self._state, lambda: self.exit_code is not None or self._ended, timeout):
                raise TimeoutError(f"the program of {self.id} did not end within {timeout} s")
            if self.exit_code is not None:
                return self.exit_code
            raise self._error or PtyClosed("detached before the program ended")

    def resize(self, cols: int, rows: int) -> None:
        """The window here; the smallest of all that are attached is the terminal's size."""
        self._cols, self._rows = cols, rows
        self._send(json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode(), TEXT)

    def interrupt(self) -> None:
        """As ^C does."""
        self._send(b'{"type":"signal","signal":"SIGINT"}', TEXT)

    def kill(self) -> None:
        """Kills the program; wait() says how it ended."""
        self._send(b'{"type":"signal","signal":"SIGKILL"}', TEXT)

    def detach(self) -> None:
        """Goes away; the program runs on, and attach_pty() comes back to it."""
        with self._state:
            self._detached = True
            ws = self._ws
            self._state.notify_all()
        if ws:
            ws.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
            if self._thread.is_alive() and ws:
                ws.abort()
                self._thread.join(5)

    def close(self) -> None:
        """Ends the session with everything that runs in it."""
        self.detach()
        try:
            try:
                self._sandbox._call("DELETE", self._attach_path(), user=self._user)
            except ConnectionFailed:  # as often as one likes: it is gone afterwards
                self._sandbox._call("DELETE", self._attach_path(), user=self._user)
        except NotFoundError:
            pass  # it ended by itself
