# SPDX-License-Identifier: Apache-2.0
"""Domains of one's own: verified by a TXT record in a real name server, certified by the local CA or by ACME (pebble)"""
import json
import os
import re
import socket
import subprocess
import urllib.parse

from case import limit, long, wait_for

from harness import ROOT, Server
from knot import ADDRESS, Knot
from name_tools import NameTools
from pebble import Pebble
from ports import free_port
from test_edge import EdgeBase

SDK = os.path.join(ROOT, "tests/sdk")
PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")
ZONE = "example.test"
TXT = "_freestyle_custom_hostname"


class Dns(NameTools, EdgeBase):
    """A name server beside the server."""

    @classmethod
    def setUpClass(cls):
        cls.s = None
        cls.knot = Knot(ZONE)
        try:
            wait_for("knot answers", cls.knot.ready, 60)
            cls.make_server()
        except BaseException:
            cls.knot.close()
            raise
        cls.use_edge()

    @classmethod
    def make_server(cls):
        cls.dns_port = free_port()
        cls.s = Server(env={"PANDO_RESOLVER": ADDRESS, "PANDO_DNS_LISTEN": f"127.0.0.1:{cls.dns_port}", "PANDO_DNS_NAME": "ns1.pando.test"})
        cls.s.start()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.knot.close()

    def verify(self, domain):
        v = self.s.api("POST", "/domains/v1/verifications", {"domain": domain})
        self.knot.update(f"add {TXT}.{domain}. 1 TXT \"{v['verificationCode']}\"")
        self.assertEqual(self.s.api("PUT", "/domains/v1/verifications", {"domain": domain}), {"domain": domain})


class Domains(Dns):
    def test_verification(self):
        s = self.s
        v = s.api("POST", "/domains/v1/verifications", {"domain": "WWW.Example.Test."})
        self.assertEqual(v["domain"], "www.example.test")
        self.assertEqual(s.api("POST", "/domains/v1/verifications", {"domain": "www.example.test"})["id"], v["id"], "asked twice, made twice")
        self.assertEqual([x["verificationCode"] for x in s.api("GET", "/domains/v1/verifications")], [v["verificationCode"]])
        complete = (s.api, "PUT", "/domains/v1/verifications")
        self.refused(403, "DOMAIN_OWNERSHIP_VERIFICATION_FAILED", *complete, {"id": v["id"]})
        self.knot.update(f"add {TXT}.www.example.test. 1 TXT \"something else\"", f"add {TXT}.www.example.test. 1 TXT \"x{v['verificationCode']}\"")
        self.refused(403, "DOMAIN_OWNERSHIP_VERIFICATION_FAILED", *complete, {"id": v["id"]})
        self.assertEqual(s.api("GET", "/domains/v1/domains"), [])
        # many and long records: the answer is cut short over UDP and asked for again over TCP; one is made of two strings
        half = len(v["verificationCode"]) // 2
        self.knot.update(*[f"add {TXT}.www.example.test. 1 TXT \"{i:0200d}\"" for i in range(20)],
                         f"add {TXT}.www.example.test. 1 TXT \"{v['verificationCode'][:half]}\" \"{v['verificationCode'][half:]}\"")
        self.assertEqual(s.api("PUT", "/domains/v1/verifications", {"id": v["id"]}), {"domain": "www.example.test"})
        self.refused(404, "VERIFICATION_NOT_FOUND", *complete, {"id": v["id"]})
        self.assertEqual(s.api("GET", "/domains/v1/verifications"), [])
        d = s.api("GET", "/domains/v1/domains?limit=50&offset=0")
        self.assertEqual([(x["domain"], x["verifiedDns"], x["implicitlyOwned"]) for x in d], [("www.example.test", True, False)])
        self.refused(400, "DOMAIN_ALREADY_EXISTS", s.api, "POST", "/domains/v1/verifications", {"domain": "www.example.test"})

    def test_cancel_and_refusals(self):
        s = self.s
        v = s.api("POST", "/domains/v1/verifications", {"domain": "gone.example.test"})
        cancel = (s.api, "DELETE", "/domains/v1/verifications")
        self.refused(404, "VERIFICATION_NOT_FOUND", *cancel, {"domain": "gone.example.test", "verificationCode": "no"})
        self.assertEqual(s.api("DELETE", "/domains/v1/verifications", {"domain": "gone.example.test", "verificationCode": v["verificationCode"]}),
                         {"domain": "gone.example.test", "verificationCode": v["verificationCode"]})
        self.refused(404, "VERIFICATION_NOT_FOUND", *cancel, {"domain": "gone.example.test"})
        for bad in ("", "a", "a b.test", "x." + "a" * 300, "*.example.test", "a.style.dev", "b.pando.localhost", "10.0.0.1"):
            status, body = s.request("POST", "/domains/v1/verifications", {"domain": bad})
            self.assertEqual((status, body["code"]), (400, "INVALID_DOMAIN" if bad else "BAD_REQUEST"), bad)

    def test_names_below_a_verified_domain(self):
        s, vm = self.s, self.s.create()
        self.start_app(vm)
        self.verify(ZONE)
        for name in (ZONE, f"deep.down.{ZONE}", f"*.wild.{ZONE}"):
            self.map(name, vm)
        for name in (ZONE, f"deep.down.{ZONE}", f"any.wild.{ZONE}"):
            self.assertEqual(self.e.curl(f"https://{name}/echo").status, 200, name)
            self.assertIn("Pando local CA", self.leaf(name, self.ca))
        self.assertEqual(self.e.curl(f"http://other.{ZONE}/echo").status, 404)
        # another account that proves the same domain takes it over, and the names with it
        account = s.api("POST", "/v1/accounts", {"name": "new owner"})
        key = s.api("POST", f"/v1/keys?accountId={account['id']}", {"name": "k"})["key"]
        v = s.api("POST", "/domains/v1/verifications", {"domain": f"down.{ZONE}"}, key=key)
        self.knot.update(f"add {TXT}.down.{ZONE}. 1 TXT \"{v['verificationCode']}\"")
        s.api("PUT", "/domains/v1/verifications", {"id": v["id"]}, key=key)
        self.assertEqual(self.e.curl(f"http://deep.down.{ZONE}/echo").status, 404)
        self.refused(401, "DOMAIN_OWNERSHIP_NOT_VERIFIED", self.map, f"deep.down.{ZONE}", vm)
        self.assertEqual(self.e.curl(f"https://{ZONE}/echo").status, 200)
        # a wildcard certificate, of the local CA
        self.refused(403, "NO_DOMAIN_OWNERSHIP", s.api, "POST", "/domains/v1/certs/not.mine.test/wildcard")
        self.refused(403, "NO_DOMAIN_OWNERSHIP", s.api, "POST", f"/domains/v1/certs/{ZONE}/wildcard", key=key)
        self.assertEqual(s.api("POST", f"/domains/v1/certs/{ZONE}/wildcard"), {"domain": ZONE})
        self.assertIn(f"DNS:*.{ZONE}", self.leaf(f"anything.{ZONE}", self.ca))
        s.api("DELETE", f"/v1/accounts/{account['id']}")
        s.delete(vm)
        self.assertEqual(s.api("GET", "/domains/v1/mappings"), [])

    def test_records(self):
        s, zone = self.s, f"zone.{ZONE}"
        records = f"/dns/v1/records?domain={zone}"
        self.refused(403, "DOMAIN_OWNERSHIP_ERROR", s.api, "GET", records)
        self.verify(zone)
        self.assertTrue(next(d for d in s.api("GET", "/domains/v1/domains") if d["domain"] == zone)["manageDns"])
        self.assertEqual(s.api("GET", records), {"records": [], "nameServer": "ns1.pando.test"})
        self.assertEqual(self.dig(f"www.{zone}", "A")[0], "REFUSED")

        def add(kind, name, value, **more):
            return s.api("POST", "/dns/v1/records", {"domain": zone, "record": {"kind": kind, "name": name, "value": value, **more}})["record"]
        www = add("A", "www", "192.0.2.1", ttl="60")
        self.assertEqual({k: www[k] for k in ("kind", "name", "value", "ttl", "priority", "managed")},
                         {"kind": "A", "name": "www", "value": "192.0.2.1", "ttl": "60", "priority": None, "managed": False})
        add("A", f"WWW.{zone}.", "192.0.2.2")
        add("AAAA", "www", "2001:db8::1")
        add("CNAME", "alias", f"www.{zone}")
        add("TXT", "long", "x" * 1900)
        add("TXT", "@", 'v=spf1 "quoted" -all')
        self.assertEqual(add("MX", "@", "mail.example.org", priority=5)["priority"], 5)
        add("NS", "sub", "ns.example.org")
        add("A", "*.wild", "192.0.2.7")
        self.assertEqual(len(s.api("GET", records)["records"]), 9)
        status, answers, text = self.dig(f"www.{zone}", "A")
        self.assertEqual((status, sorted(answers)), ("NOERROR", ["192.0.2.1", "192.0.2.2"]))
        self.assertIn(" aa", text)
        self.assertEqual(self.dig(f"alias.{zone}", "AAAA")[1], [f"www.{zone}.", "2001:db8::1"])
        self.assertEqual(self.dig(f"any.wild.{zone}", "A", "+noedns")[1], ["192.0.2.7"])
        self.assertEqual(self.dig(zone, "MX")[1], ["5 mail.example.org."])
        self.assertEqual(self.dig(zone, "NS")[1], ["ns1.pando.test."])
        self.assertTrue(self.dig(zone, "SOA")[1][0].startswith(f"ns1.pando.test. hostmaster.{zone}. "))
        self.assertEqual(self.dig(zone, "TXT")[1], ['"v=spf1 \\"quoted\\" -all"'])
        self.assertEqual(self.dig(f"long.{zone}", "TXT")[1][0].count("x"), 1900)  # cut short over UDP, whole over TCP
        self.assertIn("TCP", self.dig(f"long.{zone}", "TXT")[2])
        self.assertEqual(self.dig(f"nobody.{zone}", "A")[0], "NXDOMAIN")
        self.assertEqual(self.dig(f"www.{zone}", "A", "+tcp")[0], "NOERROR")
        status, answers, text = self.dig(f"a.sub.{zone}", "A")
        self.assertEqual((status, answers, "ns.example.org." in text), ("NOERROR", [], True))
        self.assertEqual(self.dig("example.org", "A")[0], "REFUSED")
        # the package, as far as it can
        self.refused(400, "BAD_REQUEST", s.api, "DELETE", records + "&record=%5Bobject+Object%5D")
        for bad in ({"kind": "A", "name": "x", "value": "nonsense"}, {"kind": "LOC", "name": "x", "value": "1"}, {"kind": "A", "name": "a b", "value": "192.0.2.1"},
                    {"kind": "A", "name": "x", "value": "192.0.2.1", "ttl": "0"}):
            self.refused(400, "INVALID_PARAMETERS", s.api, "POST", "/dns/v1/records", {"domain": zone, "record": bad})
        for bad in ({"kind": "A", "name": "x", "value": "192.0.2.1", "ttl": "soon"}, {"name": "x"}, "x"):
            self.refused(400, "BAD_REQUEST", s.api, "POST", "/dns/v1/records", {"domain": zone, "record": bad})
        self.refused(409, "CONFLICT", add, "A", "alias", "192.0.2.1")
        # nobody else's
        account = s.api("POST", "/v1/accounts", {"name": "dns other"})
        other = s.api("POST", f"/v1/keys?accountId={account['id']}", {"name": "k"})["key"]
        body = {"domain": zone, "record": {"kind": "A", "name": "evil", "value": "192.0.2.66"}}
        self.refused(403, "DOMAIN_OWNERSHIP_ERROR", s.api, "GET", records, key=other)
        self.refused(403, "DOMAIN_OWNERSHIP_ERROR", s.api, "POST", "/dns/v1/records", body, key=other)
        self.refused(403, "DOMAIN_OWNERSHIP_ERROR", s.api, "DELETE", f"{records}&recordId={www['id']}", key=other)
        # gone again; records of a restart are those of before
        s.api("DELETE", f"{records}&recordId={www['id']}")
        self.refused(403, "RECORD_OWNERSHIP_ERROR", s.api, "DELETE", f"{records}&recordId={www['id']}")
        s.api("DELETE", records + "&record=" + urllib.parse.quote(json.dumps({"kind": "AAAA", "name": "www", "value": "2001:db8::1"})))
        self.assertEqual(self.dig(f"www.{zone}", "A")[1], ["192.0.2.2"])
        s.restart()
        self.assertEqual(self.dig(f"www.{zone}", "A")[1], ["192.0.2.2"])
        self.assertEqual(self.dig(f"www.{zone}", "AAAA")[:2], ("NOERROR", []))
        # who takes the domain over finds it empty
        v = s.api("POST", "/domains/v1/verifications", {"domain": zone}, key=other)
        self.knot.update(f"add {TXT}.{zone}. 1 TXT \"{v['verificationCode']}\"")
        s.api("PUT", "/domains/v1/verifications", {"id": v["id"]}, key=other)
        self.assertEqual(self.dig(f"www.{zone}", "A")[0], "REFUSED")
        s.api("POST", "/dns/v1/records", body, key=other)
        self.assertEqual(self.dig(f"evil.{zone}", "A")[1], ["192.0.2.66"])
        s.api("DELETE", f"/v1/accounts/{account['id']}")
        self.assertEqual(self.dig(f"evil.{zone}", "A")[0], "REFUSED")

    def test_questions_that_are_none(self):
        """No input stops the name server, and only queries are answered."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
            u.connect(("127.0.0.1", self.dns_port))
            for i in range(200):
                u.send(os.urandom(i) or b"x")
        idle = [socket.create_connection(("127.0.0.1", self.dns_port), timeout=30) for _ in range(80)]  # more than it keeps
        for c in idle[:20]:
            c.sendall(b"\xff\xff" + b"x" * 100)
        self.assertEqual(self.dig("example.org", "A")[0], "REFUSED")  # UDP goes on meanwhile
        for c in idle:
            c.close()
        wait_for("TCP is answered again", lambda: self.dig("example.org", "A", "+tcp")[0] == "REFUSED", 60)

    def pando(self, *args, code=0):
        env = {**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}
        r = subprocess.run([PANDO, "domain", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r.stdout if code == 0 else r.stderr

    def test_the_command(self):
        domain, vm = f"cli.{ZONE}", self.s.create(name="cli-domains")
        code = re.search(rf"{TXT}\.{domain}  TXT  (\w+)", self.pando("verify", domain))[1]
        self.assertIn(code, self.pando("verifications"))
        self.assertIn("OWNERSHIP_VERIFICATION_FAILED", self.pando("complete", domain, code=4))
        self.pando("cancel", domain)
        self.assertNotIn(domain, self.pando("verifications"))
        v = json.loads(self.pando("verify", domain, "--json"))
        self.knot.update(f"add {TXT}.{domain}. 1 TXT \"{v['verificationCode']}\"")
        self.assertIn("is verified", self.pando("complete", v["id"]))
        self.assertIn(domain, self.pando("list"))
        self.assertIn("is mapped to port 8080", self.pando("map", f"app.{domain}", "cli-domains", "-p", "8080"))
        self.assertIn("port 3000", self.pando("map", "cli-domains.style.dev", vm))
        said = self.pando("map", "www.example.org", vm, code=4)
        self.assertIn("DOMAIN_OWNERSHIP_NOT_VERIFIED", said)
        self.assertNotIn("key", said)
        self.assertEqual(json.loads(self.pando("mappings", "--domain", f"app.{domain}", "--json"))[0]["vmPort"], 8080)
        self.pando("unmap", "cli-domains.style.dev")
        self.assertNotIn("style.dev", self.pando("mappings"))
        self.assertIn(f"*.{domain}", self.pando("wildcard", domain))
        record = self.pando("record-add", domain, "www", "A", "192.0.2.9", "--ttl", "5m").strip()
        self.pando("record-add", domain, "@", "MX", "mail.example.org", "--priority", "7")
        table = self.pando("records", domain)
        self.assertRegex(table, rf"www +A +192\.0\.2\.9 +300 .*{record}")
        self.assertIn("served by ns1.pando.test", table)
        self.assertEqual(self.dig(f"www.{domain}", "A")[1], ["192.0.2.9"])
        self.pando("record-delete", domain, record)
        self.assertEqual(self.dig(f"www.{domain}", "A")[0], "NXDOMAIN")
        self.pando("record-add", domain, "x", "A", "nonsense", code=1)
        self.pando("map", code=2)
        self.s.delete(vm)

    @limit(200)
    def test_the_package_completes(self):
        if not os.path.isdir(os.path.join(SDK, "node_modules/freestyle")):
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=SDK, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=110)
        env = {**os.environ, "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key()}

        def node(text):
            r = subprocess.run(["node", "--input-type=module", "-e", 'import { freestyle } from "freestyle";' + text], cwd=SDK, env=env,
                               capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            return json.loads(r.stdout)
        domain = f"package.{ZONE}"
        made = node(f'const v = await freestyle.domains.verifications.create({{ domain: "{domain}" }}); '
                    'console.log(JSON.stringify(await freestyle.domains.verifications.list()));')
        code = next(v["verificationCode"] for v in made if v["domain"] == domain)
        self.knot.update(f"add {TXT}.{domain}. 1 TXT \"{code}\"")
        self.assertEqual(node(f'console.log(JSON.stringify(await freestyle.domains.verifications.complete({{ domain: "{domain}" }})));')["domain"], domain)
        self.assertIn(domain, json.dumps(node("console.log(JSON.stringify(await freestyle.domains.list()));")))
        made = node(f'const d = {{ domain: "{domain}", record: {{ kind: "A", name: "www", value: "192.0.2.4" }} }}; await freestyle.dns.records.create(d); '
                    f'const refused = await freestyle.dns.records.delete(d).then(() => "", (e) => e.message); '
                    f'console.log(JSON.stringify([await freestyle.dns.records.list({{ domain: "{domain}" }}), refused]));')
        self.assertEqual([(r["kind"], r["name"], r["value"], r["ttl"]) for r in made[0]["records"]], [("A", "www", "192.0.2.4", "300")])
        self.assertIn("does not name a record", made[1])

    def test_zy_no_name_server(self):
        v = self.s.api("POST", "/domains/v1/verifications", {"domain": "late.example.test"})
        self.knot.close()
        status, body = self.s.request("PUT", "/domains/v1/verifications", {"id": v["id"]})
        self.assertEqual((status, body["code"]), (500, "FAILED_TO_VERIFY_DOMAIN"))


HOOK = """#!/bin/sh
# what an operator's hook for dns-01 looks like: METHOD TYPE NAME TOKEN VALUE
case $1 in
begin) verb=add ;;
*) verb=del ;;
esac
printf 'server %s\\nzone {zone}.\\n%s _acme-challenge.%s. 1 TXT "%s"\\nsend\\nquit\\n' {address} $verb "$3" "$5" | knsupdate -v
"""


class Acme(Dns):
    """pebble is the ACME server; it resolves names with knot and asks the edge's plain port."""
    limit_s = 240
    pebble = None

    @classmethod
    def make_server(cls):
        cls.pebble = Pebble(f"{ADDRESS}:53")
        hook = cls.pebble.at("hook")
        with open(hook, "w") as f:
            f.write(HOOK.format(zone=ZONE, address=ADDRESS))
        os.chmod(hook, 0o755)
        cls.s = Server(env={"PANDO_RESOLVER": ADDRESS, "PANDO_ACME_URL": cls.pebble.url,
                            "PANDO_ACME_EMAIL": "operator@example.test", "PANDO_ACME_DNS_HOOK": hook})
        cls.pebble.start(cls.s)
        cls.pebble.trusted_by(cls.s)
        cls.s.start()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if cls.pebble:
            cls.pebble.close()

    def issued(self, name):
        return "Pebble" in self.leaf(name)

    def test_http_01(self):
        type(self).vm = self.s.create()
        self.verify(ZONE)
        self.map(f"shop.{ZONE}", self.vm)
        wait_for("ACME certified the name", lambda: self.issued(f"shop.{ZONE}"), 120, 0.5)
        self.assertIn(f"DNS:shop.{ZONE}", self.leaf(f"shop.{ZONE}"))
        self.assertIn("Pando local CA", self.leaf("preview.style.dev", self.ca), "preview names are the local CA's")

    def test_wildcard_by_dns_01(self):
        self.assertFalse(self.issued(f"one.{ZONE}"))
        self.assertEqual(self.s.api("POST", f"/domains/v1/certs/{ZONE}/wildcard", timeout=200), {"domain": ZONE})
        text = self.leaf(f"one.{ZONE}")
        self.assertIn("Pebble", text)
        self.assertIn(f"DNS:*.{ZONE}", text)
        self.assertIsNone(next(iter(self.knot.ask(f"_acme-challenge.{ZONE}") or []), None), "the hook left its record behind")

    def test_keys_are_secret_and_survive(self):
        top = os.path.join(self.s.dir, "certs")
        keys = [os.path.join(at, n) for at, _, names in os.walk(top) for n in names if n.endswith("key.pem") and "acme" in at]
        self.assertEqual(len(keys), 4)  # two accounts', two names'
        for path in keys:
            self.assertEqual(os.stat(path).st_mode & 0o077, 0, path)
        before = self.leaf(f"shop.{ZONE}")
        self.s.restart()
        self.assertEqual(self.leaf(f"shop.{ZONE}"), before)
        self.assertIn("Pebble", before)
        self.s.delete(self.vm)

    @limit(400)
    @long
    def test_renewal(self):
        """Certificates that live for 90 seconds are replaced before their end."""
        self.pebble.end()
        self.pebble.validity = 90
        self.pebble.start(self.s)
        vm = self.s.create()
        self.verify(f"short.{ZONE}")
        self.knot.update(f"add *.short.{ZONE}. 1 A 127.0.0.1")  # the record above ends what *.ZONE covers
        self.map(f"a.short.{ZONE}", vm)
        wait_for("ACME certified the name", lambda: self.issued(f"a.short.{ZONE}"), 120, 0.5)

        def serial():
            with open(os.path.join(self.s.dir, f"certs/acme/a.short.{ZONE}/cert.pem")) as f:
                return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=f.read(), capture_output=True, text=True).stdout
        before = serial()
        wait_for("the certificate is renewed", lambda: serial() != before, 240, 0.5)
        self.s.delete(vm)

    def test_zy_helpers_end(self):
        self.pebble.end()
        self.knot.close()
