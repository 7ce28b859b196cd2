//go:build faults

package throttle

import (
	"math/rand/v2"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

// Each fault of a limiter that was found in use is found by the traces.
func TestTracesFindFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, replacement string }{
		"a bypass trims what a refund brings back": {
			old: "digits(math.min(beyond, now - per))", replacement: "digits(beyond)",
		},
		"a log is as deep as the smaller rule": {
			old: "local n, t = depth_of(key)", replacement: "local n, t = log.max, log.per",
		},
		"only the number is remembered": {old: "most, per = n, t", replacement: "most, per = n, log.per"},
		"dormant rules are forgotten": {
			old:         "local among = kind == KIND_DORMANT",
			replacement: "if kind == KIND_DORMANT then max, per = 0, 0 end local among = kind == KIND_DORMANT",
		},
		"a refund forgets what was cut off": {
			old: "redis.call('ZADD', key, cut, '/-' .. token)", replacement: "",
		},
		"an id that comes again loses its earlier admission": {
			old: "digits(earlier), token .. '/' .. digits(earlier), digits(at), token)", replacement: "digits(at), token)",
		},
		"logs grow without end": {
			old: "if excess <= 0 then return end", replacement: "if excess <= 0 or excess > 0 then return end",
		},
		"a key lives by the entry written last": {old: "(log.newest - now + per)", replacement: "(at - now + per)"},
		"a refused one is counted": {
			old:         "if at > now then return 0, at, why end",
			replacement: "if at > now then charge(plan, now, now, token) return 0, at, why end",
		},
		"a slot ahead counts as now when the clock is set back": {
			old: "far, latest = now + FAR_AHEAD, now + HORIZON", replacement: "far, latest = now + FAR_AHEAD, now",
		},
		"a clock set back is not noticed":          {old: "    repair(plan, now)\n", replacement: ""},
		"a refund frees what an empty bucket owed": {old: "c.owed = c.owed + c.load - full", replacement: ""},
		"a refund takes the gap before for kept": {
			old: "c.gap = c.before", replacement: "c.gap = at - plan.state_log.per",
		},
		"counters forget rules that may come back": {old: "not opened[string.sub(name, 2)]", replacement: "false"},
		"limits of one window share a bucket":      {old: "own = true,", replacement: ""},
		"a bucket that is new is full": {
			old: "if most < 0 then return end", replacement: "if most then return end",
		},
		"a bucket gives back what it never took": {old: "at <= c.since or ", replacement: ""},
		"all see what is kept for the urgent": {
			old: "local most = rule.seen and rule.seen[plan.priority] or rule.max", replacement: "local most = rule.max",
		},
		"a reserve makes a log shorter": {
			old: "if most == log.max", replacement: "if rule.max == log.max",
		},
		"a period is as long as it can be": {old: "if begins > at then return begins end", replacement: ""},
		"a period may end late": {
			old: "if begins > at then return", replacement: "if begins > at + 100000 then return",
		},
		"a moment is in the period before": {
			old: "if begins > at then return", replacement: "if begins >= at then return",
		},
		"a cap counts on every channel": {
			old: "if not cap.channels or not channel then return true end", replacement: "if true then return true end",
		},
		"a cap does not know senders with names": {
			old:         "string.find(cap.channels, ' ' .. string.match(channel, '^[^:]*') .. ' ', 1, true)",
			replacement: "nil",
		},
		"an unknown channel counts in no cap": {
			old:         "if not cap.channels or not channel then return true end",
			replacement: "if not cap.channels then return true end if not channel then return false end",
		},
		"named caps are not charged": {
			old: "    if counts_in(plan, cap) then charge_log(cap.key, cap.log, now, at, token) end\n", replacement: "",
		},
		"named caps are not refunded": {
			old: "    if refund_log(cap.key, token) then found = true end\n", replacement: "",
		},
		"named caps share a log": {old: "if not last or last.name ~= cap then", replacement: "if not last then"},
		"named caps are not repaired": {
			old: "  for _, cap in ipairs(plan.named) do repair_log(cap.key, cap.log) end\n", replacement: "",
		},
		"the first moment is closed": {
			old: "if at < closed.from then", replacement: "if at <= closed.from then",
		},
		"nobody waits for the end": {
			old: "if at < over then at = over end", replacement: "if at < over then at = at + 1 end",
		},
		"a bypass goes before what was granted ahead": {
			old: "return newest > now and math.min(newest + 1, now + HORIZON) or now", replacement: "return now",
		},
		"a bypass goes with what was granted ahead": {
			old: "math.min(newest + 1, now + HORIZON)", replacement: "newest",
		},
		"the urgent go before what was granted ahead": {
			old: "return rule.reserves and", replacement: "return false and",
		},
		"a slot ahead may be closed": {
			old: "return opened(plan, at, why, latest)", replacement: "return at, why, latest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, faulty := redistest.Client(t), tracePlayer(t, c.old, c.replacement)
			random := rand.New(rand.NewPCG(1, 0)) // always the same traces: other ones might miss a fault by bad luck
			for n := range redTraces {
				if fault, _ := disagreement(t, client, faulty, randomTrace(random)); fault != "" {
					t.Logf("trace %d finds it: %s", n, fault)
					return
				}
			}
			t.Errorf("%d traces do not find it", redTraces)
		})
	}
}
