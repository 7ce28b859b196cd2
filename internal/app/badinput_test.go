package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refused is a problem as a client reads it.
type refused struct {
	Status int
	Title  string
	Detail string
	Errors []struct{ Location, Message string }
}

// valid is a notification that is taken, with some fields set otherwise.
func valid(change item) []byte {
	n := item{"user_id": "ada", "channel": "log"}
	maps.Copy(n, change)
	body, err := json.Marshal(n)
	if err != nil {
		panic(err) // the test's own value can't be written
	}
	return body
}

func TestEveryFieldHasItsLimit(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	at := func(ahead time.Duration) string { return time.Now().Add(ahead).Format(time.RFC3339) }
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		field     string
		good, bad item
	}{
		"ID": {
			field: "id", good: item{"id": strings.Repeat("a", 64)}, bad: item{"id": strings.Repeat("a", 65)},
		},
		"IDCharacters": {field: "id", good: item{"id": "A-z_0.9:"}, bad: item{"id": "a/b"}},
		"User": {
			field: "user_id",
			good:  item{"user_id": strings.Repeat("ü", 128)},
			bad:   item{"user_id": strings.Repeat("ü", 128) + "u"},
		},
		"UserEmpty":     {field: "user_id", good: item{"user_id": "u"}, bad: item{"user_id": ""}},
		"UserControl":   {field: "user_id", good: item{"user_id": "a b"}, bad: item{"user_id": "a\nb"}},
		"Category":      {field: "category", good: item{"category": "slow"}, bad: item{"category": "unknown"}},
		"Channel":       {field: "channel", good: item{"channel": "log"}, bad: item{"channel": "pigeon"}},
		"NotConfigured": {field: "channel", good: item{"channel": "log"}, bad: item{"channel": "fcm"}},
		"To": {
			field: "to",
			good:  item{"channel": "webhook", "to": "https://example.com/"},
			bad:   item{"channel": "webhook"},
		},
		"Content": {
			field: "body",
			good:  item{"body": strings.Repeat("b", 256<<10)},
			bad:   item{"body": strings.Repeat("b", 256<<10+1)},
		},
		"Data":     {field: "data", good: item{"data": item{"a": 1}}, bad: item{"data": []int{1}}},
		"Priority": {field: "priority", good: item{"priority": "low"}, bad: item{"priority": "lowest"}},
		"SendAt": {
			field: "send_at",
			good:  item{"send_at": at(90*day - time.Hour)},
			bad:   item{"send_at": at(90*day + time.Hour)},
		},
		"SendAtForm": {field: "send_at", good: item{"send_at": at(time.Hour)}, bad: item{"send_at": "tomorrow"}},
		"ExpiresAt": {
			field: "expires_at", good: item{"expires_at": at(time.Hour)}, bad: item{"expires_at": at(-time.Minute)},
		},
		"ExpiresFirst": {
			field: "expires_at",
			good:  item{"send_at": at(time.Hour), "expires_at": at(2 * time.Hour)},
			bad:   item{"send_at": at(2 * time.Hour), "expires_at": at(time.Hour)},
		},
		"CollapseKey": {
			field: "collapse_key",
			good:  item{"collapse_key": strings.Repeat("k", 64)},
			bad:   item{"collapse_key": strings.Repeat("k", 65)},
		},
		"Key": {
			field: "idempotency_key",
			good:  item{"idempotency_key": strings.Repeat("k", 255)},
			bad:   item{"idempotency_key": strings.Repeat("k", 256)},
		},
		"WrongType": {field: "title", good: item{"title": "5"}, bad: item{"title": 5}},
		"Unknown":   {field: "colour", bad: item{"colour": "red"}},
		"LinkLocal": {field: "to", bad: item{"channel": "webhook", "to": "http://169.254.169.254/"}},
		"Private":   {field: "to", bad: item{"channel": "webhook", "to": "http://10.1.2.3/"}},
		"Decimal":   {field: "to", bad: item{"channel": "webhook", "to": "http://3232235777/"}},
		"Hex":       {field: "to", bad: item{"channel": "webhook", "to": "http://0xa.1/"}},
		"Mapped":    {field: "to", bad: item{"channel": "webhook", "to": "http://[::ffff:10.0.0.1]/"}},
		"Scheme":    {field: "to", bad: item{"channel": "webhook", "to": "gopher://example.com/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status := d.call(http.MethodPost, "/v1/notifications", valid(c.good), nil, nil); status != http.StatusAccepted {
				t.Errorf("the good value: status %d", status)
			}
			var p refused
			if status := d.call(http.MethodPost, "/v1/notifications", valid(c.bad), nil, &p); status != http.StatusUnprocessableEntity || p.Status != status {
				t.Errorf("the bad value: status %d, %+v", status, p)
			}
			if len(p.Errors) == 0 || p.Errors[0].Location != "body."+c.field {
				t.Errorf("the problem does not name %s: %+v", c.field, p)
			}
		})
	}
}

func TestMalformedBodiesAreRefusedWhole(t *testing.T) { //nolint:tparallel // the end looks at what all bodies left behind
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	many := strings.Repeat("{\"user_id\":\"ada\",\"channel\":\"log\"}\n", 10_001)
	ndjson := http.Header{"Content-Type": {"application/x-ndjson"}}
	t.Run("Bodies", func(t *testing.T) {
		for name, c := range map[string]struct {
			path, body string
			header     http.Header
			status     int
		}{
			"Empty":     {status: 400},
			"NoJSON":    {body: "{", status: 400},
			"NoObject":  {body: `["ada"]`, status: 400},
			"Trailing":  {body: string(valid(nil)) + "{}", status: 400},
			"Twice":     {body: `{"user_id":"ada","channel":"log","user_id":"eve"}`, status: 422},
			"OtherCase": {body: `{"USER_ID":"ada","channel":"log"}`, status: 422},
			"NoUTF8":    {body: "{\"user_id\":\"a\xff\",\"channel\":\"log\"}", status: 400},
			"Deep": {
				body: `{"user_id":"ada","channel":"log","data":{"a":` + strings.Repeat("[",
					10_000) + strings.Repeat("]", 10_000) + `}}`,
				status: 422,
			},
			"Huge": {
				body: `{"user_id":"ada","channel":"log","body":"` + strings.Repeat("b", 3<<20) + `"}`, status: 413,
			},
			"Media": {
				body: string(valid(nil)), header: http.Header{"Content-Type": {"text/plain"}}, status: 415,
			},
			"Encoded": {body: string(valid(nil)), header: http.Header{"Content-Encoding": {"gzip"}}, status: 415},
			"TwoKeys": {
				body:   string(valid(item{"idempotency_key": "a"})),
				header: http.Header{"Idempotency-Key": {"b"}},
				status: 422,
			},
			"BulkEmpty":   {path: "/bulk", header: ndjson, status: 400},
			"BulkNoArray": {path: "/bulk", body: `{"user_id":"ada"}`, status: 400},
			"BulkBroken":  {path: "/bulk", body: `[{"user_id":"ada","channel":"log"},`, status: 400},
			"BulkTooMany": {path: "/bulk", body: many, header: ndjson, status: 413},
			"BulkHuge":    {path: "/bulk", body: strings.Repeat(" ", 17<<20), header: ndjson, status: 413},
			"BulkMedia": {
				path: "/bulk", body: "[]", header: http.Header{"Content-Type": {"application/xml"}}, status: 415,
			},
			"BulkResults":  {path: "/bulk?results=some", body: `[{"user_id":"ada","channel":"log"}]`, status: 422},
			"WrongMethod":  {path: "/n1", status: 405},
			"NowhereAtAll": {path: "s", status: 404},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var p refused
				if status := d.call(http.MethodPost, "/v1/notifications"+c.path, []byte(c.body), c.header, &p); status != c.status || p.Status != c.status || p.Title == "" {
					t.Errorf("status %d, problem %+v, want %d", status, p, c.status)
				}
			})
		}
	})
	if s := d.stats(); s.Totals.Accepted != 0 {
		t.Errorf("%d were accepted", s.Totals.Accepted)
	}
}

// A body that is too long is refused before all of it is sent, and read on: a client that sends everything first would
// get "connection reset" in place of the refusal, or none at all.
func TestTooLongBodiesAreReadOn(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	const refusedAfter, all = 18 << 20, 60 << 20 // what is left is more than the kernel keeps for a reader
	body := strings.Repeat(" ", all)
	for name, c := range map[string]struct {
		address, path string
		status        int
	}{
		"API":      {d.apps[0].Addr(), "/v1/notifications/bulk", http.StatusRequestEntityTooLarge},
		"NoRoute":  {d.apps[0].Addr(), "/v1/nowhere", http.StatusNotFound},
		"OpsPages": {d.apps[0].OpsAddr(), "/policy/diff", http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\n"+
				"Content-Length: %d\r\n\r\n", c.path, c.address, all); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, body[:refusedAfter]); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("status %d, want %d", response.StatusCode, c.status)
			}
			if n, err := io.WriteString(conn, body[refusedAfter:]); err != nil {
				t.Errorf("the body can't be sent to its end, only %d bytes more: %v", n, err)
			}
		})
	}
}

func TestBulkTakesTheGoodOnes(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	body := bytes.Join([][]byte{
		valid(nil), []byte("nonsense"), valid(item{"category": "unknown"}), valid(item{"id": "twice"}),
		valid(item{"id": "twice"}), valid(item{"data": item{"long": strings.Repeat("x", 2<<20)}}),
	}, []byte("\n"))
	var reply struct {
		Accepted, Rejected int
		Results            []struct {
			Index     int
			ID, Error string
		}
	}
	lines := http.Header{"Content-Type": {"application/x-ndjson"}}
	status := d.call(http.MethodPost, "/v1/notifications/bulk?results=errors", body, lines, &reply)
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if reply.Accepted != 3 || reply.Rejected != 3 || len(reply.Results) != 3 || reply.Results[0].Index != 1 ||
		reply.Results[1].Index != 2 || reply.Results[2].Index != 5 ||
		!strings.HasSuffix(reply.Results[2].Error, "and may have 2097152") {
		t.Errorf("reply %+v", reply)
	}
	if s := d.stats(); s.Totals.Accepted != 2 {
		t.Errorf("%d were accepted, want 2: one id is one notification", s.Totals.Accepted)
	}
}

func TestUserIDsOfAnyForm(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	for user, path := range map[string]string{
		"a/b": "a%2Fb", "ü": "%C3%BC", "100%": "100%25", "a b": "a%20b", "{push-1}:x": "%7Bpush-1%7D:x",
	} {
		d.bulk([]item{{"user_id": user, "channel": "log", "category": "slow"}})
		var window struct {
			UserID     string `json:"user_id"`
			Allowed    bool
			TimeLeftMS int64 `json:"time_left_ms"`
			Rules      []struct{ Max, Used, Remaining int }
		}
		d.awaitStats("delivered", func(s stats) bool { return s.Totals.Delivered == s.Totals.Accepted })
		if status := d.call(http.MethodGet, "/v1/users/"+path+"/throttle?category=slow", nil, nil, &window); status != http.StatusOK {
			t.Fatalf("user %q: status %d", user, status)
		}
		if window.UserID != user || window.Allowed || window.TimeLeftMS < 3_500_000 || window.Rules[0].Used != 1 ||
			window.Rules[0].Remaining != 0 {
			t.Errorf("user %q: %+v", user, window)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	withTokens := d.settings()
	withTokens.APITokens = []string{"first-token", "second-token"}
	d.startWith(withTokens)
	for header, want := range map[string]int{
		"": 401, "Bearer wrong": 401, "Basic first-token": 401, "Bearer": 401, "Bearer first-token2": 401,
		"Bearer first-token": 200, "bearer second-token": 200,
	} {
		authorization := http.Header{"Authorization": {header}}
		if status := d.call(http.MethodGet, "/v1/stats", nil, authorization, nil); status != want {
			t.Errorf("Authorization %q: status %d, want %d", header, status, want)
		}
	}
	for _, path := range []string{"/openapi.json", "/docs"} {
		if status := d.call(http.MethodGet, path, nil, nil, nil); status != http.StatusOK {
			t.Errorf("%s without a token: status %d", path, status)
		}
	}
}
