#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--template | --long | --short] [NAME...] - runs the end-to-end tests, or only the named files, classes and tests

--template only makes the template of the tests' servers. Without names, classes and tests marked long stay out (make test), and with
--long nothing else runs (make test-long); --short leaves them out although their class is named. Each test prints one line when it is done: ok, FAIL or skip
with a reason. With PANDO_TEST_RESULTS every outcome is
also appended there as a line of JSON. A test that passes its deadline is a failure, not a hang.
"""
import glob
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from case import Case  # noqa: E402

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "order.list")) as f:
    FILES = [line.strip() for line in f if line.strip() and not line.startswith("#")]
SETUP_LIMIT_S = 400  # a class's server: the template may have to be booted first


class TooLong(Exception):
    pass


def on_alarm(_sig, _frame):
    raise TooLong("passed its deadline")


def on_term(sig, _frame):
    raise KeyboardInterrupt(signal.Signals(sig).name)


class Result(unittest.TestResult):
    """Prints and records each outcome as it happens."""

    def __init__(self):
        super().__init__()
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.start = time.monotonic()

    def record(self, test, result, reason="", details=()):
        seconds = time.monotonic() - self.start
        name = test.id().replace("__main__.", "") if hasattr(test, "id") else str(test)
        self.counts[result] += 1
        word = {"pass": "ok  ", "fail": "FAIL", "skip": "skip"}[result]
        took = "" if isinstance(test, str) else f" ({seconds:.1f} s)"  # a part has no time of its own
        print(f"{word} {name}{took}" + (f": {reason}" if reason else ""), flush=True)
        for line in details:
            print(f"     {line}", flush=True)
        path = os.environ.get("PANDO_TEST_RESULTS")
        if path:
            with open(path, "a") as f:
                f.write(json.dumps({"suite": "e2e", "name": name, "result": result, "seconds": round(seconds, 2),
                                    "reason": reason}) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self.start = time.monotonic()
        method = getattr(test, test._testMethodName)
        signal.setitimer(signal.ITIMER_REAL, getattr(method, "limit_s", test.limit_s) * harness.PATIENCE)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)

    def failed(self, test, err):
        signal.setitimer(signal.ITIMER_REAL, 0)
        reason = "".join(traceback.format_exception_only(err[0], err[1])).strip().splitlines()
        frames = [f for f in traceback.extract_tb(err[2]) if os.path.basename(f.filename).startswith("test_")]
        details = reason[1:] + [f"{os.path.relpath(f.filename)}:{f.lineno}: {f.line}" for f in frames]
        server = getattr(type(test), "s", None)
        if isinstance(server, harness.Server) and os.path.exists(server.log_path):
            details += ["the server's log ends with:"] + server.log_tail(30).splitlines()
        self.record(test, "fail", reason[0] if reason else str(err[0]), details)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "pass")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skip", reason)

    def part(self, test, name, outcome, reason):
        """A part of a test that counts as a separate test."""
        self.record(f"{test.id()}: {name}", outcome, reason)

    def addSubTest(self, test, subtest, err):
        if err:
            super().addSubTest(test, subtest, err)
            self.failed(subtest, err)


def classes_of(module):
    found = [c for c in vars(module).values()
             if isinstance(c, type) and issubclass(c, Case) and c is not Case and c.__module__ == module.__name__]
    return sorted(found, key=first_line)


def first_line(cls):
    return min((m.__code__.co_firstlineno for m in vars(cls).values() if hasattr(m, "__code__")), default=0)


def is_long(cls, name):
    return cls.long or getattr(getattr(cls, name), "long", False)


def tests_of(cls, wanted, only_long, only_short=False):
    """In the order in which they are written; what is inherited comes after that, test_zz last."""
    names = [n for n in dir(cls) if n.startswith("test_")]
    if not wanted:
        names = [n for n in names if is_long(cls, n) == only_long or n.startswith("test_zz")]
        if all(n.startswith("test_zz") for n in names):
            return []
    else:
        names = [n for n in names if {cls.__module__, cls.__name__, n} & set(wanted) or n.startswith("test_zz")]
        if only_short:
            names = [n for n in names if not is_long(cls, n) or n.startswith("test_zz")]
        if all(n.startswith("test_zz") for n in names):
            return []

    def place(n):
        inherited = n not in vars(cls)
        return n.startswith("test_zz"), inherited, getattr(cls, n).__code__.co_firstlineno
    return [cls(n) for n in sorted(names, key=place) if cls.own_server or not n.startswith("test_zz")]


def claim(cls):
    """Programs that run at the same time share the classes: the first to make the file has it."""
    claims = os.environ.get("PANDO_TEST_CLAIMS")
    if not claims:
        return True
    try:
        os.close(os.open(os.path.join(claims, cls.__name__), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        return True
    except FileExistsError:
        return False


def run_class(cls, tests, result):
    result.start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, SETUP_LIMIT_S * harness.PATIENCE)
        cls.setUpClass()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception:
        signal.setitimer(signal.ITIMER_REAL, 0)
        result.failed(tests[0], sys.exc_info())  # its server did not start: the others are not even tried
        cls.tearDownClass()
        return
    try:
        for t in tests:
            t.run(result)
    finally:
        cls.tearDownClass()


def processor_s():
    """Of everything that was started and has ended, VMs too; what counts on a busy machine."""
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def make_template():
    """Leaves the template in the cache, so that servers started at the same time need not each boot one."""
    server = harness.Server()
    try:
        server.start()
    finally:
        server.close()
    return 0


def main():
    args = sys.argv[1:]
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_term)
    if args == ["--template"]:
        return make_template()
    only_long = args[:1] == ["--long"]
    only_short = args[:1] == ["--short"]
    args = args[1:] if only_long or only_short else args
    result = Result()
    ran = 0
    try:
        for name in FILES:
            for cls in classes_of(importlib.import_module(name)):
                tests = tests_of(cls, args, only_long, only_short)
                if tests and claim(cls):
                    print(f"{name}: {cls.__name__}", flush=True)
                    begin, used = time.monotonic(), processor_s()
                    run_class(cls, tests, result)
                    ran += len(tests)
                    print(f"{cls.__name__}: {time.monotonic() - begin:.0f} s, {processor_s() - used:.0f} s of processor time", flush=True)
    except KeyboardInterrupt as e:
        print(f"interrupted ({e})", flush=True)
        return 130
    listed = {os.path.basename(p)[:-3] for p in glob.glob(os.path.join(os.path.dirname(__file__), "test_*.py"))}
    if listed != set(FILES):
        print(f"these files are not in order.list, or not there: {' '.join(sorted(listed ^ set(FILES)))}")
        return 2
    if not ran and not os.environ.get("PANDO_TEST_CLAIMS"):
        print(f"no test is called {' or '.join(args)}")
        return 2
    return 1 if result.counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
