# SPDX-License-Identifier: Apache-2.0
"""A VM reaches its own platform: git, API, the SDK, its own and other VMs' names, under its policy, without circles"""
import base64
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile
import tempfile

import node
from case import limit, wait_for
from git_checks import GitTools
from harness import ROOT
from test_edge import EdgeBase

SDK = os.path.join(ROOT, "tests/sdk")
BASE = "pando.localhost"
FETCH = "fetch('{}').then(r => r.text()).then(console.log, e => {{ console.log(e, e.cause); process.exit(1) }})"
PYTHON = "import urllib.request as u; print(u.urlopen('{}').read().decode())"
ASK = ("import http.client, ssl, sys\n"
       "c = http.client.HTTP{s}Connection('{connect}', timeout=60{context})\n"
       "c.request('GET', '{path}', headers={headers})\n"
       "r = c.getresponse()\n"
       "print(r.status, r.read().decode())\n")
# Passes every request on to where it is told, with the fields it came with.
PROXY = """
import http.client, http.server, ssl, sys
class P(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        c = http.client.HTTPSConnection(sys.argv[2], timeout=300)
        c.request("GET", self.path, headers={k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")})
        r = c.getresponse()
        body = r.read()
        self.send_response(r.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), P).serve_forever()
"""
LIMIT = """
import socket
held, refused = [], 0
for i in range(136):
    s = socket.create_connection(("10.0.0.1", 443), 60)
    s.settimeout(60)
    held.append(s)
for s in held:
    s.setblocking(False)
import time
end = time.monotonic() + 60
while refused < 8 and time.monotonic() < end:
    refused = 0
    for s in held:
        try:
            if s.recv(1) == b"": refused += 1
        except BlockingIOError: pass
        except OSError: refused += 1
    time.sleep(0.2)
print(refused)
"""


class InsideBase(GitTools, EdgeBase):
    """As `make run` has it: VMs are kept ready, the domain is below localhost, listeners have other ports."""
    server_env = {"PANDO_POOL": "2", "PANDO_BLANKS": "2"}
    keeps_specs = True
    limit_s = 300

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()
        wait_for("a VM is ready", lambda: cls.s.made_ahead()[1] >= 1, 90)
        cls.vm = cls.s.create()

    def setUp(self):
        self.port, self.key, self.data_dir = self.s.port, self.s.key(), self.s.dir
        self.make_top()

    @classmethod
    def put(cls, vm, path, data, mode=0o644):
        c = base64.b64encode(data).decode()
        cls.s.api("PUT", f"/v1/vms/{vm}/files/{path.replace('/', '%2F')}", {"content": c, "encoding": "base64"})
        if mode != 0o644:
            cls.s.sh(vm, f"chmod {mode:o} {path}")

    def ask(self, vm, connect, path="/echo", tls=True, **headers):
        """(status, body) of a request by Python in the guest."""
        text = ASK.format(s="S" if tls else "", connect=connect, path=path, headers=repr(headers),
                          context=", context=ssl.create_default_context()" if tls else "")
        self.put(vm, "/tmp/ask.py", text.encode())
        status, body = self.s.sh(vm, "python3 /tmp/ask.py").split(" ", 1)
        return int(status), body


class Inside(InsideBase):
    def test_programs_find_and_trust_it(self):
        """Without a word of configuration: libc, wget, Python, Node, a cell of either, a service, another user."""
        s, vm = self.s, self.vm
        url = f"https://api.{BASE}/v1/health"
        self.assertEqual(s.sh(vm, f"getent ahostsv4 git.{BASE} | head -1").split()[0], "10.0.0.1")
        self.assertEqual(s.sh(vm, f"getent ahosts {vm} | head -1").split()[0], "10.0.0.2")
        s.sh(vm, "useradd -m dev")
        for command in (f"wget -qO- {url}", f"wget -qO- http://api.{BASE}/v1/health", f'python3 -c "{PYTHON.format(url)}"',
                        f'node -e "{FETCH.format(url)}"', f"sudo -u dev wget -qO- {url}",
                        f"python3 -c \"import pip._vendor.requests as r; print(r.get('{url}').text)\"",
                        f"openssl s_client -connect api.{BASE}:443 -servername api.{BASE} -verify_return_error -brief </dev/null && wget -qO- {url}"):
            with self.subTest(command):
                self.assertEqual(json.loads(s.sh(vm, command).splitlines()[-1])["status"], "ok")
        self.assertIn("NODE_EXTRA_CA_CERTS=/", s.sh(vm, "systemd-run -q --wait --pipe env"))
        for language, code in (("python", PYTHON.format(url)), ("javascript", f"await (await fetch('{url}')).text()")):
            with self.subTest(language):
                r = s.api("POST", f"/v1/vms/{vm}/code", {"code": code, "language": language, "timeoutMs": 240000}, timeout=300)
                self.assertIn('"status":"ok"', json.dumps(r).replace("\\", "").replace(" ", ""), r)

    def test_git_with_a_token(self):
        """Clone, push and large files by exec, with nothing but a token."""
        s, vm, repo = self.s, self.vm, self.new()
        self.commit(repo, {"a.txt": "one\n"})
        _, token, _ = self.identity(repo, "write")
        url = f"https://x-access-token:{token}@git.{BASE}/{repo}"
        me = "git config --global user.name A; git config --global user.email a@example.org; "
        s.sh(vm, f"{me} git clone -q {url} /root/w && cd /root/w && echo two >b.txt && git add -A && git commit -qm two && git push -q")
        w = self.work(repo)
        with open(os.path.join(w, "b.txt")) as f:
            self.assertEqual(f.read(), "two\n")
        self.put(vm, "/usr/local/bin/git-lfs", open(shutil.which("git-lfs"), "rb").read(), 0o755)
        s.sh(vm, "cd /root/w && git lfs install --local >/dev/null && git lfs track '*.bin' && head -c 300000 /dev/urandom >l.bin && "
                 "git add -A && git commit -qm large && git push -q 2>&1")
        self.assertEqual(s.sh(vm, f"git clone -q {url} /root/w2 && cd /root/w2 && git lfs install --local >/dev/null && git lfs pull && "
                                  "cmp l.bin ../w/l.bin && wc -c <l.bin && git show HEAD:l.bin | head -1").splitlines(),
                         ["300000", "version https://git-lfs.github.com/spec/v1"])
        self.assertEqual(s.run(vm, f"git ls-remote https://x-access-token:wrong@git.{BASE}/{repo}").code, 128)

    def test_clone_of_a_spec_can_be_pulled(self):
        repo = self.new()
        self.commit(repo, {"a.txt": "one\n"})
        vm = self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, "gitRepos": [{"repo": repo, "path": "/srv/app"}]}, timeout=400)["id"]
        _, token, _ = self.identity(repo, "read")
        second = self.commit(repo, {"a.txt": "two\n"})["sha"]
        auth = base64.b64encode(f"x:{token}".encode()).decode()
        self.assertEqual(self.s.sh(vm, f"cd /srv/app && git -c http.extraHeader='Authorization: Basic {auth}' pull -q && git rev-parse HEAD"), second)
        self.s.delete(vm)

    @limit(500)
    def test_sdk_with_an_access_token(self):
        """The unmodified package in the guest, with a token that may use this one VM; the audit log says which VM it was."""
        s, vm = self.s, self.vm
        node.install(self, SDK)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as t:
            t.add(os.path.join(SDK, "node_modules/freestyle"), "root/sdk/node_modules/freestyle")
        self.put(vm, "/tmp/sdk.tgz", packed.getvalue())
        s.sh(vm, "tar -xzf /tmp/sdk.tgz -C /")
        identity = self.call("POST", "/identity/v1/identities")["id"]
        self.call("POST", f"/identity/v1/identities/{identity}/permissions/vm/{vm}", {})
        token = self.call("POST", f"/identity/v1/identities/{identity}/tokens")["token"]
        script = ("import { Freestyle } from 'freestyle';\n"
                  f"const f = new Freestyle({{ baseUrl: 'https://api.{BASE}', accessToken: process.argv[2] }});\n"
                  f"const vm = f.vms.ref ? f.vms.ref({{ vmId: '{vm}' }}) : (await f.vms.get({{ vmId: '{vm}' }})).vm;\n"
                  "console.log(JSON.stringify(await vm.exec('cat /etc/hostname; hostname')));\n")
        self.put(vm, "/root/sdk/a.mjs", script.encode())
        self.assertIn(vm, s.sh(vm, f"cd /root/sdk && node a.mjs {token}"))
        said = [r for r in self.call("GET", "/v1/audit")["records"] if r.get("identityId") == identity or r.get("identity") == identity]
        self.assertTrue(said)
        self.assertEqual({r["remote"] for r in said}, {f"vm:{vm}"}, said)

    def test_own_name_and_siblings(self):
        s, vm = self.s, self.vm
        other = s.create()
        for v, name in ((vm, "one"), (other, "two")):
            self.start_app(v)
            self.map(f"{name}.{BASE}", v)
        self.start_app(other, 3000)
        seen = {}
        for v, host, tls in ((vm, f"one.{BASE}", True), (vm, f"two.{BASE}", False), (other, f"one.{BASE}", True), (vm, f"{other}.{BASE}", True)):
            with self.subTest(f"{v} asks {host}"):
                status, body = self.ask(v, host, tls=tls, **{"X-Pando-Edge": "me", "X-Pando-Vm": "me", "X-Forwarded-For": "1.2.3.4"})
                got = {k.lower(): x for k, x in json.loads(body)["headers"]}
                self.assertEqual((status, got["x-pando-hops"], got["x-forwarded-proto"]), (200, "1", "https" if tls else "http"))
                self.assertRegex(got["x-forwarded-for"], r"^fd50:.*::2$")
                self.assertEqual(seen.setdefault(v, got["x-forwarded-for"]), got["x-forwarded-for"])
                self.assertFalse({"x-pando-edge", "x-pando-vm"} & set(got), got)
                self.assertNotIn(v, json.dumps({k: x for k, x in got.items() if k not in ("host", "x-forwarded-host")}))
        self.assertEqual(len(set(seen.values())), 2)
        # a sleeping one is woken
        s.post(other, "suspend")
        self.assertEqual(self.ask(vm, f"two.{BASE}")[0], 200)
        status, body = self.ask(vm, f"nobody.{BASE}")
        self.assertEqual((status, json.loads(body)["code"]), (404, "DOMAIN_NOT_MAPPED"))
        s.delete(other)

    def test_a_circle_is_cut(self):
        """A program that passes requests on to its own public name ends with a sentence, not with the VM's last connection."""
        s, vm = self.s, self.vm
        self.put(vm, "/root/proxy.py", PROXY.encode())
        self.map(f"loop.{BASE}", vm, 8010)
        s.sh(vm, f"setsid python3 /root/proxy.py 8010 loop.{BASE} </dev/null >/dev/null 2>&1 & "
                 "timeout 60 sh -c 'until ss -Hltn sport = :8010 | grep -q .; do sleep 0.1; done'")
        status, body = self.ask(vm, f"loop.{BASE}")
        self.assertEqual((status, json.loads(body)["code"]), (508, "LOOP_DETECTED"), body)
        self.assertIn("circles", self.e.curl(f"https://loop.{BASE}/", "-H", "Accept: text/html").body.decode())

    def remote_of(self, key):
        """Who deleted that key, says the audit log."""
        def found():
            return [r["remote"] for r in self.call("GET", "/v1/audit")["records"] if r["method"] == "DELETE" and key in r.get("target", "")]
        return wait_for(f"the record of {key}", found, 10)[0]

    def test_forgers(self):
        """What a guest says of itself does not count, and ports of the gateway that are not names lead nowhere."""
        s, vm = self.s, self.vm
        key = self.call("POST", "/v1/keys", {"name": "forger"})
        s.sh(vm, f"wget -qO- --method=DELETE --header='X-Pando-Vm: {'0' * 32}' --header='Authorization: Bearer {self.key}' "
                 f"https://api.{BASE}/v1/keys/{key['id']}")
        self.assertEqual(self.remote_of(key["id"]), f"vm:{vm}")
        # from outside nobody is a VM
        second = self.call("POST", "/v1/keys", {"name": "forger"})
        self.call("DELETE", f"/v1/keys/{second['id']}", headers={"X-Pando-Vm": "0" * 32})
        self.assertEqual(self.remote_of(second["id"]), "127.0.0.1")
        closed = s.sh(vm, "for p in 22 25 3129 " + f"{self.s.port} {self.s.edge_port} {self.s.edge_http_port}" +
                      "; do timeout 3 bash -c \"</dev/tcp/10.0.0.1/$p\" 2>/dev/null && echo $p; done; true")
        self.assertEqual(closed, "")
        self.assertEqual(self.ask(vm, "10.0.0.1", tls=False)[0], 404)

    def test_one_vm_does_not_take_all_connections(self):
        other = self.s.create()
        self.put(other, "/root/limit.py", LIMIT.encode())
        self.assertEqual(self.s.sh(other, "python3 /root/limit.py", timeout_ms=300000), "8")  # 128 stay
        self.assertEqual(json.loads(self.s.sh(self.vm, f"wget -qO- https://api.{BASE}/v1/health"))["status"], "ok")
        self.s.delete(other)

    def test_policy(self):
        """As for any other name: denied, allowed, closed; by its name in the connection, not by who else is there."""
        s = self.s
        vm = s.create(egress={"mode": "rules", "rules": [{"action": "deny", "domain": f"git.{BASE}"}, {"action": "allow", "domain": f"*.{BASE}"}]})
        git, api = f"https://git.{BASE}/v1/health", f"https://api.{BASE}/v1/health"
        s.sh(vm, f"wget -qO- {api}")
        self.assertNotEqual(s.run(vm, f"wget -qO- --tries=1 {git}").code, 0)
        by_address = "wget -qO- --tries=1 --no-check-certificate --header='Host: {}' https://10.0.0.1/v1/health"
        self.assertNotEqual(s.run(vm, by_address.format(f"git.{BASE}")).code, 0)
        self.assertNotEqual(s.run(vm, f"wget -qO- --tries=1 --header='Host: git.{BASE}' http://10.0.0.1/v1/health").code, 0)
        # a connection that was allowed for one name is of no use for another
        self.assertEqual(self.ask(vm, f"api.{BASE}", "/v1/health", Host=f"git.{BASE}")[0], 421)
        blocked = s.api("GET", f"/v1/vms/{vm}/egress/blocked")["blocked"]
        self.assertIn(("dns", f"git.{BASE}"), {(b["kind"], b.get("domain")) for b in blocked})
        # a change takes hold at once, also of an open connection
        s.sh(vm, "cat >/root/hold.py <<'X'\nimport http.client\n"
                 f"c = http.client.HTTPSConnection('api.{BASE}', timeout=120)\n"
                 "c.request('GET', '/v1/health'); c.getresponse().read()\nopen('/root/held', 'w').close()\n"
                 "print(repr(c.sock.recv(1)), flush=True)\nX\n"
                 "setsid python3 /root/hold.py </dev/null >/root/hold.out 2>&1 & timeout 100 sh -c 'until [ -e /root/held ]; do sleep 0.1; done'")
        s.api("PUT", f"/v1/vms/{vm}/egress", {"mode": "closed"})
        self.assertRegex(s.sh(vm, "timeout 60 sh -c 'until [ -s /root/hold.out ]; do sleep 0.1; done'; cat /root/hold.out"), "b''|Reset|reset")
        self.assertNotEqual(s.run(vm, f"wget -qO- --tries=1 {api}").code, 0)
        self.assertNotEqual(s.run(vm, by_address.format(f"api.{BASE}")).code, 0)
        s.api("PUT", f"/v1/vms/{vm}/egress", {"mode": "open"})
        s.sh(vm, f"wget -qO- {git}")
        s.delete(vm)

    def test_after_resume_and_in_a_fork(self):
        s, vm = self.s, self.vm
        url = f"https://api.{BASE}/v1/health"
        s.post(vm, "suspend")
        s.sh(vm, f"wget -qO- {url}")
        child = s.fork(vm)[0]
        s.sh(child, f"wget -qO- {url}")
        self.assertEqual(s.sh(child, "grep -c BEGIN /usr/local/share/ca-certificates/pando-local.crt"), "1")
        s.delete(child)


class InsideAliases(InsideBase):
    """Names of others that lead here from inside. The base domain is a real one, its certificate signed by somebody VMs do not know."""

    @classmethod
    def setUpClass(cls):
        cls.top_dir = tempfile.mkdtemp(prefix="pando-given-")
        cert, key = (os.path.join(cls.top_dir, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", key, "-out", cert, "-subj", "/CN=somebody", "-addext", "subjectAltName=DNS:pando.test,DNS:*.pando.test"],
                       check=True, capture_output=True)
        for path in (cls.top_dir, key, cert):
            os.chmod(path, 0o755)  # pandod has a user of its own
        cls.given = cert
        cls.server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "2", "PANDO_DOMAIN": "pando.test", "PANDO_TLS_CERT": cert, "PANDO_TLS_KEY": key,
                          "PANDO_ALIAS_NAMES": "git.freestyle.test api.freestyle.test *.style.test"}
        try:
            super(InsideBase, cls).setUpClass()
            cls.use_edge()
            cls.vm = cls.s.create()
        except BaseException:
            shutil.rmtree(cls.top_dir)
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.top_dir)

    def test_aliases(self):
        s, vm, repo = self.s, self.vm, self.new()
        self.commit(repo, {"a.txt": "one\n"})
        self.start_app(vm)
        self.map("app.pando.test", vm)
        for host in ("api.pando.test", "api.freestyle.test", "git.freestyle.test"):
            self.assertEqual(json.loads(s.sh(vm, f"curl -sS https://{host}/v1/health"))["status"], "ok")
        self.assertEqual(self.e.curl("https://api.pando.test/v1/health", "--cacert", self.given).status, 200)
        self.assertEqual(json.loads(s.sh(vm, "curl -sS https://app.style.test/echo"))["line"], "GET /echo HTTP/1.1")
        self.assertEqual(s.sh(vm, f"git clone -q https://x:{self.key}@git.freestyle.test/{repo} /root/w && cat /root/w/a.txt"), "one")
        self.assertEqual(s.sh(vm, "curl -sS -o /dev/null -w '%{http_code}' https://nobody.style.test/"), "404")
        # another's name is not ours: neither below it nor beside it
        for name in ("freestyle.test", "www.freestyle.test", "a.b.style.test"):
            self.assertNotEqual(s.run(vm, f"getent hosts {name}").out.split()[:1], ["10.0.0.1"])

    def test_not_for_strangers(self):
        """From outside an alias leads nowhere, and its certificate is shown to nobody."""
        names = ("git.freestyle.test", "app.style.test")
        for name in names:
            self.s.sh(self.vm, f"curl -sS -o /dev/null https://{name}/")  # it has been made
            self.assertEqual(self.e.curl(f"http://{name}/").status, 404)
            context = ssl.create_default_context(cafile=self.ca)
            with socket.create_connection(("127.0.0.1", self.tls_port), 60) as c, self.assertRaises(ssl.SSLCertVerificationError):
                context.wrap_socket(c, server_hostname=name)
        self.s.stop()
        self.s.start()  # what is found on disk at a start does not count, either
        for name in names:
            with socket.create_connection(("127.0.0.1", self.tls_port), 60) as c, self.assertRaises(ssl.SSLCertVerificationError):
                ssl.create_default_context(cafile=self.ca).wrap_socket(c, server_hostname=name)
