#!/usr/bin/env bash
# test.sh [STEP...]: runs all tests, ending in a line "N passed, N failed" (make test); or only the named steps
#
# Packages first, because the rest is Python: scripts/testrun.py has the steps and their order.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_root "make test"
settings
scripts/deps.sh build run test
exec /usr/bin/python3 scripts/testrun.py "$@"
