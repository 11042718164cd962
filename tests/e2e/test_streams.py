# SPDX-License-Identifier: Apache-2.0
"""Exec streams, processes, raw files, archives and watches on a real VM; and what a suspend and a fork do to them"""
from case import Case, limit
from stream_file_checks import StreamFileChecks


class Streams(StreamFileChecks, Case):
    """All of stream_checks.py and stream_file_checks.py on one VM."""
    large_mib = 24
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()
        cls.port, cls.key, cls.dir = cls.s.port, cls.s.key(), "/var/tmp/streams"
        cls.s.sh(cls.vm, f"mkdir {cls.dir} && chmod 755 {cls.dir}")

    def server_pid(self):
        return self.s.pandod_pid()

    def sh(self, command, user=None):
        return self.s.sh(self.vm, command, user=user)

    def test_node_and_npm_are_on_the_path(self):
        self.assertEqual(self.s.sh(self.vm, "node -e 'console.log(6 * 7)'", timeout_ms=110000), "42")
        self.assertRegex(self.sh("command -v npm"), "^/")  # running it takes a minute in an emulated guest
        self.assertEqual(self.sh("echo $HOME"), "/root")
        # one that nvm put into /opt comes first, as its default says
        self.sh("for v in v9.9.9 v24.2.0 v24.10.1 v25.0.0; do mkdir -p /opt/nvm/versions/node/$v/bin; done; mkdir /opt/nvm/alias; "
                "echo 24 >/opt/nvm/alias/default")
        self.assertEqual(self.sh("echo ${PATH%%:*}; rm -r /opt/nvm"), "/opt/nvm/versions/node/v24.10.1/bin")

    def test_watch_everything(self):
        """No path, as the SDK asks: what users keep files in, not what the system does."""
        with self.stream("POST", "/watch-files") as w:
            it = w.lines()
            self.sh("date >/run/not-told; date >/etc/not-told; mkdir -p /root/project && echo x >/root/project/told")
            seen = []
            while ("create", "/root/project/told") not in seen:
                e = next(it)
                seen.append((e["eventType"], e["filename"]))
            self.assertFalse([f for _, f in seen if "not-told" in f], seen)

    def test_watch_says_when_it_cannot_watch_all(self):
        self.sh(f"mkdir -p {self.dir}/wide && cd {self.dir}/wide && mkdir $(seq 40)")
        old = self.sh("sysctl -n fs.inotify.max_user_watches")
        self.sh("sysctl -w fs.inotify.max_user_watches=20")
        try:
            with self.stream("POST", "/watch-files", {"path": f"{self.dir}/wide"}) as w:
                e = next(w.lines())
                self.assertEqual((e["eventType"], e["filename"]), ("error", ""))
                self.assertIn("inotify", e["message"])
        finally:
            self.sh(f"sysctl -w fs.inotify.max_user_watches={old}")

    def test_upload_to_a_full_disk(self):
        self.sh(f"mkdir -p {self.dir}/small && mount -t tmpfs -o size=1m none {self.dir}/small")
        try:
            e = self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.raw("small/f"), b"x" * 3000000)
            self.assertIn("No space", e["message"])
            self.assertEqual(self.sh(f"ls -A {self.dir}/small"), "")
        finally:
            self.sh(f"umount {self.dir}/small")

    @limit(240)
    def test_y_suspend_and_fork_inherit_processes(self):
        p = self.start("echo before; while [ ! -e /run/go ]; do sleep 0.2; done; echo after; exit 4")
        self.soon("it runs", lambda: self.process(p)["stdoutBytes"] == 7)
        with self.stream("GET", f"/processes/{p['processId']}/output?follow=true", Accept="text/event-stream") as s, \
                self.stream("POST", "/watch-files", {"path": self.dir}) as w, \
                self.stream("POST", "/exec", {"command": "echo on; sleep 3000"}) as x:
            events, run = s.events(), x.events()
            self.assertEqual(data_text(next(events)), "before\n")
            self.assertEqual([next(run)[0], next(run)[0]], ["started", "stdout"])
            self.s.post(self.vm, "suspend")
            self.assertEqual([(e, d["code"]) for e, d in events], [("error", "VM_NOT_RUNNING")])
            self.assertEqual([(e, d["code"]) for e, d in run], [("error", "VM_NOT_RUNNING")])
            self.assertEqual(list(w.lines()), [])
        # asking for it wakes the VM, and the process never noticed
        q = self.process(p)
        self.assertEqual((q["running"], q["pid"], q["stdoutBytes"]), (True, p["pid"], 7))
        fork = self.s.fork(self.vm)[0]
        self.sh("touch /run/go")
        with self.stream("GET", f"/processes/{p['processId']}/output?offset=7&follow=true") as s:
            self.assertEqual((s.r.read(), s.r.getheader("X-Pando-Offset")), (b"after\n", "7"))
        self.assertEqual(self.ended(p)["statusCode"], 4)
        mine, self.vm = self.vm, fork
        try:
            q = self.process(p)  # its copy goes its own way
            self.assertEqual((q["running"], q["stdoutBytes"]), (True, 7))
            self.assertEqual(self.output(p)[0], b"before\n")
            self.call("POST", f"/processes/{p['processId']}/signal", {"signal": "KILL"})
            self.assertEqual(self.ended(p)["signal"], "SIGKILL")
        finally:
            self.vm = mine
            self.s.delete(fork)
        self.forget(p)

    @limit(180)
    def test_z_other_accounts_see_nothing(self):
        stranger = {"Authorization": "Bearer " + "0" * 40}
        for method, rest in (("POST", "/exec"), ("GET", "/processes"), ("GET", "/processes/proc-1/output"), ("GET", "/raw-files/x"),
                             ("PUT", "/raw-files/x"), ("PUT", "/tar/x"), ("GET", "/tar/x"), ("POST", "/watch-files")):
            status, body = self.s.request(method, self.path(rest), body=b"{}" if method != "GET" else None, headers=stranger)
            self.assertEqual((status, body["code"]), (401, "UNAUTHORIZED_ERROR"), (method, rest))
        missing = f"/v1/vms/{'a' * 20}"
        for method, rest in (("POST", "/exec"), ("GET", "/processes"), ("PUT", "/raw-files/x"), ("PUT", "/tar/x")):
            body = b'{"command":"id"}' if method != "GET" else None
            status, e = self.s.request(method, missing + rest, body=body)
            self.assertEqual((status, e["code"]), (404, "VM_NOT_FOUND"), (method, rest))

    @limit(200)
    def test_zy_deleted_under_a_stream(self):
        vm = self.s.create()
        mine, self.vm = self.vm, vm
        try:
            with self.stream("POST", "/exec", {"command": "sleep 3000"}) as x, self.stream("POST", "/watch-files") as w:
                run = x.events()
                next(run)
                self.s.delete(vm)
                self.assertEqual([e for e, _ in run], ["error"])
                self.assertEqual(list(w.lines()), [])
        finally:
            self.vm = mine


def data_text(event):
    return event[1]["data"]
