#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""suite.py [NAME...] - runs test_kvm.py with the runner of the end-to-end tests; in the outer guest, or on a host with KVM"""
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), HERE]
import run  # noqa: E402
import test_kvm  # noqa: E402

run.SETUP_LIMIT_S = 1000  # probe and cold boot, emulated twice


def main():
    signal.signal(signal.SIGALRM, run.on_alarm)
    signal.signal(signal.SIGTERM, run.on_term)
    result, ran = run.Result(), 0
    for cls in run.classes_of(test_kvm):
        tests = run.tests_of(cls, sys.argv[1:], only_long=False)
        if tests:
            run.run_class(cls, tests, result)
            ran += len(tests)
    if not ran:
        print(f"no test is called {' or '.join(sys.argv[1:])}")
        return 2
    return 1 if result.counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
