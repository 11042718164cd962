#!/usr/bin/env bash
# deb.sh [DIRECTORY]: builds a Debian package for this release of Debian, in DIRECTORY (build/); prints its path (make deb)
#
# make install into a tree, then what a package has in addition: dependencies (libraries by dpkg-shlibdeps, programs from
# deps.sh), maintainer scripts, checksums, compressed documentation. Nothing in it depends on who builds it, where or when.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

out=$(realpath -m -- "${1:-build}")
scripts/deps.sh build deb
work=$(mktemp -d)
cleanup() {
	step_stop
	rm -rf -- "$work"
}
trap cleanup EXIT
tree=$work/tree
maintainer="${DEBFULLNAME:-Pando} <${DEBEMAIL:-pando@localhost}>"
umask 022

# Optional programs: certificates by ACME, a tunnel where the kernel has no WireGuard.
RECOMMENDS=(uacme wireguard-go)

version() { meson introspect --projectinfo build | sed -n 's/.*"version": "\([^"]*\)".*/\1/p'; }

# The commit's time, for every file: the same source makes the same package.
epoch() { git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build; }

# ELF files of the tree, except those that run in the guest: the image's hash covers the agent as it was linked.
programs() {
	local file
	while read -r file; do
		[[ $(head -c 4 "$file" | tail -c 3) == ELF && $file != */pando-agent && $file != */libpando-ready.so ]] && echo "$file"
	done < <(find "$tree" -type f \( -perm /111 -o -name '*.so' \))
	return 0
}

strip_programs() { programs | xargs strip --strip-unneeded --remove-section=.comment --remove-section=.note; }

library_dependencies() {
	local list
	mkdir -p "$work/source/debian"
	printf 'Source: pando\n\nPackage: pando\nArchitecture: amd64\n' >"$work/source/debian/control"
	list=$(cd "$work/source" && programs | grep -v '/image/init$' | xargs dpkg-shlibdeps -O --ignore-missing-info 2>"$work/shlibs.log") ||
		die "dpkg-shlibdeps: $(tail -n 3 "$work/shlibs.log")"
	sed -n 's/^shlibs:Depends=//p' <<<"$list"
}

program_dependencies() {
	local name except=" ${RECOMMENDS[*]} "
	for name in $(scripts/deps.sh --list run) binutils systemd; do
		[[ $except == *" $name "* ]] || printf ', %s' "$name"
	done
}

write_control() {
	cat >"$tree/DEBIAN/control" <<-EOF
		Package: pando
		Version: $(version)-1
		Architecture: amd64
		Maintainer: $maintainer
		Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f 1)
		Depends: $(library_dependencies)$(program_dependencies)
		Recommends: $(printf '%s, ' "${RECOMMENDS[@]}" | sed 's/, $//')
		Section: admin
		Priority: optional
		Description: microVMs for untrusted code, frozen, thawed and forked with memory
		 Pando is a self-hosted platform that runs untrusted code in microVMs on QEMU.
		 A VM starts in a blink and can be frozen, thawed and forked together with its
		 memory. The server speaks the Freestyle wire protocol.
		 .
		 The first start of the service makes the VMs' base image from Debian packages;
		 installing this package downloads nothing.
	EOF
}

# /usr/share/doc/pando, and files that policy requires to be compressed
write_doc() {
	local doc=$tree/usr/share/doc/pando
	mkdir -p "$doc"
	cp packaging/deb/copyright "$doc/copyright"
	cp README.md SECURITY.md "$doc/"
	cp -r docs "$doc/docs"
	gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
	printf 'pando (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$(version)" \
		"$maintainer" "$(LC_ALL=C date -u -R -d "@$(epoch)")" | gzip -9n >"$doc/changelog.Debian.gz"
	find "$tree/usr/share/man" -type f -name '*.[0-9]' -exec gzip -9n {} +
	install -D -m 0644 packaging/deb/lintian-overrides "$tree/usr/share/lintian/overrides/pando"
}

build_package() {
	DESTDIR=$tree PREFIX=/usr scripts/install.sh
	find "$tree" -type d -exec chmod 0755 {} +
	find "$tree" -name '*.so' -exec chmod 0644 {} +
	strip_programs
	mkdir "$tree/DEBIAN"
	write_doc
	write_control
	echo /etc/pando/pando.conf >"$tree/DEBIAN/conffiles"
	install -m 0755 -t "$tree/DEBIAN" packaging/deb/{postinst,prerm,postrm}
	(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
	SOURCE_DATE_EPOCH=$(epoch) dpkg-deb --root-owner-group --build -Zxz "$tree" "$work/pando.deb" >&2
	mv "$work/pando.deb" "$package"
}

scripts/build.sh release
package=$out/pando_$(version)-1_amd64.deb
mkdir -p "$out"
step "packing $(basename "$package")" build_package
echo "$package"
