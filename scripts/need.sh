#!/bin/sh
# need.sh PROGRAM sees to it that the program is on this machine, since the tests start it themselves: redis, postgres,
# pgbouncer, postfix, node, chromium, promtool, systemd, zsh, fish or gcc. Where it is missing it is installed with the
# system's package manager, if that is possible without asking for a password; else one sentence says what to do.
# need.sh --check PROGRAM installs nothing: where the program is missing, one sentence says so.
# need.sh --check-package FOLDER does the same for what npm installs there.
set -eu

if [ "${1-}" = --check-package ]; then
	lock=$2/package-lock.json installed=$2/node_modules/.package-lock.json
	if [ -e "$installed" ] && [ ! "$lock" -nt "$installed" ] && [ ! "$2/package.json" -nt "$installed" ]; then
		exit 0
	fi
	echo "The tests need what npm installs in $2: run make install-servers." >&2
	exit 1
fi
check=no
if [ "${1-}" = --check ]; then
	check=yes
	shift
fi

case "${1-}" in
redis) program=redis-server apt=redis-server dnf=redis apk=redis brew=redis ;;
postgres) program=postgres apt=postgresql dnf=postgresql-server apk=postgresql brew=postgresql ;;
pgbouncer) program=pgbouncer apt=pgbouncer dnf=pgbouncer apk=pgbouncer brew=pgbouncer ;;
postfix) program=postfix apt=postfix dnf=postfix apk=postfix brew=postfix ;;
node) program=npm apt="nodejs npm" dnf=nodejs-npm apk="nodejs npm" brew=node ;;
chromium) program=chromium apt=chromium dnf=chromium apk=chromium brew=chromium ;;
promtool) program=promtool apt=prometheus dnf=prometheus apk=prometheus brew=prometheus ;;
systemd)
	# systemd-analyze, for the units; they are for Linux only, as their test is.
	[ "$(uname)" = Linux ] || exit 0
	program=systemd-analyze apt=systemd dnf=systemd apk=systemd brew=systemd
	;;
zsh) program=zsh apt=zsh dnf=zsh apk=zsh brew=zsh ;;
fish) program=fish apt=fish dnf=fish apk=fish brew=fish ;;
gcc) program=gcc apt="gcc libc6-dev" dnf="gcc glibc-devel" apk="gcc musl-dev" brew=gcc ;;
*) echo "usage: need.sh [--check] redis|postgres|pgbouncer|postfix|node|chromium|promtool|systemd|zsh|fish|gcc" >&2 && exit 2 ;;
esac

# Debian keeps Postgres's programs, and from other users than root PgBouncer, away from PATH; the tests look there too.
# Chromium has several names.
found() {
	command -v "$program" >/dev/null 2>&1 && return
	if [ "$program" = chromium ]; then
		for candidate in chromium-browser google-chrome google-chrome-stable; do
			command -v "$candidate" >/dev/null 2>&1 && return
		done
	fi
	for candidate in /usr/lib/postgresql/*/bin/"$program" /usr/sbin/"$program"; do
		[ -x "$candidate" ] && return
	done
	return 1
}

give_up() {
	echo "The tests need $program on PATH and it could not be installed ($1): install it, for example with" \
		"'apt-get install $apt', and try again." >&2
	exit 1
}

found && exit 0
if [ "$check" = yes ]; then
	echo "The tests need $program on PATH: run make install-servers, or for example 'apt-get install $apt'." >&2
	exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
	as_root='sudo -n '
else
	as_root=no
fi

if command -v brew >/dev/null 2>&1 && [ "$(id -u)" -ne 0 ]; then
	install="brew install $brew"
elif [ "$as_root" = no ]; then
	give_up "neither root nor sudo without a password"
elif command -v apt-get >/dev/null 2>&1; then
	# shellcheck disable=SC2086 # No word at all for root.
	${as_root}apt-get update >&2 || give_up "apt-get update failed"
	if [ "$program" = postfix ]; then
		# Without a configuration of its own it does not start: the test brings one. A mail server that is here stays.
		# shellcheck disable=SC2086 # No word at all for root.
		echo 'postfix postfix/main_mailer_type select No configuration' | ${as_root}debconf-set-selections >&2 ||
			give_up "debconf-set-selections failed"
		keep=--no-remove
	fi
	install="${as_root}env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${keep-} $apt"
elif command -v dnf >/dev/null 2>&1; then
	install="${as_root}dnf install -y $dnf"
elif command -v apk >/dev/null 2>&1; then
	install="${as_root}apk add $apk"
else
	give_up "no apt-get, dnf, apk or brew"
fi

echo "$program is not on PATH: $install" >&2
$install >&2 || give_up "'$install' failed"
found || give_up "it is still not on PATH after '$install'"
