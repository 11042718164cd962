# shellcheck shell=bash
# kmod.sh - our kernel module (kmod/), compiled for the kernel of the tree with that kernel's own headers and compiler
#
# They are unpacked into a tree beside it, not installed: the guest sees the module alone.

KMOD=pando_int3
KMOD_TOOLS=(base-files coreutils dash diffutils findutils grep make mawk sed)

# kmod_hook WORK: prints the program that mmdebstrap runs on the finished tree. WORK has the sources, apt's options
# and the other hooks.
kmod_hook() {
	cat <<-EOF
		#!/bin/sh -eu
		kernel=\$(ls "\$1/usr/lib/modules")
		at='$1/kbuild'
		mmdebstrap --mode=root --variant=extract --architectures=amd64 --format=directory \\
			--include="linux-headers-\$kernel,$(IFS=, && echo "${KMOD_TOOLS[*]}")" --keyring='$(host_keyring)' \\
			--aptopt='$1/apt.conf' --dpkgopt='$here/dpkg.cfg' --skip=download/empty --skip=cleanup/apt \\
			--setup-hook='$1/hooks/setup' '$SUITE' "\$at" '$1/debian.sources'
		cp -n "\$at"/var/cache/apt/archives/*.deb "\$1/var/cache/apt/archives/"
		ln -sf mawk "\$at/usr/bin/awk"
		cp -r '$here/kmod' "\$at/build"
		chroot "\$at" make -C "/usr/src/linux-headers-\$kernel" M=/build modules
		strip --strip-debug "\$at/build/$KMOD.ko"
		install -D -m 0644 "\$at/build/$KMOD.ko" "\$1/usr/lib/modules/\$kernel/updates/$KMOD.ko"
		depmod -b "\$1" "\$kernel"
		rm -rf "\$at"
	EOF
}
