# SPDX-License-Identifier: Apache-2.0
"""bucket.py - an object store in memory that several processes share, and that can be held up

What the client asks for (PUT, GET, DELETE, LIST of a prefix) and nothing else; signatures are not looked at. The client itself is tested
against a real server (tests/objects/).
"""
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape


class Bucket:
    def __init__(self):
        self.objects, self.lock, self.down = {}, threading.Lock(), False
        self.got = []  # names that were read
        self.hold, self.held, self.go = None, threading.Event(), threading.Event()
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def say(self, status, body=b""):
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:  # who asked was killed, or has given up
                    self.close_connection = True

            def key(self):
                return urlsplit(self.path).path.removeprefix("/bucket").lstrip("/")

            def wait(self, when):
                hold = bucket.hold
                if hold and hold[0] == when and self.key().startswith(hold[1]):
                    bucket.held.set()
                    bucket.go.wait(120)

            def do_PUT(self):
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if bucket.down:
                    return self.say(503)
                self.wait("before")
                with bucket.lock:
                    bucket.objects[self.key()] = data
                self.wait("after")
                self.say(200)

            def do_GET(self):
                key = self.key()
                if bucket.down:
                    return self.say(503)
                if not key:
                    prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
                    with bucket.lock:
                        keys = sorted(k for k in bucket.objects if k.startswith(prefix))
                    rows = "".join(f"<Contents><Key>{escape(k)}</Key></Contents>" for k in keys)
                    return self.say(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode())
                with bucket.lock:
                    data = bucket.objects.get(key)
                bucket.got.append(key)
                self.say(404 if data is None else 200, data or b"")

            def do_DELETE(self):
                with bucket.lock:
                    bucket.objects.pop(self.key(), None)
                self.say(204)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"s3://bucket?endpoint=http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def hold_puts(self, when, prefix):
        """The next ones below it wait, "before" they are kept or "after" that; self.held is set when one does."""
        self.held.clear()
        self.go.clear()
        self.hold = (when, prefix)

    def release(self):
        self.hold = None
        self.go.set()

    def names(self, prefix):
        with self.lock:
            return sorted({k.rsplit("/", 1)[0] for k in self.objects if k.startswith(prefix)})

    def stop(self):
        self.release()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
