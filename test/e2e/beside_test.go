//go:build accept

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/providertest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// providers are those of the test, some of which misbehave.
type providers struct {
	// web takes webhooks; hanging is 900 hosts that take calls and never respond.
	web, hanging *providertest.HTTP
	// app is FCM, with an app whose APNs key is wrong: it takes what is for Android, and refuses what is for iOS.
	app *providertest.HTTP
	// mail is a mail server that refuses whom it does not know for the first 20 s (greylisting).
	mail *providertest.SMTP
}

func startProviders(t *testing.T) *providers {
	t.Helper()
	to := providertest.Matching
	return &providers{
		web: providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true}),
		hanging: providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true, Address: "0.0.0.0:0"},
			providertest.Rule{Reply: providertest.Reply{End: providertest.Hangs}}),
		app: providertest.StartHTTP(t, providertest.HTTPConfig{Target: providertest.FirebaseTarget},
			providertest.Rule{
				Target: to("^ios"),
				Reply:  providertest.FirebaseError(http.StatusUnauthorized, "THIRD_PARTY_AUTH_ERROR"),
			}, providertest.FirebaseTokens()),
		mail: providertest.StartSMTP(t, providertest.SMTPConfig{}, providertest.Rule{
			Target: to("^stranger"), Until: 20 * time.Second,
			Reply: providertest.Reply{Status: 450, Body: "4.2.0 greylisted, try again later"},
		}),
	}
}

// env leads a dispatcher to them.
func (p *providers) env(t *testing.T) []string {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := providertest.WriteRoots(roots); err != nil {
		t.Fatal(err)
	}
	return []string{
		"SSL_CERT_FILE=" + roots, "PACER_FCM_ENDPOINT=" + p.app.URL,
		"PACER_FCM_CREDENTIALS=" + providertest.ServiceAccount(t, p.app.URL+"/token"),
		"PACER_EMAIL_SERVER=smtp://pacer@" + p.mail.Address(), "PACER_EMAIL_PASSWORD=secret",
		"PACER_EMAIL_FROM=pacer@example.com",
	}
}

// kinds are the healthy deliveries: to webhooks, to one platform of FCM, and to e-mail addresses.
var kinds = []string{"web", "app", "mail"}

// healthy are notifications of each kind. Users are named kind-name.
func (p *providers) healthy(name string) []item {
	return []item{
		{UserID: "web-" + name, To: p.web.URL + "/" + name},
		{UserID: "app-" + name, To: "android-" + name, Channel: "fcm"},
		{UserID: "mail-" + name, To: name + "@example.com", Channel: "email"},
	}
}

// bad are the notifications of one second to those that misbehave: 60 to hosts that hang, 10 to the platform that is
// refused, 10 to e-mail addresses that the mail server does not know.
func (p *providers) bad(second int) []item {
	_, port, _ := net.SplitHostPort(p.hanging.Address())
	var items []item
	for i := range 60 {
		host := (second*60 + i) % 900
		items = append(items, item{
			UserID: fmt.Sprint("hangs-", second, "-", i),
			To:     fmt.Sprintf("http://127.0.%d.%d:%s/", 1+host/200, 1+host%200, port),
		})
	}
	for i := range 10 {
		ios, stranger := fmt.Sprint("ios-", second, "-", i), fmt.Sprint("stranger-", second, "-", i)
		items = append(items, item{UserID: ios, To: ios, Channel: "fcm"},
			item{UserID: stranger, To: stranger + "@example.com", Channel: "email"})
	}
	return items
}

// arrived are the moments at which healthy ones arrived, by user.
func (p *providers) arrived() map[string]time.Time {
	all := map[string]time.Time{}
	for _, c := range p.web.Calls(providertest.Called) {
		_, name, _ := strings.Cut(c.Target, "/")
		all["web-"+name] = c.At
	}
	for _, c := range p.app.Calls(providertest.Called) {
		if name, android := strings.CutPrefix(c.Target, "android-"); android {
			all["app-"+name] = c.At
		}
	}
	for _, c := range p.mail.Calls(providertest.Sent) {
		all["mail-"+strings.TrimSuffix(c.Target, "@example.com")] = c.At
	}
	return all
}

// measure has a deployment deliver healthy ones for some seconds, and reports how long half and nine tenths of each
// kind took at most.
func (d *deployment) measure(p *providers, prefix string) map[string]time.Duration {
	d.t.Helper()
	const pace, wave, measured = 100 * time.Millisecond, 5, 6 * time.Second
	accepted := map[string]time.Time{}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for begin := time.Now(); time.Since(begin) < measured; <-ticker.C {
		var items []item
		for i := range wave {
			items = append(items, p.healthy(fmt.Sprintf("%s-%d-%d", prefix, len(accepted), i))...)
		}
		for _, one := range items {
			accepted[one.UserID] = time.Now()
		}
		d.accept(d.workers[0], items)
	}
	took := map[string][]time.Duration{}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		arrived, missing := p.arrived(), 0
		clear(took)
		for user, at := range accepted {
			kind, _, _ := strings.Cut(user, "-")
			if there, ok := arrived[user]; ok {
				took[kind] = append(took[kind], there.Sub(at))
			} else {
				missing++
			}
		}
		if missing == 0 {
			break
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%d of %d healthy ones have not arrived", missing, len(accepted))
		}
	}
	percentiles := map[string]time.Duration{}
	for kind, all := range took {
		slices.Sort(all)
		percentiles[kind+" p50"], percentiles[kind+" p90"] = all[len(all)/2], all[len(all)*9/10]
	}
	return percentiles
}

// TestHealthyDeliveriesBesideBadOnes: beside 900 hosts that hang, a platform whose credential is refused and a mail
// server that greylists, healthy deliveries take at most one and a half times as long as without: to webhooks, to the
// platform of the same provider whose credential is right, and to e-mail addresses of the same server that it knows.
//
// A machine that is busy with other things slows all down, but not evenly. So two deployments are measured by turns,
// one with the bad ones and one without, and the median of the pairs counts, without any allowance.
func TestHealthyDeliveriesBesideBadOnes(t *testing.T) {
	const pairs, factor = 7, 1.5
	p := startProviders(t)
	env, policy := p.env(t), policyFile(t, "version: 1\ncategories: {default: {limits: []}}\n")
	var both [2]*deployment // without the bad ones, and with them
	for i := range both {
		server := redistest.Start(t)
		both[i] = &deployment{t: t, redis: server, url: server.URL(), env: env, policy: policy}
		both[i].workers = append(both[i].workers, both[i].start())
		both[i].measure(p, fmt.Sprint("warmup", i))
	}
	stop := p.misbehave(both[1])
	defer stop()
	both[1].measure(p, "begin0") // until the hanging calls are there
	both[1].measure(p, "begin1")

	var took [2]map[string][]time.Duration
	ratios := map[string][]float64{}
	for i := range took {
		took[i] = map[string][]time.Duration{}
	}
	for pair := range pairs {
		var pairTook [2]map[string]time.Duration
		for turn := range both {
			i := (pair + turn) % 2 // either is first half of the time
			pairTook[i] = both[i].measure(p, fmt.Sprintf("pair%d.%d", pair, i))
			for what, d := range pairTook[i] {
				took[i][what] = append(took[i][what], d)
			}
		}
		for what, without := range pairTook[0] {
			ratios[what] = append(ratios[what], float64(pairTook[1][what])/float64(without))
		}
	}
	t.Logf("beside them were %d calls to 900 hanging hosts, %d refusals of one platform's credential and %d greylistings",
		len(p.hanging.Calls(providertest.Called)), count(p.app.Calls(providertest.Called), "ios"),
		count(p.mail.Calls(providertest.Called), "stranger"))
	for _, kind := range kinds {
		for _, p := range []string{" p50", " p90"} {
			what := kind + p
			ratio, without, with := median(ratios[what]), median(took[0][what]), median(took[1][what])
			t.Logf("%-8s %7s without, %7s with; of %d pairs: %.2f times as long (median; %.2f to %.2f)", what,
				without.Round(100*time.Microsecond), with.Round(100*time.Microsecond), pairs, ratio,
				slices.Min(ratios[what]), slices.Max(ratios[what]))
			if ratio > factor {
				t.Errorf("%s takes %.2f times as long beside the bad ones, want at most %.1f", what, ratio, factor)
			}
		}
	}
}

// misbehave sends bad ones until it is stopped.
func (p *providers) misbehave(d *deployment) (stop func()) {
	stopped, bad := make(chan struct{}), sync.WaitGroup{}
	bad.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for second := 0; ; second++ {
			d.accept(d.workers[0], p.bad(second))
			select {
			case <-ticker.C:
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		bad.Wait()
	}
}

// count is how many calls were for targets that begin so.
func count(calls []providertest.Call, begin string) (n int) {
	for _, c := range calls {
		if strings.HasPrefix(c.Target, begin) {
			n++
		}
	}
	return n
}
