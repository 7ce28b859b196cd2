package fcm_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	account     = "pacer@example.iam.gserviceaccount.com"
	deviceToken = "canarydevice4e1b:APA91b-_x"
	accessToken = "canaryaccess7d02"
)

// signingKey is made once: an RSA key takes its time.
var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// credentials are a service account's key whose token endpoint is the fake's.
func credentials(tb testing.TB, tokenURL string) string {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(signingKey())
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "client_email": account, "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURL,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// config leads a sender to the fake.
func config(tb testing.TB, server *pushtest.Server) fcm.Config {
	tb.Helper()
	return fcm.Config{
		Credentials: secret.New(credentials(tb, server.URL+"/token")), Endpoint: server.URL, Timeout: time.Hour,
		Roots: server.Roots(),
	}
}

// exchange responds as Google's token endpoint does, and checks the request.
func exchange(tb testing.TB, w http.ResponseWriter, r *http.Request, token string) {
	tb.Helper()
	const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	if err := r.ParseForm(); err != nil {
		panic(http.ErrAbortHandler) // the sender has given up meanwhile
	}
	if r.PostForm.Get("grant_type") != grantType {
		tb.Errorf("the exchange asks for %v", r.PostForm)
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(r.PostForm.Get("assertion"), claims,
		func(*jwt.Token) (any, error) { return &signingKey().PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(account), jwt.WithExpirationRequired())
	if err != nil || claims["scope"] != "https://www.googleapis.com/auth/firebase.messaging" {
		tb.Errorf("the assertion %v is refused: %v", claims, err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600,"token_type":"Bearer"}`, token)
}

// request is what is posted.
type request struct {
	Message struct {
		Token        string
		Notification struct{ Title, Body string }
		Data         map[string]string
		Android      struct {
			CollapseKey  string `json:"collapse_key"`
			Priority     string
			TTL          string
			Notification struct{ Tag string }
		}
		APNs, Webpush struct{ Headers map[string]string }
	}
}

// data turns the members back into what they were.
func (r request) data(tb testing.TB) []byte {
	tb.Helper()
	members := map[string]any{}
	for name, text := range r.Message.Data {
		var value any = text
		if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || text == "null" {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				tb.Error(err)
			}
		}
		members[name] = value
	}
	encoded, err := json.Marshal(members)
	if err != nil {
		tb.Error(err)
	}
	return encoded
}

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusOK, pushtest.Refused: http.StatusBadRequest,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusNotFound,
}

var codes = map[pushtest.Kind]string{
	pushtest.Refused: "INVALID_ARGUMENT", pushtest.Failing: "UNAVAILABLE", pushtest.Throttled: "QUOTA_EXCEEDED",
	pushtest.Gone: "UNREGISTERED",
}

// failure is the body of a response that reports an error.
func failure(code, echo string, details ...string) string {
	const detail = `{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":%q}`
	all := append([]string{fmt.Sprintf(detail, code)}, details...)
	return fmt.Sprintf(`{"error":{"code":400,"message":%q,"details":[%s]}}`, echo, strings.Join(all, ","))
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			exchange(tb, w, r, accessToken)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path != "/v1/projects/demo/messages:send" || r.Header.Get("Authorization") != "Bearer "+accessToken {
			tb.Errorf("posted to %s with %v", r.URL, r.Header)
		}
		var sent request
		if err := json.Unmarshal(body, &sent); err != nil || sent.Message.Token != deviceToken {
			tb.Errorf("posted for %q: %v", sent.Message.Token, err)
		}
		a := p.Receive(pushtest.Call{
			Identity: sent.Message.Android.Notification.Tag, Title: sent.Message.Notification.Title,
			Body: sent.Message.Notification.Body, Data: sent.data(tb),
		})
		pushtest.Respond(p, w, r, a, statuses, failure(codes[a.Kind], string(body)+r.Header.Get("Authorization")))
	})
	text := credentials(tb, server.URL+"/token")
	privateKey := text[strings.Index(text, `BEGIN PRIVATE KEY-----\n`)+30:][:40]
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			sender, err := fcm.New(config(tb, server))
			if err != nil {
				tb.Fatal(err)
			}
			return sender
		},
		Target:  deviceToken,
		Good:    []string{"x", strings.Repeat("a", 4096)},
		Bad:     []string{"", "canarydevice4e1b\n", "canarydevice4e1b ü", strings.Repeat("canarydevice4e1b", 300)},
		Secrets: []string{"canarydevice4e1b", accessToken, privateKey},
		Identity: func(id string) string {
			return content.CollapseID(&notification.Notification{ID: id})
		},
		Unplug: server.Unplug,
		Drain:  server.Close,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: fcm.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Unnamed:    time.Minute,
		Content:    true,
		Data:       true,
		MaxContent: 4030,
	}, subject)
}
