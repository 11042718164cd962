#!/usr/bin/env bash
# image.sh: makes sure that user, cache directory and base image exist; prints the image's directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_root "preparing the base image"
settings
prepare_user
reachable_checkout
prepare_image
echo "$PANDO_IMAGE"
