# SPDX-License-Identifier: Apache-2.0
"""code_ruby_checks.py - cells of Ruby, whose kernel runs where Ruby is installed; asked as code_checks.py is"""
from code_checks import CodeCalls


class RubyChecks(CodeCalls):
    def test_ruby(self):
        self.assertEqual(self.cell("x = 41; def double(n) = n * 2", "ruby")["results"], [])  # what defines something has nothing to show
        self.assertEqual(self.value("double(x + 1)", "ruby"), "84")
        r = self.cell("require 'set'\nputs 'ä'; warn 'e'\n[1, 'b', {c: 2}]", "rb")
        self.assertEqual((r["stdout"], r["stderr"], len(r["results"])), ("ä\n", "e\n", 1))
        self.assertEqual(self.cell("nil", "ruby")["results"], [])
        self.assertEqual(self.cell("x;", "ruby")["results"], [])
        self.assertNotEqual(self.value("rand(10**12)", "ruby"), self.value("rand(10**12)", "ruby"))
        self.assertEqual(len(self.value("'a' * 100_000", "ruby")), 100_002)

    def test_ruby_errors(self):
        e = self.cell("def f = 1 / 0\nf", "ruby")["error"]
        self.assertEqual((e["name"], e["value"]), ("ZeroDivisionError", "divided by 0"))
        self.assertRegex(e["traceback"], r"\A<cell \d+>:1:in .*: divided by 0 \(ZeroDivisionError\)\n\tfrom <cell \d+>:1:in .*f'\n\tfrom <cell \d+>:2:in .*\Z")
        self.assertEqual(self.cell("let q = ;", "ruby")["error"]["name"], "SyntaxError")
        self.assertEqual(self.cell("exit 3", "ruby")["error"]["name"], "SystemExit")
        e = self.cell("begin; raise 'one'; rescue; raise 'two'; end", "ruby")["error"]
        self.assertEqual((e["name"], e["value"]), ("RuntimeError", "two"))
        self.assertIn("one (RuntimeError)", e["traceback"])
        self.assertEqual(self.cell("class Odd; def inspect = raise('no'); end; Odd.new", "ruby")["error"]["value"], "no")
        r = self.cell("exit!(4)", "ruby")
        self.assertEqual((r["error"]["name"], r["kernelRestarted"]), ("KernelDied", True))

    def test_ruby_output_comes_back(self):
        """After a cell that closed it, or in which a child went on."""
        self.cell("$stdout.close; STDERR.close", "ruby")
        r = self.cell("puts 'out'; warn 'err'; system('echo child')", "ruby")
        self.assertEqual((r["stdout"], r["stderr"]), ("out\nchild\n", "err\n"))
        r = self.cell("if (pid = fork) then Process.wait(pid); 'parent' else puts 'child' end", "ruby")
        self.assertEqual((r["stdout"], r["results"]), ("child\n", [{"text/plain": '"parent"'}]))

    def test_ruby_timeout_and_interrupt(self):
        ctx = self.context("ruby")
        r = self.cell("kept = 1; puts 'begun'; sleep 100", "ruby", contextId=ctx, timeoutMs=1500)
        self.assertEqual((r["error"]["name"], r["timedOut"], r["stdout"]), ("Interrupt", True, "begun\n"))
        r = self.cell("loop {}", "ruby", contextId=ctx, timeoutMs=1500)
        self.assertEqual((r["error"]["name"], r["timedOut"]), ("Interrupt", True))
        self.assertEqual(self.value("kept", "ruby", contextId=ctx), "1")
        self.assertEqual(self.request("DELETE", self.code_path(f"/contexts/{ctx}"))[0], 200)
        self.interrupt_before_it_begins("ruby", "Process.pid", "$begun = 1; sleep 1000", "$begun ? 'begun' : 'not begun'")
