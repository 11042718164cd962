# SPDX-License-Identifier: Apache-2.0
"""Calls that another thread can end: how the asyncio face (aio.py) cancels what a thread of its own is waiting in.

Theory of operation: a call is the current one of its context (contextvars). Connections tell it which socket they use, and
waits on a condition tell it about that; abort() shuts the sockets down and wakes the waits, so whatever blocks comes back with
an error at once. A connection that goes back among the idle ones is no longer the call's. Without a current call all this
does nothing.
"""
from __future__ import annotations

import contextvars
import socket
import threading
from typing import Any, Callable, List, Optional

from .errors import PandoError


class Aborted(PandoError):
    """The call was given up from outside."""


class Call:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: List[Any] = []
        self._waits: List[threading.Condition] = []
        self.aborted = False

    def uses(self, sock: Any) -> None:
        with self._lock:
            if not self.aborted:
                self._sockets.append(sock)
                return
        shut(sock)

    def leaves(self, sock: Any) -> None:
        with self._lock:
            self._sockets = [s for s in self._sockets if s is not sock]

    def wait_for(self, condition: threading.Condition, found: Callable[[], Any], timeout: Optional[float]) -> Any:
        """condition.wait_for(); raises Aborted instead once the call is given up. The condition is held."""
        with self._lock:
            self._waits.append(condition)
        try:
            done = condition.wait_for(lambda: self.aborted or found(), timeout)
        finally:
            with self._lock:
                self._waits.remove(condition)
        if self.aborted:
            raise Aborted("the call was given up")
        return done

    def abort(self) -> None:
        with self._lock:
            self.aborted = True
            sockets, self._sockets = self._sockets, []
            waits = list(self._waits)
        for sock in sockets:
            shut(sock)
        for condition in waits:
            with condition:
                condition.notify_all()


CURRENT: "contextvars.ContextVar[Optional[Call]]" = contextvars.ContextVar("pando-call", default=None)


def shut(sock: Any) -> None:
    """Ends a read in progress, of another thread too."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed already


def uses(sock: Any) -> None:
    call = CURRENT.get()
    if call:
        call.uses(sock)


def leaves(sock: Any) -> None:
    call = CURRENT.get()
    if call:
        call.leaves(sock)


def wait_for(condition: threading.Condition, found: Callable[[], Any], timeout: Optional[float] = None) -> Any:
    call = CURRENT.get()
    return call.wait_for(condition, found, timeout) if call else condition.wait_for(found, timeout)
