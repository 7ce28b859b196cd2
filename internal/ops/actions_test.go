package ops_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/secret"
)

// fakeActions remembers the actions that were taken, and the entries of the audit log.
type fakeActions struct {
	ops.Actions
	fault error
	done  []string
	log   []control.Entry
}

// Cancel implements [ops.Actions].
func (f *fakeActions) Cancel(_ context.Context, id string) error {
	if f.fault == nil {
		f.done = append(f.done, "cancel "+id)
	}
	return f.fault
}

// Move implements [ops.Actions].
func (f *fakeActions) Move(context.Context, string, string) (string, error) { return "", f.fault }

// Pause implements [ops.Actions].
func (f *fakeActions) Pause(_ context.Context, p control.Pause) error {
	f.done = append(f.done, "pause "+p.Subject.String()+" by "+p.By)
	return nil
}

// Note implements [ops.Actions].
func (f *fakeActions) Note(ctx context.Context, e control.Entry) error {
	if _, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded {
		return errors.Join(errors.New("no time, or no end of it"), ctx.Err())
	}
	f.log = append(f.log, e)
	return nil
}

// AuditLog implements [ops.Actions].
func (f *fakeActions) AuditLog(context.Context, int) ([]control.Entry, error) { return f.log, nil }

// visit is how an action comes in: under which host, to which local address, with which token set.
type visit struct {
	token, local, host string
	header             map[string]string
	body               string
	gone               bool // before the action is taken
}

// act posts an action.
func act(t *testing.T, f *fakeActions, v visit) (status int, body string) {
	t.Helper()
	cfg := config()
	cfg.Actions, cfg.Tokens = f, secret.NewTokens(v.token)
	if v.body == "" {
		v.body = `{"action":"cancel","id":"n1"}`
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/actions", strings.NewReader(v.body))
	if v.local == "" {
		v.local = "127.0.0.1:8081"
	}
	local, err := net.ResolveTCPAddr("tcp", v.local)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.WithValue(request.Context(), http.LocalAddrContextKey, local))
	defer leave()
	if v.gone {
		leave()
	}
	request = request.WithContext(ctx)
	request.RemoteAddr, request.Host = "127.0.0.1:5000", "localhost:8081"
	if v.host != "" {
		request.Host = v.host
	}
	for name, value := range v.header {
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	ops.Handler(cfg).ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

// Where a token is set, it is needed. Where none is, actions work on a loopback address only, and not for other sites.
func TestActionsNeedTheTokenOrALoopbackAddress(t *testing.T) {
	t.Parallel()
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	ownPage := map[string]string{"Origin": "http://localhost:8081", "Sec-Fetch-Site": "same-origin"}
	const elsewhere = "10.1.2.3:8081"
	for _, tt := range []struct {
		name  string
		visit visit
		want  int
	}{
		{name: "loopback", visit: visit{}, want: http.StatusOK},
		{name: "loopback, IPv6", visit: visit{local: "[::1]:8081", host: "[::1]:8081"}, want: http.StatusOK},
		{name: "another address", visit: visit{local: elsewhere, host: elsewhere}, want: http.StatusForbidden},
		{name: "another name", visit: visit{host: "evil.example:8081"}, want: http.StatusForbidden},
		{
			name:  "another site",
			visit: visit{header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, want: http.StatusForbidden,
		},
		{
			name:  "another origin",
			visit: visit{header: map[string]string{"Origin": "https://evil.example"}}, want: http.StatusForbidden,
		},
		{name: "own page", visit: visit{header: ownPage}, want: http.StatusOK},
		{name: "without the token", visit: visit{token: "t"}, want: http.StatusUnauthorized},
		{name: "another token", visit: visit{token: "t", header: bearer("u")}, want: http.StatusUnauthorized},
		{name: "the token", visit: visit{token: "t", header: bearer("t")}, want: http.StatusOK},
		{
			name:  "the token, elsewhere",
			visit: visit{token: "t", header: bearer("t"), local: elsewhere, host: "ops.example"}, want: http.StatusOK,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeActions{}
			status, body := act(t, f, tt.visit)
			if status != tt.want || (len(f.done) == 1) != (tt.want == http.StatusOK) || len(f.log) != len(f.done) {
				t.Errorf("%d %s; done is %v, logged %v", status, body, f.done, f.log)
			}
		})
	}
}

// An action that can't be read or is refused changes nothing, and is not in the audit log.
func TestRefusedActionsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body  string
		fault error // of the action
		want  int
		says  string
	}{
		{body: "{", want: http.StatusBadRequest},
		{body: `{"action":"cancel","identity":"n1"}`, want: http.StatusBadRequest, says: "identity"},
		{
			body: `{"action":"pause","kind":"partition","name":"1","why":"` + strings.Repeat("x", 201) + `"}`,
			want: http.StatusBadRequest, says: "200",
		},
		{body: `{"action":"` + strings.Repeat("x", 5000) + `"}`, want: http.StatusBadRequest},
		{body: `{"action":"destroy"}`, want: http.StatusConflict, says: "cancel, change, move, pause, release, resume, retry"},
		{fault: &ops.RefusalError{Reason: "it is under way"}, want: http.StatusConflict, says: "it is under way"},
		{fault: errAway, want: http.StatusServiceUnavailable},
	} {
		t.Run(fmt.Sprint(tt.want, tt.says), func(t *testing.T) {
			t.Parallel()
			f := &fakeActions{fault: tt.fault}
			status, body := act(t, f, visit{body: tt.body})
			if status != tt.want || !strings.Contains(body, tt.says) || len(f.done)+len(f.log) != 0 {
				t.Errorf("%d %s; done is %v, logged %v", status, body, f.done, f.log)
			}
		})
	}
}

func TestTheAuditLogTellsWhoDidWhat(t *testing.T) {
	t.Parallel()
	f := &fakeActions{}
	if status, body := act(t, f, visit{
		body:   `{"action":"pause","kind":"channel","name":"fcm","why":"too much"}`,
		header: map[string]string{"Pacer-Operator": "ada\n"},
	}); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	want := control.Entry{By: "ada (127.0.0.1)", Action: "pause", Subject: "channel fcm", Detail: "too much"}
	if len(f.log) != 1 || f.log[0] != want || f.done[0] != "pause channel fcm by ada (127.0.0.1)" {
		t.Errorf("logged is %+v, done %v", f.log, f.done)
	}
}

// What was done is in the audit log although whoever asked for it has gone.
func TestTheAuditLogTellsWhatNobodyWaitedFor(t *testing.T) {
	t.Parallel()
	f := &fakeActions{}
	act(t, f, visit{gone: true})
	want := control.Entry{By: "(127.0.0.1)", Action: "cancel", Subject: "n1"}
	if len(f.done) != 1 || len(f.log) != 1 || f.log[0] != want {
		t.Errorf("done is %v, logged is %+v", f.done, f.log)
	}
}

// What was done in place of what was asked for is in the audit log too.
func TestTheAuditLogTellsWhatWasDoneInstead(t *testing.T) {
	t.Parallel()
	f := &fakeActions{fault: &ops.PartialError{Reason: "n1 goes on as n2 over its old channel webhook"}}
	status, body := act(t, f, visit{body: `{"action":"move","id":"n1","channel":"email"}`})
	if status != http.StatusConflict || !strings.Contains(body, "n1 goes on as n2 over its old channel webhook") {
		t.Errorf("%d %s", status, body)
	}
	want := control.Entry{
		By: "(127.0.0.1)", Action: "move", Subject: "n1", Detail: "n1 goes on as n2 over its old channel webhook",
	}
	if len(f.log) != 1 || f.log[0] != want {
		t.Errorf("logged is %+v, want %+v", f.log, want)
	}
}
