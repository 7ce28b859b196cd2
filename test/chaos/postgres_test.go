package chaos_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
)

// database is the Postgres of a world: a database of a real server, whose clock is the world's.
type database struct {
	outside *outside
	config  *pgxpool.Config
	admin   *pgx.Conn // lives outside of the bubble

	mu  sync.Mutex
	now time.Time
	// mutate replaces parts of statements; mutated are those that were found.
	mutate  map[string]string
	mutated map[string]bool
}

// clockSchema puts the world's clock in the place of Postgres's. The columns' defaults were made when the tables were,
// and are made again.
const clockSchema = `
CREATE SCHEMA chaos;
CREATE SEQUENCE chaos.clock MAXVALUE 9000000000000000;
CREATE FUNCTION chaos.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
	$$ SELECT 'epoch'::timestamptz + last_value * interval '1 microsecond' FROM chaos.clock $$;
CREATE FUNCTION chaos.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT chaos.clock_timestamp() $$;
DO $$
DECLARE c record;
BEGIN
	FOR c IN SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'pacer' AND column_default ~ '(clock_timestamp|now)\(\)' LOOP
		EXECUTE format('ALTER TABLE pacer.%I ALTER COLUMN %I SET DEFAULT chaos.clock_timestamp()',
			c.table_name, c.column_name);
	END LOOP;
END $$`

// newDatabase must be called outside of the bubble.
func newDatabase(ctx context.Context, o *outside, url string) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	admin, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := admin.Exec(ctx, clockSchema); err != nil {
		return nil, err
	}
	maps.Copy(config.ConnConfig.RuntimeParams, connect.SessionParams())
	config.ConnConfig.RuntimeParams["search_path"] = "chaos,pg_catalog,public"
	config.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms"
	config.MaxConns = 12
	config.MinConns = 0
	config.HealthCheckPeriod = 1000 * time.Hour
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	return &database{outside: o, config: config, admin: admin, mutated: map[string]bool{}}, nil
}

// empty removes what a world left behind.
func (d *database) empty(now time.Time) error {
	var tables []string
	err := d.ask(now, "SELECT tablename FROM pg_tables WHERE schemaname = 'pacer'", func(values []any) {
		tables = append(tables, fmt.Sprint(values[0]))
	})
	for _, table := range tables {
		if err == nil {
			err = d.ask(now, "DELETE FROM pacer."+table, nil)
		}
	}
	return err
}

// ask runs a statement of the world's own and reads its rows; it is no step.
func (d *database) ask(now time.Time, sql string, each func(values []any), args ...any) error {
	var err error
	d.outside.do(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err = d.setClock(now); err != nil {
			return
		}
		var rows pgx.Rows
		if rows, err = d.admin.Query(context.Background(), sql, args...); err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() {
			values, _ := rows.Values() // the error is that of rows
			if each != nil {
				each(values)
			}
		}
		err = rows.Err()
	})
	return err
}

// begin sets the clock to the beginning of a world, which may lie before the end of another bubble's.
func (d *database) begin(now time.Time) error {
	var err error
	d.outside.do(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.now = now
		_, err = d.admin.Exec(context.Background(), "SELECT setval('chaos.clock', $1)", now.UnixMicro())
	})
	return err
}

// setClock tells the database the time; the caller holds the mutex.
func (d *database) setClock(now time.Time) error {
	if !now.After(d.now) {
		return nil
	}
	d.now = now
	_, err := d.admin.Exec(context.Background(),
		"SELECT setval('chaos.clock', greatest($1, last_value)) FROM chaos.clock", now.UnixMicro())
	return err
}

// rewritten replaces parts of the statements that messages have the server parse.
func (d *database) rewritten(messages []byte) []byte {
	if len(d.mutate) == 0 {
		return messages
	}
	var all []byte
	for len(messages) >= 5 {
		size := int(binary.BigEndian.Uint32(messages[1:5])) + 1
		if size < 5 || size > len(messages) {
			break // the first message of a connection, which has no type
		}
		if messages[0] == 'P' {
			text := d.mutateText(string(messages[5:size]))
			all = binary.BigEndian.AppendUint32(append(all, 'P'), uint32(len(text)+4))
			all = append(all, text...)
		} else {
			all = append(all, messages[:size]...)
		}
		messages = messages[size:]
	}
	return append(all, messages...)
}

func (d *database) mutateText(text string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old, mutated := range d.mutate {
		if strings.Contains(text, old) {
			text = strings.ReplaceAll(text, old, mutated)
			d.mutated[old] = true
		}
	}
	return text
}

// newPool returns the connections of a process.
func (w *world) newPool(p *process) (*pgxpool.Pool, error) {
	config := w.database.config.Copy()
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		if p.isDead() {
			return nil, errDead
		}
		return w.dial(p)
	}
	config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.ConnConfig.Tracer = &postgresSteps{w: w}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// postgresSteps makes the statements of a process steps of the world.
type postgresSteps struct{ w *world }

// TraceQueryStart implements pgx.QueryTracer.
func (s *postgresSteps) TraceQueryStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceQueryStartData,
) context.Context {
	s.step(ctx, conn, data.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *postgresSteps) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (s *postgresSteps) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData,
) context.Context {
	queries := data.Batch.QueuedQueries
	s.step(ctx, conn, queries[len(queries)-1].SQL)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s *postgresSteps) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (s *postgresSteps) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *postgresSteps) step(ctx context.Context, conn *pgx.Conn, sql string) {
	if conn.IsClosed() {
		return
	}
	l, ok := conn.PgConn().Conn().(*link)
	if !ok {
		return
	}
	l.pid.Store(conn.PgConn().PID())
	v := s.w.await(ctx, "postgres "+nameOf(sql))
	switch v {
	case twice:
		v = made // no driver repeats a statement
	case lastBefore:
		l.proc.die()
	case made, notMade, lost, late, lastAfter, refused, throttled, dead:
	}
	l.arm(v)
}

// nameOf is the verb of a statement and the table that it is about.
func nameOf(sql string) string {
	words := strings.Fields(sql)
	if len(words) == 0 {
		return "nothing"
	}
	name := strings.ToLower(words[0])
	if name == "with" {
		for _, verb := range []string{"UPDATE", "INSERT", "DELETE"} {
			if i := strings.Index(sql, verb+" "); i > 0 {
				words = strings.Fields(sql[i:])
				name = "with " + strings.ToLower(verb)
				break
			}
		}
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "pacer.") || strings.Contains(word, "_lock") {
			return name + " " + strings.TrimRight(strings.TrimPrefix(word, "pacer."), "(),$1;")
		}
	}
	return name
}
