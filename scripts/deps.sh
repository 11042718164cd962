#!/usr/bin/env bash
# deps.sh [--list] GROUP...: installs missing Debian packages, or only lists them all; groups: build, run, test, deb
#
# The only list of Debian packages we use. Asks dpkg first, so it takes a few milliseconds if everything is installed, and then needs
# neither network nor root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

declare -A packages=(
	[build]="gcc libc6-dev meson ninja-build pkg-config
		libmicrohttpd-dev libssl-dev libjansson-dev libsqlite3-dev libpq-dev libnftables-dev libcurl4-openssl-dev
		libxxhash-dev libcmocka-dev libvterm-dev libwslay-dev libnghttp2-dev libedit-dev libpng-dev libgit2-dev libarchive-dev libpcre2-dev zlib1g-dev libssh-dev libseccomp-dev libzstd-dev libexpat1-dev"
	[run]="qemu-system-x86 qemu-utils nftables iproute2 wireguard-tools wireguard-go git libarchive-tools tzdata
		uacme mmdebstrap debian-archive-keyring ca-certificates zstd xz-utils cpio kmod e2fsprogs"
	[test]="ccache clang clang-19 clang-format clang-tidy libclang-rt-14-dev lld shellcheck python3 python3-pyflakes
		bubblewrap curl iputils-ping jq openssl procps wrk git-lfs nginx-light haproxy fcgiwrap openssh-client openssh-sftp-server rsync python3-paramiko knot knot-dnsutils pebble postgresql lintian chromium prometheus python3-prometheus-client ruby"
	[deb]="dpkg-dev binutils"
)

list=no
[[ ${1:-} != --list ]] || { list=yes && shift; }
wanted=()
for group in "$@"; do
	[[ -v packages[$group] ]] || die "deps.sh: unknown group '$group'; the groups are: ${!packages[*]}"
	read -ra names -d '' <<<"${packages[$group]}" || true
	wanted+=("${names[@]}")
	# Node may be installed from elsewhere, newer than Debian's; any will do. build: the dashboard (web.sh).
	if [[ $group == build || $group == test ]]; then
		command -v node >/dev/null || wanted+=(nodejs)
		command -v npm >/dev/null || wanted+=(npm)
	fi
done
((${#wanted[@]} > 0)) || exit 0
if [[ $list == yes ]]; then
	printf '%s\n' "${wanted[@]}"
	exit 0
fi

command -v dpkg-query >/dev/null ||
	die "this machine has no dpkg: Pando's scripts only support Debian. Install the equivalents of: ${wanted[*]}"

# Virtual, unknown and half-installed packages all lack the word "installed".
mapfile -t missing < <(
	dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
		awk '$2 == "installed" { print $1 }' | sort -u |
		comm -13 - <(printf '%s\n' "${wanted[@]}" | sort -u)
)
((${#missing[@]} > 0)) || exit 0

((EUID == 0)) || die "these Debian packages are missing: ${missing[*]}. Install them, or run this as root (sudo make deps)"

say "installing ${#missing[@]} missing packages: ${missing[*]}"
trap step_stop EXIT
export DEBIAN_FRONTEND=noninteractive
apt_update() { apt-get update >&2; }
apt_install() {
	apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" >&2
}
step "updating the package lists" apt_update
step "installing packages" apt_install
