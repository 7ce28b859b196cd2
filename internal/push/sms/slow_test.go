package sms_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/internal/secret"
)

// slowGateway is a gateway that sends the body of its response a while after the header.
type slowGateway struct {
	status int
	body   string
	after  time.Duration
}

// DialContext implements [httpsend.Dialer].
func (g slowGateway) DialContext(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go g.respond(theirs)
	return ours, nil
}

// respond responds to one call. What fails here has ended already.
func (g slowGateway) respond(conn net.Conn) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, request.Body)
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d \r\nContent-Length: %d\r\n\r\n", g.status, len(g.body))
	_ = conn.SetReadDeadline(time.Now().Add(g.after))
	_, _ = conn.Read(make([]byte, 1)) // until then, or until the caller is gone
	_, _ = io.WriteString(conn, g.body)
}

// A gateway may take a while for the body that says what its response means.
func TestABodyMayBeSlow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slowGateway

		want *push.Error // nil: delivered
		took time.Duration
	}{
		"undelivered": {
			slowGateway: slowGateway{201, `{"status":"undelivered","error_code":30003}`, 8 * time.Second},
			want:        &push.Error{Class: push.Transient, Code: "201.30003", Concerns: push.ConcernsTarget},
			took:        8 * time.Second,
		},
		"the queue is full": {
			slowGateway: slowGateway{400, `{"code":21611,"status":400}`, 8 * time.Second},
			want: &push.Error{
				Class: push.Throttled, Code: "400.21611", Concerns: push.ConcernsEverybody, RetryAfter: time.Minute,
			},
			took: 8 * time.Second,
		},
		"no sender": {
			slowGateway: slowGateway{400, `{"code":21606,"status":400}`, 8 * time.Second},
			want: &push.Error{
				Class: push.CredentialsRefused, Code: "400.21606", Concerns: push.ConcernsEverybody,
			},
			took: 8 * time.Second,
		},
		"longer than the call may take": {
			slowGateway: slowGateway{400, `{"code":21611,"status":400}`, time.Minute},
			want:        &push.Error{Class: push.Transient, Code: "400", Concerns: push.ConcernsHost},
			took:        10 * time.Second,
		},
		"longer, and accepted": {
			slowGateway: slowGateway{201, `{"status":"queued","error_code":null}`, time.Minute},
			took:        10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sender := newSender(t, sms.Config{
					Account: account, Token: secret.New(token), From: from, Endpoint: "http://gateway.example",
					Dialer: c.slowGateway,
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				failure := push.Classify(sender.Send(ctx, message()))
				if failure != nil {
					failure.Reply = ""
				}
				if diff := cmp.Diff(c.want, failure); diff != "" || time.Since(began) != c.took {
					t.Errorf("after %s, want %s; outcome (-want +got):\n%s", time.Since(began), c.took, diff)
				}
			})
		})
	}
}

// A connection may end within the body. Then only the status is known, which decides where no code says otherwise.
func TestABodyMayBeCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		text   string
		want   *push.Error // nil: delivered
	}{
		{status: 201, text: `{"body":"hel`},
		{status: 400, text: `{"co`, want: &push.Error{Class: push.Transient, Code: "400", Concerns: push.ConcernsHost}},
		{
			status: 400, text: `{"code":21610,"status":400} `,
			want: &push.Error{Class: push.TargetGone, Code: "400.21610", Concerns: push.ConcernsTarget},
		},
		{
			status: 401, text: `{"co`,
			want: &push.Error{Class: push.CredentialsRefused, Code: "401", Concerns: push.ConcernsEverybody},
		},
		{
			status: 429, text: `{"co`,
			want: &push.Error{
				Class: push.Throttled, Code: "429", Concerns: push.ConcernsEverybody, RetryAfter: time.Minute,
			},
		},
		{status: 403, text: `<html>`, want: &push.Error{Class: push.Permanent, Code: "403", Concerns: push.ConcernsTarget}},
		{status: 502, text: `{"co`, want: &push.Error{Class: push.Ambiguous, Code: "502", Concerns: push.ConcernsHost}},
	} {
		t.Run(fmt.Sprint(c.status, c.text), func(t *testing.T) {
			t.Parallel()
			server := pushtest.StartServer(t, &pushtest.Provider{}, pushtest.Cut(c.status, c.text))
			failure := push.Classify(newSender(t, config(server)).Send(t.Context(), message()))
			if failure != nil {
				failure.Reply = ""
			}
			if diff := cmp.Diff(c.want, failure); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
