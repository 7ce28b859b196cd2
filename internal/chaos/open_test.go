package chaos_test

import (
	"os"
	"regexp"
	"strings"
)

// open lists what the world has found and nobody has mended yet: what of a find is due to it, and what it is. A find that is
// nothing else is told of, and does not fail the run. CHAOS_OPEN=no has everything fail. An entry goes with its mend, and its
// schedule moves from testdata/open to testdata.
var open = []struct {
	broken *regexp.Regexp
	what   string
}{
	{
		regexp.MustCompile(`^P12: `),
		"a rebuild restores the older of two with one collapse key (testdata/open/older-restored*.schedule)",
	},
}

// openOf tells which open finds a played schedule ran into; "" when something else was broken too.
func openOf(p *played) string {
	if os.Getenv("CHAOS_OPEN") == "no" {
		return ""
	}
	var found []string
	for _, broken := range p.broken {
		known := ""
		for _, o := range open {
			if o.broken.MatchString(broken) {
				known = o.what
			}
		}
		if known == "" || strings.HasPrefix(known, "a rebuild") && p.faults["redis loses state"]+p.faults["redis evicts keys"] == 0 {
			return ""
		}
		found = append(found, known)
	}
	return strings.Join(found, "; ")
}
