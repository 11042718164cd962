# SPDX-License-Identifier: Apache-2.0
"""pando - microVMs that are created, frozen, thawed and forked with their memory.

>>> from pando import Sandbox
>>> with Sandbox.create() as sandbox:
...     sandbox.code("x = 41")
...     children = sandbox.fork(2)
...     print(children[0].code("x + 1").text)

The server is PANDO_URL (http://127.0.0.1:8787), the key PANDO_API_KEY; or pass ``transport=Transport(url, key)``.
"""
from .code import Cell, CellFailed, ChangedFile, Code, CodeError, Context, RichResult, run_once
from .commands import CommandResult, Process
from .errors import (ApiError, AuthError, CommandFailed, ConflictError, ConnectionFailed, ExecTimeout, NotFoundError, PandoError,
                     QuotaError, StreamBroken, UnavailableError, UnsafeArchive)
from .files import Entry, FileEvent, Files, FileStat, Watch
from .pty import Pty, PtyClosed
from .sandbox import Sandbox, Snapshot
from .transport import Transport

__version__ = "0.1.0"

__all__ = ["ApiError", "AuthError", "Cell", "CellFailed", "ChangedFile", "Code", "CodeError", "CommandFailed", "CommandResult",
           "ConflictError", "ConnectionFailed", "Context", "Entry", "ExecTimeout", "FileEvent", "FileStat", "Files", "NotFoundError",
           "PandoError", "Process", "Pty", "PtyClosed", "QuotaError", "RichResult", "Sandbox", "Snapshot", "StreamBroken", "Transport",
           "UnavailableError", "UnsafeArchive", "Watch", "run_once"]
