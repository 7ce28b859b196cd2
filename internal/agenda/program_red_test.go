//go:build faults

package agenda_test

import (
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

// The programs find faults: each of these is one in the scripts.
func TestProgramsFindFaults(t *testing.T) {
	t.Parallel()
	const programs = 3_000
	for name, c := range map[string]struct {
		old, replacement string
		// from is the seed before the first program: shortly before one that finds it, where those are rare.
		from uint64
	}{
		"no wake-up for a new category": {
			old: "if not known or passes or", replacement: "if agenda.size == 1 and not known or passes or",
			from: 15,
		},
		"no wake-up for what is later": {
			old: "  ensure_wakeup(agenda, tonumber(n.send_at))\n", replacement: "",
		},
		"an earlier moment is ignored": {
			old:         "if agenda.wakeup_at and agenda.wakeup_at <= at then return end",
			replacement: "if agenda.wakeup_at then return end",
		},
		"a new wake-up does not end the old": {
			old:         "  remove_wakeup(agenda, state)\n  place_wakeup(agenda, at)\nend",
			replacement: "  remove_task(agenda.user, state)\n  place_wakeup(agenda, at)\nend",
			from:        135,
		},
		"the generation is not checked": {
			old: "if agenda.generation ~= request.generation then", replacement: "if false then",
		},
		"what is later is not considered": {
			old: "moment, category, rule = agenda.later_due, '', 0", replacement: "moment, category, rule = nil, '', 0",
		},
		"a pause is not considered": {
			old: "      return now + category_settings.paused\n", replacement: "      return nil\n",
		},
		"a refund wakes nobody": {
			old:         "if refunds and agenda.size > 0 then ensure_wakeup(agenda, now) end",
			replacement: "",
			from:        17,
		},
		"a released wake-up is lost": {
			old:         "if agenda.generation == wakeup.generation then wakes.give_back(agenda, now) end",
			replacement: "if agenda.generation == wakeup.generation then wakes.let_go(agenda) end",
		},
		"dead holders are taken to live": {old: "last > now - presence and", replacement: "true or"},
		"destroyed tasks are not missed": {
			old: "return tonumber(f[2] or 0) >= oldest_pending(), state", replacement: "return true, state",
		},
		"the cap is forgotten when all may go": {
			old: "  if backlog.capped then count('capped', -deferred) end\n", replacement: "",
		},
		"what is due in a night that drops waits": {
			old: "backlog.at <= now + HORIZON and open(", replacement: "false and open(",
		},
		"what is behind the first waits for ever": {
			old: "local id = oldest(backlog,", replacement: "local id = false and oldest(backlog,",
			from: 23,
		},
		"what was retried is taken to wait since it came": {
			old: "return (from or since ~= accepted) and since or nil", replacement: "return nil",
			from: 79,
		},
		"only the first of a priority ends": {
			old: "if not since[i] then return id end", replacement: "do return nil end",
			from: 265,
		},
		"a bypass goes before what was granted ahead": {
			old: "return newest > now and math.min(newest + 1, now + HORIZON) or now", replacement: "return now",
			from: 210,
		},
		"a night drops what is exempt": {
			old: "category_settings.drops and not exempt", replacement: "category_settings.drops",
			from: 38,
		},
		"what expires as a night ends is not let go before": {
			old: "plan.expires = tonumber(first.expires)", replacement: "plan.expires = nil", from: 245,
		},
		"what a night holds is held for ever": {
			old: "  if held then count(held, -deferred) end\n", replacement: "", from: 488,
		},
		"deferrals are counted again": {
			old:         "backlog.blocks, backlog.fresh = backlog.blocks + 1, 0",
			replacement: "backlog.blocks = backlog.blocks + 1",
		},
		"who is exempt waits for the end of a night": {
			old: "first.priority <= category_settings.exempt", replacement: "false",
		},
		"who comes exempt in a night wakes nobody": {
			old: "if not known or passes or", replacement: "if not known or n.bypasses or",
			from: 19,
		},
		"the urgent see no more than others": {
			old: "rule.seen and rule.seen[plan.priority] or rule.max", replacement: "rule.seen and rule.seen[4] or rule.max",
		},
		"others take what is kept for the urgent": {
			old: "plan.priority, plan.channel = first.priority,", replacement: "plan.priority, plan.channel = nil,",
		},
		"who comes urgent wakes nobody":    {old: "n.overtakes and goes_first(n, backlog, at_place)", replacement: "false"},
		"a period is as long as it can be": {old: "if begins > at then return begins end", replacement: "", from: 14},
		"a cap does not know the channel": {
			old: "#plan.named > 0 and channel_of(first.payload)", replacement: "nil",
			from: 13,
		},
		"caps are not left by what is refunded": {
			old: "for name in string.gmatch(granted.caps or '', '%S+') do", replacement: "for name in string.gmatch('', '%S+') do",
			from: 75,
		},
		"caps of channels end what they do not count": {
			old: "return not (rule.named and plan.named[rule.named].channels)", replacement: "return true", from: 893,
		},
		"categories do not share a cap": {
			old: "partition .. 'cap:' .. named[n].name .. ':' .. user", replacement: "partition .. 'cap:' .. named[n].name .. category .. user",
			from: 15,
		},
		"what stands behind one that a cap held is not looked at": {
			old: "save_agenda(agenda)\ncover_rest(agenda)\nremove_if_empty", replacement: "save_agenda(agenda)\nremove_if_empty",
			from: cappedSeeds + 208,
		},
		"cleared windows leave those of caps": {
			old: "for i = 2, #names do redis.call('UNLINK'", replacement: "for i = 2, 0 do redis.call('DEL'",
			from: 338,
		},
		"nights end for all at once": {old: "  spread_for(plan, user)\n", replacement: ""},
		"nothing waits for the end of a night": {
			old: "return opened(plan, at, why, latest)", replacement: "return at, why, latest",
		},
		"what bypasses is deferred": {
			old: "(bypasses or backlog.next == 0)", replacement: "backlog.next == 0",
		},
		"the first category goes first": {
			old:         "if a.first.place ~= b.first.place then return a.first.place < b.first.place end",
			replacement: "if true then return a.category < b.category end",
		},
		"the room is not kept": {old: "if request.grants >= limit or", replacement: "if"},
		"a slot ahead is taken as now": {
			old: "charge(backlog.plan, now, at, n.id", replacement: "charge(backlog.plan, now, now, n.id",
		},
		"a lease that ended is not looked at": {
			old:         "  return_to_backlog(agenda, id)\n  ensure_wakeup(agenda, now)\nend",
			replacement: "  return_to_backlog(agenda, id)\nend",
		},
		"a repeated settlement is taken anew": {
			old: "if granted.state == 'q' and granted.lapsed == generation and", replacement: "if granted.state == 'q' and", from: 667,
		},
		"the older goes after the newer": {
			old: "if newest and tonumber(newest) > arrival then return true end", replacement: "", from: 823,
		},
		"a wake-up is put into the queue twice": {
			old: "  if agenda.pushed then return end\n", replacement: "", from: 15,
		},
		"a slot follows the limits only": {
			old: "if backlog.next == 0 then slot = math.max(slot, backlog.ready) end", replacement: "",
		},
		"what was refused keeps its place": {
			old: "counts_as == '3' or counts_as == '4'", replacement: "counts_as == '3'",
			from: 34,
		},
		"a refusal is no failure": {
			old: "counts_as == '1' or counts_as == '4'", replacement: "counts_as == '1'",
			from: 17,
		},
		"a retry has its old slot": {old: "'r', digits(due), 'by', digits(now),\n    'q', reply)", replacement: "'q', reply)"},
		"a slot ahead is not decided again": {
			old: "backlog.at > now and not is_sure", replacement: "backlog.at > now + HORIZON and not is_sure",
			from: cappedSeeds + 2009,
		},
		"what is paused goes": {
			old: "if category_settings.paused > 0 then\n", replacement: "if false then\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := false
			th := newTheatre(t, redistest.Client(t), func(source string) string {
				found = found || strings.Contains(source, c.old)
				return strings.Replace(source, c.old, c.replacement, 1)
			})
			if !found {
				t.Fatalf("no script holds %q", c.old)
			}
			right := newTheatre(t, redistest.Client(t), sound)
			steps := 0
			for n := range uint64(programs) { // always the same: other ones might miss a fault by bad luck
				seed := c.from + 1 + n
				wrong, played := th.play(seed)
				if steps += played; wrong != "" {
					if otherwise, _ := right.play(seed); otherwise != "" {
						t.Fatalf("without the fault too: %s", otherwise)
					}
					t.Logf("program %d finds it, after %d steps: %.300s", seed, steps, wrong)
					return
				}
			}
			t.Errorf("%d programs do not find it", programs)
		})
	}
}
