package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// A database that can't hold every text is refused before anything is made in it.
func TestOnlyUTF8IsAccepted(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.EmptyURL(t))
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := conn.Config().Database + "_" + strings.ToLower(encoding)
		_, err := conn.Exec(t.Context(), "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0")
		if err != nil {
			t.Fatal(err)
		}
		config := conn.Config()
		url := strings.Replace(config.ConnString(), "/"+config.Database, "/"+name, 1)
		for what, err := range map[string]error{
			"up": migrations.Up(t.Context(), url), "check": migrations.Check(t.Context(), postgrestest.Connect(t, url)),
		} {
			if _, refused := errors.AsType[*migrations.EncodingError](err); !refused {
				t.Errorf("%s: %s: %v", encoding, what, err)
			}
		}
		n := count(t, postgrestest.Connect(t, url), "SELECT count(*) FROM pg_tables WHERE schemaname IN ('pacer', 'public')")
		if n > 0 {
			t.Errorf("%s: %d tables were made", encoding, n)
		}
		t.Cleanup(func() {
			_, _ = conn.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		})
	}
}
