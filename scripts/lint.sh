#!/usr/bin/env bash
# lint.sh: runs every check of tools/ (make lint)
#
# With PANDO_TEST_RESULTS each result is also appended to that file as a line of JSON, for scripts/testrun.py.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

checks=(words size deps codes metrics settings threats format python shell locks tidy) # the quick ones first
scripts/deps.sh build test
scripts/build.sh release

trap 'rm -f "$out"' EXIT
out=$(mktemp)
failed=0
for check in "${checks[@]}"; do
	start=${EPOCHREALTIME/./}
	outcome=pass
	tools/check-"$check" >"$out" 2>&1 || outcome=fail
	ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	if [[ $outcome == pass ]]; then
		printf 'ok   %-7s %s (%d.%d s)\n' "$check" "$(tail -n 1 "$out")" $((ms / 1000)) $((ms / 100 % 10))
	else
		failed=$((failed + 1))
		printf 'FAIL %-7s (%d.%d s)\n' "$check" $((ms / 1000)) $((ms / 100 % 10))
		sed 's/^/     /' "$out" | head -n 60
	fi
	[[ -z ${PANDO_TEST_RESULTS:-} ]] ||
		printf '{"suite": "lint", "name": "%s", "result": "%s", "seconds": %d.%03d}\n' \
			"$check" "$outcome" $((ms / 1000)) $((ms % 1000)) >>"$PANDO_TEST_RESULTS"
done
((failed == 0)) || die "$failed of ${#checks[@]} checks failed"
