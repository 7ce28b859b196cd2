package docs_test

import (
	"strings"
	"testing"
)

const operatePage = "docs/operate.md"

// serveFirst is what the commands of the operator's page need: a dispatcher that is up, with a policy file, and with
// something to look at.
const serveFirst = `cat > policy.yaml <<'END'
version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}]}
END
dispatcher serve --policy policy.yaml >dispatcher.log 2>&1 &
until curl -sf http://` + opsAddress + `/readyz >ready.log; do sleep 0.05; done
enqueue --user ada --category chat --to http://` + receiverAddress + `/hook --title one --count 5`

// TestOperateIsTrue runs the commands of the operator's page as printed, but for those that need root, beside a running
// dispatcher. Each must succeed.
func TestOperateIsTrue(t *testing.T) {
	t.Parallel()
	steps := []step{{commands: serveFirst}}
	for _, s := range stepsOf(t, operatePage) {
		if (block{page: operatePage, text: s.commands + "\n"}).among(notRun) == nil {
			steps = append(steps, s)
		}
	}
	if len(steps) < 2 {
		t.Fatalf("%s has no block of commands to run", operatePage)
	}
	printed := strings.Join(newSession(t).run(t, steps), "")
	for _, want := range []string{
		"done: ", " moved", " cancelled", "job-", "accepted", "new.yaml is valid", "is in force on 1 of 1 process",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in what the commands print:\n%s", want, printed)
		}
	}
}
