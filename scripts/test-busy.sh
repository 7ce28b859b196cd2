#!/usr/bin/env bash
# Runs make test over and over in a fresh clone of HEAD while every core is kept busy by something else: a test that
# depends on how fast the machine is fails here. Prints a row per run, and ends with "N passed, N failed".
# usage: scripts/test-busy.sh [RUNS]
#
# Environment:
#   AT_ONCE    how many runs go on at the same time, each in a clone of its own (default: 1)
#   BUSY       busy loops beside the tests (default: one per core; 0 when other runs are load enough)
#   STOPS      stop servers and test programs at random, for up to so many seconds, see stop-at-random.sh (default: do not)
#   PKGS       packages to test (default: ./...)
#   TESTFLAGS  further flags of go test
#   LOGS       folder for the log of each run (default: a temporary one, kept when a run fails)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-20}
busy=${BUSY:-$(nproc)}
at_once=${AT_ONCE:-1}
logs=${LOGS:-$(mktemp -d)}
mkdir -p "$logs"
clones=$(mktemp -d)
beside=() # processes that make it hard

cleanup() {
	for pid in "${beside[@]}"; do kill "$pid" 2>/dev/null || true; done
	rm -rf "$clones"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# run_tests makes the run of that number in the clone of its slot, prints its row, and adds "passed" or "failed" to the
# results.
run_tests() {
	local run=$1 log=$logs/run-$1.log start=$SECONDS result=passed which=
	if ! make -C "$clones/$SLOT" test PKGS="${PKGS:-./...}" TESTFLAGS="${TESTFLAGS:-}" >"$log" 2>&1; then
		result=FAILED
		which=$(grep -E '^ *--- FAIL: |^FAIL.*\[(build|setup) failed\]|^panic: ' "$log" | sed -E 's/^ *//' | head -5 | tr '\n' ';' || true)
	fi
	printf '%4d  %-6s %7d  %s\n' "$run" "$result" $((SECONDS - start)) "$which"
	echo "$result" >>"$clones/results"
}
export -f run_tests
export clones logs

for ((slot = 0; slot < at_once; slot++)); do
	git clone --quiet . "$clones/$slot"
	make -C "$clones/$slot" install-servers >"$logs/install-servers.log" 2>&1 || {
		cat "$logs/install-servers.log" >&2
		exit 1
	}
done
for ((i = 0; i < busy; i++)); do
	(while :; do :; done) &
	beside+=($!)
done
if [ "${STOPS:-0}" != 0 ]; then
	scripts/stop-at-random.sh $$ "$STOPS" >"$logs/stops.log" &
	beside+=($!)
fi

commit=$(git -C "$clones/0" rev-parse --short HEAD)
echo "commit $commit, $(nproc) cores, $busy busy loops, $runs runs, $at_once at once; logs in $logs"
printf '%4s  %-6s %7s  %s\n' run result seconds 'failed tests'
seq "$runs" | xargs --max-procs="$at_once" --process-slot-var=SLOT -I{} bash -c 'run_tests {}'

passed=$(grep -c passed "$clones/results" || true)
echo "$passed passed, $((runs - passed)) failed"
[ "$passed" -eq "$runs" ]
