#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rgw.sh dbstore|ceph: a Debian with an S3 server, from Debian's packages; prints its directory
#
# dbstore: radosgw of Debian 13, which keeps objects in SQLite: one process. ceph: monitor, OSD and radosgw of Debian 12. Both are
# Debian's builds of another release than this host's or too large for it, so they are in a tree of their own, kept in the cache.
# Nobody writes to it: rgw.py mounts what a server writes over it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/lib.sh
. "$here/../../scripts/lib.sh"
# shellcheck source=../../image/lib/host.sh
. "$here/../../image/lib/host.sh"

case ${1:-} in
dbstore) SUITE=trixie packages=radosgw ;;
ceph) SUITE=bookworm packages=ceph-mon,ceph-osd,ceph-common,radosgw ;;
*) die "usage: tests/objects/rgw.sh dbstore|ceph" ;;
esac
need_root "installing an S3 server into a tree of its own"
settings
cache=$PANDO_CACHE_DIR/rgw
dir=$cache/$1-$({ echo "$SUITE $packages" && cat "$here/rgw.sh"; } | sha256sum | head -c 16)
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
		--format=directory --include="$packages" --keyring="$(host_keyring)" --aptopt="$work/apt.conf" \
		"$SUITE" "$work/tree" "$work/debian.sources"
	mkdir -p "$work/tree"/{srv,etc/ceph,run/ceph,var/log/ceph}
}

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -w 1800 9 || die "another run has been installing an S3 server for 30 minutes: see what holds $cache/.lock"
if [[ ! -d $dir ]]; then
	rm -rf --one-file-system "$cache"/.tmp.* "$cache/$1"-* # the lock is held: a dead build's, and an old list's
	host_mirrors
	[[ -n $(host_keyring) ]] || die "this host's debian-archive-keyring has no keys of $SUITE"
	work=$cache/.tmp.$$
	mkdir "$work"
	step "installing radosgw (Debian $SUITE)" build_tree >&2
	mv "$work/tree" "$dir"
fi
echo "$dir"
