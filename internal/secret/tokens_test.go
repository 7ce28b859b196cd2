package secret_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/secret"
)

func TestTokensCanBeReplaced(t *testing.T) {
	t.Parallel()
	tokens := secret.NewTokens("one", "", "two")
	if !tokens.Any() || !tokens.Has("one") || !tokens.Has("two") || tokens.Has("") || tokens.Has("three") {
		t.Error("want the tokens one and two, and no others")
	}
	if err := tokens.Renew(t.Context(), []string{"two", "three"}); err != nil {
		t.Fatal(err)
	}
	if tokens.Has("one") || !tokens.Has("two") || !tokens.Has("three") {
		t.Error("want the tokens two and three, and no others")
	}
}

func TestNoTokens(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string]*secret.Tokens{"nil": nil, "zero": {}, "empty": secret.NewTokens("")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tokens.Any() || tokens.Has("") || tokens.Has("x") {
				t.Error("want no token")
			}
		})
	}
}
