# SPDX-License-Identifier: Apache-2.0
"""A guide whose VM goes on to be tested: a session of a web terminal"""
import json
import time
import urllib.parse

from guide import Guide
from test_docs import ProgramPages


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
