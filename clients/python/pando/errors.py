# SPDX-License-Identifier: Apache-2.0
"""Exceptions.

Everything this package raises on its own is a PandoError. A server error is an ApiError with the server's
``code``, ``status`` and ``message``, and a ``hint``: the way out, where there is a usual one.
"""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

__all__ = ["ApiError", "AuthError", "CommandFailed", "ConflictError", "ConnectionFailed", "ExecTimeout", "NotFoundError",
           "PandoError", "QuotaError", "StreamBroken", "UnavailableError", "UnsafeArchive"]

HINTS: Dict[str, str] = {
    "UNAUTHORIZED": "set PANDO_API_KEY to a key of this server, or pass api_key=",
    "UNAUTHORIZED_ERROR": "set PANDO_API_KEY to a key of this server, or pass api_key=",
    "FORBIDDEN": "this key or token lacks permission; use a key of the account",
    "VM_NOT_FOUND": "it was deleted, or belongs to another account; Sandbox.list() shows existing ones",
    "VM_DELETED": "create another one; a snapshot taken before it was deleted still works",
    "VM_NOT_RUNNING": "start() it first",
    "STILL_CREATING": "try again in a moment",
    "VM_IS_SUSPENDING": "try again in a moment; the next use resumes it",
    "CONFLICT": "another operation on it is running; try again in a moment",
    "SNAPSHOT_NOT_FOUND": "Snapshot.list() shows existing ones",
    "INVALID_SNAPSHOT_ID": "rewind() needs an earlier snapshot of the same sandbox; otherwise use create(snapshot=...)",
    "FILE_NOT_FOUND": "files.list() shows what the directory has",
    "USER_NOT_FOUND": "create the Linux user in the sandbox first (useradd)",
    "EXEC_TIMED_OUT": "pass a larger timeout=, or spawn() it and read its output later",
    "SESSION_NOT_FOUND": "pty_sessions() shows existing ones",
    "SESSION_ALREADY_EXISTS": "attach_pty() attaches to it",
    "SESSION_EXPIRED": "its program ended; open another one with pty()",
    "SESSION_CAP_REACHED": "close sessions that are not needed",
    "SESSION_USER_MISMATCH": "attach as the Linux user who opened it",
    "INSUFFICIENT_SWAP": "suspend or delete sandboxes: the host has no memory left",
    "NO_LOCAL_STORAGE_CAPACITY": "delete sandboxes and snapshots: the host has no disk left",
    "TOTAL_VM_LIMIT_EXCEEDED": "delete sandboxes, or ask for a larger quota",
    "VM_LIMIT_EXCEEDED": "suspend or delete sandboxes, or ask for a larger quota",
    "SNAPSHOT_LIMIT_EXCEEDED": "delete snapshots, or ask for a larger quota",
    "MEM_OVER_PLAN_LIMIT": "ask for less memory, or for a larger quota",
    "VCPU_OVER_PLAN_LIMIT": "ask for fewer vCPUs, or for a larger quota",
    "ROOTFS_OVER_PLAN_LIMIT": "ask for a smaller disk, or for a larger quota",
    "SERVICE_UNAVAILABLE": "try again in a moment",
    "UNAVAILABLE": "try again in a moment",
}


class PandoError(Exception):
    """The base of all errors of this package."""


class ConnectionFailed(PandoError):
    """The server could not be reached, or closed the connection before it answered."""


class StreamBroken(PandoError):
    """A reply was cut off: the connection was lost while it was read."""


class UnsafeArchive(PandoError):
    """A downloaded directory contains something that would write outside the target."""


class ApiError(PandoError):
    """The server rejected the request or failed.

    ``status``: the HTTP status; ``code``: machine-readable, such as VM_NOT_FOUND; ``message``: a description;
    ``hint``: what usually helps, or None; ``body``: the whole reply; ``trace_id``: for the server's logs.
    """

    def __init__(self, status: int, code: str, message: str, body: Optional[Mapping[str, Any]] = None,
                 trace_id: Optional[str] = None) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.hint: Optional[str] = HINTS.get(code)
        self.body: Dict[str, Any] = dict(body or {})
        self.trace_id = trace_id
        super().__init__(f"{code} ({status}): {message}" + (f" [{self.hint}]" if self.hint else ""))


class AuthError(ApiError):
    """401, 403: no key, a wrong key, or one without permission."""


class QuotaError(ApiError):
    """403 or 429: a limit of the account or of a sandbox is reached."""


class NotFoundError(ApiError):
    """404, 410: it does not exist, or not for this key."""


class ConflictError(ApiError):
    """409: not possible in this state, or while another operation runs."""


class UnavailableError(ApiError):
    """503, 504: the host lacks resources now, or something took too long."""


class ExecTimeout(ApiError):
    """A command took longer than its timeout and was ended. ``stdout`` and ``stderr``: its output until then."""

    def __init__(self, status: int, code: str, message: str, body: Optional[Mapping[str, Any]] = None,
                 trace_id: Optional[str] = None) -> None:
        super().__init__(status, code, message, body, trace_id)
        self.stdout = str(self.body.get("stdout") or "")
        self.stderr = str(self.body.get("stderr") or "")


class CommandFailed(PandoError):
    """``exec(..., check=True)`` of a command that did not exit with 0. ``result`` has the details."""

    def __init__(self, command: str, result: Any) -> None:
        self.command = command
        self.result = result
        how = result.signal if result.signal else f"exit code {result.exit_code}"
        tail = (result.stderr or result.stdout).strip()[-500:]
        super().__init__(f"'{command[:200]}' ended with {how}" + (f": {tail}" if tail else ""))


def class_of(status: int, code: str) -> Type[ApiError]:
    if code == "EXEC_TIMED_OUT":
        return ExecTimeout
    if "LIMIT" in code or "QUOTA" in code or code == "SESSION_CAP_REACHED":
        return QuotaError
    return {401: AuthError, 403: AuthError, 404: NotFoundError, 410: NotFoundError, 409: ConflictError, 429: QuotaError,
            503: UnavailableError, 504: UnavailableError}.get(status, ApiError)


def from_reply(status: int, body: Any, trace_id: Optional[str] = None) -> ApiError:
    """The exception for a reply; the body may be anything."""
    if not isinstance(body, dict):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")
        body = {"message": text.strip()[:500] or "the server gave no reason"}
    code = str(body.get("code") or body.get("error") or f"HTTP_{status}")
    message = str(body.get("message") or body.get("description") or "the server gave no reason")
    return class_of(status, code)(status, code, message, body, trace_id)
