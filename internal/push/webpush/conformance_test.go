package webpush_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpointSecret is in the endpoint's path. Whoever knows it may send.
const endpointSecret = "canaryendpoint8c3d"

var base64url = base64.RawURLEncoding

// browser is a subscriber: it decrypts as RFC 8291 says.
type browser struct {
	private *ecdh.PrivateKey
	auth    []byte
}

func newBrowser(tb testing.TB) browser {
	tb.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	return browser{private, auth}
}

// subscription is what the browser hands to the application.
func (b browser) subscription(endpoint string) string {
	return fmt.Sprintf(`{"endpoint":%q,"expirationTime":null,"keys":{"p256dh":%q,"auth":%q}}`,
		endpoint, base64url.EncodeToString(b.private.PublicKey().Bytes()), base64url.EncodeToString(b.auth))
}

// decrypt reads a message of one record (RFC 8188) for this browser.
func (b browser) decrypt(message []byte) ([]byte, error) {
	if len(message) < 21+65+17 {
		return nil, errors.New("the message is too short")
	}
	salt, sender, sealed := message[:16], message[21:21+65], message[21+65:]
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := b.private.ECDH(public)
	if err != nil {
		return nil, err
	}
	info := "WebPush: info\x00" + string(b.private.PublicKey().Bytes()) + string(sender)
	ikm, err := hkdf.Key(sha256.New, shared, b.auth, info, 32)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	padded, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, err
	}
	plain, ok := bytes.CutSuffix(bytes.TrimRight(padded, "\x00"), []byte{2})
	if !ok {
		return nil, errors.New("the padding has no end")
	}
	return plain, nil
}

// verify checks a call's VAPID credential as a push service does.
func verify(r *http.Request, publicKey, subject string) error {
	var token, key string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "vapid t=%s k=%s", &token, &key); err != nil {
		return err
	}
	if key != publicKey {
		return fmt.Errorf("the key is %s", key)
	}
	raw, err := base64url.DecodeString(key)
	if err != nil {
		return err
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return err
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(strings.TrimSuffix(token, ","), claims,
		func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("https://"+r.Host), jwt.WithExpirationRequired(),
	); err != nil {
		return err
	}
	if end, err := claims.GetExpirationTime(); err != nil || time.Until(end.Time) > 24*time.Hour {
		return fmt.Errorf("it ends at %v", end)
	}
	if claims["sub"] != subject {
		return fmt.Errorf("the subject is %v", claims["sub"])
	}
	return nil
}

// newKey makes a VAPID key.
func newKey(tb testing.TB) (private string) {
	tb.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return base64url.EncodeToString(key.Bytes())
}

// config leads all names to this machine.
func config(p *pushtest.Provider, server *pushtest.Server, private string) webpush.Config {
	return webpush.Config{
		PrivateKey: secret.New(private), Subject: "mailto:ops@example.com",
		GuardedConfig: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Hour, Roots: server.Roots(),
			Resolver: egresstest.Resolver(func(string) []netip.Addr {
				p.Contact()
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	}
}

func newSender(tb testing.TB, cfg webpush.Config) *webpush.Sender {
	tb.Helper()
	sender, err := webpush.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}

// endpoint is of a name of the certificate of httptest.
func endpoint(tb testing.TB, server *pushtest.Server) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return "https://example.com:" + port + "/push/" + endpointSecret
}

// delivered is what the service worker gets.
type delivered struct {
	ID, Title, Body, Tag string
	Data                 json.RawMessage
}

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusCreated, pushtest.Refused: http.StatusBadRequest,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	b, private := newBrowser(tb), newKey(tb)
	var public string
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := verify(r, public, "mailto:ops@example.com"); err != nil {
			tb.Errorf("credential: %v", err)
		}
		plain, err := b.decrypt(body)
		if err != nil || len(body) > 4096 || r.Header.Get("Content-Encoding") != "aes128gcm" ||
			r.Header.Get("Ttl") == "" {
			tb.Errorf("%d bytes with %v: %v", len(body), r.Header, err)
		}
		var d delivered
		if err := json.Unmarshal(plain, &d); err != nil || len(r.Header.Get("Topic")) > 32 {
			tb.Errorf("%q: %v", plain, err)
		}
		call := pushtest.Call{Identity: r.Header.Get("Topic"), Title: d.Title, Body: d.Body, Data: d.Data}
		pushtest.Respond(p, w, r, p.Receive(call), statuses, r.URL.String()+string(plain))
	})
	cfg := config(p, server, private)
	public = newSender(tb, cfg).PublicKey()
	target := b.subscription(endpoint(tb, server))
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, cfg) },
		Target: target,
		Good: []string{
			strings.ReplaceAll(b.subscription("https://push.example.com/x"), `"expirationTime":null,`, ""),
		},
		Bad: []string{
			"", "{}", endpoint(tb, server), "null", "[]",
			b.subscription("http://example.com/" + endpointSecret),
			b.subscription("https://169.254.169.254/" + endpointSecret),
			b.subscription("https://user:pw@example.com/" + endpointSecret),
			strings.Replace(target, `"p256dh":"B`, `"p256dh":"A`, 1),
			strings.Replace(target, `"auth":"`, `"auth":"AA`, 1),
		},
		Secrets: []string{endpointSecret, strings.Trim(private[:30], "-_")},
		Identity: func(id string) string {
			return content.Digest(content.CollapseID(&notification.Notification{ID: id}))
		},
		Unplug: server.Unplug,
		Drain:  server.Close,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: webpush.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content:    true,
		Data:       true,
		MaxContent: 3850,
	}, subject)
}

func TestTable(t *testing.T) {
	t.Parallel()
	pushtest.Table(t, webpush.Settings{}.Channel().Responses, func(t *testing.T, row push.Row) error {
		t.Helper()
		p := &pushtest.Provider{}
		server := pushtest.StartServer(t, p, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(pushtest.HTTPStatus(row))
			if row.If != "" && row.Status != http.StatusNoContent {
				_, _ = io.WriteString(w, map[int]string{
					400: `{"reason":"VapidPkHashMismatch"}`,                               // Apple
					401: `{"code":401,"errno":109,"message":"VAPID public key mismatch"}`, // Mozilla
					403: "the key in the authorization header does not correspond to the sender ID used to subscribe this user.",
				}[row.Status])
			}
		})
		to := newBrowser(t).subscription(endpoint(t, server))
		return newSender(t, config(p, server, newKey(t))).Send(t.Context(), message(to))
	})
}
