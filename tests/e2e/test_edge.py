# SPDX-License-Identifier: Apache-2.0
"""Names that lead to ports of VMs: TLS, HTTP/1.1 and HTTP/2, bodies, WebSockets, waking, error pages, hostile clients"""
import base64
import io
import json
import os
import signal
import subprocess
import tarfile
import threading
import time

import host
import node
from case import AS_MAKE_RUN, Case, limit, long, wait_for
from edge_checks import Checks, Edge, read_until_closed
from harness import ROOT

APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edge_app.py")
PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")
PORT = 8000


class EdgeBase(Case):
    limit_s = 240

    @classmethod
    def start_app(cls, vm, port=PORT):
        with open(APP, "rb") as f:
            body = {"content": base64.b64encode(f.read()).decode(), "encoding": "base64"}
        cls.s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fedge_app.py", body)
        cls.s.sh(vm, f"setsid python3 /root/edge_app.py {port} </dev/null >/root/app-{port}.log 2>&1 & "
                     f"timeout 60 sh -c 'until [ -s /root/app-{port}.log ]; do sleep 0.1; done'", timeout_ms=90000)

    @classmethod
    def map(cls, domain, vm, port=PORT):
        return cls.s.api("POST", f"/domains/v1/mappings/{domain}", {"domain": domain, "vmId": vm, "vmPort": port})

    @classmethod
    def use_edge(cls):
        cls.tls_port, cls.http_port = cls.s.edge_port, cls.s.edge_http_port
        cls.ca = os.path.join(cls.s.dir, "certs/ca.crt")
        cls.e = Edge(cls.tls_port, cls.http_port, cls.ca)


class Edges(Checks, EdgeBase):
    server_env = AS_MAKE_RUN

    host = "app.pando.localhost"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()
        cls.vm = cls.s.create()
        cls.start_app(cls.vm)
        cls.map(cls.host, cls.vm)

    def edge_pid(self):
        """The process behind the edge's address, which is not pandod."""
        return next((pid for pid in self.s.descendants() if os.path.basename(host.exe(pid) or "") == "pando-edge"), None)

    def test_its_process_is_killed(self):
        """VMs, API and what they have under way go on; requests work again within moments, also those by TLS."""
        s = self.s
        pid, pandod, before = self.edge_pid(), s.pandod_pid(), s.api("GET", "/v1/health")["edge"]
        ran = []
        command = threading.Thread(target=lambda: ran.append(s.sh(self.vm, "sleep 3; cat /proc/sys/kernel/random/boot_id")))
        boot = s.sh(self.vm, "cat /proc/sys/kernel/random/boot_id")
        command.start()
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(s.api("GET", f"/v1/vms/{self.vm}")["state"], "running")
        wait_for("another process", lambda: self.edge_pid() not in (pid, None), 30)
        for scheme in ("http", "https"):
            self.assertEqual(self.e.curl(f"{scheme}://{self.host}/echo").status, 200)
        self.assertEqual(self.e.curl("https://api.pando.localhost/v1/health").status, 200)
        command.join()
        self.assertEqual((ran, s.pandod_pid()), ([boot], pandod))
        after = s.api("GET", "/v1/health")["edge"]
        self.assertEqual((after["starts"], after["running"]), (before["starts"] + 1, True))

    def test_its_process_is_walled_in(self):
        """It runs as pandod does, without what pandod has: files, ways to pando-priv, system calls that make sockets."""
        pid = self.edge_pid()
        with open(f"/proc/{pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)), ("2", "1", 0))
        self.assertNotEqual(status["Uid"].split()[0], "0")
        opened = {os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{pid}/fd")}
        self.assertEqual(opened - {"/dev/null", "socket", "pipe", "anon_inode"}, set())
        with open(f"/proc/{pid}/maps") as f:
            self.assertNotIn("sqlite", f.read())

    def access(self, part, query=None, **kw):
        """Lines of the access log whose path has that part."""
        lines = self.s.api("GET", "/observability/v1/logs?" + (query or f"domain={self.host}"), **kw)["logs"]
        return [line["access"] for line in lines if part in line["access"]["path"]]

    def wait_access(self, part, n, query=None):
        wait_for(f"{n} lines of the access log", lambda: len(self.access(part, query)) >= n, 30)
        return self.access(part, query)

    def test_access_log(self):
        """Requests of a name and of a VM, for its owner alone; it goes on when the edge's process does not."""
        s = self.s
        s.post(self.vm, "suspend")
        body = len(self.e.curl(self.url("/seen-1?token=secret"), "--http2").body)
        first, = self.wait_access("/seen-", 1)
        self.assertEqual({k: first[k] for k in ("method", "host", "path", "protocol", "tls", "status", "bytesOut", "client", "wokeVm", "error")},
                         {"method": "GET", "host": self.host, "path": "/seen-1", "protocol": "HTTP/2", "tls": True, "status": 200,
                          "bytesOut": body, "client": "127.0.0.1", "wokeVm": True, "error": None})
        env = {**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{s.port}", "PANDO_API_KEY": s.key()}
        follow = subprocess.Popen([PANDO, "logs", "-d", self.host, "-f", "--json"], env=env, stdout=subprocess.PIPE, text=True)
        self.addCleanup(follow.stdout.close)
        self.addCleanup(follow.wait)
        self.addCleanup(follow.kill)
        for line in follow.stdout:
            if json.loads(line)["access"]["path"] == "/seen-1":
                break
        os.kill(self.edge_pid(), signal.SIGKILL)
        wait_for("another process answers", lambda: self.e.curl(self.url("/again")).status == 200, 30)
        self.map("log-silent.style.dev", self.vm, 9)
        self.e.curl("https://log-silent.style.dev/seen-2")
        # port 3000, on which a test may have started something
        own = (200, None) if self.e.curl(f"http://{self.vm}.style.dev/seen-3").status == 200 else (502, "NOTHING_LISTENS")
        self.e.curl(self.url("/seen-4"), "-X", "POST", "-d", "12345")
        query = f"vmId={self.vm}&source=access"
        self.assertEqual(sorted((a["path"], a["status"], a["error"], a["bytesIn"]) for a in self.wait_access("/seen-", 4, query)), [
            ("/seen-1", 200, None, 0), ("/seen-2", 502, "NOTHING_LISTENS", 0), ("/seen-3", *own, 0), ("/seen-4", 200, None, 5)])
        self.assertEqual([a["path"] for a in self.access("/seen-")], ["/seen-1", "/seen-4"])
        for line in follow.stdout:  # as it comes
            if json.loads(line)["access"]["path"] == "/seen-4":
                break
        text = subprocess.run([PANDO, "logs", "--vm", self.vm, "--search", "seen-2"], env=env, capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"Z  127\.0\.0\.1 GET log-silent\.style\.dev/seen-2 HTTP/2 502, .*NOTHING_LISTENS\n$")
        account = s.api("POST", "/v1/accounts", {"name": "log other"})
        other = s.api("POST", f"/v1/keys?accountId={account['id']}", {"name": "log"})["key"]
        self.assertEqual([self.access("", q, key=other) for q in (None, query, "source=access")], [[], [], []])
        s.api("DELETE", f"/v1/accounts/{account['id']}")

    def test_names_are_first_come_first_served(self):
        s = self.s
        m = self.map("taken.style.dev", self.vm)
        self.assertEqual((m["domain"], m["vmId"], m["vmPort"], m["deploymentId"]), ("taken.style.dev", self.vm, PORT, None))
        account = s.api("POST", "/v1/accounts", {"name": "edge other"})
        other = s.api("POST", f"/v1/keys?accountId={account['id']}", {"name": "edge"})["key"]
        theirs = s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None}, key=other)["id"]
        body = {"vmId": theirs, "vmPort": 80}
        self.refused(400, "DOMAIN_ALREADY_EXISTS", s.api, "POST", "/domains/v1/mappings/taken.style.dev", body, key=other)
        self.refused(400, "DOMAIN_ALREADY_EXISTS", s.api, "POST", "/domains/v1/mappings/below.taken.style.dev", body, key=other)
        self.refused(400, "DOMAIN_ALREADY_EXISTS", s.api, "POST", f"/domains/v1/mappings/{self.vm}.style.dev", body, key=other)
        self.refused(400, "DOMAIN_ALREADY_EXISTS", s.api, "POST", "/domains/v1/mappings/api.pando.localhost", body, key=other)
        self.refused(404, "VM_NOT_FOUND", s.api, "POST", "/domains/v1/mappings/free.style.dev", {"vmId": self.vm, "vmPort": 80}, key=other)
        self.refused(404, "NOT_FOUND", s.api, "DELETE", "/domains/v1/mappings/taken.style.dev", key=other)
        self.assertEqual(s.api("GET", "/domains/v1/mappings", key=other), [])
        self.refused(401, "DOMAIN_OWNERSHIP_NOT_VERIFIED", s.api, "POST", "/domains/v1/mappings/www.example.org", body, key=other)
        for bad in ("-a.style.dev", "a..style.dev", "a_b.style.dev", "127.0.0.1", "*.style.dev", "a" * 64 + ".style.dev", "dev"):
            self.refused(400, "INVALID_DOMAIN", s.api, "POST", f"/domains/v1/mappings/{bad}", body, key=other)
        self.assertEqual(self.e.curl("https://taken.style.dev/echo").status, 200)
        s.api("DELETE", "/domains/v1/mappings/taken.style.dev")
        self.assertEqual(self.e.curl("https://taken.style.dev/echo").status, 404)
        s.api("POST", "/domains/v1/mappings/taken.style.dev", body, key=other)  # free again
        s.api("DELETE", f"/v1/vms/{theirs}", key=other)
        self.assertEqual(s.api("GET", "/domains/v1/mappings", key=other), [], "a mapping outlived its VM")
        self.assertEqual(self.e.curl("https://taken.style.dev/").json()["code"], "DOMAIN_NOT_MAPPED")
        s.api("DELETE", f"/v1/accounts/{account['id']}")

    def test_several_ports_by_several_names(self):
        self.start_app(self.vm, 3000)
        self.map("second.style.dev", self.vm, 3000)
        self.e.curl("https://second.style.dev/echo")
        self.assertLess(self.e.curl("https://second.style.dev/counts").json()["requests"], 5, "two names lead to one port")
        self.assertEqual(self.e.curl(f"https://{self.vm}.style.dev/echo").status, 200)  # port 3000, without a mapping
        names = {m["domain"]: m["vmPort"] for m in self.s.api("GET", "/domains/v1/mappings?limit=10&offset=0")}
        self.assertEqual((names[self.host], names["second.style.dev"]), (PORT, 3000))
        self.assertEqual([m["domain"] for m in self.s.api("GET", "/domains/v1/mappings?domain=second.style.dev")], ["second.style.dev"])

    @limit(240)
    def test_http2_to_the_vm(self):
        """A program that speaks HTTP/2 alone: its trailers come through, and a request for it wakes the VM. Class Grpc is the long form of this."""
        s = self.s
        with open(os.path.join(ROOT, "tests/unit/h2c_app.mjs"), "rb") as f:
            s.api("PUT", f"/v1/vms/{self.vm}/files/%2Froot%2Fh2c.mjs", {"content": base64.b64encode(f.read()).decode(), "encoding": "base64"})
        s.sh(self.vm, "setsid node /root/h2c.mjs 50052 0.0.0.0 </dev/null >/root/h2c.log 2>&1 & "
                      "timeout 180 sh -c 'until [ -s /root/h2c.log ]; do sleep 0.1; done'", timeout_ms=200000)
        m = s.api("POST", "/domains/v1/mappings/h2c.pando.localhost", {"vmId": self.vm, "vmPort": 50052, "protocol": "h2c"})
        self.assertEqual(m["protocol"], "h2c")
        s.post(self.vm, "suspend")
        got = self.e.curl("https://h2c.pando.localhost/echo", "--http2", "-H", "TE: trailers").json()
        self.assertEqual((got[":scheme"], got["te"], got["x-forwarded-proto"]), ("http", "trailers", "https"))
        text = subprocess.run(["curl", "-s", "-D", "-", "-o", "/dev/null", "--http2", "--cacert", self.ca, "--connect-to", f"::127.0.0.1:{self.tls_port}",
                               "-d", "12345", "https://h2c.pando.localhost/trailers"], capture_output=True, text=True, timeout=60).stdout
        self.assertRegex(text, r"(?s)^HTTP/2 200.*x-sum: 5")
        self.assertEqual(self.e.curl("http://h2c.pando.localhost/echo").json()[":path"], "/echo")  # a client of HTTP/1
        self.map("h2c.pando.localhost", self.vm, 50052)  # now as HTTP/1, which it does not speak
        self.assertEqual(self.e.curl("https://h2c.pando.localhost/echo").status, 502)
        self.refused(400, "BAD_REQUEST", s.api, "POST", "/domains/v1/mappings/h2c.pando.localhost", {"vmId": self.vm, "protocol": "spdy"})

    def test_pages_explain(self):
        r = self.e.curl("https://nobody.pando.localhost/", "-H", "Accept: text/html")
        self.assertEqual(r.status, 404)
        self.assertIn(b"leads nowhere", r.body)
        self.map("silent.pando.localhost", self.vm, 9)
        r = self.e.curl("https://silent.pando.localhost/", "-H", "Accept: application/json")
        self.assertEqual((r.status, r.json()["code"]), (502, "NOTHING_LISTENS"))
        self.assertIn("0.0.0.0", r.json()["message"])

    def test_the_servers_own_names(self):
        for name in ("api.pando.localhost", "pando.localhost", "git.pando.localhost", "dashboard.pando.localhost"):
            self.assertEqual(self.e.curl(f"https://{name}/v1/health").json()["template"]["state"], "ready")
        key = f"Authorization: Bearer {self.s.key()}"
        self.assertEqual(self.e.curl(f"https://api.pando.localhost/v1/vms/{self.vm}", "-H", key).json()["id"], self.vm)
        self.assertEqual(self.e.curl("https://api.pando.localhost/v1/ca").json()["certificate"], open(self.ca).read())

    def resumes(self):
        return self.s.log_text().count(f"vm {self.vm}: resumed in")

    def test_a_burst_wakes_once(self):
        self.s.post(self.vm, "suspend")
        before, replies = self.resumes(), []

        def ask(i):
            url = self.url(f"/echo?i={i}", "https" if i % 2 else "http")
            replies.append(self.e.curl(url).status)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(50)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(replies, [200] * 50)
        self.assertEqual(self.resumes() - before, 1)
        self.assertEqual(self.s.state(self.vm), "running")

    def test_suspend_cuts_what_is_open(self):
        with self.e.tls(self.host) as s:
            s.sendall(f"GET /events?n=1000&every=0.2 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            s.recv(4096)
            self.s.post(self.vm, "suspend")
            got = read_until_closed(s)
            self.assertFalse(got.endswith(b"0\r\n\r\n"), "a cut stream looked whole")
        self.assertEqual(self.s.state(self.vm), "suspended", "a connection that was cut woke the VM")
        self.assertEqual(self.e.curl(self.url("/echo")).status, 200)

    def test_a_fork_has_no_names(self):
        child = self.s.fork(self.vm)[0]
        self.assertNotIn(child, [m["vmId"] for m in self.s.api("GET", "/domains/v1/mappings")])
        self.map("child.style.dev", child)
        self.assertEqual(self.e.curl("https://child.style.dev/echo").status, 200)
        self.s.delete(child)
        self.assertEqual(self.e.curl("https://child.style.dev/echo").status, 404)

    def test_domains_on_create(self):
        made = self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, "domains": [{"domain": "made.style.dev", "vmPort": PORT},
                                                                                      {"domain": "two.style.dev"}]})
        self.assertEqual(sorted(made["domains"]), ["made.style.dev", "two.style.dev"])
        self.start_app(made["id"])
        self.assertEqual(self.e.curl("https://made.style.dev/echo").status, 200)
        before = len(self.s.vms())
        for domains, status, code in (([{"domain": "www.example.org"}], 401, "DOMAIN_OWNERSHIP_NOT_VERIFIED"),
                                      ([{"domain": "no name"}], 400, "INVALID_DOMAIN"), ([{"vmPort": 1}], 400, "INVALID_DOMAINS"),
                                      ([{"domain": "x.style.dev", "vmPort": 70000}], 400, "INVALID_DOMAINS")):
            self.refused(status, code, self.s.api, "POST", "/v1/vms", {"domains": domains})
        self.assertEqual(len(self.s.vms()), before)
        self.s.delete(made["id"])

    def test_restart_keeps_names_certificates_and_access_log(self):
        self.map("kept.style.dev", self.vm)
        self.e.curl("https://kept.style.dev/logged")
        self.wait_access("/logged", 1, "domain=kept.style.dev")
        top = os.path.join(self.s.dir, "certs")

        def files():
            found = {}
            for at, _, names in os.walk(top):
                for n in names:
                    path = os.path.join(at, n)
                    with open(path, "rb") as f:
                        found[os.path.relpath(path, top)] = (oct(os.stat(path).st_mode & 0o777), f.read())
            return found
        before = files()
        self.assertEqual({n: m for n, (m, _) in before.items()},
                         {"ca.key": "0o600", "ca.crt": "0o600", "leaf/pando.localhost.pem": "0o600", "leaf/style.dev.pem": "0o600"})
        self.s.restart()
        self.assertEqual(files(), before)
        self.assertEqual(self.e.curl("https://kept.style.dev/echo").status, 200)  # and wakes the VM
        self.assertEqual(len(self.access("/logged", "domain=kept.style.dev")), 1)

    @limit(900)
    @long
    def test_large_bodies(self):
        self.check_bodies(200 << 20)

    @limit(600)
    @long
    def test_a_stopped_vm_is_booted(self):
        unit = "[Service]\\nExecStart=/usr/bin/python3 /root/edge_app.py 8000\\n[Install]\\nWantedBy=multi-user.target\\n"
        self.s.sh(self.vm, f"printf '{unit}' >/etc/systemd/system/app.service && systemctl enable app.service && sync")
        self.s.post(self.vm, "stop")
        end = time.monotonic() + 500
        while True:
            r = self.e.curl(self.url("/echo"), "-H", "Accept: application/json")
            if r.status == 200:
                break
            self.assertEqual((r.status, r.json()["code"]), (503, "VM_STARTING"))
            self.assertLess(time.monotonic(), end)

    @limit(300)
    @long
    def test_traffic_is_activity(self):
        self.s.post(self.vm, "start", {"idleTimeoutSeconds": 8})
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.assertEqual(self.e.curl(self.url("/echo")).status, 200)
            self.assertEqual(self.s.state(self.vm), "running")
            time.sleep(1)
        wait_for("the VM sleeps", lambda: self.s.state(self.vm) == "suspended", 120, 0.5)
        self.s.post(self.vm, "start", {"idleTimeoutSeconds": None})


OWN = """
import http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = ("own " + self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain("/root/own.crt", "/root/own.key")
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
print("ready", flush=True)
s.serve_forever()
"""
# Every connection of its own: there are programs that know no server but one.
ASK_OWN = ("python3 -c \"import ssl, urllib.request as u; "
           "print(u.urlopen('https://{}/', context=ssl.create_default_context(cafile='/root/own.crt')).read().decode())\"")


class PassedOn(EdgeBase):
    """A program in a VM that has its own certificate: TLS is passed to it as it is."""
    host = "own.style.dev"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()
        s = cls.s
        cls.vm = vm = s.create(domains=[{"domain": cls.host, "vmPort": 8443, "protocol": "tls"}])
        s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fown.py", {"content": OWN})
        s.sh(vm, "cd /root && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.crt -days 2 -subj /CN=own "
                 "-addext subjectAltName=DNS:*.style.dev 2>/dev/null && (setsid python3 own.py </dev/null >own.log 2>&1 &) && "
                 "timeout 60 sh -c 'until [ -s own.log ]; do sleep 0.1; done'", timeout_ms=90000)
        cls.own_ca = os.path.join(s.dir, "own.crt")
        with open(cls.own_ca, "w", encoding="ascii") as f:
            f.write(s.sh(vm, "cat /root/own.crt") + "\n")

    def ask(self, host=None, path="/"):
        return self.e.curl(f"https://{host or self.host}{path}", "--cacert", self.own_ca)

    def lines(self, host=None):
        return [x["access"] for x in self.s.api("GET", f"/observability/v1/logs?domain={host or self.host}")["logs"]]

    def test_the_first_connection_wakes_it(self):
        s = self.s
        self.assertEqual([m["protocol"] for m in s.api("GET", "/domains/v1/mappings")], ["tls"])
        s.post(self.vm, "suspend")
        self.assertEqual(self.ask(path="/a").body, b"own /a")
        self.assertEqual(s.api("GET", f"/v1/vms/{self.vm}")["state"], "running")
        wait_for("a line of the access log", self.lines, 30)
        first = self.lines()[0]
        self.assertEqual({k: first[k] for k in ("method", "host", "path", "protocol", "tls", "status", "client", "wokeVm", "error")},
                         {"method": "CONNECT", "host": self.host, "path": "", "protocol": "TLS", "tls": True, "status": None, "client": "127.0.0.1",
                          "wokeVm": True, "error": None})
        self.assertGreater(first["bytesOut"], 500)

    def test_nobody_else_ends_it(self):
        self.assertEqual(self.e.curl(f"https://{self.host}/", check=False).code, 60)  # this server's CA did not sign it
        r = self.e.curl(f"http://{self.host}/")
        self.assertEqual((r.status, r.json()["code"]), (421, "MISDIRECTED"))

    def test_from_inside(self):
        """From the VM itself and from another one."""
        s = self.s
        self.assertEqual(s.sh(self.vm, ASK_OWN.format(self.host)), "own /")
        other = s.create()
        s.api("PUT", f"/v1/vms/{other}/files/%2Froot%2Fown.crt", {"content": s.sh(self.vm, "cat /root/own.crt") + "\n"})
        s.post(self.vm, "suspend")
        self.assertEqual(s.sh(other, ASK_OWN.format(self.host), timeout_ms=120000), "own /")
        wait_for("a line of the access log", lambda: [x for x in self.lines() if x["clientIsVm"] and x["wokeVm"]], 30)
        s.delete(other)

    def test_its_own_name(self):
        """Port 443 of a VM with the protocol tls; copies have it too."""
        s, vm, name = self.s, self.vm, f"{self.vm}.style.dev"
        self.assertEqual(self.e.curl(f"https://{name}/").status, 502)  # port 3000, and HTTP
        s.api("POST", f"/v1/vms/{vm}/ports", {"port": 443, "targetPort": 8443, "protocol": "tls"})
        self.assertEqual([(p["port"], p["targetPort"], p["protocol"]) for p in s.api("GET", f"/v1/vms/{vm}/ports")["ports"]], [(443, 8443, "tls")])
        self.assertEqual(self.ask(name, "/b").body, b"own /b")
        copy = s.post(vm, "fork", {"count": 1})["forks"][0]["id"]
        self.assertEqual(self.ask(f"{copy}.style.dev", "/c").body, b"own /c")
        s.delete(copy)
        s.api("POST", f"/v1/vms/{vm}/ports", {"port": 443, "targetPort": 8443})  # TLS ends at the edge again
        self.assertEqual(self.e.curl(f"https://{name}/").status, 502)
        s.api("DELETE", f"/v1/vms/{vm}/ports/443")
        self.assertEqual(self.e.curl(f"https://{name}/").status, 404)


GRPC = os.path.join(ROOT, "tests/grpc")


class Grpc(EdgeBase):
    """A real client on this host, a real server in a VM; the name is mapped with the protocol h2c."""
    host = "grpc.pando.localhost"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()

    @limit(240)
    @long
    def test_install(self):
        node.install(self, GRPC)

    def archive(self):
        """What the server needs of the folder, as a tar."""
        def wanted(info):
            return info if info.isdir() or info.name.endswith((".js", ".mjs", ".cjs", ".json", ".proto")) else None
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            tar.add(GRPC, "grpc", filter=wanted)
        return base64.b64encode(out.getvalue()).decode()

    @limit(800)
    @long
    def test_the_package_works(self):
        s = self.s
        vm = s.create()
        s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fgrpc.tgz", {"content": self.archive(), "encoding": "base64"})
        s.sh(vm, "cd /root && tar xzf grpc.tgz && cd grpc && (setsid node server.mjs 50051 </dev/null >/root/grpc.log 2>&1 &) && "
                 "timeout 280 sh -c 'until [ -s /root/grpc.log ]; do sleep 0.1; done'; cat /root/grpc.log", timeout_ms=300000)
        self.refused(400, "BAD_REQUEST", s.api, "POST", f"/domains/v1/mappings/{self.host}", {"vmId": vm, "vmPort": 50051, "protocol": "spdy"})
        m = s.api("POST", f"/domains/v1/mappings/{self.host}", {"vmId": vm, "vmPort": 50051, "protocol": "h2c"})
        self.assertEqual(m["protocol"], "h2c")
        self.map("http1.pando.localhost", vm, 50051)
        s.api("POST", "/domains/v1/mappings/grpc-silent.pando.localhost", {"vmId": vm, "vmPort": 9, "protocol": "h2c"})
        self.assertEqual({m["domain"]: m["protocol"] for m in s.api("GET", "/domains/v1/mappings")},
                         {self.host: "h2c", "http1.pando.localhost": "http1", "grpc-silent.pando.localhost": "h2c"})
        s.post(vm, "suspend")
        node.run(self, GRPC, ["grpc.test.mjs"], {"GRPC_HOST": self.host, "EDGE_TLS_PORT": str(self.tls_port), "EDGE_CA": self.ca,
                                                 "GRPC_SILENT": "grpc-silent.pando.localhost", "GRPC_LARGE": str(1 << 20)}, 450)

        def lines():
            return [x["access"] for x in s.api("GET", f"/observability/v1/logs?domain={self.host}")["logs"]]
        wait_for("the access log", lambda: any(a["path"] == "/pando.Test/Fail" for a in lines()), 30)
        first = lines()[0]
        self.assertEqual((first["path"], first["protocol"], first["status"], first["wokeVm"]), ("/pando.Test/Echo", "HTTP/2", 200, True))
        # HTTP/1 to a program that speaks HTTP/2 alone, as the mapping says; and a client of HTTP/1 to the h2c name
        self.assertEqual(self.e.curl("https://http1.pando.localhost/pando.Test/Echo").status, 502)
        r = self.e.curl(self.url("/pando.Test/Echo"), "--http1.1", "-X", "POST", "-H", "Content-Type: text/plain", "-d", "x")
        self.assertEqual(r.status, 415)

    def url(self, path):
        return f"https://{self.host}{path}"
