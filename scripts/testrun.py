# SPDX-License-Identifier: Apache-2.0
"""testrun.py [STEP...] - the steps of make test, in order

Theory of operation: a step is a command in its own session, with a log in build-logs/ and a time limit that
never goes past the deadline of the whole run; at the limit its process group gets SIGTERM, then SIGKILL. Results
are reported as lines of JSON in the file PANDO_TEST_RESULTS (lint and end-to-end), or read from meson's
own log (unit, tsan and fuzz). A step that fails without naming a failed test, or ends without naming any, is itself a
failure, so nothing can pass by not having run. A few failed test programs and classes run a second time when everything else is
over, alone: what passes then was upset by its neighbours on a small machine; it counts as passed and is named as unstable, with its
first failure. What fails twice has failed. Test programs have their temporary files in one directory, which is removed at the end,
whatever became of them.

The base image is made in the background as soon as there is an agent to put in it. When it is there, the first lanes of end-to-end
tests start, beside the other steps: tests with real VMs are more than half of all the work, and wait often enough to leave room. The last
step, e2e, adds the other lanes and waits for all of them.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build-logs")
TOTAL_S = int(os.environ.get("PANDO_TEST_DEADLINE_S", "4800"))
HEARTBEAT_S = 30
TERM_GRACE_S = 45  # the end-to-end tests shut down their VMs on SIGTERM
E2E_S = 3600        # of one lane of end-to-end tests
E2E_LONG_S = 4500   # of one lane of the long ones
TAIL_LINES = 40
AGAIN_MAX = 6     # test programs and classes that get a second try; more are not an accident
UNIT_LANES = 4    # unit test programs at a time: most of them wait more than they compute
LANES = 3         # end-to-end test programs at a time: one more than cores, since all of them spend time waiting
BESIDE = 2        # of these, beside the other steps

E2E = ["/usr/bin/python3", "tests/e2e/run.py"]
CMOCKA = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\] (?!\d+ test)(\w+)", re.M)
# Tests of multi-threaded code, under ThreadSanitizer.
TSAN = ["storm", "turns", "vm_life", "vm_knock", "vm_trouble", "vm_once_create-pool", "vm_once_fork-8", "vm_once_suspend", "vm_once_delete",
        "edge", "edge_limits", "edge_process", "edge_git", "heads", "h1", "api_pty", "ssh", "git", "api_git_hostile"]
TSAN_REPORTS = os.path.join(LOGS, "tsan-report")  # .PID, of any process of the tests
TSAN_ENV = {"TSAN_OPTIONS": f"exitcode=66:second_deadlock_stack=1:history_size=4:log_path={TSAN_REPORTS}:"
                            f"suppressions={ROOT}/tests/tsan.supp"}
TMP = f"/tmp/pando-test.{os.getpid()}"  # TMPDIR of test programs; short, because sockets are made below it
RESULTS = {"OK": "pass", "FAILED": "fail", "SKIPPED": "skip"}


class Step:
    """A running command: its output goes to a log, and to the screen too when live."""

    def __init__(self, name, argv, limit_s, env=None, live=False, prefix="  "):
        self.name, self.argv, self.live, self.prefix = name, argv, live, prefix
        self.start = time.monotonic()
        self.deadline = min(self.start + limit_s, run.deadline)
        self.log = os.path.join(LOGS, name + ".log")
        self.timed_out = False
        self.out = open(self.log, "wb")
        self.proc = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE if live else self.out, stderr=subprocess.STDOUT,
                                     start_new_session=True)
        self.code, self.processor_s = None, 0.0
        self.ended = threading.Event()
        run.steps.append(self)
        threading.Thread(target=self._reap, daemon=True).start()
        self.reader = threading.Thread(target=self._tee, daemon=True)
        if live:
            self.reader.start()

    def _reap(self):
        """Not left to subprocess, which does not say what it cost."""
        _, status, used = os.wait4(self.proc.pid, 0)
        self.code = self.proc.returncode = os.waitstatus_to_exitcode(status)
        self.processor_s = used.ru_utime + used.ru_stime
        run.processor_s += self.processor_s
        self.ended.set()

    def _tee(self):
        for line in self.proc.stdout:
            self.out.write(line)
            self.out.flush()
            say(self.prefix + line.decode("utf-8", "replace").rstrip())

    def seconds(self):
        return time.monotonic() - self.start

    def stop(self):
        for sig, grace in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, 10)):
            if not self.ended.is_set():
                try:
                    os.killpg(self.proc.pid, sig)
                except ProcessLookupError:
                    pass
                self.ended.wait(grace)

    def wait(self):
        """True if it succeeded in time. Prints how long it has been running meanwhile."""
        beat = time.monotonic() + HEARTBEAT_S
        while not self.ended.is_set():
            now = time.monotonic()
            if now >= self.deadline:
                self.timed_out = True
                self.stop()
                break
            if now >= beat:
                if not self.live:
                    say(f"  {self.name} ... {self.seconds():.0f} s")
                beat = now + HEARTBEAT_S
            self.ended.wait(min(self.deadline, beat) - now)
        if self.live:
            self.reader.join(10)
        self.out.close()
        run.steps.remove(self)
        return self.code == 0

    def why(self):
        if self.timed_out:
            return f"not done after {self.seconds():.0f} s, stopped"
        code = self.code
        if code is None:
            return "did not end, not even when it was killed"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def tail(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]


class Run:
    def __init__(self):
        self.deadline = time.monotonic() + TOTAL_S
        self.steps = []   # running
        self.results = []
        self.image = None  # directory
        self.machines = Machines()
        self.processor_s = 0.0  # of all steps that ended
        self.again = {}   # tests that can run a second time: their indices in results

    def record(self, suite, name, result, reason="", log=(), again=None):
        """again: the function and arguments that run it a second time."""
        if again and result == "fail":
            self.again.setdefault(again, []).append(len(self.results))
        self.results.append((suite, name, result, reason))
        if result == "fail":
            say(f"  FAIL {suite}: {name}: {reason}")
            for line in log:
                say(f"    | {line}")
        elif result == "skip":
            say(f"  skip {suite}: {name}: {reason or 'no reason given'}")

    def count(self, result):
        return sum(1 for r in self.results if r[2] == result)

    def command(self, name, argv, limit_s, **kw):
        """Runs a step that is not a test but must succeed, such as a build."""
        say(f"{name}")
        s = Step(name, argv, limit_s, **kw)
        ok = s.wait()
        if ok:
            say(f"  done, {s.seconds():.1f} s")
        else:
            self.record("build", name, "fail", s.why(), s.tail())
        return ok

    def reported(self, name, argv, limit_s, env=None):
        """Runs a step that prints and reports its tests itself."""
        say(f"{name}")
        self.finish(self.begin(name, argv, limit_s, env))

    def begin(self, name, argv, limit_s, env=None, prefix="  "):
        file = os.path.join(LOGS, name + ".results")
        open(file, "w").close()
        return Step(name, argv, limit_s, env={**(env or {}), "PANDO_TEST_RESULTS": file}, live=True, prefix=prefix)

    def finish(self, s, again=None, alone=True):
        """Its number of results. alone: it has to have some."""
        ok = s.wait()
        with open(os.path.join(LOGS, s.name + ".results")) as f:
            found = [json.loads(line) for line in f]
        for r in found:
            # it was already printed when it happened
            if again and r["result"] == "fail":
                self.again.setdefault((again, r["name"].split(".")[1]), []).append(len(self.results))
            self.results.append((r["suite"], r["name"], r["result"], r.get("reason", "")))
        if not found and (alone or not ok):
            self.record(s.name, s.name, "fail", f"no test ran ({s.why()})", s.tail())
        elif not ok and (s.timed_out or s.code is None or s.code < 0 or not any(r["result"] == "fail" for r in found)):
            self.record(s.name, s.name, "fail", s.why(), s.tail())
        say(f"  {s.name}: {sum(r['result'] == 'pass' for r in found)} of {len(found)} passed, {s.seconds():.1f} s")
        return len(found)

    def stop(self):
        for s in list(self.steps):
            s.stop()


def say(text):
    print(text, flush=True)


# ---- the steps ----

def step_build():
    if not run.command("build", ["scripts/build.sh", "release"], 600):
        return
    if set(run.wanted) & {"e2e", "e2e-long", "package"}:
        run.machines.begin()
    run.command("build-asan", ["scripts/build.sh", "asan"], 1200)


def step_lint():
    run.reported("lint", ["scripts/lint.sh"], 3000)  # clang-tidy with an empty cache, beside tests with machines


def introspect(what, build):
    out = subprocess.run(["meson", "introspect", what, build], cwd=ROOT, capture_output=True, text=True)
    try:
        return json.loads(out.stdout)
    except ValueError:
        return []


def meson_tests(build):
    return introspect("--tests", build)


def programs_of(build, tests):
    """What has to be compiled for these tests, as targets of ninja."""
    files = {t["id"]: t["filename"] for t in introspect("--targets", build)}
    return sorted({os.path.relpath(f, os.path.join(ROOT, build)) for t in tests for d in t["depends"] for f in files[d]})


def meson_run(name, build, options, limit_s, lanes=UNIT_LANES):
    log = os.path.join(ROOT, build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    say(f"{name}")
    s = Step(name, ["meson", "test", "-C", build, "--no-rebuild", "--num-processes", str(lanes), *options], limit_s,
             env={**TSAN_ENV, "TMPDIR": TMP})
    ok = s.wait()
    before, failed = len(run.results), run.count("fail")
    tsan_reports()
    if os.path.exists(log):
        with open(log) as f:
            for line in f:
                meson_result(json.loads(line), build)
    if len(run.results) == before:
        run.record(name, name, "fail", f"no test ran ({s.why()})", s.tail())
    elif not ok and run.count("fail") == failed:
        run.record(name, name, "fail", s.why(), s.tail())
    new = run.results[before:]
    say(f"  {name}: {sum(r[2] == 'pass' for r in new)} of {len(new)} passed, {s.seconds():.1f} s")


def meson_again(build, suite, program):
    meson_run("again", build, ["--suite", suite, program], 600)


def meson_result(t, build):
    """One program of meson's log: each cmocka test in it counts, any other program as one."""
    suite, _, program = t["name"].rpartition(" / ")
    suite = suite.split(":")[-1] or "unit"
    again = (meson_again, build, suite, program)
    if build == "build-tsan":
        suite = "tsan"
    text = (t.get("stdout") or "") + (t.get("stderr") or "")
    tests = dict.fromkeys(m[2] for m in CMOCKA.finditer(text))
    for m in CMOCKA.finditer(text):
        tests[m[2]] = RESULTS[m[1]]
    tail = text.splitlines()[-TAIL_LINES:]
    for test, result in tests.items():
        reason = {"fail": "its log is below", "skip": skip_reason(text, test)}.get(result, "")
        run.record(suite, f"{program}.{test}", result, reason, again=again)
    if t["result"] == "SKIP":
        run.record(suite, program, "skip", tail[-1] if tail else "")
    elif t["result"] not in ("OK", "EXPECTEDFAIL"):
        if "fail" in tests.values():
            for line in tail:
                say(f"    | {line}")
        else:
            # ended before or after its tests: a crash, a leak, a time-out
            run.record(suite, program, "fail", f"{t['result']}, exit code {t.get('returncode')}", tail, again=again)
    elif not tests:
        run.record(suite, program, "pass")


def skip_reason(text, test):
    """What the test printed before it gave up."""
    m = re.search(r"^\[ RUN +\] " + test + r"$\n(.*?)^\[  SKIPPED \]", text, re.M | re.S)
    return m[1].strip().replace("\n", "; ") if m else ""


def step_unit():
    meson_run("unit", "build-asan", ["--no-suite", "plain", "--no-suite", "fuzz", "--timeout-multiplier", "2"], 1500)
    # tests that do not work with a sanitizer (a preloaded library, a jail): not built there, or in the suite "plain"
    there = {t["name"] for t in meson_tests("build-asan")}
    only = [t["name"] for t in meson_tests("build") if t["name"] not in there or t["suite"][0].endswith("plain")]
    if only and run.command("build-plain", ["scripts/build.sh", "release", *programs_of("build", [t for t in meson_tests("build") if t["name"] in only])], 600):
        meson_run("plain", "build", only, 900, lanes=2)


def tsan_reports():
    """New reports of ThreadSanitizer, from any process of the tests."""
    found = {}
    for path in sorted(glob.glob(TSAN_REPORTS + ".*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            for report in f.read().split("=" * 18 + "\n"):
                m = re.search(r"^SUMMARY: ThreadSanitizer: (.*)", report, re.M) or re.search(r"ThreadSanitizer: (?!reported)(.*)", report)
                if m:
                    found.setdefault(m[1], report)
        os.unlink(path)
    for what, report in found.items():
        run.record("tsan", what, "fail", "its report is below", report.splitlines())


def step_tsan():
    build = "build-tsan"
    for path in glob.glob(TSAN_REPORTS + ".*"):  # left by an interrupted run
        os.unlink(path)
    if not run.command("configure-tsan", ["scripts/build.sh", "tsan", "build.ninja"], 300):
        return
    tests = [t for t in meson_tests(build) if t["name"] in TSAN and t["suite"][0].endswith("unit")]
    lost = sorted(set(TSAN) - {t["name"] for t in tests})
    if lost:
        run.record("tsan", "every test is there", "fail", f"meson knows no test called {' '.join(lost)}")
    if run.command("build-tsan", ["scripts/build.sh", "tsan", *programs_of(build, tests)], 1200):
        meson_run("tsan", build, ["--suite", "unit", "--timeout-multiplier", "2", *TSAN], 900)


def step_package():
    if run.machines.image():
        run.reported("package", ["/usr/bin/python3", "tests/package/run.py"], 1800, {"PANDO_IMAGE": run.image})


def step_fuzz():
    listed = {t["name"] for t in meson_tests("build-asan") if t["suite"] and t["suite"][0].endswith("fuzz")}
    there = {os.path.basename(p)[5:-2] for p in glob.glob(os.path.join(ROOT, "tests/fuzz/fuzz_*.c"))}
    lost = sorted(there - listed)
    run.record("fuzz", "every target is listed", "fail" if lost or not there else "pass",
               f"not in tests/fuzz/meson.build: {' '.join(lost)}" if lost else "there is no tests/fuzz/fuzz_*.c")
    if listed:
        meson_run("fuzz", "build-asan", ["--suite", "fuzz"], 300)


class Machines:
    """The base image, the template and the lanes of the end-to-end tests: made in this order, in the background."""

    def __init__(self):
        self.thread = None
        self.image_there = threading.Event()
        self.failed = None  # what became of a step that did not succeed: (name, reason, log)
        self.lanes = []
        self.claims = None

    def begin(self):
        if not self.thread:
            self.thread = threading.Thread(target=self._main, daemon=True)
            self.thread.start()

    def _must(self, name, argv, limit_s, env=None):
        s = Step(name, argv, limit_s, env)
        if not s.wait():
            self.failed = (name, s.why(), s.tail())
            return None
        say(f"  {name}: done, {s.seconds():.1f} s")
        return s

    def _main(self):
        try:
            s = self._must("image", ["scripts/image.sh"], 1500)
            answer = s and (s.tail() or [""])[-1]
            if s and not os.path.isdir(answer):
                self.failed = ("image", "scripts/image.sh did not print a directory", s.tail())
            if self.failed:
                return
            run.image = answer
        finally:
            self.image_there.set()
        # once for all lanes: the slow cold boot of a new image
        if set(run.wanted) & {"e2e", "e2e-long"} and self._must("e2e-template", [*E2E, "--template"], 500, {"PANDO_IMAGE": run.image}):
            self.claims = tempfile.mkdtemp(dir=TMP)
            if "e2e" in run.wanted:
                self.add_lanes(BESIDE)

    def add_lanes(self, upto, options=(), limit_s=E2E_S):
        """Each takes the next class that no other has taken."""
        while len(self.lanes) < upto:
            n = len(self.lanes) + 1
            self.lanes.append(run.begin(f"e2e-{n}", [*E2E, *options], limit_s, {"PANDO_IMAGE": run.image, "PANDO_TEST_CLAIMS": self.claims},
                                        prefix=f"  {n}| "))

    def image(self):
        """True when the image is there; a failure is recorded once."""
        self.begin()
        self.image_there.wait()
        return self._good()

    def template(self):
        self.begin()
        self.thread.join()
        return self._good()

    def _good(self):
        if self.failed and self.failed is not True:
            name, why, log = self.failed
            run.record("build", name, "fail", why, log)
            self.failed = True
        return not self.failed


def step_e2e(options=(), limit_s=E2E_S):
    if run.machines.template():
        say("e2e")
        run.machines.add_lanes(LANES, options, limit_s)
        # one that starts late may find that the others have taken all classes
        if not sum(run.finish(s, again=e2e_again, alone=False) for s in run.machines.lanes):
            run.record("e2e", "e2e", "fail", "no test ran")


def step_e2e_long():
    step_e2e(["--long"], E2E_LONG_S)


def e2e_again(name):
    run.finish(run.begin("again", [*E2E, "--short", name], E2E_S, {"PANDO_IMAGE": run.image}))


STEPS = {"build": step_build, "lint": step_lint, "unit": step_unit, "tsan": step_tsan, "fuzz": step_fuzz, "package": step_package,
         "e2e": step_e2e}
MORE_STEPS = {"e2e-long": step_e2e_long}  # only when named


def second_try():
    """Runs failed tests again, if they are few."""
    first, todo = run.results, dict(run.again)
    if len(todo) > AGAIN_MAX:
        return
    for (what, *args), places in todo.items():
        if time.monotonic() >= run.deadline:
            break
        say(f"again, alone: {args[-1]}")
        run.results = []
        try:
            what(*args)
            passed = run.count("pass") and not run.count("fail")
        finally:
            run.results = first
        for n in places if passed else ():
            suite, name, _, reason = first[n]
            first[n] = (suite, name, "pass", "")
            say(f"unstable: {suite}: {name}: {reason}; it passed when it ran again")


def remove_tmp():
    """Ours, and those of runs that were killed."""
    for path in glob.glob("/tmp/pando-test.*"):
        pid = path.rpartition(".")[2]
        if path == TMP or (pid.isdigit() and not os.path.exists(f"/proc/{pid}")):
            shutil.rmtree(path, ignore_errors=True)


def on_signal(sig, _frame):
    raise KeyboardInterrupt(signal.Signals(sig).name)


def main():
    unknown = [n for n in sys.argv[1:] if n not in {**STEPS, **MORE_STEPS}]
    if unknown:
        say(f"unknown step '{unknown[0]}'; the steps are: {' '.join([*STEPS, *MORE_STEPS])}")
        return 2
    os.makedirs(LOGS, exist_ok=True)
    remove_tmp()
    os.mkdir(TMP)
    os.chmod(TMP, 0o1777)  # guests of tests have users, too
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    start, took = time.monotonic(), []
    run.wanted = sys.argv[1:] or list(STEPS)
    try:
        for name in run.wanted:
            if time.monotonic() >= run.deadline:
                run.record("all", name, "fail", f"not started: {TOTAL_S} s are over")
                continue
            begin, used = time.monotonic(), run.processor_s
            {**STEPS, **MORE_STEPS}[name]()
            # the second figure is what counts on a busy machine; image and template count for the step they end in
            took.append(f"{name} {time.monotonic() - begin:.0f} ({run.processor_s - used:.0f})")
            if name == "build" and run.count("fail"):
                break  # nothing to test
        second_try()
    except KeyboardInterrupt as e:
        run.record("all", "run", "fail", f"interrupted ({e})")
    finally:
        run.stop()
        remove_tmp()
    if run.count("fail") > 1:
        say("failed:")
        for suite, name, result, reason in run.results:
            if result == "fail":
                say(f"  {suite}: {name}: {reason}")
    skipped = run.count("skip")
    say(f"seconds (of processor time): {', '.join(took)}")
    say(f"{time.monotonic() - start:.0f} s in all")
    say(f"{run.count('pass')} passed, {run.count('fail')} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if run.count("fail") or not run.count("pass") else 0


run = Run()
sys.exit(main())
