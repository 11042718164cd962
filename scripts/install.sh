#!/usr/bin/env bash
# install.sh: build and install below PREFIX (/usr/local), or below DESTDIR for a package (make install)
#
# Settings are in /etc/pando whatever PREFIX is; an existing pando.conf is left unchanged.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
[[ $PREFIX == /* ]] || die "PREFIX=$PREFIX: must be an absolute path"
[[ -n $DESTDIR ]] || need_root "make install without DESTDIR"
[[ -z $DESTDIR ]] || DESTDIR=$(realpath -m -- "$DESTDIR")
trap step_stop EXIT

scripts/build.sh release
# Only the units contain paths, so another PREFIX recompiles nothing.
configure() { meson configure build -Dprefix="$PREFIX" -Dsysconfdir=/etc >&2 && ninja -C build product >&2; }
install_files() { DESTDIR=$DESTDIR meson install -C build --no-rebuild >&2; }
step "setting the prefix $PREFIX" configure
step "installing" install_files
[[ -e $DESTDIR/etc/pando/pando.conf ]] ||
	install -D -m 0644 packaging/pando.conf "$DESTDIR/etc/pando/pando.conf"
[[ -n $DESTDIR ]] && exit 0

scripts/deps.sh run
cat >&2 <<-EOF
	pando: installed below $PREFIX. To start it, now and at every boot:
	  systemd-sysusers && systemctl daemon-reload && systemctl enable --now pando
	  journalctl -fu pando -u pando-image    # the first start builds the base image, which takes minutes
EOF
