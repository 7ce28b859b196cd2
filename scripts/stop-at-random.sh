#!/usr/bin/env bash
# Stops Redis, Postgres, dispatchers and test programs at random, as a hypervisor or a machine that swaps does: each is
# stopped a tenth of the time, for 0.3 s to LONGEST seconds at once. Only those that descend from the process ROOT are.
# Goes on until it is killed; what is stopped then goes on when its time is over. Needs Linux.
# usage: scripts/stop-at-random.sh ROOT LONGEST
set -euo pipefail

root=$1
shortest=300 # milliseconds
longest=$(awk -v seconds="$2" 'BEGIN { printf "%d", seconds * 1000 }')
((longest > shortest)) || {
	echo "stop-at-random: LONGEST must be more than 0.3 s, is $2" >&2
	exit 2
}
# In each period, a process is stopped with the probability of threshold in 32768, as $RANDOM counts.
period=500 # milliseconds
threshold=$((32768 / 10 * period / ((shortest + longest) / 2)))

declare -A name parent state

# look reads what processes there are. One that ends meanwhile is left out.
look() {
	name=() parent=() state=()
	local file line pid
	for file in /proc/[0-9]*/stat; do
		{ read -r line <"$file"; } 2>/dev/null || continue
		pid=${line%% *}
		name[$pid]=${line#*(}
		name[$pid]=${name[$pid]%)*}
		read -r "state[$pid]" "parent[$pid]" _ <<<"${line##*) }"
	done
}

# descends reports whether a process descends from the root.
descends() {
	local pid=$1
	while ((pid > 1)); do
		((pid == root)) && return 0
		pid=${parent[$pid]:-0}
	done
	return 1
}

# may_stop reports whether a process is one that is stopped. A test stops servers too: those are left to it. A shell takes a
# child that is stopped for a job that the user suspends.
may_stop() {
	local above=${name[${parent[$1]}]:-}
	case ${name[$1]} in
	postgres) [ "$above" != postgres ] || return 1 ;; # a backend is stopped with its server
	redis-server | dispatcher | *.test) ;;
	*) return 1 ;;
	esac
	case $above in bash | dash | fish | sh | zsh) return 1 ;; esac
	[[ ${state[$1]} != [TtZ] ]] && descends "$1"
}

# stop_for stops processes for so many milliseconds.
stop_for() {
	local length=$1
	shift
	kill -STOP "$@" || true # one may have ended
	sleep "$((length / 1000)).$(printf %03d $((length % 1000)))"
	kill -CONT "$@" || true
}

stops=0
trap 'echo "$stops stops"' EXIT
trap exit INT TERM
while :; do
	look
	for pid in "${!name[@]}"; do
		((RANDOM < threshold)) && may_stop "$pid" || continue
		stopped=("$pid")
		for child in "${!parent[@]}"; do
			[[ ${name[$pid]} == postgres && ${parent[$child]} == "$pid" ]] && stopped+=("$child")
		done
		(trap - EXIT INT TERM && stop_for $((shortest + RANDOM % (longest - shortest))) "${stopped[@]}") 2>/dev/null &
		stops=$((stops + 1))
	done
	sleep 0.$period
done
