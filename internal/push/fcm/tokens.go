package fcm

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// accountKey is a service account's key.
type accountKey = jwt.Config

// tokens exchanges the service account's key for access tokens, one call at a time, and keeps the latest token.
type tokens struct {
	account *accountKey
	client  *http.Client
	// turn holds the token. Whoever takes it out may exchange it.
	turn chan *oauth2.Token
}

func newTokens(account *accountKey, client *http.Client) *tokens {
	t := &tokens{account: account, client: client, turn: make(chan *oauth2.Token, 1)}
	t.turn <- nil
	return t
}

// early is how long before its end a token is no longer used.
const early = time.Minute

// get returns a valid token.
func (t *tokens) get(ctx context.Context) (string, *push.Error) {
	var token *oauth2.Token
	select {
	case token = <-t.turn:
	case <-ctx.Done():
		return "", (&httpsend.Trace{}).Classify(ctx.Err())
	}
	defer func() { t.turn <- token }()
	if token != nil && time.Until(token.Expiry) > early {
		return token.AccessToken, nil
	}
	noted := &noting{transport: t.client.Transport}
	client := *t.client
	client.Transport = noted
	fresh, err := t.account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &client)).Token()
	if err != nil {
		return "", exchangeFailure(cmp.Or(noted.err, err))
	}
	token = fresh
	return token.AccessToken, nil
}

// noting notes why a call had no response: of that the library for tokens makes a text.
type noting struct {
	transport http.RoundTripper
	err       error
}

// RoundTrip implements [http.RoundTripper].
func (n *noting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.transport.RoundTrip(request)
	n.err = err
	return response, err
}

// drop drops a token that was refused.
func (t *tokens) drop(refused string) {
	token := <-t.turn
	if token != nil && token.AccessToken == refused {
		token = nil
	}
	t.turn <- token
}

// exchangeFailure says what a failed exchange means; no notification was sent.
func exchangeFailure(err error) *push.Error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refused.Response == nil {
		return (&httpsend.Trace{}).Classify(err)
	}
	read := httpsend.ResponseOf(refused.Response)
	read.Conditions = []string{ofExchange}
	failure := responses.Read(read)
	if failure == nil { // a success without a token
		return &push.Error{Class: push.Transient, Code: "token", Concerns: push.ConcernsHost, Unsent: true}
	}
	failure.Code = "token." + failure.Code
	failure.Reply = push.Reply(refused.Body, nil)
	return failure
}
