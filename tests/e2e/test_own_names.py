# SPDX-License-Identifier: Apache-2.0
"""Names of the server itself: answered by its name server, certified by ACME through it, or by files of the operator"""
import os
import subprocess

from case import wait_for

from harness import ROOT, Server
from name_tools import NameTools
from pebble import Pebble
from ports import free_port
from test_edge import EdgeBase

PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")
BASE = "cloud.example.test"
IPV4, IPV6 = "192.0.2.10", "2001:db8::10"  # for documentation: nobody talks to them


class OwnNames(NameTools, EdgeBase):
    """pebble asks the server's own name server, which has the base domain's records and ACME's."""
    pebble = None

    @classmethod
    def setUpClass(cls):
        cls.dns_port = free_port()
        cls.pebble = Pebble(f"127.0.0.1:{cls.dns_port}")
        cls.s = Server(env={"PANDO_DOMAIN": BASE, "PANDO_DNS_LISTEN": f"127.0.0.1:{cls.dns_port}",
                            "PANDO_PUBLIC_ADDRESS": f"{IPV4} {IPV6}", "PANDO_ACME_URL": cls.pebble.url})
        cls.pebble.start(cls.s)
        cls.pebble.trusted_by(cls.s)
        cls.s.start()
        cls.use_edge()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if cls.pebble:
            cls.pebble.close()

    def test_wildcard_by_dns_01(self):
        wait_for("ACME certified the base domain", lambda: "Pebble" in self.leaf(f"api.{BASE}"), 180, 0.5)
        for name in (BASE, f"api.{BASE}", f"git.{BASE}", f"anything.{BASE}"):
            text = self.leaf(name)
            self.assertIn("Pebble", text, name)
            self.assertIn(f"DNS:*.{BASE}", text)
            self.assertIn(f"DNS:{BASE}", text)
        self.assertEqual(self.dig(f"_acme-challenge.{BASE}", "TXT")[:2], ("NOERROR", []), "the record stays behind")
        self.assertIn("Pando local CA", self.leaf("preview.style.dev", self.ca))

    def test_addresses(self):
        for name in (BASE, f"api.{BASE}", f"a.b.{BASE}", f"ns.{BASE}"):
            self.assertEqual(self.dig(name, "A")[:2], ("NOERROR", [IPV4]), name)
            self.assertEqual(self.dig(name, "AAAA")[:2], ("NOERROR", [IPV6]), name)
        self.assertEqual(self.dig(BASE, "NS")[:2], ("NOERROR", [f"ns.{BASE}."]))
        self.assertEqual(self.dig("example.test", "A")[0], "REFUSED")

    def test_users_are_told(self):
        v = self.s.api("POST", "/domains/v1/verifications", {"domain": "shop.test"})
        addresses = [{"type": "A", "name": "shop.test", "value": IPV4}, {"type": "AAAA", "name": "shop.test", "value": IPV6}]
        self.assertEqual(v["dnsRecords"], [{"type": "TXT", "name": "_freestyle_custom_hostname.shop.test", "value": v["verificationCode"]}, *addresses])
        said = subprocess.run([PANDO, "domain", "verify", "shop.test"], env={**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}, capture_output=True, text=True, timeout=60)
        for word in (v["verificationCode"], IPV4, IPV6, "pando domain complete shop.test"):
            self.assertIn(word, said.stdout, said.stderr)

    def test_zy_helpers_end(self):
        self.pebble.end()


class GivenCertificate(NameTools, EdgeBase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server()
        cls.files = os.path.join(cls.s.dir, "given.crt"), os.path.join(cls.s.dir, "given.key")
        cls.make("first")
        cls.s.env.update({"PANDO_DOMAIN": BASE, "PANDO_TLS_CERT": cls.files[0], "PANDO_TLS_KEY": cls.files[1]})
        cls.s.start()
        cls.use_edge()

    @classmethod
    def make(cls, issuer):
        for path in cls.files:
            open(path + ".new", "w").close()
            os.chmod(path + ".new", 0o644)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", f"/CN={issuer}", "-addext", f"subjectAltName=DNS:{BASE},DNS:*.{BASE}", "-keyout", cls.files[1] + ".new",
                        "-out", cls.files[0] + ".new"], check=True, capture_output=True)
        os.chmod(cls.files[1] + ".new", 0o644)  # pandod has a user of its own
        for path in cls.files:
            os.replace(path + ".new", path)

    def test_read_again_when_it_changes(self):
        for name in (BASE, f"api.{BASE}", f"some.{BASE}"):
            self.assertIn("first", self.leaf(name), name)
        self.assertIn("Pando local CA", self.leaf("preview.style.dev", self.ca), "a certificate for other names")
        with open(self.files[0], "w") as f:
            f.write("no certificate\n")
        wait_for("the log says that it cannot be used", lambda: "the one in use stays" in self.s.log_text(), 60, 0.2)
        self.assertIn("first", self.leaf(f"api.{BASE}"))
        self.make("second")
        wait_for("the new one is shown", lambda: "second" in self.leaf(f"api.{BASE}"), 60, 0.2)
        self.assertIn("second", self.leaf(BASE))
