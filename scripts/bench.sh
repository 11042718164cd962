#!/usr/bin/env bash
# bench.sh: the figures, side by side in one run (make bench); with AGAINST=DIR this build against that of another checkout
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepare_all "make bench" bench/run.py
[[ -z ${AGAINST:-} ]] || exec /usr/bin/python3 bench/compare.py "$AGAINST" "$@"
exec /usr/bin/python3 bench/run.py "$@"
