# SPDX-License-Identifier: Apache-2.0
"""An InstaVM-shaped class on Pando, for code interpreters written against that package.

>>> from pando.instavm import InstaVM
>>> vm = InstaVM("your_key")
>>> vm.execute("x = 41")
>>> vm.execute("print(x + 1)")["output"]
'42\\n'

Differences: the server is PANDO_URL; the directory of the session is /app, where relative names in the code are too.
"""
from __future__ import annotations

import math
import os
from types import TracebackType
from typing import Any, Dict, Optional, Type

from .code import Cell
from .errors import NotFoundError, PandoError
from .sandbox import Sandbox
from .transport import Transport

APP = "/app"
ENTER = f"import os as _os; _os.makedirs('{APP}', exist_ok=True); _os.chdir('{APP}'); del _os"


def gigabytes(memory_mb: int) -> int:
    """Memory comes in powers of two of 1 GB: the next that is enough."""
    return 1 << max(0, math.ceil(math.log2(max(1, memory_mb) / 1024)))


def power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def output_of(cell: Cell) -> str:
    """As a person at a terminal would see it: what was printed, the last value, the traceback."""
    out = cell.stdout
    if cell.text is not None and not cell.error:
        out += cell.text + "\n"
    if cell.error:
        out += cell.stderr + (cell.error.traceback or f"{cell.error.name}: {cell.error.value}") + "\n"
    return out


class InstaVM:
    """A session: a sandbox whose Python remembers, made by the first use and ended by kill()."""

    def __init__(self, api_key: Optional[str] = None, *, cpu_count: Optional[int] = None, memory_mb: Optional[int] = None,
                 timeout: Optional[float] = None, base_url: Optional[str] = None, sandbox: Optional[Sandbox] = None) -> None:
        self._transport = Transport(base_url, api_key)
        self._vcpus = power_of_two(cpu_count) if cpu_count else None
        self._memory = gigabytes(memory_mb) if memory_mb else None
        self._timeout = timeout
        self._killed = False
        self._entered = False
        self.sandbox: Sandbox = sandbox or Sandbox.create(vcpus=self._vcpus, memory_gb=self._memory, transport=self._transport)

    def __enter__(self) -> InstaVM:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.kill()

    @property
    def session_id(self) -> str:
        return self.sandbox.id

    def _enter(self) -> None:
        """A fresh kernel begins in the user's home; the session's place is /app."""
        self.sandbox.code(ENTER).check()
        self._entered = True

    def execute(self, command: str, language: str = "python", timeout: Optional[float] = None) -> Dict[str, Any]:
        """Runs code; variables, imports and files are there in the next call. An error is in the result, not raised.

        ``output`` has everything that was shown; ``stdout``, ``stderr``, ``error``, ``results``, ``files``, ``success`` and
        ``execution_time`` (seconds) have it apart.
        """
        if self._killed:
            raise PandoError("this session was killed; create another InstaVM")
        if language in ("bash", "shell", "sh"):
            command, language = f"mkdir -p {APP} && cd {APP}\n{command}", "bash"
        elif not self._entered and language == "python":
            self._enter()
        cell = self.sandbox.code(command, language, timeout=timeout or self._timeout)
        if cell.kernel_restarted and language == "python":
            self._entered = False
        return {"output": output_of(cell), "stdout": cell.stdout, "stderr": cell.stderr, "success": cell.ok,
                "error": f"{cell.error.name}: {cell.error.value}" if cell.error else None, "results": list(cell.results),
                "files": [f.path for f in cell.files], "execution_time": cell.duration, "session_id": self.session_id}

    def _remote(self, path: str) -> str:
        return path if path.startswith("/") else f"{APP}/{path}"

    def download_file(self, filename: str, local_path: Optional[str] = None) -> Dict[str, Any]:
        """To a file here; without ``local_path`` one of the same name in the current directory."""
        local = local_path or os.path.basename(filename)
        size = self.sandbox.files.download(self._remote(filename), local)
        return {"status": "success", "filename": filename, "local_path": local, "size": size}

    def upload_file(self, local_path: str, remote_path: Optional[str] = None) -> Dict[str, Any]:
        remote = self._remote(remote_path or os.path.basename(local_path))
        self.sandbox.files.upload(local_path, remote)
        return {"status": "success", "remote_path": remote}

    def is_session_active(self) -> bool:
        if self._killed:
            return False
        try:
            return self.sandbox.state != "lost"
        except NotFoundError:
            return False

    def kill(self) -> bool:
        """Ends the session; everything in it is gone. A second time does nothing."""
        if self._killed:
            return False
        self._killed = True
        try:
            self.sandbox.delete()
        except NotFoundError:
            return False
        return True

    close_session = kill
