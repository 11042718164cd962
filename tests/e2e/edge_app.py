# SPDX-License-Identifier: Apache-2.0
"""edge_app.py [ADDRESS:]PORT - a web program behind the edge, in a guest or beside edgeup; standard library only

It says what it was asked, counts what it got, streams, speaks WebSocket, and misbehaves on request.
"""
import base64
import hashlib
import http.server
import json
import socketserver
import struct
import sys
import time
import urllib.parse
import zlib

BLOCK = bytes(range(256)) * 256  # 64 KiB
STRANGE = {  # answers that are not what they should be
    "two-framings": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "no-http": b"hello there\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
    "to-the-end": b"HTTP/1.0 200 OK\r\n\r\nabc",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    "early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "endless-head": b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000 + b"\r\n\r\n",
    "unasked": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
    "hop": b"HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 3\r\n\r\nabc",
}


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = 0
    requests = 0

    def setup(self):
        App.connections += 1
        super().setup()

    def log_message(self, *_args):
        pass

    def reply(self, body, status=200, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say(self, value):
        self.reply(json.dumps(value).encode())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def begin_chunks(self, kind="application/octet-stream"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def body(self):
        """(length, CRC-32) of the request's body, read as it comes."""
        n, crc = 0, 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                left = int(self.rfile.readline().strip(), 16)
                data = self.rfile.read(left)
                self.rfile.readline()
                if not left:
                    return n, crc
                n, crc = n + left, zlib.crc32(data, crc)
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            data = self.rfile.read(min(left, 1 << 16))
            if not data:
                raise ConnectionError("the body was cut")
            left -= len(data)
            n, crc = n + len(data), zlib.crc32(data, crc)
        return n, crc

    def do_GET(self):
        App.requests += 1
        url = urllib.parse.urlsplit(self.path)
        q = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        name = "get_" + url.path.strip("/").replace("-", "_")
        getattr(self, name, self.get_echo)(q)

    do_HEAD = do_GET
    do_DELETE = do_GET

    def do_POST(self):
        App.requests += 1
        n, crc = self.body()
        self.say({"bytes": n, "crc": crc, "method": self.command, "chunked": "Transfer-Encoding" in self.headers,
                  "headers": [[k.lower(), v] for k, v in self.headers.items()]})

    do_PUT = do_POST

    def get_echo(self, _q):
        self.say({"line": self.requestline, "headers": [[k.lower(), v] for k, v in self.headers.items()]})

    def get_counts(self, _q):
        self.say({"connections": App.connections, "requests": App.requests})

    def get_big(self, q):
        left = int(q["n"])
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left and self.command == "GET":
            self.wfile.write(BLOCK[:min(left, len(BLOCK))])
            left -= min(left, len(BLOCK))

    def get_chunked(self, q):
        left = int(q["n"])
        self.begin_chunks()
        while left:
            n = min(left, len(BLOCK))
            self.chunk(BLOCK[:n])
            left -= n
        self.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")

    def get_events(self, q):
        self.begin_chunks("text/event-stream")
        for i in range(int(q["n"])):
            self.chunk(b"data: %d\n\n" % i)
            time.sleep(float(q.get("every", "0.2")))
        self.wfile.write(b"0\r\n\r\n")

    def get_slow(self, q):
        time.sleep(float(q["s"]))
        self.say("slow")

    def get_close(self, _q):
        self.close_connection = True

    def get_strange(self, q):
        self.wfile.write(STRANGE[q["how"]])
        self.wfile.flush()
        self.close_connection = True

    def get_unasked(self, q):
        """Two answers to one request"""
        n = int(q["n"])
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + b"a" * n + STRANGE["unasked"])
        self.wfile.flush()

    def get_ws(self, _q):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        while True:
            a, b = self.rfile.read(2)
            n = b & 0x7f
            if n == 126:
                n = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(c ^ mask[i & 3] for i, c in enumerate(self.rfile.read(n)))
            head = bytes([a, n]) if n < 126 else bytes([a, 126]) + struct.pack(">H", n)
            self.wfile.write(head + data)
            self.wfile.flush()
            if a & 0x0f == 8:
                return


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def handle_error(self, _request, _address):
        pass  # a client that disconnects is not an error


if __name__ == "__main__":
    address, _, port = sys.argv[1].rpartition(":")
    server = Server((address or "0.0.0.0", int(port)), App)
    print(server.server_address[1], flush=True)
    server.serve_forever()
