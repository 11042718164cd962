# shellcheck shell=bash
# root.sh - stage 1: the package tree, as a tar
#
# mmdebstrap installs packages.list into an empty tree, kmod.sh adds our module. The tar is kept by the hash of what went into it, so a new agent
# or a changed guest file does not come through here; the downloaded packages are kept too, so a rerun needs the
# network only for what is new.

# The kernel package insists on a tool that makes initramfs images, and would run it. Ours comes from boot.sh, so a
# package of one control file stands in for it.
make_kernel_stand_in() {
	local dir=$1/stand-in
	mkdir -p "$dir/DEBIAN"
	cat >"$dir/DEBIAN/control" <<-EOF
		Package: pando-boot
		Version: 1
		Architecture: all
		Maintainer: Pando <pando@localhost>
		Provides: linux-initramfs-tool
		Description: stands in for an initramfs generator
		 The kernel and the initramfs of this machine lie outside of it.
	EOF
	dpkg-deb --root-owner-group --build "$dir" "$1/pando-boot.deb"
}

# root_ensure WORK: sets root_tar to a whole tar of this recipe. What is damaged in the cache is made again: a tar that has
# not its checksum, and (after a failure, in case one of them was the reason) the downloaded packages.
root_ensure() {
	local text="installing the packages of Debian $SUITE"
	root_tar=$cache/roots/$(root_hash).tar
	if [[ -e $root_tar ]]; then
		try "checking the package tree in the cache" root_check "$root_tar"
		((step_rc != 0)) || { touch "$root_tar" && return 0; }
	fi
	try "$text" root_build "$1" "$root_tar"
	((step_rc != 0)) || return 0
	compgen -G "$debs/*.deb" >/dev/null || exit 1
	rm -rf "${debs:?}" "$1/scratch/root"
	step "$text, all downloaded again" root_build "$1" "$root_tar"
}

root_check() { (cd "$(dirname "$1")" && sha256sum --check --strict "$(basename "$1").sha256"); }

# root_build WORK TAR: uses WORK/scratch
root_build() {
	local work=$1/scratch/root tar=$2 packages hooks=$1/scratch/root/hooks
	packages=$(sed 's/#.*//' "$here/packages.list" | xargs | tr ' ' ,)
	mkdir -p "$debs" "$work/tmp" "$hooks"
	host_sources "$(host_keyring)" >"$work/debian.sources"
	host_apt_options build >"$work/apt.conf"
	make_kernel_stand_in "$work"

	cat >"$hooks/setup" <<-EOF
		#!/bin/sh -eu
		mkdir -p "\$1/var/cache/apt/archives"
		find '$debs' -maxdepth 1 -name '*.deb' -exec cp -t "\$1/var/cache/apt/archives" {} +
	EOF
	cat >"$hooks/essential" <<-EOF
		#!/bin/sh -eu
		cp '$work/pando-boot.deb' "\$1/tmp/"
		chroot "\$1" dpkg --install /tmp/pando-boot.deb
		rm "\$1/tmp/pando-boot.deb"
	EOF
	# Test suites of big Python packages, 140 MB (numpy's stays: numpy.testing imports it; dpkg cannot leave them out,
	# py3compile wants every listed file). Matplotlib looks for fonts once, here, not at every guest's first plot.
	# What this tree did not use of the downloads is an older version of something: forget it.
	cat >"$hooks/customize" <<-EOF
		#!/bin/sh -eu
		cd "\$1/usr/lib/python3/dist-packages"
		find matplotlib pandas scipy sklearn sympy -type d -name tests -prune -exec rm -rf {} +
		cd /
		chroot "\$1" env HOME=/root MPLCONFIGDIR=/etc/skel/.cache/matplotlib python3 -c 'import matplotlib.font_manager'
		mkdir -p "\$1/root/.cache"
		cp -a "\$1/etc/skel/.cache/matplotlib" "\$1/root/.cache/"
		rm -rf '$debs.new'
		mkdir '$debs.new'
		find "\$1/var/cache/apt/archives" -maxdepth 1 -name '*.deb' -exec cp -t '$debs.new' {} +
		rm -rf '$debs'
		mv '$debs.new' '$debs'
	EOF
	kmod_hook "$work" >"$hooks/kmod"
	chmod 0755 "$hooks"/*

	TMPDIR=$work/tmp SOURCE_DATE_EPOCH=$EPOCH mmdebstrap --mode=root --variant=minbase --architectures=amd64 \
		--format=tar --verbose --include="$packages" --keyring="$(host_keyring)" \
		--aptopt="$work/apt.conf" --dpkgopt="$here/dpkg.cfg" \
		--skip=download/empty --skip=essential/unlink \
		--setup-hook="$hooks/setup" --essential-hook="$hooks/essential" \
		--customize-hook="$hooks/kmod" --customize-hook="$hooks/customize" \
		"$SUITE" "$1/root.tar" "$work/debian.sources"
	(cd "$1" && sha256sum root.tar) | sed "s/root.tar/$(basename "$tar")/" >"$tar.sha256"
	mv "$1/root.tar" "$tar"
	rm -rf "$work"
}
