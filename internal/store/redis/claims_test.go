package redis_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// keyed is a notification of a request with the idempotency key "key", under an id that was made for it.
func keyed(id, fingerprint string) *notification.Notification {
	return &notification.Notification{
		ID: id, IDMade: true, UserID: "ada", Category: "free", Channel: notification.ChannelLog,
		Priority: notification.PriorityNormal, IdempotencyKey: "key", Fingerprint: fingerprint,
	}
}

// The claim of a key is written before its notification, so it may be all there is. A repeat goes on under its id.
// Another request has to wait until it is clear that nobody does.
func TestAClaimWithoutItsNotification(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago         time.Duration
		fingerprint string
		want        string // the id; "" when it is refused
	}{
		"a repeat":               {fingerprint: "body", want: "first"},
		"a repeat, later":        {ago: time.Hour, fingerprint: "body", want: "first"},
		"another request":        {fingerprint: "other"},
		"another request, later": {ago: time.Hour, fingerprint: "other", want: "second"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
			if err != nil {
				t.Fatal(err)
			}
			store := redis.New(client, agendas)
			at := strconv.FormatInt(time.Now().Add(-c.ago).UnixMicro(), 10)
			name := keyspace.Prefix(0) + "k:key"
			if err := client.Set(t.Context(), name, "body first "+at, 0).Err(); err != nil {
				t.Fatal(err)
			}
			n := keyed("second", c.fingerprint)
			accepted, err := store.Accept(t.Context(), []*notification.Notification{n})
			if err != nil {
				t.Fatal(err)
			}
			if errors.Is(accepted[0].Err, intake.ErrKeyReused) != (c.want == "") || accepted[0].Known {
				t.Errorf("%+v, want it accepted as %q", accepted[0], c.want)
			}
			if c.want != "" && n.ID != c.want {
				t.Errorf("accepted as %q, want %q", n.ID, c.want)
			}
			if holder, err := store.Holder(t.Context(), "key"); err != nil || (holder == nil) != (c.want == "") {
				t.Errorf("it belongs to %+v, %v", holder, err)
			}
		})
	}
}

// A day after its acceptance, a key is free when its notification has ended: for the same request, and for another.
func TestAKeyIsFreeADayLaterAndAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, fingerprint := range []string{"body", "other"} {
		for _, ended := range []bool{false, true} {
			client := redistest.Client(t)
			agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
			if err != nil {
				t.Fatal(err)
			}
			store := redis.New(client, agendas)
			accept := func(n *notification.Notification) intake.Accepted {
				t.Helper()
				accepted, err := store.Accept(t.Context(), []*notification.Notification{n})
				if err != nil {
					t.Fatal(err)
				}
				return accepted[0]
			}
			accept(keyed("first", "body"))
			if ended {
				if err := store.Cancel(t.Context(), "first"); err != nil {
					t.Fatal(err)
				}
			}
			hash, accepted, day := keyspace.Prefix(0)+"n:first", keyspace.Fields.Accepted, 25*time.Hour
			if err := client.HIncrBy(t.Context(), hash, accepted, -day.Microseconds()).Err(); err != nil {
				t.Fatal(err)
			}
			n := keyed("second", fingerprint)
			if a := accept(n); a.Known == ended || a.Err != nil {
				t.Errorf("%s, ended %t: %+v", fingerprint, ended, a)
			}
			want := map[bool]string{false: "first", true: "second"}[ended]
			if holder, err := store.Holder(t.Context(), "key"); err != nil || holder == nil || holder.ID != want {
				t.Errorf("%s, ended %t: it belongs to %+v, %v; want %s", fingerprint, ended, holder, err, want)
			}
		}
	}
}

// A claim outlasts what its notification may take.
func TestAClaimOutlastsItsNotification(t *testing.T) {
	t.Parallel()
	const day, life = 24 * time.Hour, 200 * time.Hour
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	store.Life = func(string, notification.Channel) time.Duration { return life }
	for name, c := range map[string]struct{ sendIn, expiresIn, want time.Duration }{
		"at once":                 {want: life + day},
		"to be sent later":        {sendIn: 10 * day, want: 10*day + life + day},
		"was to be sent earlier":  {sendIn: -2 * time.Hour, want: life + day},
		"expires early":           {expiresIn: 2 * time.Hour, want: 2*time.Hour + day},
		"sent later, and expires": {sendIn: 10 * day, expiresIn: 11 * day, want: 11*day + day},
		"expires late":            {expiresIn: 20 * day, want: life + day},
	} {
		n := keyed(strings.ReplaceAll(name, " ", "-"), "body")
		n.IdempotencyKey = name
		if c.sendIn != 0 {
			n.SendAt = time.Now().Add(c.sendIn)
		}
		if c.expiresIn != 0 {
			n.ExpiresAt = time.Now().Add(c.expiresIn)
		}
		if _, err := store.Accept(t.Context(), []*notification.Notification{n}); err != nil {
			t.Fatal(err)
		}
		left, err := client.PTTL(t.Context(), keyspace.Prefix(0)+"k:"+name).Result()
		if err != nil || (c.want-left).Abs() > time.Minute {
			t.Errorf("%s: it is claimed for %s, %v; want %s", name, left, err, c.want)
		}
	}
}

// A process that dies between claiming an id and keeping its notification leaves the id to its user.
func TestAnIDThatWasOnlyClaimed(t *testing.T) {
	t.Parallel()
	client, store := storeWithOne(t)
	keys, err := client.Keys(t.Context(), "pacer:{push-*}:n:n1").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	if err := client.Del(t.Context(), keys...).Err(); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	accept := func(user string) (known bool) {
		t.Helper()
		results, err := store.Accept(t.Context(), []*notification.Notification{{
			ID: "n1", UserID: user, Category: "free", Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Known
	}
	if accept("ada") || !accept("somebody else") {
		t.Error("an id that was only claimed is not its user's alone")
	}
}
