#!/usr/bin/env bash
# web.sh [--into DIR]: builds the dashboard and the docs site (web/) unless it was built before; prints where it is
#
# The result depends on nothing but the files in INPUTS, so it is kept in a cache under their hash and every clone and kind
# of build shares it. --into puts web_data.c and web.blob, which meson compiles into pandod, into DIR, untouched if they are the
# same already. With a filled cache this takes some milliseconds and needs neither Node nor a network.
#
#     CACHE/modules-HASH/    node_modules, by package-lock.json
#     CACHE/site-HASH/       dist/, web_data.c, web.blob
#
# CACHE is PANDO_CACHE_DIR/web (/var/cache/pando/web), or ~/.cache/pando/web for users who may not write there.
set -euo pipefail
from=$PWD
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# What the site is made of; a build sees nothing else.
INPUTS=(web clients/typescript/common.d.ts clients/typescript/gen/api.d.ts)
[[ ! -d web/docs ]] || INPUTS+=(docs README.md CHANGELOG.md)
KEEP=6 # sites; the oldest go

into=''
case ${1:-} in
--into) into=$(cd -- "$from" && realpath -- "${2:?web.sh: --into needs a directory}") ;;
'') ;;
*) die "web.sh: unknown argument '$1'; usage: web.sh [--into DIR]" ;;
esac

files() {
	find "${INPUTS[@]}" \( -name node_modules -o -path web/dist \) -prune -o -type f -print | LC_ALL=C sort
}

hash_of() { sha256sum | cut -c 1-20; }

# The first place that can be written, or read if it has the site already.
choose_cache() {
	local dir shared=${PANDO_CACHE_DIR:-/var/cache/pando}/web
	local own=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pando/web
	for dir in "$shared" "$own"; do
		if [[ -d $dir/site-$site ]] || { mkdir -p -- "$dir" 2>/dev/null && [[ -w $dir ]]; }; then
			cache=$dir
			return 0
		fi
	done
	die "cannot write to '$shared' or '$own': choose a directory with PANDO_CACHE_DIR"
}

# node_modules for the lock file, in place at once or not at all.
install_modules() {
	local tmp
	tmp=$(mktemp -d -- "$cache/.modules-XXXXXX")
	cp web/package.json web/package-lock.json .npmrc "$tmp/"
	if ! (cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund >&2); then
		rm -rf -- "$tmp"
		return 1
	fi
	chmod 0755 "$tmp"
	mv -T -- "$tmp" "$modules" 2>/dev/null || rm -rf -- "$tmp" # another build was faster
	[[ -d $modules/node_modules ]]
}

build_site() {
	local tmp rc=0
	tmp=$(mktemp -d -- "$cache/.site-XXXXXX")
	mkdir "$tmp/src" "$tmp/out"
	files | tar -cf - -T - | tar -xf - -C "$tmp/src"
	ln -s "$modules/node_modules" "$tmp/src/web/node_modules"
	(cd "$tmp/src/web" && node build.mjs --check --out "$tmp/out/dist" && node pack.mjs "$tmp/out/dist" "$tmp/out") >&2 || rc=$?
	if ((rc == 0)); then
		chmod 0755 "$tmp/out"
		mv -T -- "$tmp/out" "$cache/site-$site" 2>/dev/null || true # likewise
		touch "$cache/site-$site"
	fi
	rm -rf -- "$tmp"
	[[ $rc == 0 && -f $cache/site-$site/web.blob ]]
}

drop_old() {
	local dir
	for dir in $(ls -dt "$cache"/site-* 2>/dev/null | tail -n +$((KEEP + 1))); do
		rm -rf -- "$dir"
	done
	find "$cache" -maxdepth 1 -name '.*-??????' -mmin +120 -exec rm -rf -- {} + 2>/dev/null || true
}

# put FILE: FILE of the site, with the blob's path filled in, into $into if it differs
put() {
	local tmp=$into/.$1.new
	sed "s|@BLOB@|$into/web.blob|" "$cache/site-$site/$1" >"$tmp"
	if cmp -s "$tmp" "$into/$1"; then rm -f "$tmp"; else mv -f "$tmp" "$into/$1"; fi
}

cache=''
site=$(files | tr '\n' '\0' | xargs -0 sha256sum | hash_of)
choose_cache
if [[ ! -f $cache/site-$site/web.blob ]]; then
	scripts/deps.sh build
	modules=$cache/modules-$(cat web/package.json web/package-lock.json | hash_of)
	trap step_stop EXIT
	[[ -d $modules/node_modules ]] || step "installing the dashboard's packages" install_modules
	step "building the dashboard" build_site
	trap - EXIT
	drop_old
fi
if [[ -n $into ]]; then
	cmp -s "$cache/site-$site/web.blob" "$into/web.blob" || cp -f "$cache/site-$site/web.blob" "$into/web.blob"
	put web_data.c
fi
echo "$cache/site-$site"
