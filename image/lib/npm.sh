# shellcheck shell=bash
# npm.sh - what the image has from the npm registry (npm.list)
#
# A package of npm's is fetched once and kept in the cache. The registry is the one that npm on this host is configured with; a
# host without npm runs the one of the package tree. What cannot be fetched is left out, and said: an image without it
# is an image, and a server without a way to the registry is to start.
#
# node and npm go into the tree, as /usr/local/bin/node and npm, before Debian's in PATH. The others, RUNTIMES, would make
# every VM larger by a hundred megabytes: they lie beside the image as <name>.tar.zst, which pandod unpacks in a
# VM that asks for one, and keeps as a layer.

RUNTIMES=(bun deno)
NPM_SECONDS=900    # to fetch one package
declare -A npm_has # name -> the package's file
npm_missing=()

npm_spec() { sed -n "s/^$1 //p" "$here/npm.list"; }

# npm_pack SPEC TREE DIR: leaves the package as one *.tgz in DIR
npm_pack() {
	local spec=$1 tree=$2 dir=$3 home=$2/tmp/npm
	local pack=(timeout "$NPM_SECONDS" npm pack --silent --ignore-scripts --update-notifier=false "$spec")
	if command -v npm >/dev/null; then
		cd "$dir"
		"${pack[@]}"
		return
	fi
	mkdir -p "$home"
	cp -L /etc/resolv.conf "$tree/etc/resolv.conf" # ours replaces it later
	[[ ! -e ~/.npmrc ]] || cp ~/.npmrc "$home/"
	cat "${NODE_EXTRA_CA_CERTS:-/dev/null}" /etc/ssl/certs/ca-certificates.crt >"$home/ca.pem" 2>/dev/null || true
	chroot "$tree" sh -c 'cd /tmp/npm && HOME=/tmp/npm NODE_EXTRA_CA_CERTS=/tmp/npm/ca.pem exec "$@"' sh "${pack[@]}"
	mv "$home"/*.tgz "$dir/"
}

# npm_fetch FILE SPEC TREE WORK
npm_fetch() {
	local dir=$4/npm
	rm -rf "$dir"
	mkdir -p "$dir" "${1%/*}"
	npm_pack "$2" "$3" "$dir"
	mv "$dir"/*.tgz "$1"
}

# npm_ensure TREE WORK: fetches what the cache has not; sets npm_has and npm_missing
npm_ensure() {
	local tree=$1 work=$2 name spec file
	for name in node npm "${RUNTIMES[@]}"; do
		spec=$(npm_spec "$name")
		file=$cache/npm/$name-$(sha256sum <<<"$spec" | head -c 12).tgz
		if ! gzip -t "$file" 2>/dev/null; then
			try "fetching $spec from npm" npm_fetch "$file" "$spec" "$tree" "$work"
			((step_rc == 0)) || { npm_missing+=("$name") && continue; }
		fi
		npm_has[$name]=$file
	done
	((${#npm_missing[@]} == 0)) ||
		say "WARNING: the image is built without ${npm_missing[*]}: the npm registry could not be reached (see above)"
}

npm_version() { tar -xzOf "${npm_has[$1]}" package/package.json | sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' | head -n 1; }

# npm_settle TREE: Node.js and its npm. Debian's, in /usr/bin, stays as it is.
npm_settle() {
	local local=$1/usr/local modules=$1/usr/local/lib/node_modules
	[[ -n ${npm_has[node]:-} ]] || return 0
	mkdir -p "$local"/{bin,share/doc/nodejs} "$modules/npm"
	tar -xzf "${npm_has[node]}" -C "$local/bin" --strip-components=2 --no-same-owner package/bin/node
	tar -xzf "${npm_has[node]}" -C "$local/share/doc/nodejs" --strip-components=1 --no-same-owner package/LICENSE
	strip "$local/bin/node" # 18 MB of symbols; what addons link with stays
	chmod 0755 "$local/bin/node"
	[[ -n ${npm_has[npm]:-} ]] || return 0
	tar -xzf "${npm_has[npm]}" -C "$modules/npm" --strip-components=1 --no-same-owner --exclude=package/docs --exclude=package/man
	chmod -R u=rwX,go=rX "$modules/npm"
	chmod 0755 "$modules"/npm/bin/np[mx]-cli.js
	ln -sfn ../lib/node_modules/npm/bin/npm-cli.js "$local/bin/npm"
	ln -sfn ../lib/node_modules/npm/bin/npx-cli.js "$local/bin/npx"
	echo globalconfig=/etc/npmrc >"$modules/npm/npmrc" # one file for both
}

# npm_runtimes OUT WORK: the others, each as a tar of what it adds to the root directory
npm_runtimes() {
	local out=$1 dir=$2/runtime bin=$2/runtime/usr/local/bin name
	for name in "${RUNTIMES[@]}"; do
		[[ -n ${npm_has[$name]:-} ]] || continue
		rm -rf "$dir"
		mkdir -p "$bin"
		case $name in
		bun)
			tar -xzf "${npm_has[bun]}" -C "$bin" --strip-components=2 --no-same-owner package/bin/bun
			ln -s bun "$bin/bunx"
			;;
		deno) tar -xzf "${npm_has[deno]}" -C "$bin" --strip-components=1 --no-same-owner package/deno ;;
		esac
		chmod 0755 "$bin/$name"
		tar -c -C "$dir" --owner=0 --group=0 --mtime="@$EPOCH" usr/local/bin | zstd -q -6 -T0 >"$out/$name.tar.zst"
	done
	rm -rf "$dir"
}

# npm_manifest OUT: lines of the manifest
npm_manifest() {
	local name
	for name in "${!npm_has[@]}"; do
		echo "${name}_version=$(npm_version "$name")"
	done | LC_ALL=C sort
	for name in "${RUNTIMES[@]}"; do
		[[ ! -e $1/$name.tar.zst ]] || echo "${name}_size=$(stat -c %s "$1/$name.tar.zst")"
	done
	((${#npm_missing[@]} == 0)) || echo "missing=${npm_missing[*]}"
}
