package fcm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

// bench is a sender before a fake that exchanges tokens and answers calls as the test does.
func bench(t *testing.T, token, send http.HandlerFunc) *fcm.Sender {
	t.Helper()
	server := pushtest.StartServer(t, &pushtest.Provider{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			token(w, r)
			return
		}
		send(w, r)
	})
	sender, err := fcm.New(config(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

func good(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) { exchange(t, w, r, accessToken) }
}

func message() push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: fcm.Name, To: deviceToken, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

const (
	retryInfo   = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}`
	deviceQuota = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"subject":"device:x","description":"Device message rate exceeded"}]}`
	wholeQuota  = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"subject":"project:demo","description":"Quota exceeded"}]}`
	badToken    = `{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.token","description":"Invalid registration token"}]}`
	badPayload  = `{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.android.ttl"}]}`
)

// What each answer means.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body       string
		retryAfter string
		want       *push.Error // nil: delivered
	}{
		"delivered":     {200, `{"name":"projects/demo/messages/1"}`, "", nil},
		"unregistered":  {404, failure("UNREGISTERED", ""), "", &push.Error{Class: push.TargetGone, Code: "404.UNREGISTERED"}},
		"not of ours":   {403, failure("SENDER_ID_MISMATCH", ""), "", &push.Error{Class: push.TargetGone, Code: "403.SENDER_ID_MISMATCH"}},
		"bad token":     {400, failure("INVALID_ARGUMENT", "", badToken), "", &push.Error{Class: push.TargetGone, Code: "400.INVALID_ARGUMENT"}},
		"bad payload":   {400, failure("INVALID_ARGUMENT", "", badPayload), "", &push.Error{Class: push.Permanent, Code: "400.INVALID_ARGUMENT"}},
		"no project":    {404, `{"error":{}}`, "", &push.Error{Class: push.Permanent, Code: "404"}},
		"no credential": {401, `{"error":{}}`, "", &push.Error{Class: push.CredentialsRefused, Code: "401", ChannelWide: true}},
		"not allowed":   {403, `{"error":{}}`, "", &push.Error{Class: push.CredentialsRefused, Code: "403", ChannelWide: true}},
		"no APNs key": {401, failure("THIRD_PARTY_AUTH_ERROR", ""), "", &push.Error{
			Class: push.CredentialsRefused, Code: "401.THIRD_PARTY_AUTH_ERROR", ChannelWide: true,
		}},
		"device's quota": {429, failure("QUOTA_EXCEEDED", "", deviceQuota), "", &push.Error{
			Class: push.Throttled, Code: "429.QUOTA_EXCEEDED.device",
		}},
		"project's quota, in seconds": {429, failure("QUOTA_EXCEEDED", "", wholeQuota), "7", &push.Error{
			Class: push.Throttled, Code: "429.QUOTA_EXCEEDED.project", RetryAfter: 7 * time.Second, ChannelWide: true,
		}},
		"quota, in the answer": {429, failure("QUOTA_EXCEEDED", "", retryInfo), "", &push.Error{
			Class: push.Throttled, Code: "429.QUOTA_EXCEEDED.project", RetryAfter: 12500 * time.Millisecond, ChannelWide: true,
		}},
		"internal":    {500, failure("INTERNAL", ""), "", &push.Error{Class: push.Transient, Code: "500.INTERNAL"}},
		"unavailable": {503, failure("UNAVAILABLE", ""), "99999", &push.Error{Class: push.Transient, Code: "503.UNAVAILABLE", RetryAfter: time.Hour}},
		"a proxy":     {502, "<html>canary</html>", "", &push.Error{Class: push.Transient, Code: "502"}},
		"moved":       {302, "", "", &push.Error{Class: push.Permanent, Code: "302"}},
		"unknown":     {400, failure("canary", ""), "", &push.Error{Class: push.Permanent, Code: "400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender := bench(t, good(t), func(w http.ResponseWriter, _ *http.Request) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			err := sender.Send(t.Context(), message())
			got, _ := errors.AsType[*push.Error](err)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("gives %v, want %v", err, c.want)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("outcome differs (-want +got):\n%s", diff)
			}
		})
	}
}

// One token serves all calls; one that is refused is exchanged once.
func TestTokens(t *testing.T) {
	t.Parallel()
	var exchanged, sent atomic.Int64
	sender := bench(t, func(w http.ResponseWriter, r *http.Request) {
		exchange(t, w, r, fmt.Sprintf("token-%d", exchanged.Add(1)))
	}, func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		if r.Header.Get("Authorization") == "Bearer token-1" && sent.Load() > 3 {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	for range 8 {
		if err := sender.Send(t.Context(), message()); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	if exchanged.Load() != 2 || sent.Load() != 9 {
		t.Errorf("%d exchanges and %d calls for 8 deliveries and one token that ended, want 2 and 9", exchanged.Load(), sent.Load())
	}
}

// An exchange that fails has sent nothing, and its answer's words are nobody's business.
func TestExchangeThatFails(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]push.Class{
		400: push.CredentialsRefused, 401: push.CredentialsRefused, 429: push.Throttled, 503: push.Transient,
	} {
		sender := bench(t, func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, r.PostForm.Get("assertion"))
		}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent without a token") })
		got, ok := errors.AsType[*push.Error](sender.Send(t.Context(), message()))
		if !ok || got.Class != want || !got.Unsent || got.Code != fmt.Sprintf("token.%d", status) || got.Err != nil {
			t.Errorf("%d gives %+v, want %s, unsent", status, got, want)
		}
	}
}

// What is posted: identity, life, priority, data as texts, and an override laid over the message.
func TestRequest(t *testing.T) {
	t.Parallel()
	got := make(chan request, 1)
	sender := bench(t, good(t), func(_ http.ResponseWriter, r *http.Request) {
		var sent request
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		got <- sent
	})
	m := message()
	m.Priority, m.CollapseKey, m.ExpiresAt = notification.PriorityLow, "k", time.Now().Add(time.Hour+time.Second/2)
	m.Data = json.RawMessage(`{"s":"text","n":1,"o":{"a":[true]},"z":null}`)
	m.Override = json.RawMessage(`{"notification":{"image":"https://example.com/i.png"},"android":{"priority":"HIGH"}}`)
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	id := content.CollapseID(m.Notification)
	want := request{}
	want.Message.Token, want.Message.Notification.Title, want.Message.Notification.Body = deviceToken, "hello", "world"
	want.Message.Data = map[string]string{"s": "text", "n": "1", "o": `{"a":[true]}`, "z": "null"}
	want.Message.Android.CollapseKey, want.Message.Android.Notification.Tag = id, id
	want.Message.Android.Priority, want.Message.Android.TTL = "HIGH", "3600s"
	want.Message.APNs.Headers = map[string]string{"apns-collapse-id": id, "apns-expiration": fmt.Sprint(m.ExpiresAt.Unix())}
	want.Message.Webpush.Headers = map[string]string{"TTL": "3600", "Topic": content.Digest(id)}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("request differs (-want +got):\n%s", diff)
	}
}

func TestContentThatCannotBe(t *testing.T) {
	t.Parallel()
	sender := bench(t, good(t), nil)
	for name, c := range map[string]struct{ data, override, want string }{
		"reserved":        {`{"from":"x"}`, ``, "data: the member \"from\" is FCM's own"},
		"reserved prefix": {`{"google.x":"x"}`, ``, "data: the member \"google.x\" is FCM's own"},
		"no object":       {``, `"x"`, "must be a JSON object"},
		"another target":  {``, `{"token":"x"}`, "token: is set by the target"},
		"a topic":         {``, `{"topic":"all"}`, "topic: would reach others"},
		"too long":        {``, `{"data":{"x":"` + strings.Repeat("x", 4096) + `"}}`, "FCM takes at most 4096"},
		"fine":            {`{"a":1}`, `{"data":{"x":"y"}}`, ""},
	} {
		n := message().Notification
		n.Data, n.Override = json.RawMessage(c.data), json.RawMessage(c.override)
		err := sender.CheckContent(n)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCredentialsThatCannotBe(t *testing.T) {
	t.Parallel()
	text := credentials(t, "https://example.com/token")
	for name, c := range map[string]struct{ credentials, project, want string }{
		"none":       {"", "", "the credentials must be a service account's key"},
		"no JSON":    {"canary", "", "the credentials must be a service account's key"},
		"of a user":  {`{"type":"authorized_user","client_secret":"canary"}`, "", "the credentials must be a service account's key"},
		"no key":     {`{"type":"service_account","private_key":"canary"}`, "", "the credentials' private_key must be a PEM block"},
		"no project": {strings.Replace(text, `"demo"`, `""`, 1), "", "the project must be named"},
		"a path":     {text, "a/b", "the project must be named"},
	} {
		_, err := fcm.New(fcm.Config{Credentials: secret.New(c.credentials), Project: c.project})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
