package ops_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/ops"
)

// deeds notes what was done.
type deeds struct {
	ops.Actions
	fault error
	done  []string
	trail []control.Entry
}

// Cancel implements [ops.Actions].
func (d *deeds) Cancel(_ context.Context, id string) error {
	if d.fault == nil {
		d.done = append(d.done, "cancel "+id)
	}
	return d.fault
}

// Pause implements [ops.Actions].
func (d *deeds) Pause(_ context.Context, p control.Pause) error {
	d.done = append(d.done, "pause "+p.Subject.String()+" by "+p.By)
	return nil
}

// Note implements [ops.Actions].
func (d *deeds) Note(_ context.Context, e control.Entry) error {
	d.trail = append(d.trail, e)
	return nil
}

// Trail implements [ops.Actions].
func (d *deeds) Trail(context.Context, int) ([]control.Entry, error) { return d.trail, nil }

// visit is how an action comes in.
type visit struct {
	token, local, host string
	header             map[string]string
	body               string
}

func act(t *testing.T, d *deeds, v visit) (status int, answer string) {
	t.Helper()
	cfg := config()
	cfg.Actions, cfg.Token = d, v.token
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
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, local))
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

// Who may act: everybody on a loopback address, and elsewhere, or where there is one, who has the token.
func TestWhoMayAct(t *testing.T) {
	t.Parallel()
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	for name, c := range map[string]struct {
		visit visit
		want  int
	}{
		"loopback":             {visit{}, http.StatusOK},
		"loopback, IPv6":       {visit{local: "[::1]:8081", host: "[::1]:8081"}, http.StatusOK},
		"another address":      {visit{local: "10.1.2.3:8081", host: "10.1.2.3:8081"}, http.StatusForbidden},
		"another name":         {visit{host: "evil.example:8081"}, http.StatusForbidden},
		"another site":         {visit{header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, http.StatusForbidden},
		"another origin":       {visit{header: map[string]string{"Origin": "https://evil.example"}}, http.StatusForbidden},
		"own page":             {visit{header: map[string]string{"Origin": "http://localhost:8081", "Sec-Fetch-Site": "same-origin"}}, http.StatusOK},
		"without the token":    {visit{token: "t"}, http.StatusUnauthorized},
		"another token":        {visit{token: "t", header: bearer("u")}, http.StatusUnauthorized},
		"the token":            {visit{token: "t", header: bearer("t")}, http.StatusOK},
		"the token, elsewhere": {visit{token: "t", header: bearer("t"), local: "10.1.2.3:8081", host: "ops.example"}, http.StatusOK},
	} {
		d := &deeds{}
		status, answer := act(t, d, c.visit)
		if status != c.want || (len(d.done) == 1) != (c.want == http.StatusOK) || len(d.trail) != len(d.done) {
			t.Errorf("%s: %d %s; done is %v, noted %v", name, status, answer, d.done, d.trail)
		}
	}
}

// What can't be read or is refused does nothing, and is not in the audit trail.
func TestActionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		fault error
		want  int
		says  string
	}{
		"no JSON":       {"{", nil, http.StatusBadRequest, "can't be read"},
		"unknown field": {`{"action":"cancel","identity":"n1"}`, nil, http.StatusBadRequest, "identity"},
		"long reason":   {`{"action":"pause","kind":"partition","name":"1","why":"` + strings.Repeat("x", 201) + `"}`, nil, http.StatusBadRequest, "at most 200"},
		"long body":     {`{"action":"` + strings.Repeat("x", 5000) + `"}`, nil, http.StatusBadRequest, "too large"},
		"unknown":       {`{"action":"destroy"}`, nil, http.StatusConflict, "must be pause, resume, cancel or retry"},
		"refused":       {"", &ops.RefusalError{Reason: "it is under way"}, http.StatusConflict, "it is under way"},
		"away":          {"", errAway, http.StatusServiceUnavailable, "can't be read now"},
	} {
		d := &deeds{fault: c.fault}
		status, answer := act(t, d, visit{body: c.body})
		if status != c.want || !strings.Contains(answer, c.says) || len(d.done)+len(d.trail) != 0 {
			t.Errorf("%s: %d %s; done is %v, noted %v", name, status, answer, d.done, d.trail)
		}
	}
}

// The audit trail tells who did what.
func TestAuditTrail(t *testing.T) {
	t.Parallel()
	d := &deeds{}
	if status, answer := act(t, d, visit{
		body: `{"action":"pause","kind":"channel","name":"fcm","why":"too much"}`, header: map[string]string{"Pacer-Operator": "ada\n"},
	}); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	want := control.Entry{By: "ada (127.0.0.1)", Action: "pause", Subject: "channel fcm", Detail: "too much"}
	if len(d.trail) != 1 || d.trail[0] != want || d.done[0] != "pause channel fcm by ada (127.0.0.1)" {
		t.Errorf("noted is %+v, done %v", d.trail, d.done)
	}
}
