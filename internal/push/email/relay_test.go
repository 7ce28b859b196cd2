package email_test

import (
	"log/slog"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// noRelay is how Postfix refuses to relay.
var noRelay = &smtp.SMTPError{
	Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "<" + address + ">: Relay access denied",
}

// behindGate sends a mail to each address as a process does, and returns what became of them.
func behindGate(t *testing.T, s *server, to ...string) []*push.Error {
	t.Helper()
	g := gate.New(newSender(t, s.settings(t)), gate.Config{
		Channel: email.Name, InFlight: 16, Pause: time.Hour, Limiter: throttle.NewMemory(time.Now),
		Log: slog.New(slog.DiscardHandler),
	})
	var all []*push.Error
	for _, address := range to {
		m := message()
		m.To = address
		all = append(all, push.Classify(g.Send(t.Context(), m)))
	}
	return all
}

// A server that relays for nobody refuses the settings: the notification waits for them.
func TestAServerThatRelaysNothingConcernsTheChannel(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { t.Error("it was sent"); return nil })
	s.rcpt = func(string) error { return noRelay }
	failure := behindGate(t, s, address)[0]
	if failure == nil || failure.Class != push.CredentialsRefused || failure.Counts() {
		t.Errorf("it gives %+v, want refused credentials, at no cost", failure)
	}
}

// Where others are accepted, one that the server relays nothing to is tried again, and the others go on.
func TestOneThatIsNotRelayedToConcernsNobodyElse(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
	s.rcpt = func(to string) error {
		if strings.HasSuffix(to, "@odd.example.com") {
			return noRelay
		}
		return nil
	}
	all := behindGate(t, s, "x@example.com", "1@odd.example.com", "2@odd.example.com", "3@odd.example.com",
		"4@odd.example.com", "y@example.com")
	for i, failure := range all {
		if i == 0 || i == len(all)-1 {
			if failure != nil {
				t.Errorf("mail %d gives %+v", i, failure)
			}
			continue
		}
		if failure == nil || failure.Class != push.Transient || failure.Concerns != push.ConcernsTarget {
			t.Errorf("mail %d, which is not relayed, gives %+v; want transient, of this one", i, failure)
		}
	}
}
