package app_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// capsPolicy has categories without limits of their own, so that nothing but a cap remembers what was admitted in them.
const capsPolicy = `
version: 1
categories:
  default: {}
  promo: {}
  news: {limits: [{max: 5, per: 6h}]}
caps:
  - {name: marketing, categories: [promo, news], limits: [{max: 2, per: 6h}]}
retry: {max_attempts: 3, min_backoff: 10ms, max_backoff: 50ms}
`

// What caps have counted goes along to Postgres too, also of notifications that Redis has forgotten; and what stands in
// several logs counts once.
func TestAnImportBringsWhatCapsCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ policy, category, reason string }{
		"NamedCap": {capsPolicy, "promo", "cap:marketing"},
		"UserCap":  {capsPolicy + "user_cap: {limits: [{max: 2, per: 6h}]}\n", "default", "user_cap 2/6h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, onRedis, test.policy, 1), newReceiver(t)
			known := d.bulk(r.crowd("known", test.category, 2))
			forgotten := slices.Concat(d.bulk(r.crowd("forgotten", test.category, 2)),
				d.bulk(r.crowd("once", "news", 1)))
			for _, id := range slices.Concat(known, forgotten) {
				d.awaitDelivered(id)
			}
			d.stop()
			d.forget(forgotten)
			d.databaseURL = postgrestest.URL(t)
			if _, err := deployment.Import(t.Context(), d.settings(), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			d.start()
			d.awaitDelivered(d.bulk(r.crowd("once", test.category, 1))[0])
			for _, user := range []string{"known", "forgotten", "once"} {
				id := d.bulk(r.crowd(user, test.category, 1))[0]
				d.awaitView(id, "deferred", test.reason)
			}
		})
	}
}

// forget has Redis forget notifications, as it does some time after their end.
func (d *fleet) forget(ids []string) {
	d.t.Helper()
	client := d.client()
	for _, id := range ids {
		keys, err := client.Keys(d.t.Context(), "pacer:{push-*}:n:"+id).Result()
		if err != nil || len(keys) != 1 {
			d.t.Fatalf("the keys of %s are %v, %v", id, keys, err)
		}
		if err := client.Del(d.t.Context(), keys...).Err(); err != nil {
			d.t.Fatal(err)
		}
	}
}
