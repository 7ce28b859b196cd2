package apns_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyID  = "CANARYKEY1"
	teamID = "TEAM567890"
	topic  = "com.example.app"
)

// deviceToken must be in no error and no log.
var deviceToken = strings.Repeat("deadbeef", 8)

// key signs for one sender.
type key struct {
	*ecdsa.PrivateKey
	text string
}

func newKey(tb testing.TB) key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return key{private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
}

// config leads a sender to the fake.
func (k key) config(server *pushtest.Server) apns.Config {
	return apns.Config{
		Key: secret.New(k.text), KeyID: keyID, TeamID: teamID, Topic: topic, Host: server.URL, Timeout: time.Hour,
		Roots: server.Roots(),
	}
}

// verify checks a call's credential as the service does.
func (k key) verify(r *http.Request) error {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "bearer ")
	if !ok {
		return fmt.Errorf("authorization is no bearer token")
	}
	parsed, err := jwt.Parse(bearer, func(*jwt.Token) (any, error) { return &k.PublicKey, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(teamID), jwt.WithIssuedAt())
	if err != nil {
		return err
	}
	if parsed.Header["kid"] != keyID {
		return fmt.Errorf("the key id is %v", parsed.Header["kid"])
	}
	return nil
}

// payload is what a device gets.
type payload struct {
	APS struct {
		Alert struct{ Title, Body string }
	}
	Data json.RawMessage
}

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusOK, pushtest.Refused: http.StatusBadRequest,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

var words = map[pushtest.Kind]string{
	pushtest.Refused: "BadPriority", pushtest.Failing: "ServiceUnavailable", pushtest.Throttled: "TooManyRequests",
	pushtest.Gone: "Unregistered",
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	k := newKey(tb)
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := k.verify(r); err != nil {
			tb.Errorf("credential: %v", err)
		}
		if r.ProtoMajor != 2 || r.Header.Get("Apns-Topic") != topic || r.Header.Get("Apns-Push-Type") != "alert" ||
			len(r.Header.Get("Apns-Collapse-Id")) > 64 {
			tb.Errorf("%s with %v", r.Proto, r.Header)
		}
		var content payload
		if err := json.Unmarshal(body, &content); err != nil || len(body) > 4096 {
			tb.Errorf("%d bytes: %v", len(body), err)
		}
		a := p.Receive(pushtest.Call{
			Identity: r.Header.Get("Apns-Id"), Title: content.APS.Alert.Title, Body: content.APS.Alert.Body,
			Data: content.Data,
		})
		refusal := ""
		if word := words[a.Kind]; word != "" {
			refusal = fmt.Sprintf(`{"reason":%q,"echo":%q}`, word, r.URL.String()+string(body))
		}
		pushtest.Respond(p, w, r, a, statuses, refusal)
	})
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			sender, err := apns.New(k.config(server))
			if err != nil {
				tb.Fatal(err)
			}
			return sender
		},
		Target: deviceToken,
		Good:   []string{strings.Repeat("0A", 50)},
		Bad: []string{
			"", deviceToken[1:], deviceToken[:62], deviceToken[:63] + "g", strings.Repeat("a", 202),
			"../" + deviceToken, deviceToken + "\r\n",
		},
		Secrets:  []string{"deadbeef", strings.Split(k.text, "\n")[1][:40]},
		Identity: apns.Identity,
		Unplug:   server.Unplug,
		Drain:    server.Close,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: apns.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content:    true,
		Data:       true,
		MaxContent: 4030,
	}, subject)
}
