#!/usr/bin/env bash
# build.sh KIND [TARGET...]: configure (once) and compile; kinds: release, asan, tsan, fuzz, cov
#
# release  build/       what make run starts, and nothing else unless targets are named (all: test programs, too)
# asan     build-asan/  the same with AddressSanitizer and UBSan, for the tests
# tsan     build-tsan/  with ThreadSanitizer, for tests of multi-threaded code
# fuzz     build-fuzz/  clang with libFuzzer
# cov      build-cov/   clang with coverage, to see what the corpora of the fuzz targets reach
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kind=${1:-release}
shift || true
sanitize=("-Db_sanitize=address,undefined" -Db_lundef=false -Doptimization=1 -Dwerror=false)
case $kind in
release)
	dir=build options=()
	(($# > 0)) || set -- product
	;;
# Warnings are errors in build/ only: the sanitizers cause false flow warnings in gcc.
asan) dir=build-asan options=("${sanitize[@]}") ;;
tsan) dir=build-tsan options=(-Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Dwerror=false) ;;
fuzz)
	dir=build-fuzz
	export CC=clang
	options=("${sanitize[@]}" -Dc_args=-fsanitize=fuzzer-no-link)
	;;
cov)
	dir=build-cov
	export CC=clang
	options=(-Db_lundef=false -Doptimization=1 -Dwerror=false "-Dc_args=-fprofile-instr-generate -fcoverage-mapping"
		-Dc_link_args=-fprofile-instr-generate)
	;;
*) die "build.sh: unknown kind '$kind'; use release, asan, tsan, fuzz or cov" ;;
esac

"$ROOT/scripts/deps.sh" build
# Two hundred programs, all with everything in them: several times faster where lld is there. What is installed is linked as usual.
[[ $kind == release ]] || ! command -v ld.lld >/dev/null || export CC_LD=lld
trap step_stop EXIT

# Where there is ccache, meson uses it; objects do not depend on the directory, so all clones share them.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1

configure() { meson setup "$dir" "${options[@]}" >&2; }
compile() { ninja -C "$dir" "$@" >&2; }

# A configuration that was interrupted, or copied from another checkout, is created again.
if [[ ! -f $dir/build.ninja ]] || ! grep -qsF "\"source\": \"$ROOT\"" "$dir/meson-info/meson-info.json"; then
	rm -rf -- "$dir"
	step "configuring $dir" configure
elif [[ -n $(find . -name 'build*' -prune -o -name node_modules -prune -o -name meson.build -newer "$dir/build.ninja" -print -quit) ]]; then
	# ninja only checks files it knows; this is for new folders
	options+=(--reconfigure)
	step "configuring $dir again" configure
fi
step "compiling $dir" compile "$@"
