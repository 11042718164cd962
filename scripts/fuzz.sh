#!/usr/bin/env bash
# fuzz.sh [run|coverage|table] [NAME...]: run each fuzz target (or those named, or FUZZ_TARGETS) for FUZZ_SECONDS with
# libFuzzer, and print a table (make fuzz); or measure which lines their corpora reach (make fuzz-coverage)
#
# Each run continues the last one: corpora, findings and sums are kept in FUZZ_DIR; see tests/fuzz/run.py.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

verb=run
case ${1:-} in run | coverage | table)
	verb=$1
	shift
	;;
esac
[[ ${FUZZ_SECONDS:-30} =~ ^[1-9][0-9]*$ ]] || die "FUZZ_SECONDS must be a number of seconds, not '$FUZZ_SECONDS'"

names=("$@")
((${#names[@]} > 0)) || read -r -a names <<<"${FUZZ_TARGETS:-}"
((${#names[@]} > 0)) || mapfile -t names < <(sed -n 's/^\([a-z0-9_]*\):.*/\1/p' tests/fuzz/targets.txt)
names=("${names[@]#fuzz_}")
for name in "${names[@]}"; do
	[[ -f tests/fuzz/fuzz_$name.c ]] || die "there is no fuzz target '$name'"
	[[ -d tests/fuzz/corpus/$name ]] || die "the fuzz target '$name' has no corpus in tests/fuzz/corpus/$name"
done
[[ $verb == table ]] || scripts/deps.sh build test
case $verb in
run) scripts/build.sh fuzz "${names[@]/#/tests/fuzz/fuzz_}" ;;
coverage) scripts/build.sh cov "${names[@]/#/tests/fuzz/fuzz_}" ;;
esac
exec tests/fuzz/run.py "$verb" "${names[@]}"
