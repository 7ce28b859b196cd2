# Says in few lines what failed, from the output of go test -v for any number of packages: each failed test without its
# parents, with the last lines it printed, and each package that failed without a failed test (a build, a panic, a leak).
# usage: awk -f scripts/failures.awk LOG

function keep(line) {
	count[test]++
	printed[test, count[test]] = substr(line, 1, 300)
}

function tell(name, heading,    i) {
	print heading
	i = count[name] - 4
	for (i = i < 1 ? 1 : i; i <= count[name]; i++) print "    " printed[name, i]
}

function failed_below(name,    other) {
	for (other in failed) if (index(other, name "/") == 1) return 1
	return 0
}

/^=== (RUN|CONT|NAME|PAUSE) / { test = $3; next }
# Names without a space: Go replaces those of subtests by underscores.
/^ *--- FAIL: / { failed[$3] = 1; test = ""; next }
/^ *--- (PASS|SKIP): / { test = ""; next }

/^(ok  |FAIL|\?   )\t/ {
	told = 0
	for (name in failed) if (!failed_below(name)) { tell(name, "FAILED " $2 " " name); told = 1 }
	if ($1 == "FAIL" && !told) tell("", "FAILED " $0)
	delete failed; delete count; delete printed
	test = ""
	next
}

/^ +[^ ]+\.go:[0-9]+: / || /^(panic|fatal error):/ || /DATA RACE|goleak:|^[^ ]+\.go:[0-9]+:[0-9]+: / { sub(/^ +/, ""); keep($0) }
