# SPDX-License-Identifier: Apache-2.0
"""HTTP to one server: address, key, and reading replies.

Theory of operation: connections are kept and used again, one request at a time each. One that the server has closed
meanwhile is readable without anybody having asked, so it is thrown away before it is used, as is one that has waited for so
long that the server may be about to; what is left of that race is only repeated when repeating is harmless (GET, HEAD). A streamed reply owns its connection until it is closed; closing it early
closes the connection, and the server ends what it was doing for it.
"""
from __future__ import annotations

import http.client
import json
import os
import select
import socket
import ssl
import threading
import time
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union
from urllib.parse import quote, urlencode, urlsplit

from . import calls
from .errors import ConnectionFailed, PandoError, StreamBroken, from_reply

DEFAULT_URL = "http://127.0.0.1:8787"
DEFAULT_DATA_DIR = "/var/lib/pando"
CONNECT_S = 20.0     # to a connection
CALL_S = 900.0       # for a reply: a create may wait for a build, a command for its end
STREAM_S = 120.0     # between two pieces of a stream; the server sends something at least every half minute
IDLE_MAX = 8         # connections kept
IDLE_S = 20.0        # for so long; the server closes them after a minute
PIECE = 64 * 1024
LINE_MAX = 64 * 1024 * 1024  # one event; a picture in a result is one
USER_HEADER = "X-Freestyle-Vm-Linux-User-Id"

Query = Optional[Mapping[str, Union[str, int, bool, None]]]
Headers = Mapping[str, str]


def wait_socket(sock: Any, write: bool, seconds: Optional[float]) -> bool:
    """Until a socket can be read (or written); False when the time is over first."""
    if hasattr(select, "poll"):  # select() cannot handle many open files
        p = select.poll()
        p.register(sock, select.POLLOUT if write else select.POLLIN)
        return bool(p.poll(None if seconds is None else max(0, int(seconds * 1000))))
    ready = select.select([] if write else [sock], [sock] if write else [], [], seconds)
    return bool(ready[0] or ready[1])


def segment(text: str) -> str:
    """Text as one segment of a path: a slash in it is not a separator."""
    return quote(text, safe="")


class Response:
    """A reply that is read as it comes."""

    def __init__(self, transport: Transport, conn: http.client.HTTPConnection, raw: http.client.HTTPResponse,
                 sock: Any) -> None:
        self._transport, self._conn, self._raw, self._sock = transport, conn, raw, sock
        self.status = raw.status
        self.headers = raw.headers

    def __enter__(self) -> Response:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connection back if everything was read, else closes it."""
        if self._raw.isclosed():
            self._transport.keep(self._conn)
        else:
            self._raw.close()
            self._conn.close()

    def abort(self) -> None:
        """From another thread: ends a read in progress."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def read(self) -> bytes:
        try:
            return self._raw.read()
        except (http.client.HTTPException, OSError) as e:
            raise StreamBroken(f"the reply was cut off: {e}") from e

    def json(self) -> Any:
        data = self.read()
        try:
            return json.loads(data)
        except ValueError as e:
            raise PandoError(f"the server's reply is not JSON: {data[:200]!r}; is this a Pando server?") from e

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        """The body in pieces; raises StreamBroken unless it is complete."""
        while True:
            try:
                data = self._raw.read(size)
            except (http.client.HTTPException, OSError) as e:
                raise StreamBroken(f"the reply was cut off: {e}") from e
            if not data:
                if self._raw.length:  # of the announced length, this much never came
                    raise StreamBroken(f"the reply was cut off {self._raw.length} bytes before its end")
                return
            yield data

    def lines(self) -> Iterator[str]:
        """Lines as they come, without their ends."""
        while True:
            try:
                line = self._raw.readline(LINE_MAX + 1)
            except (http.client.HTTPException, OSError) as e:
                raise StreamBroken(f"the stream was cut off: {e}") from e
            if not line:
                return
            if len(line) > LINE_MAX:
                raise StreamBroken("the server sent an endless line")
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def drain(self) -> None:
        """Reads what is left after the last event, so that the connection can be used again."""
        try:
            for _ in self.lines():
                pass
        except StreamBroken:
            pass  # everything that mattered has come

    def events(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Server-sent events: (name, data). Comments are skipped; several data lines are one."""
        name, data = "message", []  # type: str, List[str]
        for line in self.lines():
            if not line:
                if data:
                    yield name, json.loads("\n".join(data))
                name, data = "message", []
                continue
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)


class Upload:
    """A request whose body is written bit by bit: a file object for what produces it."""

    def __init__(self, transport: Transport, conn: http.client.HTTPConnection) -> None:
        self._transport, self._conn = transport, conn
        self._refused = False

    def write(self, data: Union[bytes, bytearray, memoryview]) -> int:
        if data and not self._refused:
            try:
                self._conn.send(b"%x\r\n" % len(data) + bytes(data) + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                self._refused = True  # the reply says why; finish() reads it
            except OSError as e:
                raise ConnectionFailed(f"the connection to {self._transport.url} was lost: {e}") from e
        return len(data)

    @property
    def refused(self) -> bool:
        """The server stopped reading: the rest need not be produced."""
        return self._refused

    def finish(self) -> Any:
        """Ends the body; the parsed reply."""
        try:
            if not self._refused:
                try:
                    self._conn.send(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    self._refused = True
            with self._transport.response(self._conn) as r:
                return r.json()
        except BaseException:
            self._conn.close()
            raise

    def abort(self) -> None:
        """Gives up; the server keeps what was there before."""
        self._refused = True
        self._conn.close()


class Transport:
    """One server and one key. Safe to share between threads."""

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *, access_token: Optional[str] = None,
                 timeout: float = CALL_S, ssl_context: Optional[ssl.SSLContext] = None) -> None:
        self.url = (url or os.environ.get("PANDO_URL") or os.environ.get("FREESTYLE_API_URL") or DEFAULT_URL).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PandoError(f"'{self.url}' is not a server address; it should look like {DEFAULT_URL}")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/")
        self.timeout = timeout
        self._ssl = ssl_context or (ssl.create_default_context() if self.tls else None)
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []  # and since when
        self._lock = threading.Lock()
        if access_token:
            self.auth = {"X-Freestyle-Identity-Access-Token": access_token}
        else:
            self.auth = {"Authorization": f"Bearer {api_key or self._find_key()}"}

    def _find_key(self) -> str:
        """From the environment; on the server's own machine, the operator's key."""
        for name in ("PANDO_API_KEY", "FREESTYLE_API_KEY"):
            if os.environ.get(name):
                return os.environ[name]
        if self.host in ("127.0.0.1", "::1", "localhost"):  # that key is for this machine's server and no other
            path = os.path.join(os.environ.get("PANDO_DATA_DIR", DEFAULT_DATA_DIR), "api-key")
            try:
                with open(path, encoding="utf-8") as f:
                    return f.read().strip()
            except OSError:
                pass
        raise PandoError("no API key: set PANDO_API_KEY, or pass api_key=")

    # ---- connections ----

    def new_connection(self, timeout: float) -> http.client.HTTPConnection:
        try:
            conn: http.client.HTTPConnection
            if self.tls:
                conn = http.client.HTTPSConnection(self.host, self.port, timeout=CONNECT_S, context=self._ssl)
            else:
                conn = http.client.HTTPConnection(self.host, self.port, timeout=CONNECT_S)
            conn.connect()
            conn.sock.settimeout(timeout)
            calls.uses(conn.sock)
            return conn
        except OSError as e:
            raise ConnectionFailed(f"cannot reach {self.url}: {e}; is pandod running there? Set PANDO_URL to its address") from e

    def _take(self, timeout: float) -> Tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it was used before."""
        while True:
            with self._lock:
                conn, since = self._idle.pop() if self._idle else (None, 0.0)
            if conn is None:
                return self.new_connection(timeout), False
            if time.monotonic() - since < IDLE_S and conn.sock is not None and not wait_socket(conn.sock, False, 0):
                conn.sock.settimeout(timeout)
                calls.uses(conn.sock)
                return conn, True
            conn.close()

    def keep(self, conn: http.client.HTTPConnection) -> None:
        calls.leaves(conn.sock)
        with self._lock:
            if conn.sock is not None and len(self._idle) < IDLE_MAX:
                self._idle.append((conn, time.monotonic()))
                return
        conn.close()

    def close(self) -> None:
        """Closes the connections that are kept; the transport can still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for conn, _ in idle:
            conn.close()

    # ---- requests ----

    def target(self, path: str, query: Query = None) -> str:
        words = {k: ("true" if v is True else "false" if v is False else str(v)) for k, v in (query or {}).items() if v is not None}
        return self.prefix + path + ("?" + urlencode(words) if words else "")

    def headers(self, user: Optional[str] = None, more: Optional[Headers] = None) -> Dict[str, str]:
        h = {**self.auth, "User-Agent": "pando-python/0.1"}
        if user:
            h[USER_HEADER] = user
        h.update(more or {})
        return h

    def stream(self, method: str, path: str, *, body: Any = None, data: Union[bytes, Iterable[bytes], None] = None,
               query: Query = None, user: Optional[str] = None, headers: Optional[Headers] = None,
               timeout: Optional[float] = None) -> Response:
        """Sends a request; the reply is read by the caller. Errors of the server are raised here."""
        h = self.headers(user, headers)
        if body is not None:
            data = json.dumps(body).encode()
            h["Content-Type"] = "application/json"
        target = self.target(path, query)
        conn, used = self._take(timeout or self.timeout)
        while True:
            try:
                chunked = data is not None and not isinstance(data, bytes)
                if chunked:
                    h["Transfer-Encoding"] = "chunked"
                elif data is None and method in ("POST", "PUT"):
                    h["Content-Length"] = "0"
                conn.request(method, target, body=data, headers=h, encode_chunked=chunked)
                return self.response(conn)
            except ConnectionFailed:
                conn.close()
                if not used or method not in ("GET", "HEAD"):
                    raise
            except OSError as e:
                conn.close()
                if not used or method not in ("GET", "HEAD"):
                    raise ConnectionFailed(f"{method} {path}: the connection to {self.url} was lost: {e}") from e
            except BaseException:
                conn.close()
                raise
            conn, used = self.new_connection(timeout or self.timeout), False

    def response(self, conn: http.client.HTTPConnection) -> Response:
        sock = conn.sock  # the connection forgets it when it is to be closed after this reply
        try:
            raw = conn.getresponse()
        except TimeoutError as e:
            conn.close()
            raise ConnectionFailed(f"{self.url} did not answer in time") from e
        except (http.client.HTTPException, OSError) as e:
            conn.close()
            raise ConnectionFailed(f"{self.url} closed the connection without a reply: {e}") from e
        r = Response(self, conn, raw, sock)
        if 200 <= raw.status < 300:
            return r
        with r:
            text = r.read()
        try:
            parsed: Any = json.loads(text)
        except ValueError:
            parsed = text
        raise from_reply(raw.status, parsed, raw.headers.get("x-freestyle-trace-id"))

    def call(self, method: str, path: str, body: Any = None, **kw: Any) -> Any:
        """A request with a JSON reply."""
        with self.stream(method, path, body=body, **kw) as r:
            return r.json()

    def upload(self, method: str, path: str, *, query: Query = None, user: Optional[str] = None,
               headers: Optional[Headers] = None) -> Upload:
        """A request whose body is written to what is returned."""
        conn = self.new_connection(self.timeout)
        try:
            conn.putrequest(method, self.target(path, query), skip_accept_encoding=True)
            for k, v in self.headers(user, headers).items():
                conn.putheader(k, v)
            conn.putheader("Transfer-Encoding", "chunked")
            conn.endheaders()
        except OSError as e:
            conn.close()
            raise ConnectionFailed(f"{method} {path}: the connection to {self.url} was lost: {e}") from e
        return Upload(self, conn)
