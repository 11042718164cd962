# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# bash.sh - the kernel of Bash contexts: a shell that evaluates cells from the agent and keeps its state
#
# Theory of operation: descriptor 3 is a socket to the agent: "RUN <bytes>\n" and a cell come in, frames go out (u32 length,
# u8 kind, u8 more, payload; docs/PROTOCOL.agent.md). A cell runs without descriptor 3, so its children do not have it.
# Everything of ours is named __pando_*.
#
# SIGINT ends what a cell runs and then the cell, not the shell: from then on a DEBUG trap has bash return from every function
# and sourced file before its next command (extdebug), and a cell is evaluated by sourcing this file again. "INT\n"
# precedes every SIGINT, so that one that came before the cell began is found in the socket.

if [[ -n ${__pando_cell-} ]]; then
	__pando_cell=
	eval "$__pando_code" 3>&-
	return
fi
__pando_count=0

# frame KIND PAYLOAD
__pando_frame() {
	local LC_ALL=C head
	local n=$((${#2} + 2))
	printf -v head '\\%03o\\%03o\\%03o\\%03o\\%03o\\000' $((n >> 24 & 255)) $((n >> 16 & 255)) $((n >> 8 & 255)) $((n & 255)) "$1"
	printf "$head%s" "$2" >&3
}

__pando_done() {
	local n=$__pando_count head
	printf -v head '\\000\\000\\000\\006\\007\\000\\%03o\\%03o\\%03o\\%03o' \
		$((n >> 24 & 255)) $((n >> 16 & 255)) $((n >> 8 & 255)) $((n & 255))
	printf "$head" >&3
}

# A copy of this machine must not draw the same numbers.
__pando_seed() {
	local now=
	{ read -r now </run/pando/generation; } 2>/dev/null
	[[ $now == "${__pando_generation-}" ]] && return
	__pando_generation=$now
	RANDOM=$((SRANDOM % 32768))
}

__pando_status() {
	local name=ExitStatus value="exit status $1"
	if (($1 == 130)); then
		name=Interrupted value='the cell was interrupted'
	elif (($1 > 128)) && kill -l $(($1 - 128)) >/dev/null 2>&1; then
		value="exit status $1 (SIG$(kill -l $(($1 - 128))))"
	fi
	__pando_frame 4 "{\"name\":\"$name\",\"value\":\"$value\",\"traceback\":\"$value\"}"
}

# What a DEBUG trap says to have bash return, where there is something to return from.
__pando_return() {
	((${#FUNCNAME[@]} <= 2)) || return 2
}

__pando_interrupt() {
	((!__pando_stop)) || set -o posix # it did not help: "read" in a cell ends by a signal in this mode only
	__pando_stop=1
	shopt -s extdebug
	trap __pando_return DEBUG
}

trap ':' INT
__pando_seed
__pando_frame 6 ''
while :; do
	IFS=' ' read -r -u 3 __pando_word __pando_size || { (($? > 128)) && continue; exit 0; }
	[[ $__pando_word != INT ]] || continue # its cell has ended
	__pando_code=
	if ((__pando_size > 0)); then
		LC_ALL=C IFS= read -r -u 3 -N "$__pando_size" __pando_code || exit 0
	fi
	[[ $__pando_word != CD ]] || cd -- "$__pando_code"
	[[ $__pando_word == RUN ]] || continue
	__pando_count=$((__pando_count + 1))
	__pando_seed
	__pando_stop=0
	trap __pando_interrupt INT
	if read -t 0 -u 3; then # INT: the signal came before the trap
		__pando_stop=1
	else
		__pando_cell=1
		# shellcheck source=/dev/null
		. "${BASH_SOURCE[0]}"
	fi
	__pando_exit=$?
	trap ':' INT
	if ((__pando_stop)); then
		trap - DEBUG
		shopt -u extdebug
		[[ ! -o posix ]] || set +o posix
		__pando_exit=130
	fi
	((__pando_exit == 0)) || __pando_status "$__pando_exit"
	__pando_done
done
