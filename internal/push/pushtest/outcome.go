package pushtest

import (
	"errors"
	"regexp"
	"strings"

	"github.com/pacer-notify/pacer/internal/push"
)

// canaries are in each notification's title, body and data, and must not show.
var canaries = []string{"canarytitle6a1f", "canarybody93c7", "canarydata2e5d"}

// code matches codes that may be in logs, timelines and metrics.
var code = regexp.MustCompile(`\A[A-Za-z0-9_.-]{1,64}\z`)

// outcome checks an error of a sender: it must have a class and a code, and show no secret. Nil is delivered.
func (p *probe) outcome(err error) *push.Error {
	p.Helper()
	if err == nil {
		return nil
	}
	classified, ok := errors.AsType[*push.Error](err)
	if !ok || classified == nil {
		p.Errorf("the error is a %T, want a *push.Error that is not nil", err)
		return &push.Error{Class: push.Ambiguous, Code: "unclassified"}
	}
	if classified.Class < push.Permanent || classified.Class > push.CredentialsRefused {
		p.Errorf("there is no class %d", classified.Class)
	}
	if !code.MatchString(classified.Code) {
		p.Errorf("the code %q is no word", classified.Code)
	}
	if classified.RetryAfter < 0 {
		p.Errorf("again after %s", classified.RetryAfter)
	}
	if secret, found := p.leakChain(err); found {
		p.Errorf("the error shows %q", secret)
		return &push.Error{
			Class: classified.Class, Code: "leaks", RetryAfter: classified.RetryAfter,
			Unsent: classified.Unsent,
		}
	}
	return classified
}

// leak finds a secret or content in a text.
func (p *probe) leak(text string) (secret string, found bool) {
	text = strings.ToLower(text)
	for _, secrets := range [][]string{canaries, p.Secrets} {
		for _, secret := range secrets {
			if strings.Contains(text, strings.ToLower(secret)) {
				return secret, true
			}
		}
	}
	return "", false
}

// leakChain looks at an error and at each of its causes.
func (p *probe) leakChain(err error) (secret string, found bool) {
	if err == nil {
		return "", false
	}
	if secret, found := p.leak(show(err)); found {
		return secret, true
	}
	switch wrapped := err.(type) { //nolint:errorlint // the causes are walked one by one
	case interface{ Unwrap() error }:
		return p.leakChain(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		for _, cause := range wrapped.Unwrap() {
			if secret, found := p.leakChain(cause); found {
				return secret, true
			}
		}
	}
	return "", false
}
