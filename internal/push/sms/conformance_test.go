package sms_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	account = "AC0123456789abcdef0123456789abcdef"
	token   = "canarytoken31fe0123456789abcdef"
	from    = "+15005550006"
	to      = "+15551234567"
)

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusCreated, pushtest.Refused: http.StatusBadRequest,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusBadRequest,
}

// codes are what Twilio says beside the status.
var codes = map[pushtest.Kind]int{
	pushtest.Refused: 21612, pushtest.Failing: 20503, pushtest.Throttled: 20429, pushtest.Gone: 21610,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: sms.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Unnamed:    time.Minute,
		Content:    true,
		NeedsText:  true,
		MaxContent: 1600,
	}, subject)
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			panic(http.ErrAbortHandler)
		}
		user, password, _ := r.BasicAuth()
		if r.URL.Path != "/2010-04-01/Accounts/"+account+"/Messages.json" || user != account || password != token ||
			r.PostForm.Get("To") != to || r.PostForm.Get("From") != from {
			tb.Errorf("%s by %s with %v", r.URL.Path, user, r.PostForm)
		}
		call := pushtest.Call{Identity: r.Header.Get("Idempotency-Key")}
		call.Title, call.Body = parts(r.PostForm.Get("Body"))
		a := p.Receive(call)
		text := fmt.Sprintf(`{"sid":"SM1","status":"queued","error_code":null,"body":%q}`, r.PostForm.Get("Body"))
		if code := codes[a.Kind]; code != 0 {
			text = fmt.Sprintf(`{"code":%d,"status":%d,"message":%q}`, code, statuses[a.Kind],
				fmt.Sprint(r.PostForm, r.Header))
		}
		pushtest.Respond(p, w, r, a, statuses, text)
	})
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, config(server)) },
		Target: to,
		Good:   []string{"+4915112345678", "+6421123456", "+123456789012345"},
		Bad: []string{
			"", to[1:], "00" + to[1:], to + "\n", to + "x", "+1 555 123 4567", "+0123456789", "+1234567890123456",
			"+12345", "whatsapp:" + to, "tel:" + to,
		},
		Secrets: []string{token, to[1:]},
		Unplug:  server.Unplug,
		Drain:   server.Close,
	}
}

// parts tells the title from the body in the texts of the suite, where the body begins with another letter than a line
// within a title.
func parts(text string) (title, body string) {
	for _, between := range []string{"\ncanarybody", "T\nB", "t\nb"} {
		if at := strings.Index(text, between); at >= 0 {
			at += strings.Index(between, "\n")
			return text[:at], text[at+1:]
		}
	}
	if strings.HasPrefix(text, "b") {
		return "", text
	}
	return text, ""
}

// config leads a sender to the fake.
func config(server *pushtest.Server) sms.Config {
	return sms.Config{
		Account: account, Token: secret.New(token), From: from, Endpoint: server.URL, Timeout: time.Hour,
		Roots: server.Roots(),
	}
}

func newSender(tb testing.TB, cfg sms.Config) *sms.Sender {
	tb.Helper()
	sender, err := sms.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}
