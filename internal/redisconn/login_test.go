package redisconn_test

import (
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/test/redistest"
)

// Only user and password may change, and Redis must accept them.
func TestTheLoginIsRenewed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := func(login string) string { return strings.Replace(server.URL(), "redis://", "redis://"+login+"@", 1) }
	conn, admin := open(t, at(t, server.URL()), nil), server.Client(t)
	for user, rights := range map[string]string{"app": "+@all", "reader": "+get"} {
		if err := admin.Do(t.Context(), "ACL", "SETUSER", user, "on", ">right", "~*", "&*", rights).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, url, refused string }{
		{name: "AnotherPassword", url: url("app:wrong"), refused: "can't be reached with the new user and password: WRONGPASS"},
		{name: "FewerRights", url: url("reader:right"), refused: "lacks rights on Redis"},
		{name: "AnotherServer", url: "redis://app:right@127.0.0.1:1", refused: "redis-url names another Redis"},
		{name: "AnotherOption", url: url("app:right") + "?pool_size=3", refused: "redis-url names another Redis"},
		{name: "Right", url: url("app:right")},
	} {
		err := conn.Renew(t.Context(), at(t, c.url))
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
	}
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "USER", "default", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if user, err := conn.Client.Do(t.Context(), "ACL", "WHOAMI").Text(); user != "app" || err != nil {
		t.Errorf("new connections are of %q, %v; want app", user, err)
	}
}

// Pacer logs in as the user that the URL names, also as one without a password, and says what to write where it can't.
func TestTheUserOfTheURLLogsIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, user := range [][]any{{"free", "nopass"}, {"app", ">right"}} {
		command := append([]any{"ACL", "SETUSER"}, append(user, "on", "~*", "&*", "+@all")...)
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for login, user := range map[string]string{
		"": "default", "free@": "free", "app:right@": "app", "app@": "", "right@": "",
	} {
		conn, err := redisconn.Open(t.Context(), at(t, strings.Replace(server.URL(), "://", "://"+login, 1)), nil, nil)
		if err != nil {
			if user != "" || !strings.Contains(err.Error(), "write redis://USER:PASSWORD@HOST") ||
				strings.Contains(err.Error(), "right") {
				t.Errorf("%q: %v", login, err)
			}
			continue
		}
		if is, err := conn.Client.Do(t.Context(), "ACL", "WHOAMI").Text(); err != nil || is != user {
			t.Errorf("%q logs in as %q, %v; want %q", login, is, err, user)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}
