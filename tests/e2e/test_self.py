# SPDX-License-Identifier: Apache-2.0
"""Self access: a program inside a VM forks, snapshots, suspends and rewinds its own VM, and works with the copies"""
import json

from case import Case, wait_for

# A program that keeps a value in memory, asks for a fork of its own machine and writes down which side it is on.
BOTH_SIDES = r"""
import http.client, json, os, socket
class Self(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/pando/self.sock")
value = os.urandom(8).hex()
open("/root/value", "w").write(value)
c = Self("self")
c.request("POST", "/v1/self/fork", json.dumps({"count": 2}), {"Content-Type": "application/json"})
r = c.getresponse()
answer = json.loads(r.read())
answer.update(status=r.status, value=value, pid=os.getpid())
with open("/root/side.new", "w") as f:
    json.dump(answer, f)
os.rename("/root/side.new", "/root/side")
"""

HOOK = """#!/bin/sh
env | grep ^PANDO_ >/root/env.new
mv /root/env.new /root/fork.env
"""


class Self(Case):
    limit_s = 120

    def self_(self, vm, words, code=0, **kw):
        """`pando self WORDS` in the VM; what it printed."""
        r = self.s.run(vm, f"pando self {words}", **kw)
        self.assertEqual(r.code, code, f"pando self {words}: {r.out}{r.err}")
        return r.err if code not in (0, 10) else r.out.strip()

    def started(self, vm, command):
        """Runs it beside everything else; its output ends in /root/out when it is over."""
        self.s.sh(vm, f"rm -f /root/out; (setsid sh -c '({command}) >/root/tmp 2>&1; echo \"= $?\" >>/root/tmp; "
                      "mv /root/tmp /root/out' </dev/null >/dev/null 2>&1 &)")

    def ended(self, vm):
        return wait_for(f"{vm}: the command's end", lambda: self.s.run(vm, "cat /root/out").out.strip(), 60)

    def test_off_by_default(self):
        vm = self.s.create()
        self.assertIs(self.s.info(vm)["selfAccess"], False)
        self.assertIn("no self access", self.self_(vm, "fork", code=3))
        self.assertEqual(self.s.run(vm, "test -e /run/pando/self.sock").code, 1)
        self.assertIn(vm, self.self_(vm, "info"))  # that anyone may know
        self.s.delete(vm)

    def test_who_it_is(self):
        cls = type(self)
        cls.vm = self.s.create(name="boss", selfAccess=True)
        me = json.loads(self.self_(self.vm, "info --json"))
        self.assertEqual((me["id"], me["parent"], me["index"]), (self.vm, None, 0))
        self.assertEqual(me["selfAccess"], ["snapshot", "fork", "suspend", "rewind", "children", "delete"])
        self.assertEqual(self.s.info(self.vm)["selfAccess"]["inherit"], True)

    def test_a_program_sees_both_sides_of_its_fork(self):
        vm = self.vm
        # what hooks of identity.d know is tested in tests/agent: a slow host would fail their deadline, and with it the fork
        self.s.sh(vm, f"mkdir -p /etc/pando/fork.d; printf '%s' '{HOOK}' >/etc/pando/fork.d/note; chmod +x /etc/pando/fork.d/note")
        self.s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fboth.py", {"content": BOTH_SIDES})
        self.s.sh(vm, "(setsid python3 /root/both.py </dev/null >/root/log 2>&1 &)")
        side = json.loads(wait_for("the parent's answer", lambda: self.s.run(vm, "cat /root/side").out, 60))
        self.assertEqual((side["status"], side["role"], side["id"]), (200, "parent", vm))
        self.assertEqual(len(set(side["children"])), 2)
        type(self).children = side["children"]
        for n, child in enumerate(self.children):
            other = json.loads(wait_for("a child's answer", lambda: self.s.run(child, "cat /root/side").out, 60))
            self.assertEqual((other["status"], other["role"], other["id"], other["parent"], other["index"], other["count"]),
                             (200, "child", child, vm, n + 1, 2))
            self.assertEqual((other["value"], other["pid"]), (side["value"], side["pid"]))  # the same program
            env = dict(line.split("=", 1) for line in
                       wait_for("the hook", lambda: self.s.run(child, "cat /root/fork.env").out.split(), 60))
            self.assertEqual((env["PANDO_VM_ID"], env["PANDO_PARENT_ID"], env["PANDO_FORK_INDEX"], env["PANDO_FORK_COUNT"],
                              env["PANDO_EVENT"]), (child, vm, str(n + 1), "2", "fork"))
        self.assertEqual(self.s.run(vm, "test -e /root/fork.env").code, 1)

    def test_a_fork_from_outside_knows_it_too(self):
        (child,) = self.s.fork(self.vm)
        me = json.loads(self.self_(child, "info --json"))
        self.assertEqual((me["id"], me["parent"], me["index"], me["count"], me["event"]), (child, self.vm, 1, 1, "fork"))
        self.assertNotIn(child, self.self_(self.vm, "children"))
        self.assertIn("did not make", self.self_(self.vm, f"exec {child} true", code=1))
        self.s.delete(child)

    def test_works_with_its_children(self):
        vm, (a, b) = self.vm, self.children
        self.assertEqual({line.split()[0] for line in self.self_(vm, "children").splitlines()}, {a, b})
        self.assertEqual(self.self_(vm, f"exec {a} hostname"), a)
        self.assertIn("no such thing", self.self_(vm, f"exec {a} -- sh -c \"echo no such thing >&2; exit 7\"", code=7))
        self.s.sh(vm, f"head -c 300000 /dev/urandom >/root/f; pando self write {a} /root/g </root/f; "
                      f"pando self read {a} /root/g | cmp - /root/f")
        self.self_(vm, f"sleep {b}")
        self.assertEqual(self.s.state(b), "suspended")
        self.self_(vm, f"start {b}")
        self.assertEqual(self.s.state(b), "running")
        self.assertIn("did not make", self.self_(a, f"exec {b} true", code=1))  # a sibling
        self.assertIn("did not make", self.self_(a, f"delete {vm}", code=1))    # the parent
        self.self_(vm, f"delete {a} {b}")
        self.assert_gone(a)
        self.assert_gone(b)

    def test_fork_on_the_command_line(self):
        vm = self.vm
        self.started(vm, "pando self fork -n 2")
        out = self.ended(vm).split("\n")
        self.assertEqual(out[-1], "= 0")
        for n, child in enumerate(out[:-1]):
            self.assertEqual(self.ended(child).split("\n"), [f"child {n + 1} of {vm}", "= 10"])
        # a grandchild is a descendant as well
        grandchild = self.self_(out[0], "fork --no-inherit")
        self.assertEqual(self.self_(vm, f"exec {grandchild} hostname"), grandchild)
        self.assertIn("no self access", self.self_(grandchild, "fork", code=3))
        self.self_(vm, f"delete {grandchild} {out[0]} {out[1]}")

    def test_suspends_itself_and_is_woken(self):
        vm = self.vm
        self.started(vm, "pando self suspend")
        wait_for("its suspension", lambda: self.s.state(vm) == "suspended", 60)
        self.assertEqual(self.ended(vm).split("\n"), ["resumed", "= 0"])

    def test_snapshot_and_rewind(self):
        vm = self.vm
        self.started(vm, "echo before >/dev/shm/when; pando self snapshot mine; cat /dev/shm/when")
        out = self.ended(vm).split("\n")
        self.assertRegex(out[0], r"^sc-[a-z0-9]{20}$")
        self.assertEqual(out[1:], ["before", "= 0"])
        snapshot = out[0]
        self.s.sh(vm, "echo after >/dev/shm/when")
        self.started(vm, f"pando self rewind --discard {snapshot}; echo not reached")
        # the past, in the middle of its request for the snapshot, is told that it is the past
        wait_for("the rewind", lambda: self.s.run(vm, "cat /dev/shm/when").out.strip() == "before", 60)
        self.assertEqual(self.ended(vm).split("\n"), ["restored", "before", "= 0"])
        self.assertEqual(json.loads(self.self_(vm, "info --json"))["snapshot"], snapshot)
        other = self.s.create(snapshotId=snapshot)
        self.assertEqual(self.ended(other).split("\n"), ["restored", "before", "= 0"])
        self.assertIn("no self access", self.self_(other, "fork", code=3))  # it was not given any
        self.s.delete(other)
        self.assertIn("not in the ancestry", self.self_(vm, f"rewind {self.s.snapshot(self.s.create())}", code=1))

    def test_survives_a_restart_of_the_server(self):
        old = self.s.pandod_pid()
        self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        child = self.self_(self.vm, "fork")
        self.self_(self.vm, f"delete {child}")

    def test_only_what_was_allowed(self):
        vm = self.s.create(selfAccess={"allow": ["snapshot"], "inherit": False})
        self.assertIn("SELF_ACCESS_DENIED", self.self_(vm, "fork", code=1))
        self.assertRegex(self.self_(vm, "snapshot"), "^sc-")
        (child,) = self.s.fork(vm)
        self.assertIn("no self access", self.self_(child, "snapshot", code=3))
        # other routes are not there, and a key's routes are not for this socket
        self.assertIn("403", self.s.sh(vm, "curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/pando/self.sock http://self/v1/vms"))
        # whoever is neither root nor in the group has no access
        self.s.sh(vm, "useradd -m ann")
        self.assertIn("only root", self.self_(vm, "snapshot", code=3, user="ann"))
        self.s.api("PATCH", f"/v1/vms/{vm}", {"selfAccess": False})
        wait_for("the socket's end", lambda: self.s.run(vm, "test -e /run/pando/self.sock").code == 1, 30)
        self.s.api("PATCH", f"/v1/vms/{vm}", {"selfAccess": True})
        wait_for("the socket", lambda: self.s.run(vm, "test -e /run/pando/self.sock").code == 0, 30)
        self.self_(vm, f"delete {self.self_(vm, 'fork')}")
        self.s.delete(child)
        self.s.delete(vm)

    def test_without_a_network(self):
        vm = self.s.create(selfAccess=True, egress={"mode": "closed"})
        child = self.self_(vm, "fork")
        self.assertEqual(self.self_(vm, f"exec {child} hostname"), child)
        self.self_(vm, f"delete {child}")
        self.s.delete(vm)

    def test_a_fork_bomb_meets_the_quota(self):
        account = self.s.api("POST", "/v1/accounts", {"name": "bomb", "quotas": {"vms": 3, "runningVms": 3}})
        key = self.s.api("POST", f"/v1/keys?accountId={account['id']}", {"name": "k"})["key"]
        vm = self.s.request("POST", "/v1/vms", {"selfAccess": True}, key=key)[1]["id"]
        r = self.s.request("POST", f"/v1/vms/{vm}/exec-await", {"command":
            "for i in 1 2 3 4; do pando self fork || [ $? = 10 ] || exit 9; done", "timeoutMs": 100000}, key=key)[1]
        self.assertEqual(r["statusCode"], 9, r)
        self.assertIn("LIMIT_EXCEEDED", r["stderr"])
        self.assertLessEqual(len(self.s.request("GET", "/v1/vms", key=key)[1]["vms"]), 3)

        def defused():
            """Copies are still at it while others are deleted; an account that is gone makes no more."""
            for v in self.s.request("GET", "/v1/vms", key=key)[1]["vms"]:
                self.s.request("DELETE", f"/v1/vms/{v['id']}", key=key)
            return self.s.request("DELETE", f"/v1/accounts/{account['id']}")[0] == 200
        wait_for("the end of the bomb", defused, 60)

    def test_the_audit_log_says_it_was_the_vm(self):
        records = self.s.api("GET", "/v1/audit?limit=1000")["records"]
        mine = [r for r in records if r["route"] == "/v1/self/fork" and r["remote"] == f"vm:{self.vm}"]
        self.assertTrue(mine, records[:5])
        self.assertTrue(all(r["keyId"] == f"vm:{self.vm}" and r["accountId"] for r in mine))
        self.s.delete_all()
