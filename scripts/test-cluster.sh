#!/usr/bin/env bash
# test-cluster.sh [CASE...]: three nodes, PostgreSQL with a standby and an object store on this machine, while they fail (make test-cluster)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepare_all "make test-cluster" tests/cluster-e2e/run.py
tests/objects/rgw.sh dbstore >/dev/null
# here, because the test has no way out of its own network
lock=tests/sdk/package-lock.json
[[ tests/sdk/node_modules/.package-lock.json -nt $lock ]] || (cd tests/sdk && npm ci --no-audit --no-fund >&2)
# so that three nodes need not boot a template each
tests/e2e/run.py --template
exec /usr/bin/python3 tests/cluster-e2e/run.py "$@"
