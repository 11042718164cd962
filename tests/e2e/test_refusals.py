# SPDX-License-Identifier: Apache-2.0
"""What is rejected: starts on a host that lacks something, invalid requests. No VM is created here."""
import os
import socket
import subprocess

import host
from case import Case
from harness import PRIV, ROOT, Server, wait_for

NOBODY = 65534


def run(argv, **kw):
    """(exit code, all it printed)"""
    r = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, timeout=60, **kw)
    return r.returncode, r.stdout


class Start(Case):
    """Each names the problem and the way out, and leaves nothing behind."""
    own_server = False

    def assert_no_names(self, s):
        left = s.debris()
        self.assertTrue(not left, f"left on the host: {left[:4]} and {max(0, len(left) - 4)} more")

    def test_not_root(self):
        code, text = run(["scripts/run.sh"], user=NOBODY)
        self.assertNotEqual(code, 0)
        self.assertRegex(text, r"root.*sudo")

    def test_priv_not_root(self):
        code, text = run([PRIV, "--data", "/nonexistent", "--user", "pando", "--", "/bin/true"], user=NOBODY)
        self.assertNotEqual(code, 0)
        self.assertIn("root", text)

    def test_missing_tun(self):
        # in a mount namespace of its own, where /dev/net is empty
        hide = "mount -t tmpfs -o size=4k none /dev/net && exec \"$@\""
        code, text = run(["unshare", "--mount", "sh", "-c", hide, "sh", "scripts/run.sh"])
        self.assertNotEqual(code, 0)
        self.assertIn("/dev/net/tun", text)
        self.assertIn("modprobe tun", text)

    def test_priv_missing_tun(self):
        s = Server()
        try:
            s.prefix = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=4k none /dev/net && exec \"$@\"", "sh"]
            s.spawn()
            wait_for("the server gives up", lambda: s.proc.poll() is not None, 30)
            self.assertNotEqual(s.proc.returncode, 0)
            self.assertIn("/dev/net/tun", s.log_text())
            self.assert_no_names(s)
        finally:
            s.close()

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            s = Server(env={"PANDO_LISTEN": address})
            try:
                s.spawn()
                wait_for("the server gives up", lambda: s.proc.poll() is not None, 30)
                self.assertEqual(s.proc.returncode, 2, s.log_text())
                self.assertIn(address, s.log_text())
                self.assertIn("PANDO_LISTEN", s.log_text())
                self.assert_no_names(s)
                self.assertEqual([host.describe(p) for p in host.children()], [])
            finally:
                s.close()

    def test_bad_settings(self):
        for name, value in (("PANDO_ACCEL", "warp"), ("PANDO_VM_MEM_MB", "17"), ("PANDO_VM_VCPUS", "99"),
                            ("PANDO_LISTEN", "nowhere"), ("PANDO_IMAGE", "/nonexistent")):
            with self.subTest(name):
                s = Server(env={name: value})
                try:
                    s.spawn()
                    wait_for("the server gives up", lambda: s.proc.poll() is not None, 30)
                    self.assertNotEqual(s.proc.returncode, 0)
                    self.assertIn(name, s.log_text())
                    self.assert_no_names(s)
                finally:
                    s.close()


class Requests(Case):
    def test_health_needs_no_key(self):
        status, h = self.s.request("GET", "/v1/health")
        self.assertEqual(status, 200)
        self.assertIn(h["accel"], ("kvm", "tcg"))

    def test_key_is_private(self):
        st = os.stat(os.path.join(self.s.dir, "api-key"))
        self.assertEqual(st.st_mode & 0o777, 0o600)

    def test_pandod_is_not_root(self):
        with open(f"/proc/{self.s.pandod_pid()}/status") as f:
            status = dict(line.split(":", 1) for line in f if ":" in line)
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual(int(status["CapEff"], 16), 0)

    def test_whoami(self):
        self.assertTrue(self.s.api("GET", "/auth/v1/whoami")["accountId"])

    def test_no_key_and_wrong_key(self):
        for headers in ({"Authorization": ""}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
            for method, path in (("GET", "/auth/v1/whoami"), ("POST", "/v1/vms"), ("GET", "/v1/vms")):
                with self.subTest(headers=headers, path=path):
                    status, body = self.s.request(method, path, {} if method == "POST" else None, headers=headers)
                    self.assertEqual(status, 401)
                    # a code the SDK knows: without one it would try for ever
                    self.assertIn(body["code"], ("UNAUTHORIZED", "UNAUTHORIZED_ERROR"))
                    self.assertTrue(body["message"])

    def test_unknown_route(self):
        for method, path in (("GET", "/v1/nothing"), ("POST", "/v2/vms"), ("GET", "/v1/vms/x/y/z/a")):
            with self.subTest(path):
                status, body = self.s.request(method, path)
                self.assertEqual(status, 404)
                self.assertTrue(body["code"])

    def test_wrong_method(self):
        status, body = self.s.request("DELETE", "/auth/v1/whoami")
        self.assertIn(status, (404, 405))
        self.assertTrue(body["code"])

    def test_unknown_vm(self):
        for vm in ("a" * 20, "nope", "%2e%2e%2fetc", "A" * 5000):
            with self.subTest(vm[:10]):
                status, body = self.s.request("GET", f"/v1/vms/{vm}")
                self.assertIn((status, body["code"]), ((404, "VM_NOT_FOUND"), (400, "INVALID_VM_ID")))
        self.refused(404, "VM_NOT_FOUND", self.s.run, "b" * 20, "true")

    def test_unknown_snapshot(self):
        missing = "sc-" + "0" * 20
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.create, snapshotId=missing)
        self.assertEqual(self.s.request("GET", f"/v1/vms/snapshots/{missing}")[0], 404)

    def test_bad_bodies(self):
        json_type = {"Content-Type": "application/json"}
        for body in ("{", "[]", "nonsense", '{"name": 7}', '{"idleTimeoutSeconds": "soon"}', '"' + "x" * 200, b"\xff\xfe",
                     "[" * 10000):
            with self.subTest(str(body)[:20]):
                status, answer = self.s.request("POST", "/v1/vms", body, headers=json_type)
                self.assertEqual(status, 400)
                self.assertTrue(answer["code"])
        self.assertEqual(self.s.vms(), {})

    def test_body_too_large(self):
        status, _ = self.s.request("POST", "/v1/vms", '{"name": "' + "x" * (8 << 20) + '"}')
        self.assertIn(status, (400, 413))

    def test_half_a_request_blocks_nobody(self):
        hung = []
        for _ in range(20):
            c = socket.create_connection(("127.0.0.1", self.s.port), timeout=5)
            c.sendall(b"POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            hung.append(c)
        try:
            self.assertEqual(self.s.request("GET", "/v1/vms", timeout=10)[0], 200)
        finally:
            for c in hung:
                c.close()
