#!/usr/bin/env bash
# fuzz.sh [NAME...]: run each fuzz target (or those named) for FUZZ_SECONDS with libFuzzer (make fuzz)
#
# Starts from the corpus in the tree; new inputs go to build-fuzz/found/. An input that crashes is kept
# as build-fuzz/crash-*: once the defect is fixed, move it to tests/fuzz/corpus/, where make test runs it from then on.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=${FUZZ_SECONDS:-30}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "FUZZ_SECONDS must be a number of seconds, not '$seconds'"
scripts/deps.sh build test

names=("$@")
((${#names[@]} > 0)) || mapfile -t names < <(basename -as .c tests/fuzz/fuzz_*.c)
names=("${names[@]#fuzz_}")
scripts/build.sh fuzz "${names[@]/#/tests/fuzz/fuzz_}"
failed=0
for name in "${names[@]}"; do
	target=build-fuzz/tests/fuzz/fuzz_$name
	[[ -x $target ]] || die "there is no fuzz target '$name'"
	corpus=tests/fuzz/corpus/$name
	found=build-fuzz/found/$name
	mkdir -p "$found"
	[[ -d $corpus ]] || die "the fuzz target '$name' has no corpus in $corpus"
	dict=()
	[[ ! -f tests/fuzz/$name.dict ]] || dict=("-dict=tests/fuzz/$name.dict")
	say "fuzzing $name for $seconds s"
	log=build-fuzz/$name.log
	if timeout --kill-after=10 "$((seconds + 60))" "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="build-fuzz/crash-$name-" "${dict[@]}" "$found" "$corpus" >"$log" 2>&1; then
		sed -n 's/^stat::number_of_executed_units: */  executed: /p; s/^stat::new_units_added: */  new inputs: /p' "$log" >&2
	else
		failed=$((failed + 1))
		tail -n 30 "$log" | sed 's/^/  | /' >&2
		say "fuzz target $name FAILED; the whole log is $log"
	fi
done
((failed == 0)) || die "$failed fuzz targets failed"
