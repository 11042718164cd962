#!/usr/bin/env bash
# test-kvm.sh [NAME...]: the KVM path, inside an emulated guest that has virtualisation (make test-kvm); 5 to 15 minutes
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_root "make test-kvm"
settings
trap step_stop EXIT
scripts/deps.sh build run test
scripts/build.sh release
prepare_user
prepare_cache
prepare_image
trap - EXIT
[[ -x tests/kvm/run ]] || die "tests/kvm/run is missing: this is not a whole checkout"
exec tests/kvm/run "$@"
