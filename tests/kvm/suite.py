#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""suite.py - the tests that run inside the outer guest, with the harness of the end-to-end tests and slower deadlines"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), HERE]
import run  # noqa: E402

run.FILES = ["test_kvm"]
run.SETUP_LIMIT_S = 900

if __name__ == "__main__":
    with open(os.path.join(ROOT, "names")) as f:
        sys.argv[1:] = f.read().split()
    sys.exit(run.main())
