package browsertest

import (
	"os"

	"github.com/pacer-notify/pacer/test/module"
)

// axe is where `make install-servers` puts the rules for accessible pages.
const axe = "internal/app/testdata/axe/node_modules/axe-core/axe.min.js"

// Accessible holds the page to the rules of axe. when says in which state it is.
func (b *Tab) Accessible(when string) {
	b.Helper()
	source, err := os.ReadFile(module.Path(b, axe))
	if err != nil {
		b.Fatalf("%v: run make install-servers", err)
	}
	Eval[bool](b, string(source)+"; true")
	found := Eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => v.impact + ' ' + v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary)))`)
	for _, violation := range found {
		b.Errorf("%s, axe finds: %s", when, violation)
	}
}
