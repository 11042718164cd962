#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# pando-image: makes sure that the VMs' base image is in the cache, building it if needed; prints its directory
#
# Runs in a checkout (make run, make test) and installed (/usr/sbin/pando-image, pando-image.service): the recipe and the guest agent are
# found relative to this file. Messages go to stderr: a terminal, or the journal. The link images/current in the cache
# names the image that was built or found last; pandod uses that one unless PANDO_IMAGE names another.
set -euo pipefail

USER_NAME=pando
# settings about the image that pandod's settings file may have; the environment wins
SETTINGS=(PANDO_IMAGE PANDO_CACHE_DIR PANDO_VM_DISK_GB)

say() { printf 'pando-image: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

usage() {
	cat <<-EOF
		usage: pando-image [--path | --check]

		Makes the base image of Pando's VMs, unless the cache has it, and prints its directory. Needs root; the first time it
		installs Debian packages into a tree, which takes a few minutes. pando.service does this at every start.
		  --path    print where the image is or would be
		  --check   read the whole image and compare it with its checksums; exit 0 if it is undamaged, else 1

		Settings come from the environment, then from PANDO_CONF (/etc/pando/pando.conf):
		  PANDO_CACHE_DIR    where it is kept (/var/cache/pando)
		  PANDO_VM_DISK_GB   size of the root disk of a VM (20)
		  PANDO_IMAGE        an image of your own: nothing is made
		From the environment only:
		  PANDO_DEBIAN_MIRROR, PANDO_DEBIAN_SECURITY_MIRROR   where packages come from (what this host's apt uses)
	EOF
}

# The last line NAME=value of the settings file, without the quotes around it.
from_file() {
	sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*\"\{0,1\}\([^\"]*\)\"\{0,1\}[[:space:]]*\$/\1/p" "$conf" | tail -n 1
}

read_settings() {
	local name value
	conf=${PANDO_CONF:-$conf}
	[[ -r $conf ]] || return 0
	for name in "${SETTINGS[@]}"; do
		[[ -z ${!name:-} ]] || continue
		value=$(from_file "$name")
		[[ -z $value ]] || export "$name=$value"
	done
}

# Sets recipe, the other variables of image/build.sh, and the settings file of an installed Pando.
find_recipe() {
	local here
	here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
	if [[ -x $here/../image/build.sh ]]; then # a checkout
		recipe=$here/../image conf=
		export PANDO_AGENT_BIN=${PANDO_AGENT_BIN:-$here/../build/agent/pando-agent}
	else
		recipe=$here/../share/pando/image conf=/etc/pando/pando.conf
		export PANDO_AGENT_BIN=$here/../libexec/pando/pando-agent
		export PANDO_IMAGE_BIN=$here/../libexec/pando/image # programs that are compiled in a checkout
	fi
	[[ -x $recipe/build.sh ]] || die "$recipe/build.sh is missing: this checkout or installation is incomplete"
}

# pandod links the image's disk into its data directory, and the kernel lets only the owner of a file do that
# (fs.protected_hardlinks); it writes its templates into the cache, the rest of which is root's
hand_over() {
	local dir=$1 cache=$2
	id -u "$USER_NAME" >/dev/null 2>&1 || die "there is no user '$USER_NAME': create it with systemd-sysusers or make run"
	[[ $(stat -c '%U %a' -- "$cache/templates" 2>/dev/null) == "$USER_NAME 700" ]] ||
		install -d -o "$USER_NAME" -g "$USER_NAME" -m 700 -- "$cache/templates"
	[[ -z $(find "$dir" ! -user "$USER_NAME" -print -quit) ]] || chown -R "$USER_NAME:$USER_NAME" -- "$dir"
	setpriv --reuid="$USER_NAME" --regid="$USER_NAME" --clear-groups test -r "$dir/rootfs.raw" ||
		die "the user '$USER_NAME' cannot reach the base image '$dir': open the directories above it (chmod o+x)," \
			"or choose another place with PANDO_CACHE_DIR"
	if [[ $(readlink "$cache/images/current" 2>/dev/null) != "${dir##*/}" ]]; then
		ln -sfn "${dir##*/}" "$cache/images/.current.$$"
		mv -T "$cache/images/.current.$$" "$cache/images/current"
	fi
}

mode=${1:-}
case $mode in
'' | --path | --check) ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac
find_recipe
read_settings
if [[ -n $mode ]]; then
	exec "$recipe/build.sh" "$mode"
fi
if [[ -n ${PANDO_IMAGE:-} ]]; then
	say "PANDO_IMAGE is set to $PANDO_IMAGE: nothing to build"
	echo "$PANDO_IMAGE"
	exit 0
fi
((EUID == 0)) || die "building the base image needs root (it creates files of other owners): run it as root or with sudo"
export PANDO_CACHE_DIR=${PANDO_CACHE_DIR:-/var/cache/pando}
mkdir -p -- "$PANDO_CACHE_DIR" || die "cannot create the cache directory '$PANDO_CACHE_DIR': set PANDO_CACHE_DIR"
out=$("$recipe/build.sh") || die "the base image could not be built; the reason is above"
dir=${out##*$'\n'}
[[ -d $dir ]] || die "$recipe/build.sh printed '$dir', which is not a directory"
hand_over "$dir" "$PANDO_CACHE_DIR"
echo "$dir"
