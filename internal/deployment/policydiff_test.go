package deployment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A policy may name every channel that a dispatcher's own policy file may name: each kind, configured or not, and the
// senders with names.
func TestADiffTakesThePolicyThatADispatcherTakes(t *testing.T) {
	t.Parallel()
	cfg := on(t, redistest.URL(t), 8)
	cfg.Channels.Named = settings.Named{notification.Channel("fcm:shop"): fcm.Settings{}}
	const text = onePolicy + "channels:\n  fcm: {timeout: 5s}\n" +
		"caps:\n  - {name: push, categories: [default, news], channels: [fcm, apns, \"fcm:shop\"],\n" +
		"     limits: [{max: 1, per: 1h}]}\n"
	d, err := open(t, cfg, parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	diff, err := d.DiffPolicy(t.Context(), []byte(text))
	if err != nil || diff.Version != diff.InForce || len(diff.Rules) > 0 {
		t.Errorf("the policy in force, beside itself: %+v, %v", diff, err)
	}
	_, err = d.DiffPolicy(t.Context(), []byte(onePolicy+"channels:\n  pigeon: {timeout: 5s}\n"))
	if _, ok := errors.AsType[*desk.RefusalError](err); !ok || !strings.Contains(err.Error(), "unknown channel") {
		t.Errorf("a channel that nobody knows: %v", err)
	}
}
