#!/usr/bin/env bash
# bench.sh: the figures, side by side in one run (make bench)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_root "make bench"
settings
trap step_stop EXIT
scripts/deps.sh build run test
scripts/build.sh release
prepare_user
prepare_cache
prepare_image
trap - EXIT
[[ -f bench/run.py ]] || die "bench/run.py is missing: this is not a whole checkout"
exec /usr/bin/python3 bench/run.py "$@"
