# SPDX-License-Identifier: Apache-2.0
"""Guides that serve something: installed in a builder VM, running in its snapshot, reached by a name, kept through sleep"""
import json
import re
import time
import urllib.parse

from guide import GUEST_CA, Guide
from test_docs import ProgramPages
from ws import WebSocket

VITE_CONF = """export default { server: { host: "0.0.0.0", port: 5173, strictPort: true, allowedHosts: [".style.dev"] } };
"""
VITE_PAGE = '<!doctype html><div id="app"></div><script type="module" src="/main.js"></script>\n'
VITE_MAIN = 'import { text } from "./text.js";\ndocument.querySelector("#app").textContent = text;\nimport.meta.hot.accept("./text.js", () => {});\n'


class Serve(Guide):
    """HTTP and WebSocket, by a name."""

    def test_vite(self):
        """The page, and a change that reaches the browser through the WebSocket of hot reload."""
        domain = "guide-vite.style.dev"
        vm = self.builder("vite")
        self.trust_this_host(vm)
        self.write(vm, "/srv/app/package.json", '{"private": true, "type": "module"}\n')
        for name, text in (("vite.config.js", VITE_CONF), ("index.html", VITE_PAGE), ("main.js", VITE_MAIN), ("text.js", 'export const text = "one";\n')):
            self.write(vm, f"/srv/app/{name}", text)
        self.work(vm, f"cd /srv/app && npm_config_cafile={GUEST_CA} npm_config_fetch_timeout=1200000 npm install --no-audit --no-fund vite@6")
        self.service(vm, "vite", "/usr/bin/node /srv/app/node_modules/vite/bin/vite.js", cwd="/srv/app")
        self.answers(vm, 5173)
        vm = self.from_snapshot(self.keep(vm), "vite-server", domain, 5173)
        self.assertIn("/@vite/client", self.get(domain))
        self.get(domain, "/main.js")
        self.assertIn('"one"', self.get(domain, "/text.js"))
        token = re.search(r'wsToken = "([^"]+)"', self.get(domain, "/@vite/client"))[1]
        ws = WebSocket(self.http_port, f"/?token={urllib.parse.quote(token)}", timeout=300,
                       headers={"Host": domain, "Origin": f"http://{domain}", "Sec-WebSocket-Protocol": "vite-hmr"})
        self.addCleanup(ws.close)
        self.assertEqual(json.loads(ws.message(300)[1])["type"], "connected")
        self.write(vm, "/srv/app/text.js", 'export const text = "two";\n')
        while (m := json.loads(ws.message(300)[1]))["type"] == "ping":
            pass
        self.assertEqual((m["type"], m["updates"][0]["acceptedPath"]), ("update", "/text.js"))
        self.assertIn('"two"', self.get(domain, "/text.js"))
        self.s.post(vm, "suspend")
        self.assertIn('"two"', self.get(domain, "/text.js"))


class WebTerminal(ProgramPages, Guide):
    """docs/guides/web-terminal.md, and then a session of the server that it made."""
    def clean(self):
        """The session is with what the page made."""

    def test_a_page_web_terminal(self):
        self.page("guides/web-terminal.md")

    def test_b_a_session_survives_sleep(self):
        """shellinabox: a session in a browser's requests, still there after sleep."""
        self.need_mirror()
        domain = "web-terminal.style.dev"
        vm = next(v["id"] for v in self.s.vms().values() if v["name"] == "web-terminal-server")
        self.addCleanup(self.s.delete, vm)

        def ask(**form):
            body = urllib.parse.urlencode({"width": 80, "height": 24, "rooturl": f"https://{domain}/", **form}).encode()
            r = self.e.curl(f"https://{domain}/", "--data-binary", "@-", data=body)
            self.assertEqual(r.status, 200, r.body)
            return json.loads(r.body) if r.body.startswith(b"{") else {}  # what was typed has no answer but the status
        session = ask()["session"]

        def type_and_see(line, want):
            ask(session=session, keys=line.encode().hex().upper())
            seen, end = "", time.monotonic() + 300
            while want not in seen:
                self.assertLess(time.monotonic(), end, f"no {want!r} in {seen!r}")
                seen += ask(session=session).get("data", "")
        type_and_see("kept=$((6 * 7)); echo is $kept\r", "is 42")
        self.s.post(vm, "suspend")
        type_and_see("echo still $kept\r", "still 42")
