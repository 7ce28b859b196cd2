package fcm_test

import (
	"context"
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

// bench makes a sender whose exchanges of tokens and calls the two handlers serve.
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

// A connection may end within the body that has the error code. Then the status decides, where no code says otherwise.
func TestABodyMayBeCut(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]push.Class{
		400: push.Transient, 403: push.CredentialsRefused, 404: push.Transient, 429: push.Throttled,
		503: push.Transient,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			sender := bench(t, good(t), pushtest.Cut(status, `{"error":{"details":[`))
			failure := push.Classify(sender.Send(t.Context(), message()))
			if failure == nil || failure.Class != want || !strings.HasPrefix(failure.Code, fmt.Sprint(status)) {
				t.Errorf("the outcome is %v, want %v", failure, want)
			}
		})
	}
}

// One token serves all calls. When it is refused, it is exchanged once.
func TestATokenServesAllCallsUntilItIsRefused(t *testing.T) {
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
		t.Errorf("%d exchanges and %d calls for 8 deliveries and one token that ended, want 2 and 9",
			exchanged.Load(), sent.Load())
	}
}

// When the exchange fails, nothing was sent. The text of its response is not kept.
func TestAFailedExchangeSendsNothing(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]push.Class{
		400: push.CredentialsRefused, 401: push.CredentialsRefused, 429: push.Throttled, 503: push.Transient,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			sender := bench(t, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, r.PostForm.Get("assertion"))
			}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent without a token") })
			got, ok := errors.AsType[*push.Error](sender.Send(t.Context(), message()))
			code := fmt.Sprintf("token.%d", status)
			if !ok || got.Class != want || !got.Unsent || got.Code != code || got.Err != nil {
				t.Errorf("%d gives %+v, want %s, unsent", status, got, want)
			}
		})
	}
}

// A success without a token is no reason to call the service without one.
func TestAnExchangeWithoutATokenSendsNothing(t *testing.T) {
	t.Parallel()
	sender := bench(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"expires_in":3600,"token_type":"Bearer"}`)
	}, func(w http.ResponseWriter, _ *http.Request) {
		t.Error("it was sent without a token")
		w.WriteHeader(http.StatusBadRequest)
	})
	got, ok := errors.AsType[*push.Error](sender.Send(t.Context(), message()))
	if !ok || got.Class != push.Transient || got.Code != "token" || !got.Unsent {
		t.Errorf("got %+v, want transient, unsent", got)
	}
}

// An exchange takes no longer than the delivery that it is for, and no longer than the client's timeout. The next
// delivery makes its own.
func TestAnExchangeEndsWithItsDelivery(t *testing.T) {
	t.Parallel()
	var exchanges atomic.Int64
	over := make(chan struct{})
	sender := bench(t, func(w http.ResponseWriter, r *http.Request) {
		exchanges.Add(1)
		select {
		case <-over:
			exchange(t, w, r, accessToken)
		case <-r.Context().Done():
		}
	}, func(http.ResponseWriter, *http.Request) {})
	// Until it is the exchange that waits.
	for patience := 500 * time.Millisecond; exchanges.Load() == 0; patience *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, ok := errors.AsType[*push.Error](sender.Send(ctx, message()))
		cancel()
		if !ok || got.Class != push.Transient || got.Code != "timeout" || !got.Unsent {
			t.Errorf("got %+v, want a timeout, unsent", got)
		}
	}
	close(over)
	if err := sender.Send(t.Context(), message()); err != nil {
		t.Errorf("the next delivery: %v", err)
	}
}

// A request has identity, life, priority, the data as texts, and the override over the message.
func TestRequestSaysWhatTheNotificationSays(t *testing.T) {
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
	want.Message.APNs.Headers = map[string]string{
		"apns-collapse-id": id, "apns-expiration": fmt.Sprint(m.ExpiresAt.Unix()),
	}
	want.Message.Webpush.Headers = map[string]string{"TTL": "3600", "Topic": content.Digest(id)}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("request differs (-want +got):\n%s", diff)
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	sender := bench(t, good(t), nil)
	for name, c := range map[string]struct{ data, override, want string }{
		"reserved":        {data: `{"from":"x"}`, want: "data: the member \"from\" is FCM's own"},
		"reserved prefix": {data: `{"google.x":"x"}`, want: "data: the member \"google.x\" is FCM's own"},
		"no object":       {override: `"x"`, want: "must be a JSON object"},
		"another target":  {override: `{"token":"x"}`, want: "token: is set from the target"},
		"a topic":         {override: `{"topic":"all"}`, want: "topic: would reach others"},
		"a Topic":         {override: `{"Topic":"all"}`, want: `"Topic" must be written topic`},
		"another Token":   {override: `{"Token":"x"}`, want: `"Token" must be written token`},
		"too long": {
			override: `{"data":{"x":"` + strings.Repeat("x", 4096) + `"}}`, want: "FCM takes at most 4096",
		},
		"fine": {data: `{"a":1}`, override: `{"data":{"x":"y"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := message().Notification
			n.Data, n.Override = json.RawMessage(c.data), json.RawMessage(c.override)
			err := sender.CheckContent(n)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}

func TestCredentialsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	text := credentials(t, "https://example.com/token")
	for name, c := range map[string]struct{ credentials, project, want string }{
		"none":    {want: "the credentials must be a service account's key"},
		"no JSON": {credentials: "canary", want: "the credentials must be a service account's key"},
		"of a user": {
			credentials: `{"type":"authorized_user","client_secret":"canary"}`,
			want:        "the credentials must be a service account's key",
		},
		"no key": {
			credentials: `{"type":"service_account","private_key":"canary"}`,
			want:        "the credentials' private_key must be a PEM block",
		},
		"no project": {credentials: strings.Replace(text, `"demo"`, `""`, 1), want: "the project must be named"},
		"a path":     {credentials: text, project: "a/b", want: "the project must be named"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fcm.New(fcm.Config{Credentials: secret.New(c.credentials), Project: c.project})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}
