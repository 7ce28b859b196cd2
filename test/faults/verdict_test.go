//go:build faults

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// rules are those of the policy.
var rules = []throttle.Rule{
	{Max: 5, Per: 2 * time.Second},
	{Max: 15, Per: 6 * time.Second},
	{Max: 1, Per: 20 * time.Millisecond},
}

// verdict is what became of all that was accepted.
type verdict struct {
	accepted, lost, doubled, violations int
	// recovery is how long after the fault's end deliveries went on, ended how long after it all had ended.
	recovery, ended time.Duration
}

func (v verdict) String() string {
	return fmt.Sprintf("accepted %d, lost %d, doubled %d, violations %d, went on after %.1f s, all ended after %.1f s",
		v.accepted, v.lost, v.doubled, v.violations, v.recovery.Seconds(), v.ended.Seconds())
}

// count finds lost, doubled and violations in the receiver's ledger.
func (d *deployment) count() verdict {
	d.mu.Lock()
	accepted := slices.Clone(d.accepted)
	d.mu.Unlock()
	v := verdict{accepted: len(accepted)}
	type call struct {
		key     string
		attempt int
	}
	seen, calls, users := map[string]int{}, map[call]int{}, map[string][]throttle.Micros{}
	for _, one := range d.receiver.deliveries() {
		calls[call{one.key, one.attempt}]++
		if one.accepted {
			seen[one.key]++
		}
		if one.refused {
			continue
		}
		moment := one.admitted
		if d.scenario.byArrival {
			moment = throttle.Micros(one.arrived.UnixMicro())
		}
		users[one.user] = append(users[one.user], moment)
	}
	for _, key := range accepted {
		switch n := seen[key]; {
		case n == 0:
			v.lost++
		case n > 1 && !d.scenario.perAttempt:
			v.doubled += n - 1
		}
	}
	if d.scenario.perAttempt {
		for _, n := range calls {
			v.doubled += n - 1
		}
	}
	for user, admitted := range users {
		broken := d.violations(admitted)
		if broken > 0 && v.violations == 0 {
			d.t.Logf("limits of %s were broken %d times: admitted at %s", user, broken, spans(admitted))
		}
		v.violations += broken
	}
	return v
}

// spans tells moments, in order, as seconds since the first.
func spans(moments []throttle.Micros) string {
	var b strings.Builder
	for _, at := range moments {
		fmt.Fprintf(&b, "%.3f ", at.Sub(moments[0]).Seconds())
	}
	return fmt.Sprintf("%s(from %s)", b.String(), time.UnixMicro(int64(moments[0])).UTC().Format("15:04:05.000"))
}

// violations counts the pairs of admissions of one user that break a rule.
func (d *deployment) violations(admitted []throttle.Micros) int {
	slices.Sort(admitted)
	broken := 0
	for _, rule := range rules {
		per := rule.Per - d.scenario.tolerance
		for i := rule.Max; i < len(admitted); i++ {
			if admitted[i].Sub(admitted[i-rule.Max]) < per {
				broken++
			}
		}
	}
	return broken
}
