#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tree.sh PACKAGE.deb: a clean Debian of this host's release with systemd and what PACKAGE depends on, but not PACKAGE; prints its directory
#
# Its dependencies alone decide what is in there besides, so a dependency that the package forgot is missing. Kept in the
# cache by the list of packages; nobody writes to it (overlay mounts and copies do).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/lib.sh
. "$here/../../scripts/lib.sh"
# shellcheck source=../../image/lib/host.sh
. "$here/../../image/lib/host.sh"

KEEP=2 # trees in the cache, the most recently used
SYSTEM=(systemd-sysv dbus udev procps) # an ordinary machine; the last for the tests' own questions

(($# == 1)) || die "usage: tests/package/tree.sh PACKAGE.deb"
need_root "installing a clean Debian"
settings
cache=$PANDO_CACHE_DIR/package
SUITE=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[[ -n $SUITE ]] || die "/etc/os-release names no Debian release: the package is of this host's"
work=

cleanup() {
	step_stop
	[[ -z $work ]] || rm -rf --one-file-system "${work:?}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

build_tree() {
	host_sources "$(host_keyring)" >"$work/debian.sources"
	host_apt_options build >"$work/apt.conf"
	mkdir "$work/tmp"
	# a namespace of its own: whatever mmdebstrap mounts is gone with it, even when it is killed
	TMPDIR=$work/tmp unshare --mount --propagation private mmdebstrap --mode=root --variant=minbase --architectures=amd64 \
		--format=directory --include="$1" --keyring="$(host_keyring)" --aptopt="$work/apt.conf" \
		"$SUITE" "$2" "$work/debian.sources"
}

prune() {
	local old
	while read -r old; do
		rm -rf --one-file-system "${old:?}"
	done < <(find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -printf '%T@ %p\n' | sort -rn |
		tail -n "+$((KEEP + 1))" | cut -d ' ' -f 2-)
}

depends=$(dpkg-deb --field "$1" Depends | tr ',' '\n' | sed 's/([^)]*)//; s/|.*//; s/[[:space:]]//g')
list=$(printf '%s\n' "${SYSTEM[@]}" "$depends" | sort -u | paste -sd, -)
hash=$({ echo "$SUITE $list" && cat "$here/tree.sh"; } | sha256sum | head -c 32)
dir=$cache/$hash

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -w 900 9 || die "another run has been installing a clean Debian for 15 minutes: see what holds $cache/.lock"
if [[ ! -d $dir ]]; then
	rm -rf --one-file-system "$cache"/.tmp.* # the lock is held: they are a dead build's
	host_mirrors
	[[ -n $(host_keyring) ]] || die "this host's debian-archive-keyring has no keys of $SUITE"
	work=$cache/.tmp.$$
	mkdir "$work"
	step "installing a clean Debian $SUITE with what the package needs" build_tree "$list" "$work/tree" >&2
	mv "$work/tree" "$dir"
fi
touch "$dir"
prune
echo "$dir"
