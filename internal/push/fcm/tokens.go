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

// get returns a valid token, and not the one that was refused.
func (t *tokens) get(ctx context.Context, refused string) (string, *push.Error) {
	var token *oauth2.Token
	select {
	case token = <-t.turn:
	case <-ctx.Done():
		return "", (&httpsend.Trace{}).Classify(ctx.Err())
	}
	defer func() { t.turn <- token }()
	if token != nil && token.AccessToken != refused && time.Until(token.Expiry) > early {
		return token.AccessToken, nil
	}
	fresh, failure := t.exchange(ctx)
	if token = fresh; failure != nil {
		return "", failure
	}
	return token.AccessToken, nil
}

// exchange exchanges the key for a token, for as long as the context allows.
func (t *tokens) exchange(ctx context.Context) (*oauth2.Token, *push.Error) {
	ctx, cancel := httpsend.Within(ctx, t.client.Timeout)
	defer cancel()
	bounded := &bounded{ctx: ctx, transport: t.client.Transport}
	client := &http.Client{Transport: bounded, CheckRedirect: t.client.CheckRedirect}
	token, err := t.account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	switch {
	case err != nil:
		return nil, exchangeFailure(cmp.Or(bounded.err, ctx.Err(), err))
	case token.AccessToken == "":
		return nil, noToken()
	}
	return token, nil
}

// bounded bounds calls by a context, and notes why a call had no response: the library for tokens makes its calls
// without a context, and of the reason it makes a text.
type bounded struct {
	ctx       context.Context //nolint:containedctx // of the one call
	transport http.RoundTripper
	err       error
}

// RoundTrip implements [http.RoundTripper].
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.transport.RoundTrip(request.WithContext(b.ctx))
	b.err = err
	return response, err
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
	if failure == nil {
		return noToken()
	}
	failure.Code = "token." + failure.Code
	failure.Reply = push.Reply(refused.Body, nil)
	return failure
}

// noToken is what a success without a token means.
func noToken() *push.Error {
	return &push.Error{Class: push.Transient, Code: "token", Concerns: push.ConcernsHost, Unsent: true}
}
