package providertest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/providertest"
)

// caller calls a provider as any program would.
func caller(t *testing.T, http1 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: providertest.Roots(), MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: !http1,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call returns the status of a request, or what went wrong.
func call(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	return callUntil(t.Context(), t, client, url)
}

// callUntil is [call] by a caller that hangs up when the context ends.
func callUntil(ctx context.Context, t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, context.Canceled):
		return "hangs"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case err != nil:
		return "ended"
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 5))
	switch {
	case err != nil:
		return fmt.Sprint(response.StatusCode, " ended")
	case strings.TrimSpace(string(body)) != string(body):
		return fmt.Sprint(response.StatusCode, " drips")
	}
	return fmt.Sprint(response.StatusCode)
}

// TestRules has providers respond by target, by rate and by age, on a clock of the test's.
func TestRules(t *testing.T) {
	t.Parallel()
	tooMany, greylisted := status(429), status(503)
	ios := providertest.Matching("/ios-")
	type step struct {
		after time.Duration
		path  string
		want  string
	}
	for name, c := range map[string]struct {
		script []providertest.Rule
		steps  []step
	}{
		"by target": {
			script: []providertest.Rule{{Target: ios, Reply: status(401)}},
			steps:  []step{{path: "/ios-1", want: "401"}, {path: "/android-1", want: "200"}},
		},
		"the first rule that holds": {
			script: []providertest.Rule{{Target: ios, Reply: status(401)}, {Reply: status(410)}},
			steps:  []step{{path: "/ios-1", want: "401"}, {path: "/android-1", want: "410"}},
		},
		"by rate": {
			script: []providertest.Rule{{Over: 2, Reply: tooMany}},
			steps: []step{
				{path: "/1", want: "200"},
				{path: "/2", want: "200"},
				{path: "/3", want: "429"},
				{after: 999 * time.Millisecond, path: "/4", want: "429"},
				{after: time.Millisecond, path: "/5", want: "200"},
			},
		},
		"the first n": {
			script: []providertest.Rule{{First: 1, Reply: greylisted}},
			steps:  []step{{path: "/1", want: "503"}, {path: "/2", want: "503"}, {path: "/1", want: "200"}},
		},
		"after n": {
			script: []providertest.Rule{{Skip: 1, First: 1, Reply: status(410)}},
			steps:  []step{{path: "/1", want: "200"}, {path: "/1", want: "410"}, {path: "/1", want: "200"}},
		},
		"for a while": {
			script: []providertest.Rule{{Until: time.Minute, Reply: greylisted}},
			steps: []step{
				{path: "/1", want: "503"},
				{after: 59 * time.Second, path: "/1", want: "503"},
				{path: "/2", want: "503"},
				{after: time.Second, path: "/1", want: "200"},
				{path: "/2", want: "503"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			server := providertest.StartHTTP(t, providertest.HTTPConfig{
				Plain: true, Now: func() time.Time { return time.Unix(0, now.Load()) },
			}, c.script...)
			client := caller(t, true)
			for i, s := range c.steps {
				now.Add(int64(s.after))
				if got := call(t, client, server.URL+s.path); got != s.want {
					t.Errorf("call %d, to %s: %s, want %s", i+1, s.path, got, s.want)
				}
			}
			calls := server.Calls(providertest.Called)
			if len(calls) != len(c.steps) || string(calls[0].Body) != "hello" {
				t.Errorf("it noted %d calls, want %d", len(calls), len(c.steps))
			}
		})
	}
}

// TestEnds has providers end calls in every way, over both versions of HTTP. The next call works.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   providertest.End
		want  string
		http2 string // where it differs
	}{
		"keeps": {end: providertest.Keeps, want: "200"}, "leaves": {end: providertest.Leaves, want: "200"},
		"hangs": {end: providertest.Hangs, want: "hangs"}, "drips": {end: providertest.Drips, want: "200 drips"},
		"aborts": {end: providertest.Aborts, want: "ended"}, "hangs up": {end: providertest.HangsUp, want: "ended"},
		"resets":      {end: providertest.Resets, want: "reset"},
		"half-closes": {end: providertest.HalfCloses, want: "ended"},
		// Whoever reads that its call was not processed may make it again.
		"goes away": {end: providertest.GoesAway, want: "ended", http2: "200"},
	} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", plain ", plain), func(t *testing.T) {
				t.Parallel()
				server := providertest.StartHTTP(t, providertest.HTTPConfig{Plain: plain})
				client := caller(t, plain)
				want := c.want
				if !plain && c.http2 != "" {
					want = c.http2
				}
				if got := call(t, client, server.URL); got != "200" {
					t.Fatalf("before: %s", got)
				}
				server.Follow(providertest.Rule{Skip: 1, First: 1, Reply: providertest.Reply{End: c.end}})
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				outcome := make(chan string, 1)
				go func() { outcome <- callUntil(ctx, t, client, server.URL) }()
				if want == "hangs" {
					server.Await(t, providertest.Called, 2)
					<-time.After(500 * time.Millisecond)
					hangUp()
				}
				if got := <-outcome; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got := call(t, client, server.URL); got != "200" {
					t.Errorf("after: %s", got)
				}
				server.Unplug()
				_ = call(t, client, server.URL) // on the connection that has ended
				if got := call(t, client, server.URL); got != "refused" {
					t.Errorf("unplugged: %s", got)
				}
			})
		}
	}
}

// mail sends a mail as any program would, and gives the code of the refusal, or 250.
func mail(client *smtp.Client, to string) (int, error) {
	err := client.Mail("pacer@example.com")
	if err == nil {
		err = client.Rcpt(to)
	}
	if err == nil {
		var content io.WriteCloser
		if content, err = client.Data(); err == nil {
			_, err = io.WriteString(content, "Subject: x\r\n\r\n.hello\r\n")
			err = errors.Join(err, content.Close())
		}
	}
	if refusal, ok := errors.AsType[*textproto.Error](err); ok {
		return refusal.Code, client.Reset()
	}
	return 250, err
}

// TestMailServer greylists a recipient, keeps what RFC 5321 says of a refused DATA, and ends connections.
func TestMailServer(t *testing.T) {
	t.Parallel()
	to := providertest.Matching
	server := providertest.StartSMTP(t, providertest.SMTPConfig{},
		providertest.Rule{Target: to("^grey"), First: 1, Reply: with(450, "4.2.0 greylisted")},
		providertest.Rule{Step: providertest.Sent, Target: to("^spam"), Reply: with(554, "5.7.1 no")},
		providertest.Rule{Target: to("^busy"), Reply: with(421, "4.7.0 too many")})
	client, err := smtp.Dial(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.StartTLS(&tls.Config{
		ServerName: "127.0.0.1", RootCAs: providertest.Roots(), MinVersion: tls.VersionTLS12,
	}); err != nil {
		t.Fatal(err)
	}
	if err := client.Auth(smtp.PlainAuth("", "pacer", "secret", "127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to   string
		want int
	}{
		{to: "ada@example.com", want: 250},
		{to: "grey@example.com", want: 450},
		{to: "grey@example.com", want: 250},
		{to: "spam@example.com", want: 554},
		{to: "ada@example.com", want: 250},
	} {
		if got, err := mail(client, c.to); got != c.want || err != nil {
			t.Errorf("%s: %d (%v), want %d", c.to, got, err, c.want)
		}
	}
	if got, err := mail(client, "busy@example.com"); got != 421 || err == nil {
		t.Errorf("after 421 the connection goes on (%d)", got)
	}
	var taken []string
	for _, c := range server.Calls(providertest.Sent) {
		if c.Reply.Status == 0 && strings.HasSuffix(string(c.Body), "\r\n\r\n.hello\r\n") {
			taken = append(taken, c.Target)
		}
	}
	if want := "ada@example.com grey@example.com ada@example.com"; strings.Join(taken, " ") != want {
		t.Errorf("it took %v, want %s", taken, want)
	}
	if user := server.Calls(providertest.LoggedIn)[0].Target; user != "pacer" {
		t.Errorf("logged in as %q", user)
	}
}
