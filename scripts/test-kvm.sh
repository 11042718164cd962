#!/usr/bin/env bash
# test-kvm.sh [NAME...]: tests the KVM path inside an emulated guest with nested virtualisation (make test-kvm); 5 to 15 minutes
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepare_all "make test-kvm" tests/kvm/run
exec tests/kvm/run "$@"
