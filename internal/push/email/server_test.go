package email_test

import (
	"fmt"
	"log/slog"
	"net/mail"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/providertest"
)

// A refused DATA leaves the mail begun. The next one, which is innocent, must not meet it.
func TestARefusedDataConcernsOneMail(t *testing.T) {
	t.Parallel()
	s := providertest.StartSMTP(t, providertest.SMTPConfig{Plain: true}, providertest.Rule{
		Step: providertest.Announced, First: 1, Reply: providertest.Reply{Status: 451, Body: "4.3.1 out of space"},
	})
	sender := newSender(t, email.Config{Server: "smtp+plain://" + s.Address(), From: "pacer@example.com"})
	failure := push.Classify(sender.Send(t.Context(), message()))
	if failure == nil || failure.Class != push.Transient || failure.Concerns != push.ConcernsTarget {
		t.Errorf("the refused one gets %+v", failure)
	}
	if err := sender.Send(t.Context(), message()); err != nil {
		t.Errorf("the next one gets %v", err)
	}
	if n := len(s.Calls(providertest.Sent)); n != 1 {
		t.Errorf("%d mails were taken, want 1", n)
	}
}

// A server that takes few connections at once is learned: its 421 costs no attempt, and it is asked by fewer.
func TestConnectionsLearnFromTheServer(t *testing.T) {
	t.Parallel()
	const limit, mails = 5, 600
	var open, refused atomic.Int64
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
	s.greet = func() error {
		if open.Add(1) > limit {
			open.Add(-1)
			refused.Add(1)
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too many connections"}
		}
		return nil
	}
	s.logout = func() { open.Add(-1) }
	g := gate.New(newSender(t, s.settings(t)), gate.Config{
		Channel: email.Name, InFlight: 600, Limiter: throttle.NewMemory(time.Now), Log: slog.New(slog.DiscardHandler),
	})
	var all sync.WaitGroup
	var burnt atomic.Int64
	for i := range mails {
		all.Go(func() {
			m := message()
			m.Notification = &notification.Notification{ID: fmt.Sprint("n", i), To: fmt.Sprintf("u%d@example.com", i)}
			for t.Context().Err() == nil {
				failure := push.Classify(g.Send(t.Context(), m))
				if failure == nil {
					return
				}
				if failure.Class != push.Throttled {
					t.Logf("%+v", failure)
					burnt.Add(1)
				}
				<-time.After(min(failure.RetryAfter, 100*time.Millisecond))
			}
		})
	}
	all.Wait()
	t.Logf("%d mails to a server that takes %d connections: %d refusals, %d attempts burnt", mails, limit, refused.Load(),
		burnt.Load())
	if burnt.Load() > 0 || refused.Load() > mails/2 {
		t.Error("want no attempt burnt, and few refusals")
	}
}
