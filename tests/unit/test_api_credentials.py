#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How mirrors log in: an account's passwords and GitHub Apps; usage: test_api_credentials.py SERVE_GIT [TEST...]

The other server is `git http-backend` behind a small web server, which hands out passwords as GitHub does, to whoever shows
a JWT that the app's key has signed (`openssl` is the judge).
"""
import base64
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_api_sync  # noqa: E402
from git_checks import Refused  # noqa: E402

PATH = "/git/v1/credentials"
INHERITED = [n for n in dir(test_api_sync.Sync) if n.startswith("test_")]


def unpack(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class GitHub(test_api_sync.Backend):
    def answer(self):
        if not self.path.endswith("/access_tokens"):
            return super().answer()
        s = self.server
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        s.asked.append(self.path)
        why = self.judge((self.headers.get("Authorization") or "").removeprefix("Bearer "))
        if s.answers:
            status, body = s.answers.pop(0)
        elif why:
            status, body = 401, {"message": why}
        else:
            s.token = f"ghs_{len(s.asked)}"
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=s.life)
            status, body = 201, {"token": s.token, "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        s.whys.append(why)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass  # it has heard enough

    do_GET = do_POST = answer

    def judge(self, jwt):
        """Why the JWT is not good; None: it is."""
        parts = jwt.split(".")
        if len(parts) != 3:
            return "no JWT"
        head, claims = json.loads(unpack(parts[0])), json.loads(unpack(parts[1]))
        now = time.time()
        if head != {"alg": "RS256", "typ": "JWT"} or claims["iss"] != "12345":
            return f"{head} {claims}"
        if not (claims["iat"] <= now < claims["exp"] <= claims["iat"] + 600):
            return f"times of {claims}"
        with tempfile.NamedTemporaryFile() as sig:
            sig.write(unpack(parts[2]))
            sig.flush()
            ok = subprocess.run(["openssl", "dgst", "-sha256", "-verify", self.server.public, "-signature", sig.name],
                                input=f"{parts[0]}.{parts[1]}".encode(), capture_output=True, timeout=30)
        return None if ok.returncode == 0 else "the signature is not the app's"


class Credentials(test_api_sync.Sync):
    def start(self):
        super().start()
        if not hasattr(self.far, "asked"):
            self.far.RequestHandlerClass = GitHub
            self.far.asked, self.far.whys, self.far.answers, self.far.life = [], [], [], 3600
            self.far.public = os.path.join(self.far.root, "public.pem")
            self.server = f"http://127.0.0.1:{self.far.server_port}"
            self.pem = self.key_file("RSA", "-pkeyopt", "rsa_keygen_bits:2048")
            subprocess.run(["openssl", "pkey", "-pubout", "-out", self.far.public], input=self.pem.encode(), check=True, timeout=30)

    def key_file(self, kind, *options):
        return subprocess.run(["openssl", "genpkey", "-algorithm", kind, *options], check=True, capture_output=True, text=True, timeout=60).stdout

    def app(self, **more):
        return {"appId": "12345", "installationId": "678", "privateKey": self.pem, **more}

    def mirror(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        self.assertEqual(self.api(repo, "POST", "/github-sync", {"githubRepoName": "owner/app"}), {})
        return repo

    def again(self, repo, state):
        """A round more, and what came of it."""
        before = self.status(repo)["lastSyncAt"], len(self.far.asked)
        self.api(repo, "POST", "/github-sync/run")
        return self.until(state, lambda: self.status(repo)["state"] == state and
                          (state != "synced" or self.status(repo)["lastSyncAt"] != before[0]) and self.status(repo))

    def test_app(self):
        made = self.call("PUT", PATH, self.app())
        self.assertEqual((made["server"], made["kind"], made["appId"], made["installationId"], made["apiUrl"]),
                         (self.server, "app", "12345", "678", self.server + "/api/v3"))
        repo = self.mirror()
        self.same(repo)
        self.again(repo, "synced")
        self.assertEqual((self.far.asked, self.far.whys), (["/api/v3/app/installations/678/access_tokens"], [None]))
        self.far.token = "revoked meanwhile"
        self.again(repo, "failed")
        self.again(repo, "synced")
        self.assertEqual(self.far.whys, [None, None])
        # another key of the same app: what the old one was given is not used
        self.call("PUT", PATH, self.app(privateKey=self.key_file("RSA", "-pkeyopt", "rsa_keygen_bits:2048")))
        failed = self.again(repo, "failed")
        self.assertIn("401", failed["error"])
        self.assertNotIn("signature", failed["error"])
        self.assertEqual(self.far.whys[2:], ["the signature is not the app's"] * len(self.far.whys[2:]))
        everything = json.dumps([self.call("GET", PATH), self.status(repo)])
        for secret in ("PRIVATE", "ghs_", self.pem[100:140].replace("\n", "")):
            self.assertNotIn(secret, everything)

    def test_app_of_another_address(self):
        """apiUrl, a password that ends at once, and answers that are none."""
        self.far.life = 30
        self.call("PUT", PATH, self.app(apiUrl=self.server + "/elsewhere/"))
        repo = self.mirror()
        self.same(repo)
        asked = len(self.far.asked)
        self.again(repo, "synced")
        self.assertGreater(len(self.far.asked), asked)
        self.assertEqual(set(self.far.asked), {"/elsewhere/app/installations/678/access_tokens"})
        for odd in ((201, {"token": "a b", "expires_at": "2099-01-01T00:00:00Z"}), (201, {"token": "x"}), (201, b"<html>"), (500, {}),
                    (201, {"token": "x" * 100000, "expires_at": "2099-01-01T00:00:00Z"}), (302, {})):
            self.far.answers.append(odd)
            self.assertRegex(self.again(repo, "failed")["error"], "no password from|did not return a password")
            self.again(repo, "synced")

    def test_password(self):
        repo = self.mirror()
        self.until("a failure", lambda: self.status(repo)["state"] == "failed")
        made = self.call("PUT", PATH, {"server": self.server.replace("http", "HTTP", 1).lower() + "/some/path", "token": test_api_sync.TOKEN})
        self.assertEqual((made["server"], made["kind"], made["appId"]), (self.server, "token", None))
        self.again(repo, "synced")
        listed = self.call("GET", PATH)
        self.assertEqual([c["server"] for c in listed["credentials"]], [self.server])
        self.assertNotIn(test_api_sync.TOKEN, json.dumps(listed))
        # a token of the mirror's own comes first
        self.api(repo, "POST", "/github-sync", {"githubRepoName": "owner/app", "token": "wrong"})
        self.until("a failure", lambda: self.status(repo)["state"] == "failed")
        self.api(repo, "POST", "/github-sync", {"githubRepoName": "owner/app"})
        self.same(repo)
        # nobody else has it
        other = self.stranger()
        self.assertEqual(self.call("GET", PATH, key=other), {"credentials": []})
        self.refused(404, "NOT_FOUND", "DELETE", PATH, key=other)
        theirs = self.call("POST", "/git/v1/repo", {}, key=other)["repoId"]
        self.api(theirs, "POST", "/github-sync", {"githubRepoName": "owner/app"}, key=other)
        self.until("a failure", lambda: self.api(theirs, "GET", "/github-sync", key=other)["state"] == "failed")
        _, token, _ = self.identity(repo, "write")
        with self.assertRaises(Refused) as c:
            self.call("GET", PATH, key=token)
        self.assertIn(c.exception.status, (401, 403))
        self.assertEqual(self.call("DELETE", f"{PATH}?server={self.server}"), {})
        self.refused(404, "NOT_FOUND", "DELETE", PATH)
        self.again(repo, "failed")

    def test_refusals(self):
        ec = self.key_file("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        short = self.key_file("RSA", "-pkeyopt", "rsa_keygen_bits:1024")
        for body in ({}, {"token": ""}, {"token": "a\nb"}, {"token": "x", "server": "ftp://x"}, {"token": "x", "server": "https://"},
                     {"token": "x", "server": "https://u:p@h"}, {"token": "x", "server": "nonsense"}, {"appId": "1"},
                     self.app(privateKey="nonsense"), self.app(privateKey=ec), self.app(privateKey=short), self.app(installationId="../1"),
                     self.app(appId="a/b"), self.app(apiUrl="file:///etc"), self.app(apiUrl="https://h/?x"), {"token": 1}):
            self.refused(400, "GIT_INVALID_REQUEST", "PUT", PATH, body)
        self.assertEqual(self.call("GET", PATH), {"credentials": []})
        self.refused(401, "UNAUTHORIZED_ERROR", "GET", PATH, key="")


for _name in INHERITED:
    setattr(Credentials, _name, None)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
