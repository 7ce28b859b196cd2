#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after another (the Go command takes one at a time).
# usage: scripts/fuzz.sh [DURATION]
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-10s}

targets=$(git ls-files --cached --others --exclude-standard -- '*_test.go' |
	xargs grep -EHo '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/' | sort -u || true)
if [ -z "$targets" ]; then
	echo "no fuzz target found" >&2
	exit 1
fi

passed=0 failed=0
while IFS=: read -r file name; do
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$duration" "./$(dirname "$file")" </dev/null; then
		passed=$((passed + 1))
	else
		echo "FAIL: $name in $file" >&2
		failed=$((failed + 1))
	fi
done <<<"$targets"
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
