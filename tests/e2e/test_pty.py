# SPDX-License-Identifier: Apache-2.0
"""Terminal sessions on a real VM: all of pty_checks.py; suspend, fork, stop, kill -9 of the server"""
from case import Case, limit
from pty_checks import PtyBase, PtyChecks
from ws import Refused


class OnVm:
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()
        cls.port, cls.key = cls.s.port, cls.s.key()


class Pty(PtyChecks, OnVm, Case):
    """All of pty_checks.py on one VM."""
    flood_lines = 60000

    @limit(240)
    def test_x_full_screen_programs(self):
        """vim, htop and less: attaching shows the same as a terminal attached from the beginning."""
        self.s.sh(self.vm, "for i in $(seq 400); do printf '\\033[3%dm%d\\033[0m gr\\303\\274n \\346\\274\\242\\345\\255\\227 %0100d\\n' "
                           "$((i % 8)) $i $i; done > /root/colours")
        t = self.pty(exec="less -RS /root/colours", sessionId="less-c")
        t.expect("20")
        t.send("G")
        t.expect("400")
        self.assertIn("漢字", self.assert_same_look(t, "less-c"))
        t.send("q")
        self.assertEqual(t.end(), 0)
        self.assertIn(b"\x1b[?1049l", t.out)
        t = self.pty(exec="vi -u NONE -c 'set number ruler laststatus=2' /root/colours", sessionId="vim", cols=100, rows=30)
        t.expect("colours")
        t.send("ggitest gr\u00fcn \u6f22\u5b57 \x1b:20\rdd50|x:set nowrap\rGkkzz")
        t.expect("399,1")
        look = self.assert_same_look(t, "vim", 100, 30)
        self.assertIn(" alternate", look)
        t.send(":q!\r")
        self.assertEqual(t.end(), 0)
        t = self.pty(exec="htop -d 300", sessionId="htop", cols=110, rows=35)
        t.expect("Quit")
        self.s.sh(self.vm, "pkill -STOP htop")  # so that it draws nothing meanwhile
        self.assertIn("pando-agent", self.assert_same_look(t, "htop", 110, 35))
        self.s.sh(self.vm, "pkill -CONT htop")
        t.send("q")
        self.assertEqual(t.end(), 0)

    def test_y_cap(self):
        """128 sessions, those that ended among them."""
        have = len(self.sessions())
        self.s.sh(self.vm, "true")
        held = [self.pty(exec="true" if n % 2 else "cat") for n in range(128 - have)]
        self.assertEqual(len(self.sessions()), 128)
        self.assertEqual(self.refused(429, "SESSION_CAP_REACHED", "")["limit"], 128)
        self.assertEqual(self.kill(held[0].id)[0], 200)
        self.pty(exec="cat")
        for session in self.sessions():
            self.assertEqual(self.kill(session)[0], 200)
        self.assertEqual(self.sessions(), {})


class PtyLife(PtyBase, OnVm, Case):
    """One session through everything that happens to a VM."""

    @limit(240)
    def test_y_suspend_closes_and_attach_wakes(self):
        t = self.pty(exec="sh", sessionId="sleeper")
        t.send("PS1='$ '; x=remem''bered; printf '\\033[32mgreen\\033[0m\\n'\n")
        t.expect("green\x1b[0m")
        self.s.post(self.vm, "suspend")
        self.assertIsNone(t.end())
        self.assertEqual(t.closed[0], 1001)
        s = self.sessions()["sleeper"]  # and does not wake it
        self.assertEqual((s["suspended"], s["running"], s["exitCode"], s["attachedCount"]), (True, False, None, 0))
        self.assertEqual(self.s.state(self.vm), "suspended")
        a = self.attach("sleeper")
        self.assertEqual(self.s.state(self.vm), "running")
        a.expect("\x1b[0;32mgreen\x1b[0m")
        a.send("echo $x\n")
        a.expect("remembered\r\n")
        self.s.kill9_pandod()
        with self.assertRaises((ConnectionError, OSError)):
            a.end()
        b = self.attach("sleeper")
        b.send("echo $x-twice\n")
        b.expect("remembered-twice")
        a.close()

    @limit(240)
    def test_ya_forks_inherit_sessions_and_diverge(self):
        b = self.attach("sleeper")
        b.send("who=parent\n")
        gone = self.pty(exec="true", sessionId="ended")
        self.assertEqual(gone.end(), 0)
        child = self.s.fork(self.vm)[0]
        try:
            b.send("echo $who-$x-on\n")  # the one who was attached goes on
            b.expect("parent-remembered-on")
            self.s.post(child, "suspend")  # before anybody asked for its sessions: who only looks does not wake it
            self.assertEqual(self.ask("GET", "/pty/sessions?wake=false", vm=child), (200, {"sessions": [], "known": False}))
            self.assertEqual(self.s.state(child), "suspended")
            both = self.sessions(vm=child)
            self.assertEqual(self.s.state(child), "running")
            known = self.ask("GET", "/pty/sessions?wake=false", vm=child)[1]
            self.assertEqual((known["known"], {s["sessionId"] for s in known["sessions"]}), (True, set(both)))
            self.assertEqual(set(both) & {"sleeper", "ended"}, {"sleeper"})
            self.assertEqual(both["sleeper"]["attachedCount"], 0)
            c = self.attach("sleeper", vm=child)
            c.expect("remembered-twice")
            c.send("who=child; echo $who-$x-too\n")
            c.expect("child-remembered-too")
            b.send("echo $who-still\n")
            b.expect("parent-still")
            self.assertNotIn(b"child-remembered", b.out)
            c.send("exit 5\n")
            self.assertEqual(c.end(), 5)
            self.assertTrue(self.sessions()["sleeper"]["running"])
        finally:
            self.s.delete(child)

    @limit(240)
    def test_yb_stop_and_delete_are_not_held_up(self):
        b = self.attach("sleeper")
        self.s.post(self.vm, "kill")
        self.assertIsNone(b.end())
        self.assertEqual(self.sessions(), {})
        self.assertEqual(self.s.state(self.vm), "stopped")
        with self.assertRaises(Refused) as e:
            self.attach("sleeper")
        self.assertEqual((e.exception.status, e.exception.code), (404, "SESSION_NOT_FOUND"))
        self.assertEqual(self.s.state(self.vm), "stopped")  # not booted for that
        other = self.s.create()
        t = self.pty(vm=other, exec="cat")
        self.s.delete(other)
        self.assertIsNone(t.end())
        with self.assertRaises(Refused) as e:
            self.pty(vm=other)
        self.assertEqual((e.exception.status, e.exception.code), (410, "VM_DELETED"))

    def test_yc_delete(self):
        self.s.delete(self.vm)
