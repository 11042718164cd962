#!/usr/bin/env bash
# run.sh: builds and runs Pando from a checkout, in the foreground (make run)
#
# Packages, build, user, directories, base image; then this process becomes pando-priv, which starts pandod as its child
# under the pando user. Ctrl-C (or SIGTERM) reaches pando-priv, which stops pandod and then removes what it created
# on the host; its exit code is ours.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_root "make run"
[[ -c /dev/net/tun ]] ||
	die "/dev/net/tun is missing and VMs need it for their network: load the 'tun' module (modprobe tun)," \
		"or in a container pass the device in (--device /dev/net/tun)"
[[ $(uname -m) == x86_64 ]] || die "this machine is $(uname -m); Pando runs on x86_64 only"

settings
trap step_stop EXIT
scripts/deps.sh build run
scripts/build.sh release
prepare_user
own_dir "$PANDO_DATA_DIR" 700
reachable "$PANDO_DATA_DIR" "the data directory"
prepare_image
prepare_programs
trap - EXIT

exec build/priv/pando-priv --data "$PANDO_DATA_DIR" --user "$PANDO_USER" --qemu "${PANDO_QEMU:-/usr/bin/qemu-system-x86_64}" \
	--layers build/layers/libpando-layers.so -- "$PROGRAMS/pandod" --self-check
