// Package fcm delivers to Android, Apple and web apps over Firebase Cloud Messaging, HTTP v1. The credential is a
// service account. The message's tag is made from the notification, so on the device a repeat replaces the message that
// it repeats.
package fcm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2/google"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// endpoint is the service's base URL.
	endpoint = "https://fcm.googleapis.com"
	// scope is the scope of the access tokens.
	scope = "https://www.googleapis.com/auth/firebase.messaging"
	// maxToken is how long a registration token may be. The service's tokens have some 160 characters.
	maxToken = 4096
)

// Config of a Sender. Credentials are required.
type Config struct {
	// Credentials are a service account's key, in the JSON that Google issues.
	Credentials secret.Secret
	// Project is the Firebase project. Defaults to the service account's.
	Project string
	// Endpoint is the service's base URL. Defaults to Google's.
	Endpoint string
	// Timeout bounds a delivery whose context does not end before. Defaults to a minute.
	Timeout time.Duration
	// Roots are the authorities that may vouch for the endpoint. Defaults to the system's.
	Roots *x509.CertPool
	// Dialer makes the connections. Defaults to the standard library's.
	Dialer httpsend.Dialer
	// Proxy is what the service is called through. Defaults to none.
	Proxy httpsend.ProxyConfig
}

// Checker checks notifications for FCM.
type Checker struct{}

// Sender delivers over FCM.
type Sender struct {
	Checker
	url         string
	client      *http.Client
	transport   httpsend.Transport
	connections *httpsend.Connections
	tokens      *tokens
}

// New makes a Sender. It fails on credentials that can't be right. No error shows them.
func New(cfg Config) (*Sender, error) {
	account, project, err := readAccount(cfg.Credentials)
	if err != nil {
		return nil, err
	}
	if project = cmp.Or(cfg.Project, project); project == "" || strings.ContainsAny(project, "/?#% ") {
		return nil, errors.New("the project must be named, by its id, where the credentials do not name it")
	}
	if cfg.Dialer == nil {
		cfg.Dialer = &net.Dialer{Timeout: 5 * time.Second}
	}
	if cfg.Dialer, err = cfg.Proxy.Through(cfg.Dialer); err != nil {
		return nil, err
	}
	connections := httpsend.NewConnections(cfg.Dialer)
	transport := httpsend.NewHTTP2Transport(cfg.Roots, connections)
	client := httpsend.NewClient(transport, cmp.Or(cfg.Timeout, time.Minute))
	return &Sender{
		url:    strings.TrimSuffix(cmp.Or(cfg.Endpoint, endpoint), "/") + "/v1/projects/" + project + "/messages:send",
		client: client, transport: transport, connections: connections, tokens: newTokens(account, client),
	}, nil
}

// readAccount reads a service account's key.
func readAccount(credentials secret.Secret) (account *accountKey, project string, err error) {
	text := []byte(credentials.Reveal())
	var fields struct {
		Project string `json:"project_id"`
	}
	account, err = google.JWTConfigFromJSON(text, scope)
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil, "", errors.New("the credentials must be a service account's key: a JSON object of the type service_account")
	}
	block, _ := pem.Decode(account.PrivateKey)
	if block == nil {
		return nil, "", errors.New("the credentials' private_key must be a PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if _, isRSA := key.(*rsa.PrivateKey); err != nil || !isRSA {
		return nil, "", errors.New("the credentials' private_key must be an RSA key in PKCS #8")
	}
	return account, fields.Project, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.connections.Close()
	s.transport.CloseIdleConnections()
	return nil
}

// CheckTarget implements [push.Checker]. A registration token has printable characters only.
func (Checker) CheckTarget(to string) error {
	if to == "" || len(to) > maxToken || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("must be a registration token: 1 to %d printable characters without blanks", maxToken)
	}
	if strings.HasPrefix(to, "/topics/") {
		return errors.New("must be a registration token: a topic reaches many users, whose limits nobody would count")
	}
	return nil
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n, false, time.Now())
	return err
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	trace := &httpsend.Trace{}
	if err := ctx.Err(); err != nil {
		return trace.Classify(err)
	}
	body, err := message(m.Notification, m.Passive, time.Now())
	if err == nil {
		err = s.CheckTarget(m.To)
	}
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	refused := ""
	for {
		token, failure := s.tokens.get(ctx, refused)
		if failure != nil {
			return failure
		}
		failure = s.post(ctx, trace, m.Notification, body, token)
		switch {
		case failure == nil:
			return nil
		case failure.Code != unauthenticated || refused != "":
			return failure
		}
		// Only the token was refused. So nothing was sent, and the call is made once more with a new token.
		refused = token
	}
}

// post makes one call.
func (s *Sender) post(ctx context.Context, trace *httpsend.Trace, n *notification.Notification, body []byte,
	token string,
) *push.Error {
	request, err := http.NewRequestWithContext(trace.Attach(ctx), http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return &push.Error{
			Class: push.Permanent, Code: "bad_request", Unsent: true,
			Err: errors.New("the endpoint is not a URL"),
		}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := httpsend.Do(s.client, request)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	text, cut := httpsend.FinishRefusal(ctx, response)
	failure := classify(response, text, cut)
	if failure != nil {
		failure.Reply = push.Reply([]byte(text), n, token)
	}
	return failure
}
