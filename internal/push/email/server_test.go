package email_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"strings"
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
)

// scripted is a server without TLS that refuses DATA once, as some do when they are out of space, and keeps the mail
// that was begun, as the standard has it.
type scripted struct {
	listener net.Listener
	refused  atomic.Bool
	taken    atomic.Int64
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{listener: listener}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	return s
}

func (s *scripted) serve(conn net.Conn) {
	defer conn.Close()
	say := func(reply string) { _, _ = fmt.Fprint(conn, reply+"\r\n") }
	say("220 mail.example.com")
	begun, lines := false, bufio.NewScanner(conn)
	for lines.Scan() {
		verb, _, _ := strings.Cut(strings.ToUpper(lines.Text()), " ")
		switch {
		case verb == "EHLO":
			say("250 mail.example.com")
		case verb == "MAIL" && begun:
			say("503 5.5.1 nested MAIL command")
		case verb == "MAIL":
			begun = true
			say("250 2.1.0 ok")
		case verb == "DATA" && s.refused.CompareAndSwap(false, true):
			say("451 4.3.1 out of space")
		case verb == "DATA":
			say("354 go on")
			for lines.Scan() && lines.Text() != "." {
			}
			begun = false
			s.taken.Add(1)
			say("250 2.0.0 taken")
		case verb == "RSET":
			begun = false
			say("250 2.0.0 ok")
		default:
			say("250 2.0.0 ok")
		}
	}
}

// A refused DATA leaves the mail begun. The next one, which is innocent, must not meet it.
func TestARefusedDataConcernsOneMail(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	sender := newSender(t, email.Config{
		Server: "smtp+plain://" + s.listener.Addr().String(), From: "pacer@example.com",
	})
	failure := push.Classify(sender.Send(t.Context(), message()))
	if failure == nil || failure.Class != push.Transient || failure.Concerns != push.ConcernsTarget {
		t.Errorf("the refused one gets %+v", failure)
	}
	if err := sender.Send(t.Context(), message()); err != nil {
		t.Errorf("the next one gets %v", err)
	}
	if n := s.taken.Load(); n != 1 {
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
