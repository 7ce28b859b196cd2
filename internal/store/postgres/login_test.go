package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// Only user and password may change, and Postgres must accept them.
func TestTheLoginIsRenewed(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	change := func(how func(*url.URL)) string {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		how(parsed)
		return parsed.String()
	}
	login := connect.NewLogin(address)
	for _, c := range []struct{ name, address, refused string }{
		{
			name: "AnotherRole", address: change(func(u *url.URL) { u.User = url.UserPassword("nobody-knows", "canary") }),
			refused: "Postgres can't be used with the new user and password: ",
		},
		{
			name: "AnotherDatabase", address: change(func(u *url.URL) { u.Path = "/other" }),
			refused: "database-url names another database",
		},
		{
			name: "AnotherOption", address: change(func(u *url.URL) { u.RawQuery += "&pool_max_conns=3" }),
			refused: "database-url names another database",
		},
		{name: "AnotherPassword", address: change(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "canary") })},
	} {
		err := login.Renew(t.Context(), c.address)
		if (err == nil) != (c.refused == "") || err != nil && !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s shows the password: %v", c.name, err)
		}
	}
}
