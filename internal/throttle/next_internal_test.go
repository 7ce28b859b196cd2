package throttle

import (
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	t.Parallel()
	gap := Rule{Max: 1, Per: 2 * time.Microsecond, Kind: KindGap}
	twoInTen := Rule{Max: 2, Per: 10 * time.Microsecond}
	for name, c := range map[string]struct {
		now      Micros
		rules    []Rule
		closed   Closed
		admitted []Micros
		at       Micros
		rule     int
		priority int
		opens    bool
	}{
		"NoRule":           {now: 5, rules: nil, admitted: []Micros{1, 2, 3}, at: 5, rule: NoRule},
		"Empty":            {now: 5, rules: []Rule{twoInTen}, admitted: nil, at: 5, rule: NoRule},
		"BelowTheLimit":    {now: 1, rules: []Rule{twoInTen}, admitted: []Micros{0}, at: 1, rule: NoRule},
		"JustBefore":       {now: 9, rules: []Rule{twoInTen}, admitted: []Micros{0, 1}, at: 10, rule: 0},
		"ExactlyAtTheEdge": {now: 10, rules: []Rule{twoInTen}, admitted: []Micros{0, 1}, at: 10, rule: NoRule},
		"Gap":              {now: 1, rules: []Rule{twoInTen, gap}, admitted: []Micros{0}, at: 2, rule: 1},
		"FirstOfEqualOnes": {now: 1, rules: []Rule{gap, gap}, admitted: []Micros{0}, at: 2, rule: 0},
		"FutureEntry":      {now: 1, rules: []Rule{gap}, admitted: []Micros{0, 7}, at: 9, rule: 0},
		"KeptForTheUrgent": {
			now: 2, rules: []Rule{{Max: 3, Per: 10 * time.Microsecond, Reserve: Reserve{0, 1}}},
			admitted: []Micros{0, 1}, priority: 3,
			at: 10, rule: 0,
		},
		"TheUrgent": {
			now: 2, rules: []Rule{{Max: 3, Per: 10 * time.Microsecond, Reserve: Reserve{0, 1}}},
			admitted: []Micros{0, 1}, priority: 2, at: 2,
			rule: NoRule,
		},
		"Night":       {now: 5, closed: Closed{{4, 8}}, at: 8, rule: NoRule, opens: true},
		"NightBegins": {now: 4, closed: Closed{{4, 8}}, at: 8, rule: NoRule, opens: true},
		"NightIsOver": {now: 8, closed: Closed{{4, 8}, {9, 10}}, at: 8, rule: NoRule},
		"SlotAtNight": {
			now: 1, rules: []Rule{gap}, admitted: []Micros{7}, closed: Closed{{2, 3}, {9, 12}},
			at: 12, rule: 0, opens: true,
		},
		"SlotAfterTheNight": {now: 3, rules: []Rule{gap}, admitted: []Micros{7}, closed: Closed{{2, 9}}, at: 9, rule: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Cause{Rule: c.rule, Closed: c.opens}
			log := Log{Rules: c.rules, Admitted: c.admitted, Priority: c.priority}
			if at, by := Next(c.now, c.closed, log); at != c.at || by != want {
				t.Errorf("got %d by %+v, want %d by %+v", at, by, c.at, want)
			}
		})
	}
}
