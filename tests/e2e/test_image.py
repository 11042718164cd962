# SPDX-License-Identifier: Apache-2.0
"""test_image.py - what the base image has: interpreters, packages, runtimes; and the guests of a site with a proxy, mirrors and an authority of its own"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from urllib.parse import quote

from case import Case, limit, long
from harness import QEMU, ROOT, image_dir, wait_for
from site_net import MIRROR_PORT, PASSWORD, PROXY_PORT, USER, SiteNet

EXPECTED = ("bs4 lxml matplotlib numpy openpyxl pandas PIL requests scipy seaborn sklearn sympy tabulate tqdm xlsxwriter yaml").split()
GATEWAY = "http://10.0.0.1:3128"
SECURE = "https://secure.site.test/x"


def manifest():
    with open(os.path.join(image_dir(), "manifest")) as f:
        return dict(line.rstrip("\n").split("=", 1) for line in f)


def wanted(name):
    with open(os.path.join(ROOT, "image/npm.list")) as f:
        return next(line.split()[1] for line in f if line.startswith(name + " "))


class ImageContents(Case):
    limit_s = 240

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()

    def cell(self, language, code):
        r = self.s.api("POST", f"/v1/vms/{self.vm}/code", {"language": language, "code": code})
        self.assertIsNone(r.get("error"), r)
        return r

    def test_node(self):
        """A current LTS is what shells and kernels find; Debian's is where it was."""
        self.assertNotIn("missing", manifest(), "the image was built without the npm registry")
        out = json.loads(self.s.sh(self.vm, "node -p 'JSON.stringify([process.version, process.release.lts, process.execPath])'"))
        self.assertTrue(out[0].startswith("v" + wanted("node").rsplit("@", 1)[1] + "."), out)
        self.assertTrue(out[1], "not an LTS")
        self.assertEqual(out[2], "/usr/local/bin/node")
        self.assertNotEqual(self.s.sh(self.vm, "/usr/bin/node --version"), out[0])
        self.assertTrue(self.s.sh(self.vm, "npm --version").startswith(wanted("npm").rsplit("@", 1)[1] + "."))
        self.assertEqual(self.s.sh(self.vm, "npm config get fund"), "false")  # /etc/npmrc
        for language in ("javascript", "typescript"):
            r = self.cell(language, "process.version")
            self.assertIn(out[0], json.dumps(r["results"]))

    def test_python_packages(self):
        have = self.s.sh(self.vm, "python3 -c \"import importlib.util as u\nfor n in '%s'.split(): assert u.find_spec(n), n\nprint('all')\"" % " ".join(EXPECTED))
        self.assertEqual(have, "all")
        r = self.cell("python", "import openpyxl, requests, yaml\nfrom PIL import Image\nImage.new('RGB', (3, 2)).size, yaml.safe_load('[1]')")
        self.assertIn("((3, 2), [1])", json.dumps(r["results"]))

    @long
    @limit(400)
    def test_scikit_learn(self):
        r = self.cell("python", "from sklearn.linear_model import LinearRegression\nround(float(LinearRegression().fit([[0], [1], [2]], [1, 3, 5]).predict([[10]])[0]), 6)")
        self.assertIn("21.0", json.dumps(r["results"]))

    def test_kvm_where_the_processor_nests(self):
        flags = self.s.sh(self.vm, "grep -m1 -ow -e vmx -e svm /proc/cpuinfo || true")
        loaded = self.s.sh(self.vm, "cut -d ' ' -f 1 /proc/modules | grep -x -e kvm_intel -e kvm_amd || true")
        if self.s.api("GET", "/v1/health")["accel"] == "tcg" or not flags:
            self.assertEqual(loaded, "")
        else:
            self.assertEqual(loaded, {"vmx": "kvm_intel", "svm": "kvm_amd"}[flags])
            self.s.sh(self.vm, "test -c /dev/kvm")

    def test_alternatives_have_a_place_for_manual_pages(self):
        """What stopped Java's packages from being configured."""
        self.s.sh(self.vm, "touch /usr/share/man/man1/pt.1.gz && update-alternatives --install /usr/bin/pt pt /bin/true 1 "
                           "--slave /usr/share/man/man1/p.1.gz p.1.gz /usr/share/man/man1/pt.1.gz && test -e /usr/share/man/man1/p.1.gz")

    def test_a_runtime_that_is_not_there(self):
        for names, word in ((["perl"], "has no 'perl'"), (["../x"], "not the name of a runtime"), ("bun", "runtimes")):
            status, body = self.s.request("POST", "/v1/vms", {"runtimes": names})
            self.assertEqual(status, 400, body)
            self.assertIn(word, json.dumps(body))


class ImageNests(Case):
    """A processor that can run nested machines, and does not say that it is emulated: what a guest sees under KVM. Without a server: it offers no such processor."""
    long = True
    own_server = False
    limit_s = 300

    def test_kvm_is_loaded(self):
        sys.path.insert(0, os.path.join(ROOT, "bench"))
        import agentwire
        import plainqemu
        work = tempfile.mkdtemp(prefix="pando-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, work)
        for cpu, want in (("max,svm=on,tcg-cpuid=off", "kvm\nkvm_amd\nthere\n"), ("max,svm=on", "")):
            options = ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", "2", "-m", "1024M"]
            q = plainqemu.PlainQemu(QEMU, options, image_dir(), "console=ttyS0 root=/dev/vda rw quiet panic=-1 tsc=reliable no_timer_check norandmaps", work)
            try:
                q.source.greet_monitor()
                q.source.agent.hello(agentwire.BOOT, 1, "nests", 250)
                out = q.source.agent.run("cut -d ' ' -f 1 /proc/modules | grep -x -e kvm -e kvm_amd | sort; test ! -c /dev/kvm || echo there", 60)
            finally:
                q.close()
            self.assertEqual(out, want, cpu)


class ImageWithoutNpm(Case):
    """Built where the npm registry cannot be reached: a server starts, says what is missing, and cells run in Debian's Node.js."""
    long = True
    limit_s = 400

    @classmethod
    def setUpClass(cls):
        cls.s, cls.cache = None, tempfile.mkdtemp(prefix="pando-image-", dir=os.environ.get("PANDO_TEST_DIR", "/var/tmp"))
        os.chmod(cls.cache, 0o755)
        try:
            cls.server_env = {"PANDO_CACHE_DIR": cls.cache, "PANDO_IMAGE": cls.build()}
            super().setUpClass()
            cls.vm = cls.s.create()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.cache, ignore_errors=True)  # once more after a failure of the set-up

    @classmethod
    def build(cls):
        """With Debian's packages from the cache of all; the path of the image."""
        shared = os.path.dirname(os.path.dirname(image_dir()))
        for name in ("debs", "roots"):
            if os.path.isdir(os.path.join(shared, name)):
                subprocess.run(["cp", "-a", "--reflink=auto", os.path.join(shared, name), cls.cache], check=True)
        env = {k: v for k, v in os.environ.items() if k != "PANDO_IMAGE"}
        env.update(PANDO_CACHE_DIR=cls.cache, npm_config_registry="http://127.0.0.1:9/", npm_config_fetch_retries="0")
        r = subprocess.run([os.path.join(ROOT, "scripts/image.sh")], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if r.returncode:
            raise AssertionError(f"the image was not built: {r.stderr[-2000:]}")
        cls.said = r.stderr
        again = subprocess.run([os.path.join(ROOT, "scripts/image.sh")], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        cls.said_again = again.stderr
        return r.stdout.strip().splitlines()[-1]

    def test_it_says_so(self):
        self.assertIn("built without node npm bun deno: the npm registry could not be reached", self.said)
        self.assertIn("the image has no node npm bun deno", self.said_again)

    def test_node_is_debians(self):
        s, vm = self.s, self.vm
        self.assertEqual(s.sh(vm, "command -v node"), "/usr/bin/node")
        version = s.sh(vm, "node --version")
        for language in ("javascript", "typescript"):
            r = s.post(vm, "code", {"language": language, "code": "const six: number = 6; process.version" if language == "typescript" else "process.version"})
            self.assertIsNone(r.get("error"), r)
            self.assertIn(version, json.dumps(r["results"]))
        self.assertTrue(s.sh(vm, "npm --version"))

    def test_a_runtime_is_refused_with_the_reason(self):
        status, body = self.s.request("POST", "/v1/vms", {"runtimes": ["bun"]})
        self.assertGreaterEqual(status, 400, body)
        self.assertRegex(json.dumps(body), "(?i)bun.*(registry|image)")


JAVA = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
public class Ask {
    public static void main(String[] args) throws Exception {
        var r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(args[0])).build(), BodyHandlers.ofString());
        System.out.println(r.statusCode() + " " + r.body());
    }
}
"""
TRUSTED = "keytool -list -cacerts -storepass changeit 2>/dev/null | grep -o 'debian:pando-[a-z-]*' | sort | xargs"


class ImageJava(Case):
    """Java keeps authorities of its own: it has to trust the server's, and the site's."""
    long = True
    limit_s = 2400

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="pando-java-")
        os.chmod(cls.folder, 0o755)  # pandod reads it
        ca = os.path.join(cls.folder, "site.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", ca + ".key", "-out", ca,
                        "-days", "2", "-subj", "/CN=A site"], check=True, capture_output=True)
        cls.server_env = {"PANDO_GUEST_CA": ca}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def until(self, vm, command, want):
        """An emulated Java may need more than the 15 s that a handshake can take: then it is asked again."""
        def done():
            r = self.s.run(vm, command, timeout_ms=600000)
            self.assertTrue(want in r.out + r.err or "EOF reached" in r.err, r.out + r.err)
            return want in r.out + r.err
        wait_for(want, done, 900)

    def test_java(self):
        s, vm = self.s, self.s.create()
        s.sh(vm, "setsid sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -q -y --no-install-recommends install default-jdk-headless; "
                 "echo $? >/root/java.rc' </dev/null >/root/java.log 2>&1 &")
        wait_for("the packages are installed", lambda: s.run(vm, "cat /root/java.rc").out, 1400, every_s=3)
        self.assertEqual(s.sh(vm, "cat /root/java.rc"), "0", s.sh(vm, "tail -n 20 /root/java.log"))
        s.sh(vm, "java -version", timeout_ms=300000)
        s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2FAsk.java", {"content": JAVA})
        s.sh(vm, "cd /root && javac Ask.java", timeout_ms=600000)
        ask = "cd /root && java -XX:TieredStopAtLevel=1 Ask https://api.pando.localhost/v1/health"
        self.until(vm, ask, '200 {"status"')
        both = s.sh(vm, TRUSTED, timeout_ms=300000)
        self.assertEqual(len(both.split()), 2, both)
        # One that comes later, as with a snapshot of another server: Java is told when the VM wakes. A VM's own resume is not asked again (0023), so it is
        # a fork that wakes.
        s.sh(vm, "keytool -delete -cacerts -storepass changeit -alias debian:pando-local.pem && rm /usr/local/share/ca-certificates/pando-local.crt",
             timeout_ms=600000)
        self.until(vm, ask, "unable to find valid certification path")
        child, = s.fork(vm)
        wait_for("Java knows both again", lambda: s.sh(child, TRUSTED, timeout_ms=300000) == both, 600, every_s=3)
        self.until(child, ask, '200 {"status"')


class ImageRuntimes(Case):
    """Bun and Deno: a layer each, built once."""
    long = True
    limit_s = 900
    keeps_specs = True

    def test_bun_and_deno(self):
        s = self.s
        vm = s.create(runtimes=["deno", "bun"])
        s.sh(vm, "echo 'const x: number = 6; console.log(x * 7)' >/root/a.ts")
        self.assertEqual(s.sh(vm, "bun --version"), manifest()["bun_version"])
        self.assertEqual(s.sh(vm, "bun run /root/a.ts", timeout_ms=300000), "42")
        self.assertIn(manifest()["deno_version"], s.sh(vm, "deno --version", timeout_ms=300000))
        self.assertEqual(s.sh(vm, "deno run /root/a.ts", timeout_ms=300000), "42")
        layers = s.rows("spec_layers")
        again = s.create(runtimes=["bun"], spec={"runtimes": ["bun"]})  # the same layer
        self.assertEqual(s.rows("spec_layers"), layers)
        self.assertNotEqual(s.run(again, "command -v deno").code, 0)
        s.sh(again, "command -v bunx")
        s.delete(vm)
        s.delete(again)


class ImageSite(Case):
    """A company's network: the proxy and the mirror have private addresses and cannot be reached but through the gateway."""
    limit_s = 300

    @classmethod
    def setUpClass(cls):
        cls.net = SiteNet()
        try:
            cls.net.open()
            at = cls.net.address
            cls.ca = cls.net.path("ca.pem")
            shutil.copy(cls.net.path("site.pem"), cls.ca)
            cls.mirror = f"http://{at}:{MIRROR_PORT}"
            cls.server_env = {"PANDO_GUEST_CA": cls.ca, "PANDO_EGRESS_CA": cls.ca,
                              "PANDO_GUEST_PROXY": f"http://{USER}:{quote(PASSWORD, safe='')}@{at}:{PROXY_PORT}",
                              "PANDO_GUEST_APT_MIRROR": f"{cls.mirror}/debian {cls.mirror}/security",
                              "PANDO_GUEST_NPM_REGISTRY": f"{cls.mirror}/npm/", "PANDO_GUEST_PIP_INDEX": f"{cls.mirror}/pip/simple"}
            super().setUpClass()
            cls.vm = cls.s.create()
        except BaseException:
            cls.net.close()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def test_zz_leaves_nothing_behind(self):
        self.net.close()
        super().test_zz_leaves_nothing_behind()

    def test_programs_use_proxy_and_authority(self):
        s, vm = self.s, self.vm
        self.assertEqual(s.sh(vm, f"curl -sS -m 60 {SECURE}"), "hello from secure.site.test")
        self.assertEqual(s.sh(vm, f"wget -qO- {SECURE}"), "hello from secure.site.test")
        self.assertEqual(s.sh(vm, f"python3 -c \"import urllib.request as u; print(u.urlopen('{SECURE}').read().decode())\""), "hello from secure.site.test")
        self.assertEqual(s.sh(vm, f"python3 -c \"import requests; print(requests.get('{SECURE}').text)\""), "hello from secure.site.test")
        self.assertEqual(s.sh(vm, f"node -e \"fetch('{SECURE}').then(r => r.text()).then(console.log)\"", timeout_ms=120000), "hello from secure.site.test")
        self.assertEqual(s.sh(vm, "curl -sS -m 60 http://plain.site.test/y?z=1"), "by proxy: http://plain.site.test/y?z=1")
        seen = self.net.seen()
        self.assertEqual([e for e in seen if "proxy" in e and not e["ok"]], [], "asked without the password")
        self.assertIn("secure.site.test:443", [e.get("proxy") for e in seen])

    def test_the_password_and_the_address_stay_outside(self):
        out = self.s.sh(self.vm, "env; cat /etc/apt/apt.conf.d/95pando-site /etc/npmrc /etc/xdg/pip/pip.conf /etc/pando/*; systemctl show-environment")
        self.assertNotIn(PASSWORD, out)
        self.assertNotIn(f":{PROXY_PORT}", out)
        self.assertIn(f"https_proxy={GATEWAY}", out)
        # and there is no other way to it
        self.assertNotEqual(self.s.run(self.vm, f"curl -sS --noproxy '*' --connect-timeout 5 -m 10 http://{self.net.address}:{PROXY_PORT}/").code, 0)
        self.assertNotEqual(self.s.run(self.vm, f"curl -sS --noproxy '*' --connect-timeout 5 -m 10 {self.mirror}/").code, 0)
        # other hosts of that network are not the proxy's business
        r = self.s.sh(self.vm, f"curl -sS -m 30 -o /dev/null -w '%{{http_code}}' http://{self.net.address}:9/")
        self.assertEqual(r, "403")

    def test_everything_has_the_variables(self):
        s, vm = self.s, self.vm
        r = s.api("POST", f"/v1/vms/{vm}/code", {"language": "python", "code": "import os\nos.environ['http_proxy'], 'localhost' in os.environ['no_proxy']"})
        self.assertIn(GATEWAY, json.dumps(r))
        self.assertEqual(s.sh(vm, "systemd-run --wait --pipe -q sh -c 'echo $https_proxy'"), GATEWAY)
        mine = s.create(env={"http_proxy": "http://mine.test"})  # the VM's own win
        self.assertEqual(s.sh(mine, "echo $http_proxy $https_proxy"), f"http://mine.test {GATEWAY}")
        s.delete(mine)

    @long
    def test_mirrors(self):
        s, vm = self.s, self.vm
        self.assertEqual(s.sh(vm, "pip install -q pandosite && python3 -c 'import pandosite; print(pandosite.value)'", timeout_ms=200000), "42")
        s.run(vm, "apt-get -q -o Acquire::Retries=0 update", timeout_ms=120000)  # there is nothing in it
        seen = [e["mirror"] for e in self.net.seen() if "mirror" in e]
        self.assertIn("/pip/simple/pandosite/", seen)
        for start in ("/debian/dists/", "/security/dists/"):
            self.assertTrue([p for p in seen if p.startswith(start)], seen)
        self.assertFalse([e for e in self.net.seen() if e.get("proxied")], "the mirror was given the proxy's password")

    @long
    def test_npm_registry(self):
        out = self.s.sh(self.vm, "mkdir -p /root/n && cd /root/n && npm install --silent --no-audit pando-site-test >/dev/null && node -p 'require(\"pando-site-test\")'",
                        timeout_ms=250000)
        self.assertEqual(out, "43")
        self.assertIn("/npm/pando-site-test", [e.get("mirror") for e in self.net.seen()])

    def test_names_of_this_server_are_not_the_proxy_s(self):
        out = self.s.sh(self.vm, "curl -sS -m 60 --resolve api.pando.localhost:443:10.0.0.1 https://api.pando.localhost/v1/health")
        self.assertEqual(json.loads(out)["status"], "ok")

    def test_policy(self):
        """A proxy is no way round it."""
        s = self.s
        vm = s.create(egress={"mode": "rules", "rules": [{"action": "allow", "domain": "secure.site.test"}],
                              "inject": []})
        self.assertEqual(s.sh(vm, f"curl -sS -m 60 {SECURE}"), "hello from secure.site.test")
        self.assertNotEqual(s.run(vm, "curl -sS -m 60 https://other.site.test/").code, 0)
        self.assertEqual(s.sh(vm, "curl -sS -m 60 -o /dev/null -w '%{http_code}' http://other.site.test/"), "403")
        self.assertIn("other.site.test", {b.get("domain") for b in s.api("GET", f"/v1/vms/{vm}/egress/blocked")["blocked"]})
        self.assertNotIn("other.site.test", json.dumps(self.net.seen()))
        s.api("PUT", f"/v1/vms/{vm}/egress", {"mode": "closed"})
        self.assertNotEqual(s.run(vm, f"curl -sS -m 60 {SECURE}").code, 0)
        # headers are added on the way through the proxy as on any other
        s.api("PUT", f"/v1/vms/{vm}/egress", {"mode": "open", "inject": [{"domain": "inject.site.test", "headers": {"X-Key": "k3y-of-the-site"}}]})
        self.assertEqual(s.sh(vm, "curl -sS -m 60 https://inject.site.test/i"), "hello from inject.site.test")
        self.assertIn("k3y-of-the-site", [e["headers"].get("X-Key") for e in self.net.seen() if e.get("path") == "/i"])
        s.delete(vm)

    def test_zy_changed_and_gone(self):
        """Another authority in the file counts at the next start; settings that are gone are taken back."""
        s, vm = self.s, self.vm
        count = "grep -c BEGIN /etc/pando/ca.pem; ls /usr/local/share/ca-certificates | grep -c pando-site"
        self.assertEqual(s.sh(vm, count), "2\n1")
        with open(self.ca, "a") as f, open(self.net.authority("second")) as second:
            f.write(second.read())
        s.post(vm, "suspend")
        self.assertEqual(s.sh(vm, count), "3\n2")
        self.assertEqual(s.sh(vm, f"curl -sS -m 60 {SECURE}"), "hello from secure.site.test")
        for name in list(s.env):
            if name.startswith("PANDO_GUEST_"):
                del s.env[name]
        s.restart()
        self.assertEqual(s.sh(vm, "echo $https_proxy; grep -c BEGIN /etc/pando/ca.pem; ls /etc/apt/apt.conf.d | grep -c site; grep -c registry /etc/npmrc; "
                                  "ls /etc/xdg/pip 2>/dev/null | wc -l; cmp /usr/lib/pando/debian.sources /etc/apt/sources.list.d/debian.sources && echo same"),
                         "1\n0\n0\n0\nsame")
