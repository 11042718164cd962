# SPDX-License-Identifier: Apache-2.0
"""Programs of examples/guides as a reader runs them, and what they made: servers behind names, agents of vendors, stacks of containers

What programs install comes from npm and Debian. In the place of a model's vendor there is scripted_model.py, running in the snapshot that the program builds on; in the place
of a container image, which nothing here could fetch, one with the same name that is made in the VM and answers as little as the program asks.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

import node
from case import wait_for
from guide import INSTALL_S, Guide
from harness import PATIENCE, ROOT
from ws import WebSocket

GUIDES = os.path.join(ROOT, "examples/guides")
HERE = os.path.dirname(os.path.abspath(__file__))
MODEL_PORT = 9911
MODEL_KEY = "sk-of-this-test"
LINE = re.compile(r"([A-Za-z_][\w ]*): (.*)")
OWN_CAS = "/usr/local/share/ca-certificates/*.crt"  # what this host trusts besides Debian's; its way to a registry may have one


EDITOR = """#!/usr/bin/python3
import http.server, json, os, sys
class Editor(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}" if self.path == "/healthz" else json.dumps({"args": sys.argv[1:], "password": os.environ.get("PASSWORD")}).encode())
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Editor).serve_forever()
"""


def results(text):
    """What a program told: name -> value, which may go on in the next lines."""
    found, last = {}, None
    for line in text.splitlines():
        m = LINE.fullmatch(line)
        if m:
            last = m[1]
            found[last] = m[2]
        elif last:
            found[last] += "\n" + line
    return found


class Program(Guide):
    @classmethod
    def setUpClass(cls):
        cls.server_env = dict(cls.server_env)
        cas = sorted(glob.glob(OWN_CAS))
        if cas:
            with tempfile.NamedTemporaryFile("w", prefix="pando-test-ca-", suffix=".pem", delete=False) as f:
                cls.addClassCleanup(os.unlink, f.name)
                for path in cas:
                    with open(path) as ca:
                        f.write(ca.read().rstrip() + "\n")
            os.chmod(f.name, 0o644)
            cls.server_env["PANDO_GUEST_CA"] = f.name
        super().setUpClass()

    def run_program(self, name, *args, status=0, **env):
        """What it told (or, if it is to fail, what it complained of). What it made is deleted with the test."""
        lane = unittest.TestCase()  # the folder is one lane's while it is installed, and not for the hour that a program may take
        try:
            node.install(lane, GUIDES)
        finally:
            lane.doCleanups()
        self.addCleanup(self.forget)
        log = os.path.join(node.test_logs(), f"guide-{name}.log")
        with open(log, "w") as err:
            p = subprocess.run(["node", "--experimental-websocket", os.path.join(GUIDES, f"{name}.mjs"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=err, text=True, timeout=INSTALL_S * PATIENCE, env={
                                   **os.environ, "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(), **env})
        with open(log) as f:
            said = f.read()
        self.assertEqual(p.returncode, status, p.stdout + said[-4000:])
        return results(p.stdout) if status == 0 else said

    def forget(self):
        for vm in self.s.vms():
            self.s.delete(vm)
        for n in self.s.api("GET", "/v1/vpcs")["vpcs"]:
            self.s.api("DELETE", f"/v1/vpcs/{n['vpcId']}")

    def host(self, url):
        return urllib.parse.urlsplit(url).netloc

    def once_more(self, vm, domain, path="/"):
        """A suspended VM is woken by a request."""
        self.s.post(vm, "suspend")
        return self.get(domain, path)


class DevServers(Program):
    server_env = {"PANDO_VM_MEM_MB": "4096"}

    def test_program_vite(self):
        """The page, and a change that reaches the browser through the WebSocket of hot reload."""
        told = self.run_program("vite")
        domain, vm = self.host(told["url"]), told["vmId"]
        self.assertIn("/@vite/client", self.get(domain))
        self.assertIn("/src/style.css", self.get(domain, "/src/main.js"))
        self.get(domain, "/src/style.css")
        token = re.search(r'wsToken = "([^"]+)"', self.get(domain, "/@vite/client"))[1]
        ws = WebSocket(self.http_port, f"/?token={urllib.parse.quote(token)}", timeout=300,
                       headers={"Host": domain, "Origin": f"http://{domain}", "Sec-WebSocket-Protocol": "vite-hmr"})
        self.addCleanup(ws.close)
        self.assertEqual(json.loads(ws.message(300)[1])["type"], "connected")
        self.write(vm, "/srv/app/src/style.css", "body { color: rebeccapurple; }\n")
        while (m := json.loads(ws.message(300)[1]))["type"] == "ping":
            pass
        self.assertEqual(m["type"], "update", m)
        self.assertIn("/src/style.css", [u["path"] for u in m["updates"]])
        self.assertIn("rebeccapurple", self.get(domain, "/src/style.css"))
        self.assertIn("rebeccapurple", self.once_more(vm, domain, "/src/style.css"))

    def test_program_nextjs(self):
        """The page, requests of its own origin and of another's, a change, and sleep."""
        told = self.run_program("nextjs")
        domain, vm = self.host(told["url"]), told["vmId"]
        page = self.get(domain)
        script = re.search(r'src="(/_next/static/[^"]+\.js[^"]*)"', page)[1].replace("&amp;", "&")

        def asked_by(origin):
            return self.e.curl(f"https://{domain}{script}", "-H", f"Origin: https://{origin}", "-H", "Sec-Fetch-Mode: no-cors", "-H", "Sec-Fetch-Site: cross-site").status
        self.assertEqual((asked_by(domain), asked_by("elsewhere.example")), (200, 403))
        self.write(vm, "/srv/app/app/page.tsx", "export default function Home() { return <p>changed by hand</p>; }\n")
        wait_for("the change is there", lambda: "changed by hand" in self.e.curl(f"https://{domain}/").body.decode(), 600, 2)
        self.assertIn("changed by hand", self.once_more(vm, domain))


    def test_vscode(self):
        """The vendor's installer is a download: one of ours is in its place, whose server says how it was started."""
        vm = self.builder("installer")
        self.write(vm, "/root/installer.sh", f"cat >/usr/bin/code-server <<'END'\n{EDITOR}END\nchmod 755 /usr/bin/code-server\n")
        told = self.run_program("vscode", FROM_SNAPSHOT=self.keep(vm), CODE_SERVER_INSTALL="file:///root/installer.sh")
        domain = self.host(told["url"])
        said = json.loads(self.get(domain))
        self.assertEqual(said, {"args": ["--bind-addr", "0.0.0.0:8080", "--auth", "password", "--disable-telemetry"], "password": told["password"]})
        self.assertGreaterEqual(len(told["password"]), 32)
        self.assertEqual(json.loads(self.once_more(told["vmId"], domain)), said)


class Agents(Program):
    """Programs of vendors, with a scripted model."""
    server_env = {"PANDO_VM_MEM_MB": "4096"}
    model = None

    def setUp(self):
        super().setUp()
        if not self.model:
            vm = self.builder("model")
            with open(os.path.join(HERE, "scripted_model.py")) as f:
                self.write(vm, "/root/scripted_model.py", f.read())
            self.service(vm, "model", f"/usr/bin/python3 /root/scripted_model.py {MODEL_PORT}", cwd="/root")
            self.answers(vm, MODEL_PORT)
            type(self).model = self.keep(vm)

    def run_agent(self, name, prompt, **env):
        return self.run_program(name, *([f"RUN: {prompt}"] if prompt else []), FROM_SNAPSHOT=self.model, **env)

    def asked(self, vm):
        """What the model of a VM was asked."""
        return [json.loads(line) for line in self.s.sh(vm, "cat /root/model.log").splitlines()]

    def test_coding_agent(self):
        """Asked once, as root; left alone, as a user with a directory; driven by the vendor's SDK, whose user is asked about each tool."""
        package, command, sdk = (os.environ.get(f"PANDO_TEST_AGENT_{k}") for k in ("PACKAGE", "COMMAND", "SDK"))
        if not (package and command and sdk):
            self.skipTest("PANDO_TEST_AGENT_PACKAGE, _COMMAND and _SDK do not say which agent of npm is tried")
        told = self.run_agent("coding-agent", "touch made; id -un; pwd", AGENT_PACKAGE=package, AGENT_COMMAND=command, AGENT_SDK=self.sdk(sdk),
                              ANTHROPIC_API_KEY=MODEL_KEY, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{MODEL_PORT}")
        self.assertRegex(told["version"], r"^\d+\.\d+\.\d+ ")
        self.assertEqual(told["once"].split(), "The command said: root /root".split())
        self.assertEqual(told["alone"].split(), "The command said: agent /srv/app".split())
        self.assertEqual(told["driven"].split(), "The command said: root /root".split())
        self.assertEqual(told["asked"], "Bash")
        self.assertEqual({q["key"] for q in self.asked(told["vmId"])}, {MODEL_KEY})

    def sdk(self, package):
        """A package of npm, installed in a directory of its own without the binaries that run in the VM: the file to import."""
        home = tempfile.mkdtemp(prefix="pando-test-sdk-")
        self.addCleanup(shutil.rmtree, home)
        subprocess.run(["npm", "install", "--prefix", home, "--omit=optional", "--no-audit", "--no-fund", package], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=1800)
        path = os.path.join(home, "node_modules", package)
        with open(os.path.join(path, "package.json")) as f:
            conf = json.load(f)
        return os.path.join(path, conf.get("exports", {}).get(".", {}).get("default") or conf["main"])

    def test_coding_agent_without_a_key(self):
        self.assertIn("ANTHROPIC_API_KEY is not set", self.run_program("coding-agent", status=2, AGENT_PACKAGE="x", AGENT_COMMAND="x", ANTHROPIC_API_KEY=""))

    def test_copilot(self):
        """The runtime in one VM of a private network, its client in another; tools act in the first."""
        told = self.run_agent("copilot", "hostname", COPILOT_PROVIDER_BASE_URL=f"http://127.0.0.1:{MODEL_PORT}/v1", COPILOT_PROVIDER_API_KEY=MODEL_KEY, COPILOT_MODEL="scripted")
        self.assertIn("Copilot", told["version"])
        self.assertEqual(told["another token is refused"], "yes")
        self.assertIn(f"The command said: {self.s.sh(told['agent'], 'hostname')}", told["said"])
        self.assertIn(f"Bearer {MODEL_KEY}", {q["key"] for q in self.asked(told["agent"])})
        self.assertEqual(self.s.run(told["peer"], "test -e /root/model.log").code, 1)

    def test_openclaw(self):
        """The gateway's page behind a name, which wakes it; its configuration has the name and the model, and no key."""
        told = self.run_agent("openclaw", "", OPENAI_API_KEY=MODEL_KEY, OPENAI_BASE_URL=f"http://127.0.0.1:{MODEL_PORT}/v1", MODEL="scripted", PAIRING="off")
        domain, vm = self.host(told["url"]), told["vmId"]
        self.assertIn("<html", self.get(domain).lower())
        conf = self.s.sh(vm, "cat /root/.openclaw/openclaw.json")
        self.assertIn(f"https://{domain}", conf)
        self.assertIn("own/scripted", conf)
        self.assertNotIn(MODEL_KEY, conf)
        self.assertIn("<html", self.once_more(vm, domain).lower())


# An image is made of the VM's own busybox. httpd's document root is /www, from which the container answers on all of its ports.
STAND_IN = """set -e
mkdir -p root/bin root/www root/tmp root/etc root/proc
cp /bin/busybox root/bin/
for name in sh httpd echo cat sleep; do ln -sf busybox root/bin/$name; done
tar -C root -c . | docker import - stand-in:base
"""


def stand_in(tag, files, ports):
    """Commands that make an image: files it has (those that begin with / are served), and on which ports."""
    serve = "; ".join(f"httpd -p {p} -h /www" for p in ports) + "; sleep 1000000" if ports else "sleep 1000000"
    lines = ["mkdir -p ctx && rm -rf ctx/* && mkdir -p ctx/www && printf 'FROM stand-in:base\\nCOPY www /www\\nCOPY run /run.sh\\nWORKDIR /work\\nCOPY work /work\\nCMD [\"/bin/sh\", \"/run.sh\"]\\n' >ctx/Dockerfile",
             f"mkdir -p ctx/work && echo '{serve}' >ctx/run"]
    for path, text in files.items():
        at = f"ctx/www{path}" if path.startswith("/") else f"ctx/work/{path}"
        lines.append(f"mkdir -p $(dirname {at}) && printf '%s\\n' '{text}' >{at} && chmod 755 {at}")
    return "\n".join([*lines, f"DOCKER_BUILDKIT=0 docker build -q -t {tag} ctx"]) + "\n"


def repository(path, files):
    """Commands that make a Git repository in the place of a vendor's."""
    lines = [f"mkdir -p {path} && cd {path} && git init -q"]
    for name, text in files.items():
        lines.append(f"mkdir -p $(dirname {name}) && cat >{name} <<'END'\n{text}END")
    return "\n".join([*lines, "git add -A && git -c user.name=t -c user.email=t@example.com commit -q -m x", "cd /root"]) + "\n"


def compose(**services):
    """A compose file: name -> (image, ports)."""
    return "services:\n" + "".join(f"  {name}:\n    image: {image}\n" + (f"    ports: [\"{ports}\"]\n" if ports else "") for name, (image, ports) in services.items())


SUPABASE = {
    "docker/docker-compose.yml": compose(kong=("stand-in:supabase", "8000:8000"), db=("stand-in:quiet", None)),
    "docker/.env.example": "ANON_KEY=\nDASHBOARD_USERNAME=\nDASHBOARD_PASSWORD=\nSUPABASE_PUBLIC_URL=\nAPI_EXTERNAL_URL=\nSITE_URL=\n",
    "docker/utils/generate-keys.sh": "sed -i 's/^ANON_KEY=.*/ANON_KEY=anon-1/; s/^DASHBOARD_PASSWORD=.*/DASHBOARD_PASSWORD=word-1/' .env\n",
    "docker/utils/add-new-auth-keys.sh": "grep -q ANON_KEY=anon-1 .env && echo NEWER_KEY=1 >>.env\n",
}
INSTANT = {
    "self-hosting/docker-compose.yml": compose(server=("stand-in:instant", "8888:8888")) + "    environment:\n      URL: ${INSTANT_BACKEND_URL}\n",
    "self-hosting/.env.example": "INSTANT_BACKEND_URL=http://localhost:8888\n",
}
CONVEX = compose(backend=("stand-in:convex", "3210:3210")) + "    environment:\n      CONVEX_CLOUD_ORIGIN: ${CONVEX_CLOUD_ORIGIN}\n"
IMAGES = STAND_IN + "".join((
    stand_in("stand-in:quiet", {}, []), stand_in("postgres:15", {}, []), stand_in("postgres:latest", {}, []), stand_in("clickhouse/clickhouse-server:25.10", {}, []),
    stand_in("hasura/graphql-engine:v2.46.0", {"/healthz": "OK", "/v1/version": '{"version":"stand-in"}'}, [8080]),
    stand_in("stand-in:convex", {"/version": "unknown", "generate_admin_key.sh": "#!/bin/sh\necho convex-self-hosted\\|key-1"}, [3210]),
    stand_in("stand-in:instant", {"/health": "ok"}, [8888]),
    stand_in("stand-in:supabase", {"/auth/v1/health": '{"name":"GoTrue"}'}, [8000]),
    stand_in("stackauth/server:latest", {}, [8101, 8102]),
    stand_in("nginx:alpine", {"/index.html": "dashboard", "/api/v1/internal/backend-urls": '{"urls":[]}'}, [80])))


class Stacks(Program):
    """Stacks of containers whose images are stand-ins: what is tried is all that the programs do themselves, and not the vendors' software."""
    engine = None

    def stack(self, name, **env):
        """Runs a program on a VM with Docker and the stand-ins."""
        self.need_mirror()
        if not self.engine:
            made = self.run_program("containers")["snapshotId"]
            vm = self.s.create(name="stand-ins", snapshotId=made)
            self.work(vm, "apt-get install -y -qq --no-install-recommends busybox-static")
            self.work(vm, IMAGES)
            self.work(vm, repository("/root/supabase-repo", SUPABASE) + repository("/root/instant-repo", INSTANT))
            self.write(vm, "/root/convex.yml", CONVEX)
            type(self).engine = self.keep(vm)
        return self.run_program(name, DOCKER_SNAPSHOT=self.engine, SIZE="default", **env)

    def test_hasura(self):
        told = self.stack("hasura")
        domain = self.host(told["console"])
        self.assertEqual(self.get(domain, "/healthz"), "OK\n")
        self.assertEqual(json.loads(told["version"]), {"version": "stand-in"})
        env = self.s.sh(told["vmId"], "cd /root/hasura && docker compose exec -T engine cat /proc/1/environ | tr '\\0' '\\n'", timeout_ms=120000)
        self.assertIn(f"HASURA_GRAPHQL_ADMIN_SECRET={told['admin secret']}", env)
        self.assertIn("@postgres:5432/postgres", env)
        second = self.s.create(snapshotId=told["snapshotId"])  # both run in it
        self.map("hasura-second.style.dev", second, 8080)
        self.assertEqual(self.get("hasura-second.style.dev", "/healthz"), "OK\n")

    def test_convex(self):
        told = self.stack("convex", CONVEX_COMPOSE="file:///root/convex.yml")
        self.assertEqual(told["CONVEX_SELF_HOSTED_ADMIN_KEY"], "convex-self-hosted|key-1")
        domain = self.host(told["CONVEX_SELF_HOSTED_URL"])
        self.assertEqual(self.get(domain, "/version"), "unknown\n")
        env = self.s.sh(told["vmId"], "cd /root/convex && docker compose exec -T backend cat /proc/1/environ | tr '\\0' '\\n'", timeout_ms=120000)
        self.assertIn(f"CONVEX_CLOUD_ORIGIN=https://{domain}\n", env + "\n")
        token = re.search(rf"{told['vmId']}:(\S+)@", told["dashboard through SSH"])[1]
        r = subprocess.run(["ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-p", str(self.s.ssh_port),
                            "-l", f"{told['vmId']}:{token}", "127.0.0.1", "hostname"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual((r.returncode, r.stdout.strip()), (0, self.s.sh(told["vmId"], "hostname")), r.stderr)

    def test_instantdb(self):
        told = self.stack("instantdb", INSTANT_REPO="file:///root/instant-repo")
        domain = self.host(told["apiURI"])
        self.assertEqual(self.get(domain, "/health"), "ok\n")
        self.assertEqual(told["websocketURI"], f"wss://{domain}/runtime/session")
        env = self.s.sh(told["vmId"], "cd /root/instant/self-hosting && docker compose --env-file .env exec -T server cat /proc/1/environ | tr '\\0' '\\n'", timeout_ms=120000)
        self.assertIn(f"URL=https://{domain}\n", env + "\n")

    def test_supabase(self):
        told = self.stack("supabase", SUPABASE_REPO="file:///root/supabase-repo")
        self.assertEqual((told["anon key"], told["user"], told["password"]), ("anon-1", "supabase", "word-1"))
        domain = self.host(told["url"])
        self.assertEqual(self.get(domain, "/auth/v1/health"), '{"name":"GoTrue"}\n')
        self.assertEqual(self.s.sh(told["vmId"], "grep -c https://" + domain + " /root/supabase/.env; grep -c NEWER_KEY=1 /root/supabase/.env").split(), ["3", "1"])

    def test_hexclave(self):
        told = self.stack("hexclave")
        domain = self.host(told["url"])
        self.assertEqual(self.get(domain), "dashboard\n")
        self.assertEqual(self.get(domain, "/api/v1/internal/backend-urls"), told["backend urls"] + "\n")
        env = self.s.sh(told["vmId"], "cd /root/hexclave && docker compose exec -T hexclave cat /proc/1/environ | tr '\\0' '\\n'; docker compose exec -T front cat /etc/nginx/conf.d/default.conf",
                        timeout_ms=120000)
        self.assertIn(f"NEXT_PUBLIC_STACK_API_URL=https://{domain}\n", env)
        self.assertIn("location /api/ { proxy_pass http://hexclave:8102;", env)
