#!/usr/bin/env bash
# bench.sh: runs the benchmarks (make bench)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepare_all "make bench" bench/run.py
exec /usr/bin/python3 bench/run.py "$@"
