package effective

import (
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// earlierKept is of how many policies it is known what they had the limiter remember.
const earlierKept = 32

// earlier are the policies that were in force before, in this process. The zero value knows of none.
type earlier struct {
	mu sync.Mutex
	// longest is the longest window by version and log, see logOf.
	longest map[string]map[string]time.Duration
}

// logOf names the log that a rule of a category counts in.
func logOf(category string, rule throttle.Rule) string {
	switch rule.Kind {
	case throttle.KindCap:
		return "user_cap"
	case throttle.KindNamed:
		return "cap:" + rule.Cap
	case throttle.KindLimit, throttle.KindGap:
	}
	return "category:" + category
}

// note notes what a policy has the limiter remember.
func (e *earlier) note(p *policy.Policy) {
	longest := map[string]time.Duration{}
	for name, category := range p.Categories {
		for _, rule := range category.Plan.Rules {
			if rule.Kind != throttle.KindLimit || category.Plan.Algorithm.KeepsLog() {
				log := logOf(name, rule)
				longest[log] = max(longest[log], rule.Per)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.longest == nil || len(e.longest) >= earlierKept {
		e.longest = map[string]map[string]time.Duration{}
	}
	e.longest[p.Version()] = longest
}

// Remembers reports whether the limiter surely had all in mind that was admitted under another version of the policy,
// as far back as a rule of a category looks, when the policy in force came. A log keeps what its longest rule up to
// then needed; nobody knows that of versions that this process did not have.
func (p *Policy) Remembers(version, category string, rule throttle.Rule) bool {
	if in, known := p.Current().Category(category); rule.Kind == throttle.KindLimit &&
		(!known || !in.Plan.Algorithm.KeepsLog()) {
		return false
	}
	p.earlier.mu.Lock()
	defer p.earlier.mu.Unlock()
	return p.earlier.longest[version][logOf(category, rule)] >= rule.Per
}
