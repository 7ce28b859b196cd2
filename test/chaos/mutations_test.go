package chaos_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
)

// mutation is a protection that is switched off, so that the random world can be seen to find that.
type mutation struct {
	// defect is what came of its absence.
	defect string
	// statements replaces parts of statements of Postgres, scripts parts of scripts of Redis. One without either is
	// switched off by the world itself, under its own name.
	statements, scripts map[string]string
	// schedule is a kept one that finds it; without one random ones do.
	schedule string
	// tilt has schedules hold more of what is needed to find it.
	tilt func(r *random, set *setting)
}

func durable(_ *random, set *setting) { set.Durable = true }

// mutations are the protections without which the world must find something.
var mutations = map[string]mutation{
	"accepted and not placed is forgotten": {defect: "1: accepted and never delivered", statements: map[string]string{
		"WHERE NOT unchecked AND due_at <= now()": "WHERE NOT unchecked AND due_at <= now() AND false",
	}, tilt: durable},
	"ends of Redis are forgotten": {defect: "2: ends decided in Redis are dropped", statements: map[string]string{
		"(n.digest_id = '' OR NOT $5)\n\t\tOR ":                            "(n.digest_id = '' OR NOT $5)\n\t\tOR false AND ",
		"n.id IS NULL OR n.ended_at IS NOT NULL OR d.id IS NOT NULL\nFROM": "true\nFROM",
	}, tilt: durable},
	"the newest is not remembered": {defect: "3: collapse keys deliver the older one", scripts: map[string]string{
		"if newest and tonumber(newest) > arrival then return true end": "",
	}, tilt: func(r *random, set *setting) { set.Durable, set.Calm, r.alike = false, false, true }},
	"late grants are used": {defect: "4: late grants are sent", tilt: durable},
	"partitions are decided together": {
		defect: "5: one dead shard stops the relay for all",
		tilt:   func(r *random, set *setting) { set.Durable, r.shards = true, true },
	},
	"partitions resume once":    {defect: "6: a partition stays paused"},
	"totals are those of Redis": {defect: "10: totals are not exact", tilt: durable},
	"accepting stands no wake-up": {defect: "a wake-up is missing", scripts: map[string]string{
		"if not known or passes or": "if passes or",
	}},
	"what is later stands no wake-up": {defect: "a wake-up is missing", scripts: map[string]string{
		"ensure_wakeup(agenda, tonumber(n.send_at))": "",
	}},
	"old generations may ask": {defect: "a wake-up works twice", scripts: map[string]string{
		"if agenda.generation ~= request.generation then": "if false then",
	}},
	"lost rounds are asked anew": {defect: "grants that nobody knows of"},
	"the sweeper trusts the dead": {defect: "wake-ups in dead hands", scripts: map[string]string{
		"return agenda.held_until > now - 5 * grace and last > now - presence and last < now + presence": "return true",
	}},
	"what is given back stands no wake-up": {defect: "what is declined waits", scripts: map[string]string{
		"return_to_backlog(agenda, n.id)\n    ensure_wakeup(agenda, now)": "return_to_backlog(agenda, n.id)",
	}},
	"a refund wakes nobody": {defect: "14: slots given back stay free", scripts: map[string]string{
		"if refunds and agenda.size > 0 then ensure_wakeup(agenda, now) end": "",
	}, tilt: func(r *random, set *setting) {
		set.Durable, set.Calm, set.Procs, r.declines, r.left = true, false, 1, true, min(r.left, 12)
		set.Max, set.Per, set.Cap = 1, 25+r.IntN(20), 9
	}},
	"an ended lease wakes nobody": {defect: "what a dead worker was granted waits", scripts: map[string]string{
		"return_to_backlog(agenda, id)\n  ensure_wakeup(agenda, now)": "return_to_backlog(agenda, id)",
	}},
	"lost tasks count as standing": {defect: "tasks that asynq lost are missed", scripts: map[string]string{
		"local stands, state = find_task(user)": "local _, state = find_task(user) local stands, state = true, state or 'pending'",
	}},
	"nights do not hold": {defect: "users are disturbed at night", scripts: map[string]string{
		"return opened(plan, at, why, latest)": "return at, why, latest",
	}, tilt: nightly},
	"all are exempt from nights": {defect: "users are disturbed at night", scripts: map[string]string{
		"first.priority <= category_settings.exempt": "true",
	}, tilt: nightly},
	"nights end for all at once": {defect: "the spread is ignored", scripts: map[string]string{
		"  spread_for(plan, user)\n": "",
	}, tilt: nightly},
	"named caps are not counted": {defect: "caps of several categories do not hold", scripts: map[string]string{
		"if counts_in(plan, cap) then charge_log(cap.key, cap.log, now, at, token) end": "",
	}, tilt: capped},
	"caps of channels count nothing": {defect: "caps of channels do not hold", scripts: map[string]string{
		"if not cap.channels or not channel then return true end": "if not cap.channels then return true end" +
			" if channel then return false end",
	}, tilt: capped},
	"a rebuild forgets named caps": {defect: "caps hold no longer once Redis was lost", scripts: map[string]string{
		"charge(logs, now, at, grant": "logs.named = {} charge(logs, now, at, grant",
	}, tilt: func(r *random, set *setting) {
		capped(r, set)
		set.Durable, set.Calm, r.losses, r.evictions = true, false, true, true
	}},
	"days begin at any time": {defect: "more go in a day than may", scripts: map[string]string{
		"if begins > at then return begins end": "return at + 1000000",
	}, tilt: func(_ *random, set *setting) { set.Daily, set.DayLasts, set.Max, set.Per, set.Cap = 1, 50, 3, 2, 6 }},
	"who lives elsewhere is served as all are": {defect: "users have the nights of others", tilt: nightly},
	"who moves is not looked at again":         {defect: "users keep the night of where they were", tilt: nightly},
}

// capped has worlds with named caps that are reached soon, and wide limits beside them.
func capped(_ *random, set *setting) {
	set.caps, set.Max, set.Per, set.Cap, set.CapPer = caps{Both: 2, BothPer: 40, Push: 1, PushPer: 40}, 3, 2, 6, 2
}

// nightly has worlds begin with a night.
func nightly(r *random, set *setting) {
	set.Night, set.Dusk, set.Spread, set.AtOnce = 2, 0, 10+r.nights.IntN(20), r.nights.IntN(2) == 0
}

// A mutation that replaces nothing finds nothing: what each replaces stands in a script, or in a statement.
func TestEachMutationReplacesSomething(t *testing.T) {
	t.Parallel()
	var scripts, statements strings.Builder
	root := "../../internal"
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		into := map[string]*strings.Builder{".lua": &scripts, ".go": &statements}[filepath.Ext(path)]
		if err != nil || into == nil {
			return err
		}
		text, err := os.ReadFile(path)
		into.Write(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	spelled := keyspace.Spell(scripts.String())
	for name, m := range mutations {
		for old := range m.scripts {
			if !strings.Contains(spelled, old) {
				t.Errorf("%s: no script has %q", name, old)
			}
		}
		for old := range m.statements {
			if !strings.Contains(statements.String(), old) {
				t.Errorf("%s: no statement has %q", name, old)
			}
		}
	}
}
