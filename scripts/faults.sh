#!/usr/bin/env bash
# faults.sh powercut|faults|soak|cycles: what takes long and goes wrong on purpose, on a real server with real VMs
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

what=${1:-}
number() { [[ $2 =~ ^[0-9]+$ ]] || die "$1 must be a number, not '$2'"; }
for name in POWERCUTS FAULTS KILLS SOAK_SECONDS CYCLES CYCLES_SECONDS GENERATIONS FAULTS_SEED; do
	number "$name" "${!name:-0}"
done
seed=()
[[ -z ${FAULTS_SEED:-} ]] || seed=(--seed "$FAULTS_SEED")
case $what in
powercut | faults | soak | cycles) ;;
*) die "faults.sh: what? powercut, faults, soak or cycles" ;;
esac
prepare_all "make $what" tests/load/clients.py
run() { /usr/bin/python3 "$@"; }
case $what in
powercut) run tests/disk/powercut.py --vms --cuts "${POWERCUTS:-60}" "${seed[@]}" ;;
faults)
	rc=0
	run tests/disk/faults.py --faults "${FAULTS:-60}" "${seed[@]}" || rc=1
	run tests/load/kills.py --kills "${KILLS:-200}" --only "${KILLS_OF:-pandod,pando-priv,qemu,git}" "${seed[@]}" || rc=1
	exit $rc
	;;
soak) run tests/load/soak.py --seconds "${SOAK_SECONDS:-1800}" "${seed[@]}" ;;
cycles)
	run tests/load/cycles.py --cycles "${CYCLES:-1000}" --generations "${GENERATIONS:-200}" --seconds "${CYCLES_SECONDS:-3600}" \
		--dir "${CYCLES_DIR:-/var/tmp/pando-cycles}"
	;;
esac
