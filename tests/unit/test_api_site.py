#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard as the server sends it: types, caching, compression, security headers; usage: test_api_site.py SERVE_GIT [TEST...]"""
import gzip
import http.client
import re
import sys
import unittest

from served import Served

SERVE = sys.argv[1]


class Site(Served, unittest.TestCase):
    limit_s = 60

    @classmethod
    def setUpClass(cls):
        cls.serve(SERVE)

    def ask(self, path, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def assets(self):
        return re.findall(r'(?:src|href)="(/assets/[^"]+)"', self.ask("/")[2].decode())

    def test_each_address_of_the_page_is_the_page(self):
        first = self.ask("/")[2]
        self.assertIn(b"<!doctype html>", first)
        for path in ("/ui", "/ui/", "/ui/vms", "/ui/vms/abc", "/ui/git/r/a%2Fb", "/ui/..%2f..%2fetc", "/ui/info/refs"):
            status, h, body = self.ask(path)
            self.assertEqual((status, body), (200, first), path)
            self.assertEqual(h["Content-Type"], "text/html; charset=utf-8")
            self.assertEqual(h["Cache-Control"], "no-cache")

    def test_git_keeps_its_addresses(self):
        self.assertIn(self.ask("/some-repo/info/refs?service=git-upload-pack")[0], (401, 404))

    def test_every_file_of_the_page_is_there_and_may_be_kept(self):
        names = self.assets()
        self.assertGreater(len(names), 3)
        types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
        for name in names:
            status, h, body = self.ask(name)
            self.assertEqual(status, 200, name)
            self.assertEqual(h["Content-Type"], types[name.rsplit(".", 1)[1]])
            self.assertEqual(h["Cache-Control"], "public, max-age=31536000, immutable")
            self.assertEqual(h.get_all("Cache-Control"), [h["Cache-Control"]])
            self.assertIsNone(h["Content-Encoding"])
            self.assertTrue(body)

    def test_compressed_for_those_who_take_it(self):
        for path in ("/", *self.assets()):
            _, h, plain = self.ask(path)
            self.assertEqual(h["Vary"], "Accept-Encoding")
            _, h, body = self.ask(path, Accept_Encoding="br, gzip")
            if h["Content-Encoding"] == "gzip":
                self.assertLess(len(body), len(plain))
                body = gzip.decompress(body)
            self.assertEqual(body, plain, path)
            self.assertIsNone(self.ask(path, Accept_Encoding="gzip;q=0")[1]["Content-Encoding"])

    def test_a_known_version_is_not_sent_again(self):
        for path in ("/", self.assets()[0]):
            tag = self.ask(path)[1]["ETag"]
            status, h, body = self.ask(path, If_None_Match=f'"other", W/{tag}')
            self.assertEqual((status, body, h["ETag"]), (304, b"", tag))
            self.assertEqual(self.ask(path, If_None_Match='"other"')[0], 200)

    def test_head_has_the_headers_alone(self):
        _, get, body = self.ask("/")
        status, head, nothing = self.ask("/", "HEAD")
        self.assertEqual((status, nothing), (200, b""))
        self.assertEqual(head["Content-Length"], str(len(body)))
        self.assertEqual(head["ETag"], get["ETag"])

    def test_only_our_own_scripts_and_styles_run(self):
        for path in ("/", "/ui/vms", self.assets()[0]):
            h = self.ask(path)[1]
            rules = dict(r.strip().split(" ", 1) for r in h["Content-Security-Policy"].split(";"))
            self.assertEqual(rules["default-src"], "'none'")
            for name in ("script-src", "style-src", "connect-src"):
                self.assertEqual(rules[name], "'self'", name)
            self.assertEqual([rules[n] for n in ("base-uri", "form-action", "frame-ancestors")], ["'none'"] * 3)
            self.assertNotIn("unsafe", h["Content-Security-Policy"])
            self.assertEqual(h["X-Content-Type-Options"], "nosniff")
            self.assertEqual(h["X-Frame-Options"], "DENY")
            self.assertEqual(h["Cross-Origin-Opener-Policy"], "same-origin")
            self.assertIsNone(h["Access-Control-Allow-Origin"])
        page = self.ask("/")[2].decode()
        self.assertNotRegex(page, r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=")

    def test_what_is_not_there(self):
        for path in ("/assets/nothing.js", "/assets/..%2findex.html", "/assets/" + "a" * 3000, "/docs/no-such-page", "/docs/..%2f..%2findex", "/index.html"):
            status, h, _ = self.ask(path)
            self.assertEqual((status, h["Content-Type"]), (404, "application/json"), path)
            self.assertEqual(h["Cache-Control"], "no-store")
        for path in ("/", "/ui/vms", "/assets/x.js"):
            self.assertEqual(self.ask(path, "POST")[0], 405, path)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
