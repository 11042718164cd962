#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# root.sh PROGRAM...: root disk, kernel and initramfs of the outer guest, built or taken from the cache; prints the directory
#
# The outer guest is a small Debian of the same release as this host: then the programs that were built here run in there
# with the same libraries and the same QEMU. Which libraries those are is asked of the PROGRAMs. It has no services: its
# init mounts the second disk and hands over to the test on it, so a changed test does not change this disk.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/lib.sh
. "$here/../../scripts/lib.sh"
# shellcheck source=../../image/lib/host.sh
. "$here/../../image/lib/host.sh"

DISK_GB=4 # of the root disk; sparse, half a GB of it is used
KEEP=2    # roots in the cache, the most recently used
PACKAGES=(linux-image-cloud-amd64 kmod iproute2 nftables procps python3 qemu-system-x86 qemu-utils git)

need_root "building the outer guest"
settings
cache=$PANDO_CACHE_DIR/kvm
work=

cleanup() {
	step_stop
	[[ -z $work ]] || rm -rf --one-file-system "${work:?}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The release this host runs; only what Debian still carries on its mirrors can be installed.
SUITE=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[[ -n $SUITE ]] || die "/etc/os-release names no Debian release: the outer guest must be of this host's"

# Packages of the shared libraries that the programs need. dpkg knows a file by one of its two names, below / or /usr.
libraries_of() {
	local paths path owners
	mapfile -t paths < <(ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u)
	owners=$(dpkg-query -S "${paths[@]}" "${paths[@]/#//usr}" 2>/dev/null) || true
	for path in "${paths[@]}"; do
		[[ $owners == *"/${path##*/}"* ]] || die "$path belongs to no package: it cannot be installed in the outer guest"
	done
	cut -d : -f 1 <<<"$owners" | sort -u
}

# Its whole init. Serial line 1 is the kernel's, 2 the test's.
write_init() {
	cat >"$1" <<-'EOT'
		#!/bin/bash
		export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
		mount -t proc proc /proc
		mount -t sysfs sysfs /sys
		mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
		mkdir -p /dev/pts /dev/shm
		mount -t devpts devpts /dev/pts
		for dir in /dev/shm /run /tmp; do mount -t tmpfs tmpfs "$dir"; done
		mount -t cgroup2 cgroup2 /sys/fs/cgroup
		stty -F /dev/ttyS1 raw -echo
		exec </dev/null >/dev/ttyS1 2>&1
		mount /dev/vdb /pando && /pando/tests/kvm/inside
		echo "outer guest: exit code $?"
		sync
		echo o >/proc/sysrq-trigger
		read -r </dev/ttyS0
	EOT
	chmod 0755 "$1"
}

build_tree() {
	local tree=$1 list=$2
	host_sources "$(host_keyring)" >"$work/debian.sources"
	host_apt_options build >"$work/apt.conf"
	write_init "$work/init"
	cat >"$work/hook" <<-EOT
		#!/bin/sh -eu
		mkdir "\$1/pando"
		chroot "\$1" useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin $PANDO_USER
		cp '$work/init' "\$1/usr/sbin/outer-init"
	EOT
	chmod 0755 "$work/hook"
	mkdir "$work/tmp"
	# a namespace of its own: whatever mmdebstrap mounts is gone with it, even when it is killed
	TMPDIR=$work/tmp unshare --mount --propagation private mmdebstrap --mode=root --variant=minbase --architectures=amd64 \
		--format=directory --include="$list" --keyring="$(host_keyring)" --aptopt="$work/apt.conf" \
		--dpkgopt="$ROOT/image/dpkg.cfg" --customize-hook="$work/hook" "$SUITE" "$tree" "$work/debian.sources"
}

make_disk() {
	local tree=$1 out=$2 kernels
	kernels=("$tree"/boot/vmlinuz-*)
	((${#kernels[@]} == 1)) || { echo "expected one kernel in the tree, found: ${kernels[*]}" >&2 && return 1; }
	mkdir "$out"
	cp "${kernels[0]}" "$out/vmlinuz"
	cp "$tree/boot/initrd.img-${kernels[0]##*/vmlinuz-}" "$out/initrd"
	truncate -s "${DISK_GB}G" "$out/root.raw"
	mkfs.ext4 -q -F -d "$tree" "$out/root.raw"
	chmod 0444 "$out"/*
	sync "$out"/*
}

prune() {
	local old
	while read -r old; do
		rm -rf --one-file-system "${old:?}"
	done < <(find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -printf '%T@ %p\n' | sort -rn |
		tail -n "+$((KEEP + 1))" | cut -d ' ' -f 2-)
}

(($# > 0)) || die "usage: tests/kvm/root.sh PROGRAM..."
libraries=$(libraries_of "$@")
list=$(printf '%s\n' "${PACKAGES[@]}" "$libraries" | sort -u | paste -sd, -)
hash=$({ echo "$SUITE $list" && cat "$here/root.sh" "$ROOT/image/dpkg.cfg"; } | sha256sum | head -c 32)
dir=$cache/$hash

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -w 900 9 || die "another run has been building the outer guest for 15 minutes: see what holds $cache/.lock"
if [[ ! -d $dir ]]; then
	rm -rf --one-file-system "$cache"/.tmp.* # the lock is held: they are a dead build's
	host_mirrors
	[[ -n $(host_keyring) ]] || die "this host's debian-archive-keyring has no keys of $SUITE"
	work=$cache/.tmp.$$
	mkdir "$work"
	step "installing the outer guest (Debian $SUITE, QEMU)" build_tree "$work/tree" "$list" >&2
	step "making its disk" make_disk "$work/tree" "$work/out"
	mv "$work/out" "$dir"
fi
touch "$dir"
prune
echo "$dir"
