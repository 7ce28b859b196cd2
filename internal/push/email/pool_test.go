package email_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/mail"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
)

// When the server ends a kept connection with 421, the message goes over a new one. It is throttled only when the
// server refuses that, too.
func TestA421OnAKeptConnectionEndsThatConnection(t *testing.T) {
	t.Parallel()
	var begun, taken atomic.Int64
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { taken.Add(1); return nil })
	s.mail = func() error {
		if n := begun.Add(1); n == 2 || n >= 4 {
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "timeout exceeded"}
		}
		return nil
	}
	sender := newSender(t, s.settings(t))
	for range 2 {
		if err := sender.Send(t.Context(), message()); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	if taken.Load() != 2 || begun.Load() != 3 {
		t.Errorf("%d messages were taken and %d begun, want 2 and 3", taken.Load(), begun.Load())
	}
	failure, _ := errors.AsType[*push.Error](sender.Send(t.Context(), message()))
	if failure == nil || failure.Class != push.Throttled || failure.Concerns != push.ConcernsHost {
		t.Errorf("a server that refuses new connections too gives %+v", failure)
	}
	if begun.Load() != 5 {
		t.Errorf("%d messages were begun, want 5: one on the kept connection and one on a new one", begun.Load())
	}
}

// What a server says as it hangs up for want of mail is no refusal of the sender, whichever code it has.
func TestATimeoutOnAKeptConnectionEndsThatConnection(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"Postfix": 421, "Amazon and Google": 451} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var begun atomic.Int64
			s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
			s.mail = func() error {
				if begun.Add(1)%2 == 0 {
					return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "Timeout"}
				}
				return nil
			}
			sender := newSender(t, s.settings(t))
			for range 3 {
				if err := sender.Send(t.Context(), message()); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
}

// office is a mail server without a network, in a bubble of synctest. It takes up to most connections at once; the
// others wait for their greeting.
type office struct {
	*smtp.Server
	conns chan net.Conn
	over  chan struct{}
	most  chan struct{} // holds one for each connection that is served

	dialled, open, begun, taken atomic.Int64
	// refuses has it refuse every sender, as a server does that has enough.
	refuses atomic.Bool
	// work is what is done for each message before it is taken.
	work func()
}

func startOffice(t *testing.T, most int, work func()) *office {
	t.Helper()
	o := &office{
		conns: make(chan net.Conn, 1000), over: make(chan struct{}), most: make(chan struct{}, most), work: work,
	}
	o.Server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		o.open.Add(1)
		return &desk{o}, nil
	}))
	var served sync.WaitGroup
	served.Go(func() { _ = o.Serve(o) })
	t.Cleanup(func() {
		_ = o.Server.Close()
		served.Wait()
	})
	return o
}

// DialContext implements httpsend.Dialer.
func (o *office) DialContext(context.Context, string, string) (net.Conn, error) {
	o.dialled.Add(1)
	ours, theirs := net.Pipe()
	o.conns <- theirs
	return ours, nil
}

// Accept implements net.Listener.
func (o *office) Accept() (net.Conn, error) {
	select {
	case o.most <- struct{}{}:
	case <-o.over:
		return nil, net.ErrClosed
	}
	select {
	case conn := <-o.conns:
		return conn, nil
	case <-o.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (o *office) Close() error {
	close(o.over)
	return nil
}

// Addr implements net.Listener.
func (o *office) Addr() net.Addr { return &net.UnixAddr{} }

// desk is where one connection is served.
type desk struct{ *office }

func (*desk) Reset()                               {}
func (*desk) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (d *desk) Logout() error                      { d.open.Add(-1); <-d.most; return nil }
func (d *desk) Mail(string, *smtp.MailOptions) error {
	d.begun.Add(1)
	if d.refuses.Load() {
		return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too fast"}
	}
	return nil
}

func (d *desk) Data(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	d.work()
	d.taken.Add(1)
	return err
}

// sendAtOnce sends n mails at once, and waits for all.
func sendAtOnce(t *testing.T, sender *email.Sender, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := sender.Send(ctx, message()); err != nil {
				t.Errorf("send: %v", err)
			}
		})
	}
	all.Wait()
}

// What a burst has opened is there for the next one, and most of it is closed when none comes.
func TestConnectionsOfABurstAreKeptForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const burst, kept = 40, 16
		o := startOffice(t, 1000, func() { <-time.After(100 * time.Millisecond) })
		sender := newSender(t, email.Config{
			Server: "smtp+plain://mail.example.com", From: "pacer@example.com", Dialer: o, Idle: kept,
		})
		for range 3 {
			sendAtOnce(t, sender, burst)
			<-time.After(time.Second)
		}
		if o.dialled.Load() != burst || o.taken.Load() != 3*burst {
			t.Errorf("%d mails went over %d connections, want %d", o.taken.Load(), o.dialled.Load(), burst)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := o.open.Load(); n != kept {
			t.Errorf("%d connections are open when nothing was sent for three seconds, want %d", n, kept)
		}
		sendAtOnce(t, sender, kept)
		if n := o.dialled.Load(); n != burst {
			t.Errorf("%d connections were opened, want %d", n, burst)
		}
	})
}

// Of connections that have ended, one is tried: a new one reports what the server thinks.
func TestOneKeptConnectionIsTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const burst = 12
		o := startOffice(t, 1000, func() { <-time.After(100 * time.Millisecond) })
		sender := newSender(t, email.Config{
			Server: "smtp+plain://mail.example.com", From: "pacer@example.com", Dialer: o,
		})
		sendAtOnce(t, sender, burst)
		o.refuses.Store(true)
		before := o.begun.Load()
		failure, _ := errors.AsType[*push.Error](sender.Send(t.Context(), message()))
		if failure == nil || failure.Class != push.Throttled {
			t.Errorf("a server that refuses gives %+v", failure)
		}
		if n := o.begun.Load() - before; n != 2 {
			t.Errorf("%d messages were begun, want 2: one on a kept connection and one on a new one", n)
		}
	})
}

// Who waits for a greeting takes a connection that another mail has used, also one that is idle by then, and what a
// burst leaves open does not keep others from being served.
func TestWhoWaitsTakesWhatIsIdle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ few, mails int }{
		"as many as are kept": {few: 10, mails: 12}, "more than are kept": {few: 40, mails: 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const each = 100 * time.Millisecond
				o := startOffice(t, c.few, func() { <-time.After(each) })
				sender := newSender(t, email.Config{
					Server: "smtp+plain://mail.example.com", From: "pacer@example.com", Dialer: o, Idle: 16,
				})
				start := time.Now()
				sendAtOnce(t, sender, c.mails)
				if took := time.Since(start); took > 4*each || o.taken.Load() != int64(c.mails) {
					t.Errorf("%d mails were taken in %v, want %d within %v", o.taken.Load(), took, c.mails, 4*each)
				}
			})
		})
	}
}

// A server that serves few connections at once greets no others. Whoever waits for it goes over a connection that
// another mail has used.
func TestMailsDoNotWaitForAServerThatServesFewConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const few, mails, each = 2, 20, 1500 * time.Millisecond
		o := startOffice(t, few, func() { <-time.After(each) })
		sender := newSender(t, email.Config{
			Server: "smtp+plain://mail.example.com", From: "pacer@example.com", Dialer: o,
		})
		start := time.Now()
		sendAtOnce(t, sender, mails)
		if took := time.Since(start); took != each*mails/few || o.taken.Load() != mails {
			t.Errorf("%d mails were taken in %v, want %d in %v", o.taken.Load(), took, mails, each*mails/few)
		}
	})
}
