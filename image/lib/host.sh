# shellcheck shell=bash
# host.sh - what the build takes from the machine it runs on: tools, archive keys, the package mirror
#
# No mirror is named in this repository. apt on the host already knows one: its URIs are read here, for mmdebstrap
# and for the guest's own apt. PANDO_DEBIAN_MIRROR and PANDO_DEBIAN_SECURITY_MIRROR override it (a host that is not Debian).

# command:package
HOST_TOOLS=(
	mmdebstrap:mmdebstrap
	zstd:zstd
	xz:xz-utils
	cpio:cpio
	mkfs.ext4:e2fsprogs
	depmod:kmod
	readelf:binutils
	tar:tar
)
LIBC_STATIC=/usr/lib/x86_64-linux-gnu/libc.a

host_tools() {
	local entry missing=()
	for entry in "${HOST_TOOLS[@]}"; do
		command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
	done
	if [[ -z ${PANDO_IMAGE_BIN:-} ]]; then # then init.c and blocks.c are compiled
		command -v gcc >/dev/null || missing+=(gcc)
		[[ -e $LIBC_STATIC ]] || missing+=(libc6-dev)
	fi
	[[ -n $(host_keyring) ]] || missing+=(debian-archive-keyring)
	((${#missing[@]} == 0)) && return 0
	step "installing ${missing[*]} on this host" apt_install "${missing[@]}"
	[[ -n $(host_keyring) ]] ||
		die "this host's debian-archive-keyring has no keys of $SUITE: install a newer one"
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y --no-install-recommends "$@" ||
		{ apt-get update && apt-get install -y --no-install-recommends "$@"; }
}

# Prints the keyring with the archive keys, nothing if this host has none that knows the suite.
host_keyring() {
	local ring
	compgen -G "/usr/share/keyrings/debian-archive-$SUITE-automatic.*" >/dev/null || return 0
	for ring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[[ -e $ring ]] && echo "$ring" && return 0
	done
	return 0
}

# Sets mirror and security_mirror (the latter may stay empty).
host_mirrors() {
	local uri release component
	mirror=${PANDO_DEBIAN_MIRROR:-}
	security_mirror=${PANDO_DEBIAN_SECURITY_MIRROR:-}
	while read -r uri release component; do
		[[ $component == main ]] || continue
		case $release in
		*-security | */updates) [[ -n $security_mirror ]] || security_mirror=$(mirror_of "$uri") ;;
		bullseye | bookworm | trixie | forky | duke | sid | stable | testing | unstable)
			[[ -n $mirror ]] || mirror=$(mirror_of "$uri")
			;;
		esac
	done < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null)
	[[ -n $mirror ]] || die "apt on this host is not configured with a Debian mirror: set PANDO_DEBIAN_MIRROR"
}

# Cloud images list their mirrors in a file: mirror+file:///etc/apt/mirrors/debian.list
mirror_of() {
	local uri=$1 first
	if [[ $uri == mirror+file:* ]]; then
		uri=${uri#mirror+file:}
		uri=/${uri##+(/)}
		read -r first _ <"${uri%/}" || return 0
		uri=$first
	fi
	echo "${uri%/}"
}

# host_sources KEYRING: the deb822 sources of the suite, for mmdebstrap and (with the guest's keyring) for the guest
host_sources() {
	cat <<-EOF
		Types: deb
		URIs: $mirror
		Suites: $SUITE $SUITE-updates
		Components: main
		Signed-By: $1
	EOF
	[[ -n $security_mirror ]] || return 0
	cat <<-EOF

		Types: deb
		URIs: $security_mirror
		Suites: $SUITE-security
		Components: main
		Signed-By: $1
	EOF
}

# Apt settings of the host without which its mirror cannot be used: a frozen mirror carries expired dates, a proxy is
# the only way out. Prints apt.conf lines. "guest" leaves out the proxy, which guests may not reach.
host_apt_options() {
	local for=$1 key value
	for key in Acquire::Check-Valid-Until Acquire::http::Proxy Acquire::https::Proxy; do
		[[ $for == guest && $key == *Proxy ]] && continue
		value=$(apt-config dump --format '%v%n' "$key" 2>/dev/null | head -n 1)
		[[ -n $value ]] && printf '%s "%s";\n' "$key" "$value"
	done
	return 0
}
