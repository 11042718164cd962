# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks, and what is checked of all of them; for tests of the API and end-to-end tests"""
import base64
import hashlib
import http.server
import json
import os
import subprocess
import tempfile
import time

WAIT_S = 90
# Of an Ed25519 public key: what comes before its 32 bytes (RFC 8410).
SPKI = bytes.fromhex("302a300506032b6570032100")


class Receiver(http.server.BaseHTTPRequestHandler):
    """An endpoint that answers what it is told to (server.answers) and keeps what it got."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        s = self.server
        with s.lock:
            status = s.answers.pop(0) if s.answers else 200
        s.got.put((self.path, {k.lower(): v for k, v in self.headers.items()}, body, status))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def b64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verify(keys, token):
    """The claims of a token, if one of the keys signed it; checked by openssl."""
    signed, _, signature = token.rpartition(".")
    head, claims = (json.loads(b64(p)) for p in signed.split("."))
    assert head["alg"] == "EdDSA", head
    key = next(k for k in keys if k["kid"] == head["kid"])
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("key", SPKI + b64(key["x"])), ("sig", b64(signature)), ("data", signed.encode())):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key", "-rawin",
                        "-in", "data", "-sigfile", "sig"], cwd=d, check=True, stdout=subprocess.DEVNULL)
    return claims


class Hooks:
    """For a test with self.hook (a Receiver's server) and self.call()."""

    def next(self):
        return self.hook.got.get(timeout=WAIT_S)

    def event(self, type=None):
        """The next event that was taken; of that type."""
        while True:
            _, _, body, status = self.next()
            if status == 200:
                e = json.loads(body)
                if type:
                    self.assertEqual(e["type"], type, e)
                return e

    def check_signature(self, headers, body, delivery, keys):
        claims = verify(keys, headers["x-freestyle-signature"])
        self.assertEqual(claims["body_sha256"], hashlib.sha256(body).hexdigest())
        self.assertEqual(claims["jti"], delivery)
        self.assertEqual(headers["x-freestyle-delivery"], delivery)
        self.assertLess(abs(claims["iat"] - time.time()), 600)

    def settled(self, hook, n):
        """Deliveries, newest first, once n of them are delivered."""
        ds = self.call("GET", f"/v1/webhooks/{hook['id']}/deliveries")["deliveries"]
        return ds if sum(d["state"] == "delivered" for d in ds) >= n else None

    def until(self, what, check):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            v = check()
            if v:
                return v
            time.sleep(0.05)
        self.fail(f"{what}: not within {WAIT_S} s")
