#!/usr/bin/env bash
# storm.sh [ARGUMENT...]: random verbs on the VM manager under failures, for STORM_SECONDS (make storm)
#
# Needs no QEMU and no VM: the manager runs over a fake host (tests/storm/storm.c lists what is checked). Starts with
# a random seed. STORM_SEED replays one, STORM_TIMES times, and prints every step; arguments go to the program.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=${STORM_SECONDS:-1800}
times=${STORM_TIMES:-1}
kind=${STORM_BUILD:-asan} # or tsan
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "STORM_SECONDS must be a number of seconds, not '$seconds'"
[[ ${STORM_SEED:-1} =~ ^[0-9]+$ ]] || die "STORM_SEED must be a number, not '$STORM_SEED'"
scripts/deps.sh build test
scripts/build.sh "$kind" tests/storm/storm tests/vm/fakehost

export PANDO_FAKEHOST=$ROOT/build-$kind/tests/vm/fakehost PANDO_KERNEL=$ROOT/agent/kernels/bash.sh
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
if [[ -n ${STORM_SEED:-} ]]; then
	exec "build-$kind/tests/storm/storm" --seed "$STORM_SEED" --times "$times" --talk "$@"
fi
export STORM_RANDOM=1
exec "build-$kind/tests/storm/storm" --seconds "$seconds" "$@"
