package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
		"ID":            {"id", item{"id": strings.Repeat("a", 64)}, item{"id": strings.Repeat("a", 65)}},
		"IDCharacters":  {"id", item{"id": "A-z_0.9:"}, item{"id": "a/b"}},
		"User":          {"user_id", item{"user_id": strings.Repeat("ü", 128)}, item{"user_id": strings.Repeat("ü", 128) + "u"}},
		"UserEmpty":     {"user_id", item{"user_id": "u"}, item{"user_id": ""}},
		"UserControl":   {"user_id", item{"user_id": "a b"}, item{"user_id": "a\nb"}},
		"Category":      {"category", item{"category": "slow"}, item{"category": "unknown"}},
		"Channel":       {"channel", item{"channel": "log"}, item{"channel": "pigeon"}},
		"NotConfigured": {"channel", item{"channel": "log"}, item{"channel": "fcm"}},
		"To":            {"to", item{"channel": "webhook", "to": "https://example.com/"}, item{"channel": "webhook"}},
		"Content":       {"body", item{"body": strings.Repeat("b", 256<<10)}, item{"body": strings.Repeat("b", 256<<10+1)}},
		"Data":          {"data", item{"data": item{"a": 1}}, item{"data": []int{1}}},
		"Priority":      {"priority", item{"priority": "low"}, item{"priority": "lowest"}},
		"SendAt":        {"send_at", item{"send_at": at(90*day - time.Hour)}, item{"send_at": at(90*day + time.Hour)}},
		"SendAtForm":    {"send_at", item{"send_at": at(time.Hour)}, item{"send_at": "tomorrow"}},
		"ExpiresAt":     {"expires_at", item{"expires_at": at(time.Hour)}, item{"expires_at": at(-time.Minute)}},
		"ExpiresFirst":  {"expires_at", item{"send_at": at(time.Hour), "expires_at": at(2 * time.Hour)}, item{"send_at": at(2 * time.Hour), "expires_at": at(time.Hour)}},
		"CollapseKey":   {"collapse_key", item{"collapse_key": strings.Repeat("k", 64)}, item{"collapse_key": strings.Repeat("k", 65)}},
		"Key":           {"idempotency_key", item{"idempotency_key": strings.Repeat("k", 255)}, item{"idempotency_key": strings.Repeat("k", 256)}},
		"WrongType":     {"title", item{"title": "5"}, item{"title": 5}},
		"Unknown":       {"colour", item{}, item{"colour": "red"}},
		"LinkLocal":     {"to", item{}, item{"channel": "webhook", "to": "http://169.254.169.254/"}},
		"Private":       {"to", item{}, item{"channel": "webhook", "to": "http://10.1.2.3/"}},
		"Decimal":       {"to", item{}, item{"channel": "webhook", "to": "http://3232235777/"}},
		"Hex":           {"to", item{}, item{"channel": "webhook", "to": "http://0xa.1/"}},
		"Mapped":        {"to", item{}, item{"channel": "webhook", "to": "http://[::ffff:10.0.0.1]/"}},
		"Scheme":        {"to", item{}, item{"channel": "webhook", "to": "gopher://example.com/"}},
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
			"Empty":        {"", "", nil, 400},
			"NoJSON":       {"", "{", nil, 400},
			"NoObject":     {"", `["ada"]`, nil, 400},
			"Trailing":     {"", string(valid(nil)) + "{}", nil, 400},
			"Twice":        {"", `{"user_id":"ada","channel":"log","user_id":"eve"}`, nil, 422},
			"OtherCase":    {"", `{"USER_ID":"ada","channel":"log"}`, nil, 422},
			"NoUTF8":       {"", "{\"user_id\":\"a\xff\",\"channel\":\"log\"}", nil, 400},
			"Deep":         {"", `{"user_id":"ada","channel":"log","data":{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}}`, nil, 400},
			"Huge":         {"", `{"user_id":"ada","channel":"log","body":"` + strings.Repeat("b", 3<<20) + `"}`, nil, 413},
			"Media":        {"", string(valid(nil)), http.Header{"Content-Type": {"text/plain"}}, 415},
			"Encoded":      {"", string(valid(nil)), http.Header{"Content-Encoding": {"gzip"}}, 415},
			"TwoKeys":      {"", string(valid(item{"idempotency_key": "a"})), http.Header{"Idempotency-Key": {"b"}}, 422},
			"BulkEmpty":    {"/bulk", "", ndjson, 400},
			"BulkNoArray":  {"/bulk", `{"user_id":"ada"}`, nil, 400},
			"BulkBroken":   {"/bulk", `[{"user_id":"ada","channel":"log"},`, nil, 400},
			"BulkTooMany":  {"/bulk", many, ndjson, 413},
			"BulkHuge":     {"/bulk", strings.Repeat(" ", 17<<20), ndjson, 413},
			"BulkMedia":    {"/bulk", "[]", http.Header{"Content-Type": {"application/xml"}}, 415},
			"BulkResults":  {"/bulk?results=some", `[{"user_id":"ada","channel":"log"}]`, nil, 422},
			"WrongMethod":  {"/n1", "", nil, 405},
			"NowhereAtAll": {"s", "", nil, 404},
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

func TestBulkTakesTheGoodOnes(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	body := bytes.Join([][]byte{valid(nil), []byte("nonsense"), valid(item{"category": "unknown"}), valid(item{"id": "twice"}), valid(item{"id": "twice"})}, []byte("\n"))
	var reply struct {
		Accepted, Rejected int
		Results            []struct {
			Index     int
			ID, Error string
		}
	}
	if status := d.call(http.MethodPost, "/v1/notifications/bulk?results=errors", body, http.Header{"Content-Type": {"application/x-ndjson"}}, &reply); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if reply.Accepted != 3 || reply.Rejected != 2 || fmt.Sprint(len(reply.Results), reply.Results[0].Index, reply.Results[1].Index) != "2 1 2" {
		t.Errorf("reply %+v", reply)
	}
	if s := d.stats(); s.Totals.Accepted != 2 {
		t.Errorf("%d were accepted, want 2: one id is one notification", s.Totals.Accepted)
	}
}

func TestUserIDsOfAnyForm(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	for user, path := range map[string]string{"a/b": "a%2Fb", "ü": "%C3%BC", "100%": "100%25", "a b": "a%20b", "{push-1}:x": "%7Bpush-1%7D:x"} {
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
		if window.UserID != user || window.Allowed || window.TimeLeftMS < 3_500_000 || window.Rules[0].Used != 1 || window.Rules[0].Remaining != 0 {
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
		if status := d.call(http.MethodGet, "/v1/stats", nil, http.Header{"Authorization": {header}}, nil); status != want {
			t.Errorf("Authorization %q: status %d, want %d", header, status, want)
		}
	}
	for _, path := range []string{"/openapi.json", "/docs"} {
		if status := d.call(http.MethodGet, path, nil, nil, nil); status != http.StatusOK {
			t.Errorf("%s without a token: status %d", path, status)
		}
	}
}
