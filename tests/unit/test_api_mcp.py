#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""/mcp over the real agent, without a machine; usage: test_api_mcp.py SERVE_AGENT [TEST...]

tests/mcp asks the same and more of a VM with the official client; this one runs under the sanitizers.
"""
import base64
import http.client
import json
import os
import sys
import tempfile
import threading
import unittest

from served import KERNELS, Served

SERVE = sys.argv[1]
BOTH = "application/json, text/event-stream"


class Mcp(Served, unittest.TestCase):
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        cls.serve(SERVE, KERNELS)
        cls.vm = cls.tool(cls, "vm_create")["structuredContent"]["id"]
        cls.tmp = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()
        super().tearDownClass()

    def open(self, message, accept="application/json", session=None):
        """The connection and its reply, which may go on."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", "Accept": accept}
        c.request("POST", "/mcp", body, headers | ({"Mcp-Session-Id": session} if session else {}))
        return c, c.getresponse()

    def send(self, message, **kw):
        """(status, messages, session) of the whole reply."""
        c, r = Mcp.open(self, message, **kw)
        text, kind = r.read().decode(), r.getheader("Content-Type") or ""
        c.close()
        if "event-stream" in kind:
            got = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        else:
            got = [json.loads(text)] if text else []
        return r.status, got, r.getheader("Mcp-Session-Id")

    @staticmethod
    def message(name, args, id_=1, token=None):
        params = {"name": name, "arguments": args} | ({"_meta": {"progressToken": token}} if token else {})
        return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}

    def tool(self, name, accept="application/json", **args):
        status, got, _ = Mcp.send(self, Mcp.message(name, args), accept=accept)
        assert status == 200 and "result" in got[-1], got
        return got[-1]["result"]

    def session(self):
        return self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})[2]

    def test_a_command_as_json_and_as_events(self):
        for accept in ("application/json", BOTH):
            r = self.tool("exec", accept, vmId=self.vm, command="echo out; echo err >&2; exit 4", cwd="/tmp", env={"A": "b"})
            s = r["structuredContent"]
            self.assertEqual((s["stdout"], s["stderr"], s["exitCode"]), ("out\n", "err\n", 4))

    def test_output_is_cut_within_no_character(self):
        for size in range(256, 264):
            r = self.tool("exec", vmId=self.vm, command="yes ä€😀 | head -n 3000", maxOutputBytes=size)
            out = r["structuredContent"]["stdout"]
            self.assertRegex(out, r"(?s)^ä€😀\n.*\[\.\.\. \d+ bytes left out \.\.\.\].*ä€😀\n$")
            self.assertNotIn("\ufffd", out)
            self.assertLess(len(out.encode()), size + 60)

    def test_a_flood_is_bounded(self):
        r = self.tool("exec", BOTH, vmId=self.vm, command="head -c 30000000 /dev/zero | tr '\\0' x; echo end")
        out = r["structuredContent"]["stdout"]
        self.assertLess(len(out), 70000)
        self.assertTrue(out.endswith("x\nend\n") or out.endswith("xend\n"), out[-20:])

    def test_progress(self):
        m = self.message("exec", {"vmId": self.vm, "command": "for i in 1 2 3; do echo $i; sleep 0.4; done"}, token="t")
        _, got, _ = self.send(m, accept=BOTH)
        steps = [g["params"] for g in got if g.get("method") == "notifications/progress"]
        self.assertTrue(steps)
        self.assertTrue(all(s["progressToken"] == "t" for s in steps))
        self.assertEqual([s["progress"] for s in steps], sorted({s["progress"] for s in steps}))
        self.assertEqual(got[-1]["id"], 1)

    def cancelled(self, accept, end):
        session, flag = self.session(), os.path.join(self.tmp.name, f"flag{id(end)}{len(accept)}")
        got = []
        m = self.message("exec", {"vmId": self.vm, "command": f"echo $$ >{flag}.tmp; mv {flag}.tmp {flag}; exec sleep 600"}, id_="x")
        t = threading.Thread(target=lambda: got.extend(self.send(m, accept=accept, session=session)[1]))
        t.start()
        while not os.path.exists(flag):
            self.assertTrue(t.is_alive(), got)
        end(session)
        t.join()
        return got

    def test_a_cancelled_call_ends(self):
        def note(session):
            n = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}
            self.assertEqual(self.send(n)[0], 202)  # without the session: nobody is meant
            self.assertEqual(self.send(n, session=session)[0], 202)
        self.assertEqual(self.cancelled(BOTH, note), [], "a cancelled call gets no reply")
        self.assertEqual(self.cancelled("application/json", note)[0]["error"]["code"], -32800)

    def test_the_end_of_a_session_ends_its_calls(self):
        def end(session):
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            c.request("DELETE", "/mcp", headers={"Authorization": f"Bearer {self.key}", "Mcp-Session-Id": session})
            self.assertEqual(c.getresponse().status, 200)
            c.close()
        self.assertEqual(self.cancelled(BOTH, end), [])

    def test_a_client_that_leaves_ends_its_command(self):
        pid = os.path.join(self.tmp.name, "left.pid")
        c, r = self.open(self.message("exec", {"vmId": self.vm, "command": f"echo $$ >{pid}; echo go; exec sleep 600"}, token=1), BOTH)
        self.assertIn(b"go", r.read1() + r.read1())
        r.close()
        c.close()
        with open(pid) as f:
            number = int(f.read())
        while os.path.exists(f"/proc/{number}"):
            pass

    def test_code(self):
        self.tool("run_code", vmId=self.vm, code="x=5", language="bash")
        r = self.tool("run_code", BOTH, vmId=self.vm, code="echo $((x+1)); echo e >&2", language="bash")
        self.assertEqual((r["structuredContent"]["stdout"], r["structuredContent"]["stderr"]), ("6\n", "e\n"))
        r = self.tool("run_code", vmId=self.vm, code="false", language="bash")
        self.assertTrue(r["isError"])

    def test_files(self):
        path = os.path.join(self.tmp.name, "new/dir/f.bin")
        data = bytes(range(256)) * 20
        self.tool("file_write", vmId=self.vm, path=path, content=base64.b64encode(data).decode(), encoding="base64")
        got, at = b"", 0
        while at < len(data):
            r = self.tool("file_read", vmId=self.vm, path=path, offset=at, maxBytes=1000)
            c = r["content"][0]
            piece = base64.b64decode(c["resource"]["blob"]) if c["type"] == "resource" else c["text"].encode()
            got, at = got + piece, at + len(piece)
        self.assertEqual(got, data)
        text = "ä€😀\n" * 100
        self.tool("file_write", vmId=self.vm, path=path, content=text)
        got, at = "", 0
        while at < len(text.encode()):
            piece = self.tool("file_read", vmId=self.vm, path=path, offset=at, maxBytes=17)["content"][0]["text"]
            self.assertTrue(piece)
            got, at = got + piece, at + len(piece.encode())
        self.assertEqual(got, text)
        names = self.tool("file_list", vmId=self.vm, path=os.path.dirname(path))["structuredContent"]["files"]
        self.assertEqual(names, [{"name": "f.bin", "kind": "file"}])
        self.assertTrue(self.tool("file_read", vmId=self.vm, path="/nowhere").get("isError"))

    def test_lifecycle_tools_are_the_routes(self):
        r = self.tool("exec_background", vmId=self.vm, command="true")
        self.assertRegex(r["structuredContent"]["processId"], r"^proc-\d+$")
        self.assertIn(self.vm, [v["id"] for v in self.tool("vm_list", search=self.vm[:5])["structuredContent"]["vms"]])
        for search in ("%", "%zz", "a&b=c", "ä"):
            self.assertEqual(self.tool("vm_list", search=search)["structuredContent"]["vms"], [])

    def test_nonsense(self):
        for body in (b"", b"{", b"[" * 50, b"null", b"\xff\xfe", b'{"jsonrpc":"2.0"}', b"[1,2]"):
            status, got, _ = self.send(body)
            self.assertIn("error", got[0] if isinstance(got[0], dict) else got[0][0], body)
            self.assertIn(status, (200, 400))
        for name, args in (("exec", {"vmId": [], "command": "x"}), ("exec", {"vmId": "x" * 5000, "command": "x"}),
                           ("file_read", {"vmId": self.vm, "path": "x" * 5000}), ("vm_fork", {"vmId": self.vm, "count": {}}),
                           ("file_read", {"vmId": self.vm, "path": "/etc/passwd", "offset": -1}),
                           ("run_code", {"vmId": self.vm, "code": "1", "contextId": "ctx-"}), ("vm_list", {"state": "odd"}),
                           ("exec", {"vmId": self.vm, "command": "x", "env": {"a=b": "c"}})):
            self.assertTrue(self.tool(name, **args).get("isError"), (name, args))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
