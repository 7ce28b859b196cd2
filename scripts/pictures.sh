#!/usr/bin/env bash
# Makes the picture of README.md, docs/img/dashboard.png: the dashboard of dispatcher demo, after SECONDS of its traffic.
# Its charts show the last five minutes. Needs Chromium, which make install-servers installs.
# usage: scripts/pictures.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
page=127.0.0.1:18081 # the demo's dashboard

chromium=
for candidate in chromium chromium-browser google-chrome google-chrome-stable; do
	chromium=${chromium:-$(command -v "$candidate" || true)}
done
[ -n "$chromium" ] || { echo "Chromium is not installed; make install-servers installs it" >&2; exit 1; }

folder=$(mktemp -d) demo=
trap 'kill $demo 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
go build -o "$folder/dispatcher" ./cmd/dispatcher
"$folder/dispatcher" demo --listen 127.0.0.1:0 --ops-listen "$page" --log-level error >"$folder/said" &
demo=$!
sleep "${1:-300}"
kill -0 "$demo" # it has not ended
sandbox=()
[ "$(id -u)" -ne 0 ] || sandbox=(--no-sandbox) # root has none
timeout 60 "$chromium" --headless "${sandbox[@]}" --disable-dev-shm-usage --hide-scrollbars --window-size=1280,1100 \
	--timeout=5000 --screenshot="$PWD/docs/img/dashboard.png" "http://$page/" 2>"$folder/chromium" || {
	cat "$folder/chromium" >&2
	exit 1
}
