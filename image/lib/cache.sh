# shellcheck shell=bash
# cache.sh - where images live, what names them, and how to tell a whole one from a damaged one
#
#   images/<hash>/   rootfs.raw vmlinux initrd manifest; appears by rename, so it is either absent or was complete once
#   roots/<hash>.tar stage 1, and its .sha256
#   debs/            downloaded packages; npm/: those of npm
#
# A hash covers everything that decides the content and is in our hands. (What the mirror holds today is not: a newer
# package comes with the next change, or after deleting the cache.)

IMAGE_FILES=(rootfs.raw vmlinux initrd)
CACHE_KEEP=3 # of each kind, the most recently used

# recipe_lines PATH...: names, kinds and checksums of recipe files; README.md is no part of the recipe
recipe_lines() (
	cd "$here"
	find "$@" ! -name '*.md' ! -name LICENSE \( -type l -printf 'link %p %l\n' -o -type f -perm /111 -printf 'program %p\n' \) | LC_ALL=C sort
	find "$@" ! -name '*.md' ! -name LICENSE -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
)

root_hash() {
	{
		echo "suite $SUITE epoch $EPOCH"
		recipe_lines packages.list dpkg.cfg kmod lib/kmod.sh lib/root.sh
	} | sha256sum | head -c 32
}

image_hash() {
	{
		echo "root $(root_hash) disk $disk_gb"
		recipe_lines .
		host_sources - && host_apt_options guest
		echo "agent $agent_sha ready $ready_sha"
		(cd "$kernels" && sha256sum ./*)
	} | sha256sum | head -c 32
}

# compile SOURCE OUT [FLAG...]: an installed Pando has these programs compiled in PANDO_IMAGE_BIN, and needs no compiler
compile() {
	local src=$here/$1 out=$2 made=${PANDO_IMAGE_BIN:-}/${1%.c}
	shift 2
	[[ -z ${PANDO_IMAGE_BIN:-} ]] || { cp "$made" "$out" && return 0; }
	gcc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra "$@" -o "$out" "$src"
}

sha_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# blocks_sha RAW WORK: checksum of a sparse file, independent of its holes (blocks.c)
blocks_sha() {
	[[ -x $2/blocks ]] || compile blocks.c "$2/blocks"
	"$2/blocks" "$1" | sha256sum | cut -d ' ' -f 1
}

# manifest_write DIR WORK KERNEL
manifest_write() {
	local dir=$1 f key
	{
		echo "hash=$hash"
		echo "suite=$SUITE"
		echo "kernel=$3"
		echo "root_hash=$(root_hash)"
		echo "agent_sha256=$agent_sha"
		for f in "${IMAGE_FILES[@]}"; do
			key=${f%.raw}
			echo "${key}_size=$(stat -c %s "$dir/$f")"
			case $f in
			*.raw)
				echo "${key}_used=$(($(stat -c %b "$dir/$f") * 512))"
				echo "${key}_blocks_sha256=$(blocks_sha "$dir/$f" "$2")"
				;;
			*) echo "${key}_sha256=$(sha_of "$dir/$f")" ;;
			esac
		done
		npm_manifest "$dir"
		echo "built=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
	} >"$dir/manifest"
}

manifest_get() { sed -n "s/^$2=//p" "$1/manifest" | head -n 1; }

# image_damage DIR full|quick WORK: prints what is wrong, nothing if the image is whole. "quick" reads the small files and,
# of rootfs.raw, only its size and its superblock: milliseconds, for every start. "full" reads every byte.
image_damage() {
	local dir=$1 depth=$2 f key
	[[ -d $dir ]] || { echo "there is no image at $dir" && return; }
	[[ -r $dir/manifest ]] || { echo "$dir/manifest is missing" && return; }
	[[ $(manifest_get "$dir" hash) == "$hash" ]] || { echo "$dir/manifest is of another image" && return; }
	[[ -n $(manifest_get "$dir" built) ]] || { echo "$dir/manifest is cut short" && return; }
	for f in "${IMAGE_FILES[@]}"; do
		key=${f%.raw}
		[[ -r $dir/$f ]] || { echo "$dir/$f is missing" && return; }
		[[ $(stat -c %s "$dir/$f") == "$(manifest_get "$dir" "${key}_size")" ]] ||
			{ echo "$dir/$f is not $(manifest_get "$dir" "${key}_size") bytes long" && return; }
		case $f in
		*.raw)
			[[ $(od -An -t x2 -j 1080 -N 2 "$dir/$f") == *ef53 ]] ||
				{ echo "$dir/$f does not begin with an ext4 superblock" && return; }
			[[ $depth != full || $(blocks_sha "$dir/$f" "$3") == "$(manifest_get "$dir" "${key}_blocks_sha256")" ]] ||
				{ echo "$dir/$f has not the checksum in its manifest" && return; }
			;;
		*)
			[[ $(sha_of "$dir/$f") == "$(manifest_get "$dir" "${key}_sha256")" ]] ||
				{ echo "$dir/$f has not the checksum in its manifest" && return; }
			;;
		esac
	done
	for f in "${RUNTIMES[@]}"; do
		key=$(manifest_get "$dir" "${f}_size")
		[[ -z $key || $(stat -c %s "$dir/$f.tar.zst" 2>/dev/null) == "$key" ]] ||
			{ echo "$dir/$f.tar.zst is not $key bytes long" && return; }
		[[ -z $key || $depth != full ]] || zstd -q -t "$dir/$f.tar.zst" 2>/dev/null ||
			{ echo "$dir/$f.tar.zst is damaged" && return; }
	done
}

# The trees of 70000 files go into memory if there is plenty: some file systems need half a minute for them.
scratch_make() {
	local free
	free=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) >> 20))
	mkdir -p "$1"
	((free < 2 * SCRATCH_GB)) || mount -t tmpfs -o "size=${SCRATCH_GB}g,mode=0755" pando-image "$1" 2>/dev/null || true
}

# scratch_remove WORK
scratch_remove() {
	! mountpoint -q "$1/scratch" || umount "$1/scratch" || umount -l "$1/scratch"
	rm -rf --one-file-system "${1:?}"
}

# cache_prune: the lock is held, so every temporary directory is a dead build's. An image with a file `pin` in it stays.
cache_prune() {
	local old
	for old in "$cache"/images/.tmp.*; do
		scratch_remove "$old"
	done
	while read -r old; do
		say "removing $old, the least recently used"
		rm -rf --one-file-system "${old:?}" "$old.sha256"
	done < <(
		find "$cache/images" -mindepth 1 -maxdepth 1 -type d ! -name '.*' ! -exec test -e '{}/pin' \; -printf '%T@ %p\n' |
			sort -rn | tail -n "+$((CACHE_KEEP + 1))" | cut -d ' ' -f 2-
		find "$cache/roots" -mindepth 1 -maxdepth 1 -name '*.tar' -printf '%T@ %p\n' |
			sort -rn | tail -n "+$((CACHE_KEEP + 1))" | cut -d ' ' -f 2-
	)
}
