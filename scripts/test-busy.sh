#!/usr/bin/env bash
# Runs make test over and over in a fresh clone of HEAD while every core is kept busy by something else: a test that
# depends on how fast the machine is fails here. Prints a row per run, and ends with "N passed, N failed".
# usage: scripts/test-busy.sh [RUNS]
#
# Environment:
#   BUSY       busy loops beside the tests (default: one per core; 0 for an idle machine)
#   PKGS       packages to test (default: ./...)
#   TESTFLAGS  further flags of go test
#   LOGS       folder for the log of each run (default: a temporary one, kept when a run fails)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-20}
busy=${BUSY:-$(nproc)}
logs=${LOGS:-$(mktemp -d)}
mkdir -p "$logs"
clone=$(mktemp -d)
loops=()

cleanup() {
	for loop in "${loops[@]}"; do kill "$loop" 2>/dev/null || true; done
	rm -rf "$clone"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

git clone --quiet . "$clone"
make -C "$clone" install-servers >"$logs/install-servers.log" 2>&1 || {
	cat "$logs/install-servers.log" >&2
	exit 1
}
for ((i = 0; i < busy; i++)); do
	(while :; do :; done) &
	loops+=($!)
done

commit=$(git -C "$clone" rev-parse --short HEAD)
echo "commit $commit, $(nproc) cores, $busy busy loops, $runs runs; logs in $logs"
printf '%4s  %-6s %7s  %s\n' run result seconds 'failed tests'
passed=0 failed=0
for ((run = 1; run <= runs; run++)); do
	log=$logs/run-$run.log
	start=$SECONDS
	if make -C "$clone" test PKGS="${PKGS:-./...}" TESTFLAGS="${TESTFLAGS:-}" >"$log" 2>&1; then
		result=passed passed=$((passed + 1)) which=
	else
		result=FAILED failed=$((failed + 1))
		which=$(grep -E '^ *--- FAIL: |^FAIL.*\[(build|setup) failed\]|^panic: ' "$log" | sed -E 's/^ *//' | head -5 | tr '\n' ';' || true)
	fi
	printf '%4d  %-6s %7d  %s\n' "$run" "$result" $((SECONDS - start)) "$which"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
