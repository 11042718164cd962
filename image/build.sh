#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh - build the base image of the guests, or find it in the cache
#
# Theory of operation: hash the recipe -> look in the cache -> stage 1 (package tree, lib/root.sh) -> stage 2 (our files,
# what npm has: lib/npm.sh;
# the agent, file system, kernel, initramfs: lib/disk.sh, lib/boot.sh) -> rename into place. One lock covers the cache, so of
# two builds the second waits and then finds the result of the first. Nothing incomplete is ever visible; what is found
# damaged is built again. README.md says how to change the image.

set -euo pipefail
shopt -s nullglob extglob
export LC_ALL=C.UTF-8

SUITE=trixie
EPOCH=1735689600 # 2025-01-01, the time stamp of what would otherwise carry the time of the build
SPACE_GB=6       # what a build needs beside the cache for a moment
DISK_MIN_GB=4    # the packages, and room to work
SCRATCH_GB=4     # of that, the trees it unpacks

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
. "$here/lib/log.sh"
# shellcheck source=lib/host.sh
. "$here/lib/host.sh"
# shellcheck source=lib/cache.sh
. "$here/lib/cache.sh"
# shellcheck source=lib/kmod.sh
. "$here/lib/kmod.sh"
# shellcheck source=lib/root.sh
. "$here/lib/root.sh"
# shellcheck source=lib/npm.sh
. "$here/lib/npm.sh"
# shellcheck source=lib/boot.sh
. "$here/lib/boot.sh"
# shellcheck source=lib/disk.sh
. "$here/lib/disk.sh"

cache=${PANDO_CACHE_DIR:-/var/cache/pando}
debs=$cache/debs
kernels=$here/../agent/kernels # of the code interpreter; they go with the agent
disk_gb=${PANDO_VM_DISK_GB:-20}
work=

usage() {
	cat <<-EOF
		usage: image/build.sh [--path | --hash | --check]

		Builds the base image, unless the cache has it, and prints its directory. Needs root.
		  --path    print where the image of this recipe lies or would lie
		  --hash    print the hash of this recipe
		  --check   read the whole image and compare it with its manifest; exit 0 if it is whole, else 1

		PANDO_AGENT_BIN    the guest agent, a static binary with libpando-ready.so beside it (needed by all of them: its content is part of the hash)
		PANDO_CACHE_DIR    default /var/cache/pando
		PANDO_VM_DISK_GB   size of the file system, default 20
		PANDO_DEBIAN_MIRROR, PANDO_DEBIAN_SECURITY_MIRROR   default: what this host's apt uses
	EOF
}

cleanup() {
	step_stop
	[[ -z $work ]] || scratch_remove "$work"
}

# Starts this program again in a mount namespace of its own, where the host has any: otherwise whoever happens to look into a
# mount of the build (find, df, a backup) keeps it busy, and the build fails when it unmounts it. None outlives the build, either.
private_mounts() {
	[[ -z ${PANDO_IMAGE_PRIVATE:-} ]] || return 0
	! unshare --mount --propagation slave true 2>/dev/null ||
		PANDO_IMAGE_PRIVATE=1 exec unshare --mount --propagation slave "$here/build.sh"
}

lock_cache() {
	mkdir -p "$cache"/{images,roots,debs}
	exec 9>"$cache/.image-lock"
	if ! flock -n 9; then
		step "waiting for another build of the image" flock 9
	fi
}

# Usable? Then it counts as used now, for the pruning.
found() {
	local damage
	damage=$(image_damage "$dir" quick '')
	if [[ -n $damage ]]; then
		[[ ! -d $dir ]] || say "$damage: building it again"
		return 1
	fi
	touch "$dir" 2>/dev/null || true
	damage=$(manifest_get "$dir" missing)
	[[ -z $damage ]] || say "the image has no $damage: the npm registry could not be reached when it was built; to try again, delete $dir"
}

check_space() {
	local free
	free=$(($(df --output=avail -B1 "$cache" | tail -n 1) >> 30))
	((free >= SPACE_GB)) || die "$cache has $free GB free, a build needs $SPACE_GB: free some, or set PANDO_CACHE_DIR"
}

build() {
	local root_tar tree out kernel
	work=$cache/images/.tmp.$$
	tree=$work/scratch/tree out=$work/image
	mkdir -p "$out"
	scratch_make "$work/scratch"
	log=$cache/image-build.log
	: >"$log"

	root_ensure "$work"
	step "unpacking the package tree" disk_unpack "$root_tar" "$tree"
	kernel=$(boot_kernel_version "$tree") || die "the package tree has no kernel to boot"
	step "unpacking kernel $kernel" boot_vmlinux "$tree/boot/vmlinuz-$kernel" "$out/vmlinux"
	step "checking the kernel's modules" boot_require_modules "$tree" "$kernel"
	step "making the initramfs" boot_initrd "$tree" "$kernel" "$work" "$out/initrd"
	npm_ensure "$tree" "$work"
	step "adding Node.js" npm_settle "$tree"
	step "packing ${RUNTIMES[*]}" npm_runtimes "$out" "$work"
	step "adding our files and the agent" disk_settle "$tree"
	step "making the ${disk_gb} GB file system" disk_mkfs "$tree" "$out/rootfs.raw"
	step "writing the manifest" manifest_write "$out" "$work" "$kernel"
	chmod 0444 "$out"/*
	step "writing it to disk" sync "$out"/* # before the name: a quick check could not tell lost blocks
	rm -rf --one-file-system "${dir:?}"
	mv "$out" "$dir"
}

main() {
	local mode=${1:-build} damage
	case $mode in
	build | --path | --hash | --check) ;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
	[[ -n ${PANDO_AGENT_BIN:-} ]] || die "PANDO_AGENT_BIN is not set: it names the guest agent to put into the image"
	[[ -f $PANDO_AGENT_BIN && -r $PANDO_AGENT_BIN ]] || die "PANDO_AGENT_BIN: cannot read $PANDO_AGENT_BIN"
	ready_lib=${PANDO_AGENT_BIN%/*}/libpando-ready.so # made with the agent, and of one version with it
	[[ -f $ready_lib && -r $ready_lib ]] || die "PANDO_AGENT_BIN: cannot read $ready_lib beside it"
	[[ $disk_gb =~ ^[1-9][0-9]{0,4}$ ]] || die "PANDO_VM_DISK_GB=$disk_gb: must be a number of GB"
	((disk_gb >= DISK_MIN_GB)) || die "PANDO_VM_DISK_GB=$disk_gb: the image needs at least $DISK_MIN_GB"

	host_mirrors
	agent_sha=$(sha_of "$PANDO_AGENT_BIN")
	ready_sha=$(sha_of "$ready_lib")
	hash=$(image_hash)
	dir=$cache/images/$hash
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	case $mode in
	--hash) echo "$hash" && exit 0 ;;
	--path) echo "$dir" && exit 0 ;;
	--check)
		work=$(mktemp -d)
		damage=$(image_damage "$dir" full "$work")
		[[ -z $damage ]] || die "$damage"
		say "the image at $dir is complete"
		exit 0
		;;
	esac

	found && echo "$dir" && exit 0
	((EUID == 0)) || die "building the base image needs root (it creates files of other owners): run it with sudo"
	private_mounts
	host_tools
	lock_cache
	if ! found; then
		cache_prune
		check_space
		build
		cache_prune
		say "the image is ready after $SECONDS s"
	fi
	echo "$dir"
}

main "$@"
