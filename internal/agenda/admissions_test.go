package agenda_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// logged reads all admissions, and checks that no more come at a time than memory has room for.
func logged(t *testing.T, agendas *agenda.Agendas) (all []maintenance.Logged) {
	t.Helper()
	if err := maintenance.Of(agendas).EachLogged(t.Context(), func(some []maintenance.Logged) error {
		if all = append(all, some...); len(some) > 2000 {
			t.Errorf("%d come at a time", len(some))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Admissions come from every log with what is known of them; They come bit
// by bit, however many there are.
func TestLoggedAdmissions(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas := twoGuarded(t, client)
	prefix := keyspace.Prefix(0)
	for log, token := range map[string]string{"l:chat:ada": "digest#1/5000", "cap:both:ada:x": "n#2", "u:ada": "n#3"} {
		if err := client.ZAdd(t.Context(), prefix+log, goredis.Z{Score: -2, Member: "/n"},
			goredis.Z{Score: -1000, Member: "/t"}, goredis.Z{Score: 5000, Member: token}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := []maintenance.Logged{
		{UserID: "ada", Category: "chat", Token: "digest#1/5000", At: 5000},
		{UserID: "ada:x", Cap: "both", Token: "n#2", At: 5000},
		{UserID: "ada", Token: "n#3", At: 5000},
	}
	if diff := cmp.Diff(want, logged(t, agendas)); diff != "" {
		t.Errorf("the admissions (-want +got):\n%s", diff)
	}
	const many = 2500
	entries := make([]goredis.Z, many)
	for i := range entries {
		entries[i] = goredis.Z{Score: float64(i + 1), Member: "m#" + strconv.Itoa(i+1)}
	}
	if err := client.ZAdd(t.Context(), prefix+"l:chat:eve", entries...).Err(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, one := range logged(t, agendas) {
		seen[one.Token] = true
	}
	if len(seen) != many+len(want) {
		t.Errorf("%d come of %d", len(seen), many+len(want))
	}
}

// Counters hold no moments. The admissions that stand for them fill a limit as it was, also where several limits of
// different lengths count.
func TestLoggedAdmissionsFillCounters(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []throttle.Algorithm{throttle.FixedWindow, throttle.TokenBucket} {
		t.Run(fmt.Sprint(algorithm), func(t *testing.T) {
			t.Parallel()
			plan := throttle.Plan{Algorithm: algorithm, Rules: []throttle.Rule{
				{Max: 40, Per: 100 * time.Hour},
				{Max: 3, Per: 200 * time.Millisecond},
				{Kind: throttle.KindGap, Max: 1, Per: 2 * time.Hour},
			}}
			free := throttle.Plan{Algorithm: algorithm, Rules: plan.Rules[:2]}
			settings := func(string, string) agenda.Settings { return agenda.Settings{Plan: plan} }
			open := func() (*goredis.Client, *agenda.Agendas) {
				client := redistest.Client(t)
				agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Guarded: true, Settings: settings})
				if err != nil {
					t.Fatal(err)
				}
				return client, agendas
			}
			prefix := func(string) string { return keyspace.Prefix(0) }
			key, ctx := throttle.Key{User: "ada", Category: "chat"}, context.Background()
			peek := func(client *goredis.Client) (used []int) {
				usage, err := throttle.NewRedis(client, prefix).Peek(ctx, key, plan)
				if err != nil {
					t.Fatal(err)
				}
				for _, rule := range usage.Rules {
					used = append(used, rule.Used)
				}
				return used
			}
			client, from := open()
			for i := range 7 {
				if i == 3 {
					time.Sleep(210 * time.Millisecond) //nolint:forbidigo // a window of Redis's clock passes
				}
				for {
					decision, err := throttle.NewRedis(client, prefix).Allow(ctx, key, free, "n#"+strconv.Itoa(i))
					if err != nil {
						t.Fatal(err)
					}
					if decision.Allowed {
						break
					}
				}
			}
			other, to := open()
			if err := beginRebuild(ctx, to, []int{0}, "token"); err != nil {
				t.Fatal(err)
			}
			part := agenda.WindowPart{}
			for _, one := range logged(t, from) {
				part.Admitted = append(part.Admitted, agenda.Admission{At: one.At})
			}
			slices.SortFunc(part.Admitted, func(x, y agenda.Admission) int { return int(x.At - y.At) })
			if err := to.RestoreWindow(ctx, "token", dispatch.BacklogOf("ada", "chat", 1), part); err != nil {
				t.Fatal(err)
			}
			was, is := peek(client), peek(other)
			if was[0] != 7 || is[0] != was[0] || is[2] != was[2] || is[1] > was[1] {
				t.Errorf("used are %v, and then %v", was, is)
			}
		})
	}
}
