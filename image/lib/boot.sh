# shellcheck shell=bash
# boot.sh - the two files QEMU boots from, made of the kernel package in the tree
#
# vmlinux: Debian's vmlinuz is a boot loader around a compressed ELF file. QEMU's PVH loader starts the ELF file directly,
# without firmware and without decompression. initrd: our init and the few modules that are not built in.

# What keeps an emulated kernel alive (kmod/); what the guest needs before systemd, its disk; and what it or systemd loads
# at once anyway, but decompressing it first.
INITRD_MODULES=(pando_int3 virtio_blk virtio_net virtio_rng crc32c_intel autofs4 ip_tables qemu_fw_cfg)

# What users were promised: Docker, WireGuard, VPNs, nested VMs. A kernel without one of these must not become an image.
REQUIRED_MODULES=(
	overlay br_netfilter bridge veth tun vxlan macvlan wireguard
	nf_tables nf_conntrack nf_nat nft_chain_nat nft_compat ip_tables iptable_nat iptable_filter xt_MASQUERADE
	xt_addrtype xt_conntrack xt_comment xt_mark xt_nat xt_tcpudp
	loop nbd fuse kvm_amd kvm_intel
)

le() { od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }

# boot_kernel_version TREE: there is exactly one
boot_kernel_version() {
	local dirs=("$1"/usr/lib/modules/*)
	[[ ${#dirs[@]} == 1 && -d ${dirs[0]} ]] || { echo "expected one kernel in the tree, found: ${dirs[*]}" >&2 && return 1; }
	basename "${dirs[0]}"
}

# boot_vmlinux VMLINUZ OUT
boot_vmlinux() {
	local setup payload length start size magic unpack
	setup=$(le "$1" $((0x1f1)) 1)
	payload=$(le "$1" $((0x248)) 4)
	length=$(le "$1" $((0x24c)) 4)
	((setup == 0)) && setup=4
	start=$(((setup + 1) * 512 + payload))
	size=$(le "$1" $((start + length - 4)) 4) # the payload ends with its unpacked size
	magic=$(od -An -t x1 -j "$start" -N 4 "$1" | tr -d ' ')
	case $magic in
	28b52ffd) unpack=(zstd -q -d -c) ;;
	fd377a58) unpack=(xz -d -c --single-stream) ;;
	1f8b*) unpack=(gzip -d -c) ;;
	*) echo "vmlinuz: unknown compression (magic $magic)" >&2 && return 1 ;;
	esac
	dd if="$1" status=none bs=1M iflag=skip_bytes,count_bytes skip="$start" count="$((length - 4))" |
		"${unpack[@]}" >"$2"
	[[ $(stat -c %s "$2") == "$size" ]] || { echo "vmlinux: unpacked size is not the promised $size" >&2 && return 1; }
	# note 18 of owner "Xen" is the PVH entry point; without it QEMU cannot start the file
	readelf -nW "$2" | grep -E '^ *Xen .*0x0*12\)' >/dev/null || { echo "vmlinux has no PVH entry note" >&2 && return 1; }
}

# boot_require_modules TREE VERSION
boot_require_modules() {
	local m missing=()
	for m in "${REQUIRED_MODULES[@]}"; do
		modprobe -d "$1" -S "$2" --show-depends "$m" >/dev/null 2>&1 || missing+=("$m")
	done
	((${#missing[@]} == 0)) || { echo "kernel $2 lacks: ${missing[*]}" >&2 && return 1; }
}

# boot_initrd TREE VERSION WORK OUT
boot_initrd() {
	local tree=$1 version=$2 dir=$3/initrd out=$4 m kind path name
	rm -rf "$dir"
	mkdir -p "$dir/lib"
	compile init.c "$dir/init" -static -Os
	strip "$dir/init"
	for m in "${INITRD_MODULES[@]}"; do
		modprobe -d "$tree" -S "$version" --show-depends "$m"
	done | while read -r kind path _; do
		[[ $kind == insmod ]] || continue # "builtin": nothing to load
		name=$(basename "$path")
		name=${name%.xz}
		grep -qx "/lib/$name" "$dir/modules" 2>/dev/null && continue
		case $path in
		*.xz) xz -d -c "$path" >"$dir/lib/$name" ;;
		*) cp "$path" "$dir/lib/$name" ;;
		esac
		echo "/lib/$name" >>"$dir/modules"
	done
	find "$dir" -exec touch -h -d "@$EPOCH" {} +
	(cd "$dir" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible) >"$out"
}
