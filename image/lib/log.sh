# shellcheck shell=bash
# log.sh - what the build says, and how it ends
#
# Everything a person reads goes to stderr as "image: ..."; stdout carries only the answer. Each step runs as a
# process group of its own with its output in $log, says how long it has been at it every HEARTBEAT seconds, and takes its
# whole group along when the build is interrupted.

HEARTBEAT=10
log=/dev/null
step_pid=
step_rc=0

say() { printf 'image: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# Runs until the step ends or the build is gone.
heartbeat() {
	local text=$1 start=$2 build=$3
	while sleep "$HEARTBEAT" && kill -0 "$build" 2>/dev/null; do
		say "$text ... $((SECONDS - start)) s"
	done
}

# try TEXT COMMAND...: run a command or function; sets step_rc. (It has no result of its own: called in a condition, bash
# would ignore every error inside COMMAND.)
try() {
	local text=$1 start=$SECONDS beat
	shift
	say "$text ..."
	printf '\n== %s\n' "$text" >>"$log"
	step_rc=0
	set -m
	(
		set -e
		"$@"
	) >>"$log" 2>&1 </dev/null &
	step_pid=$!
	heartbeat "$text" "$start" $$ </dev/null >/dev/null &
	beat=$!
	set +m
	wait "$step_pid" || step_rc=$?
	step_pid=
	kill -- "-$beat" 2>/dev/null || true
	wait "$beat" 2>/dev/null || true
	if ((step_rc != 0)); then
		tail -n 25 "$log" | sed 's/^/  | /' >&2
		say "$text failed after $((SECONDS - start)) s (exit code $step_rc); its last lines are above"
		return 0
	fi
	say "$text ... done, $((SECONDS - start)) s"
}

# step TEXT COMMAND...: the same, and a failure ends the build
step() {
	try "$@"
	((step_rc == 0)) || exit 1
}

step_stop() {
	[[ -n $step_pid ]] || return 0
	kill -TERM -- "-$step_pid" 2>/dev/null || true
	wait "$step_pid" 2>/dev/null || true
	step_pid=
}
