# SPDX-License-Identifier: Apache-2.0
"""What aio.py, which is generated, is made of: the blocking client on threads, for asyncio.

Theory of operation: a call runs on a thread of a pool of its own, so that a hundred commands can run at once, whatever asyncio's
default pool is. When its task is cancelled the call is aborted (calls.py): the thread comes back at once, the connection is
closed, and the server ends what it was doing for it. Callbacks run in the event loop, and the thread waits for each of them: output
comes no faster than it is taken, and an exception of a callback ends the call.
"""
from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Generator, Generic, Optional, Type, TypeVar

from .calls import CURRENT, Call

THREADS_MAX = 1024  # calls at once; more wait
END = object()
T = TypeVar("T")

POOL = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="pando-aio")
FACES: Dict[type, type] = {}  # of a blocking class


class Face:
    """An object of the blocking client, for asyncio. ``sync`` is that object."""

    def __init__(self, sync: Any) -> None:
        self.sync = sync

    def __init_subclass__(cls, of: Optional[type] = None, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if of is not None:
            FACES[of] = cls

    def __repr__(self) -> str:
        return f"<async {repr(self.sync)[1:]}"


def shown(value: Any) -> Any:
    """What a call returns, with faces."""
    face = FACES.get(type(value))
    if face is not None:
        return face(value)
    if type(value) in (list, tuple):
        return type(value)(shown(v) for v in value)
    return value


def given(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """What a call is given, without faces; functions are called in the loop."""
    if isinstance(value, Face):
        return value.sync
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return in_loop(value, loop)
    return value


def in_loop(callback: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Callable[..., None]:
    async def run_it(*args: Any) -> None:
        result = callback(*args)
        if inspect.isawaitable(result):
            await result

    return lambda *args: asyncio.run_coroutine_threadsafe(run_it(*args), loop).result()


def outcome(fn: Callable[..., Any], args: Any, kw: Any) -> Any:
    """(its value, None) or (None, its exception): StopIteration cannot pass through a future."""
    try:
        return fn(*args, **kw), None
    except BaseException as e:
        return None, e


async def on_thread(call: Call, fn: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    context.run(CURRENT.set, call)
    args = tuple(given(a, loop) for a in args)
    kw = {k: given(v, loop) for k, v in kw.items()}
    future = loop.run_in_executor(POOL, lambda: context.run(outcome, fn, args, kw))
    try:
        value, error = await asyncio.shield(future)
    except asyncio.CancelledError:
        call.abort()
        while not future.done():  # at once, now; cancelled again or not, the thread is not left behind
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                pass
        raise
    if error is not None:
        raise error
    return value


async def run(fn: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    """One blocking call; cancelling the task ends it."""
    return shown(await on_thread(Call(), fn, *args, **kw))


async def items(fn: Callable[..., Any], *args: Any, **kw: Any) -> AsyncIterator[Any]:
    """The items of a blocking iterator as they come. Leaving the loop early ends the call."""
    call, iterator = Call(), iter(())
    try:
        iterator = iter(await on_thread(call, fn, *args, **kw))
        while True:
            item = await on_thread(call, next, iterator, END)
            if item is END:
                return
            yield shown(item)
    finally:
        call.abort()
        close = getattr(iterator, "close", None)
        if close is not None:
            close()  # its connection was shut down: nothing to wait for


class Opening(Generic[T]):
    """``await`` gives what was opened; ``async with`` gives it and closes it at the end."""

    def __init__(self, fn: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self._make: Callable[[], Awaitable[T]] = functools.partial(run, fn, *args, **kw)  # type: ignore[assignment]
        self._made: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._make().__await__()

    async def __aenter__(self) -> T:
        self._made = await self._make()
        return self._made  # type: ignore[no-any-return]

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await on_thread(Call(), self._made.sync.__exit__, kind, error, trace)


class Managed(Face):
    """A face whose object is a context manager: left as the blocking one is, which may delete it."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await on_thread(Call(), self.sync.__exit__, kind, error, trace)


class Changes:
    """Changes to files: ``async with`` begins to watch, ``async for`` takes them."""

    def __init__(self, fn: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self._make = functools.partial(fn, *args, **kw)
        self._call, self._watch = Call(), None  # type: Call, Any

    async def __aenter__(self) -> Changes:
        self._watch = await on_thread(self._call, self._make)
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self._call.abort()

    async def __aiter__(self) -> AsyncIterator[Any]:
        if self._watch is None:
            raise RuntimeError("watch() is entered first: async with files.watch(...) as changes")
        iterator = iter(self._watch)
        while not self._call.aborted:
            item = await on_thread(self._call, next, iterator, END)
            if item is END:
                return
            yield item
