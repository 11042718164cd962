# shellcheck shell=bash
# lib.sh - shared by the scripts: messages, and preparations for a server or a test
#
# Sourced, never run. Messages for people go to stderr; stdout has only results. Every prepare_* function
# is quick if its work is already done, so that a second `make run` is ready in seconds.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck disable=SC2034  # used by scripts that source this
ROOT=$PWD

PANDO_USER=pando
HEARTBEAT=10 # seconds between progress lines of a long step

say() { printf 'pando: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

need_root() {
	((EUID == 0)) || die "$1 needs root (network namespaces, jails, packages): run it as root or with sudo"
}

# Directories may be relative to where make was called; from here on they are absolute.
settings() {
	PANDO_DATA_DIR=$(realpath -m -- "${PANDO_DATA_DIR:-/var/lib/pando}")
	PANDO_CACHE_DIR=$(realpath -m -- "${PANDO_CACHE_DIR:-/var/cache/pando}")
	export PANDO_DATA_DIR PANDO_CACHE_DIR
}

step_pid='' # process group of the running step, for step_stop

# Prints how long a step has been running, until it is killed or the script ends.
heartbeat() {
	local text=$1 start=$2 script=$3
	while sleep "$HEARTBEAT" && kill -0 "$script" 2>/dev/null; do
		say "$text ... $((SECONDS - start)) s"
	done
}

# step TEXT COMMAND...: runs a long command in its own process group, with its output in a file that is shown if
# it fails. stdout stays the step's own.
step() {
	local text=$1 start=$SECONDS rc=0 beat out
	shift
	out=$(mktemp)
	set -m
	"$@" </dev/null 2>"$out" &
	step_pid=$!
	heartbeat "$text" "$start" $$ </dev/null >/dev/null &
	beat=$!
	set +m
	wait "$step_pid" || rc=$?
	step_pid=''
	kill -- "-$beat" 2>/dev/null || true
	wait "$beat" 2>/dev/null || true
	if ((rc != 0)); then
		tail -n 40 "$out" | sed 's/^/  | /' >&2
		rm -f "$out"
		die "$text failed after $((SECONDS - start)) s (exit code $rc); its last lines are above"
	fi
	rm -f "$out"
	((SECONDS - start < 2)) || say "$text ... done, $((SECONDS - start)) s"
}

# For an EXIT trap: nothing that a step started outlives the script.
step_stop() {
	[[ -n $step_pid ]] || return 0
	kill -TERM -- "-$step_pid" 2>/dev/null || true
	wait "$step_pid" 2>/dev/null || true
	step_pid=''
}

prepare_user() {
	id -u "$PANDO_USER" >/dev/null 2>&1 && return 0
	useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin "$PANDO_USER" ||
		die "cannot create the system user '$PANDO_USER' that pandod runs as"
	say "created the system user '$PANDO_USER'"
}

# own_dir DIR MODE: DIR exists, belongs to the pando user and has MODE
own_dir() {
	local dir=$1 mode=$2
	[[ $(stat -c '%U %a' -- "$dir" 2>/dev/null) == "$PANDO_USER $mode" ]] && return 0
	install -d -o "$PANDO_USER" -g "$PANDO_USER" -m "$mode" -- "$dir" ||
		die "cannot create the directory '$dir': choose another with PANDO_DATA_DIR or PANDO_CACHE_DIR"
}

# can_reach PATH: the pando user can reach it through every directory above it
can_reach() {
	setpriv --reuid="$PANDO_USER" --regid="$PANDO_USER" --clear-groups test -r "$1"
}

# reachable PATH WHAT: or the script ends
reachable() {
	can_reach "$1" ||
		die "the user '$PANDO_USER' cannot reach $2 '$1': open the directories above it (chmod o+x)," \
			"or choose another place with PANDO_DATA_DIR or PANDO_CACHE_DIR"
}

# Tests and measurements run the programs where they were built.
reachable_checkout() {
	can_reach "$ROOT/scripts" ||
		die "the user '$PANDO_USER' cannot reach this checkout, '$ROOT': open the directories above it (chmod o+x), or clone it elsewhere"
}

# Sets PROGRAMS to a directory with pandod and its helpers that the pando user can reach: that of the build, or a copy in the cache
# if the checkout is in a place of root's alone, such as its home directory.
prepare_programs() {
	local names=(pandod pando-edge pando-ssh) all=$PANDO_CACHE_DIR/programs sum
	PROGRAMS=$ROOT/build/server
	can_reach "$PROGRAMS/pandod" && return 0
	sum=$(cd "$PROGRAMS" && sha256sum "${names[@]}" | sha256sum)
	PROGRAMS=$all/${sum:0:16}
	[[ -d $PROGRAMS ]] && return 0
	install -d -m 755 "$all"
	rm -rf "$PROGRAMS.new"
	install -D -m 755 -t "$PROGRAMS.new" "${names[@]/#/$ROOT/build/server/}"
	mv "$PROGRAMS.new" "$PROGRAMS"
	reachable "$PROGRAMS/pandod" "the cache directory"
	find "$all" -mindepth 1 -maxdepth 1 -mtime +30 ! -path "$PROGRAMS" -exec rm -rf {} +
}

# Sets PANDO_IMAGE to the directory of the base image, built first if it is not in the cache.
prepare_image() {
	local out
	out=$(PANDO_AGENT_BIN=$ROOT/build/agent/pando-agent scripts/pando-image.sh) || exit 1
	PANDO_IMAGE=${out##*$'\n'}
	export PANDO_IMAGE
}

# prepare_all WHAT FILE: as root, with packages, a release build, the user, the cache and the image, ready for FILE
prepare_all() {
	need_root "$1"
	settings
	trap step_stop EXIT
	scripts/deps.sh build run test
	scripts/build.sh release
	prepare_user
	reachable_checkout
	prepare_image
	trap - EXIT
	[[ -f $2 ]] || die "$2 is missing: this checkout is incomplete"
}
