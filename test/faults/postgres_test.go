//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

// waitsForStore is an API that waits for its store for a minute.
var waitsForStore = []rewrite{
	{
		file: "internal/httpapi/httpapi.go",
		says: "storeTimeout = 3 * time.Second", instead: "storeTimeout = 60 * time.Second",
	},
	{
		file: "internal/store/postgres/postgres.go",
		says: "c.AcceptTimeout, 2500*time.Millisecond", instead: "c.AcceptTimeout, time.Minute",
	},
}

// givesUpResults are processes that give up a result that they can't write for half a minute.
var givesUpResults = []rewrite{{
	file: "internal/dispatch/dispatch.go",
	says: "cmp.Or(c.SettleTimeout, 10*time.Minute)", instead: "cmp.Or(c.SettleTimeout, 30*time.Second)",
}}

// losing is what such a store says of each loss.
const losing = "losing accepted notifications on the way to Redis"

// losesEnqueued is a store that loses a third of what it has accepted, and at least one, on the way to Redis, as a
// process does that is killed.
var losesEnqueued = []rewrite{{
	file: "internal/store/postgres/outbox/placer.go",
	says: "\t\tplaced, err := p.stores.Agendas.Accept(ctx, w.partition, part)\n",
	instead: "\t\tall = false\n" +
		"\t\tp.stores.Log.WarnContext(ctx, \"" + losing + "\", \"count\", (len(part)+2)/3)\n" +
		"\t\tplaced, err := p.stores.Agendas.Accept(ctx, w.partition, part[(len(part)+2)/3:])\n",
}}

// believesRedis is a relay that does not ask whether Postgres has the mark that Redis remembers.
var believesRedis = []rewrite{{
	file: "internal/store/postgres/rebuild/mark.go",
	says: " || !l.ours[built.Mark]", instead: "",
}}

// postgresScenarios are what happens to Postgres.
func postgresScenarios() []*scenario {
	half := 500 * time.Millisecond
	var replica *postgrestest.Server
	return []*scenario{
		{
			name: "PostgresRestarts", soak: true, fault: "Postgres: SIGKILL, started again", slow: half,
			without: settling,
			inject:  func(d *deployment) { d.postgres.Restart() },
		},
		{
			name: "PostgresFrozen", fault: "Postgres frozen for 20 s", holds: "accepting returns 503",
			without: protection{name: "time-out of accepting", rewrites: waitsForStore},
			slow:    half, inject: freezePostgres,
		},
		{
			name: "ResultsWhilePostgresIsAway", fault: "Postgres: killed, started again after 45 s", slow: half,
			without: protection{name: "results are kept for ten minutes", rewrites: givesUpResults},
			inject: func(d *deployment) {
				d.postgres.Kill()
				d.last(45 * time.Second)
				d.postgres.Restart()
			},
		},
		{
			name: "PostgresConnectionsCut", soak: true,
			fault: "every connection to Postgres ended five times a second for 5 s", slow: half, without: settling,
			inject: func(d *deployment) {
				d.every(200*time.Millisecond, 5*time.Second, func() {
					d.postgres.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity " +
						"WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
				})
			},
		},
		{
			name: "PostgresLocked", soak: true, fault: "somebody else locks the table of notifications for 8 s",
			slow: half, without: settling, inject: lockTable,
		},
		{
			name: "PostgresConnectionsUsedUp", fault: "Postgres has no connection left (`max_connections`) for 3 s",
			slow: half, without: settling,
			prepare: func(d *deployment) { d.postgres = postgrestest.Start(d.t, "max_connections=60") },
			inject:  useUpConnections,
		},
		{
			name: "PostgresReadOnly", soak: true, fault: "Postgres turned read-only (25006) for 3 s", slow: half,
			without: settling,
			inject: func(d *deployment) {
				d.postgres.Exec("ALTER SYSTEM SET default_transaction_read_only = on")
				d.postgres.Exec("SELECT pg_reload_conf()")
				d.last(3 * time.Second)
				d.execReadWrite("ALTER SYSTEM RESET default_transaction_read_only")
				d.execReadWrite("SELECT pg_reload_conf()")
			},
		},
		{
			name: "EnqueueLost", fault: "every third enqueue lost between commit and Redis", rewrites: losesEnqueued,
			inject: func(d *deployment) { d.last(3 * time.Second) }, check: somethingWasLost,
			without: protection{name: "relay", mutations: "no-sweeper"},
		},
		{
			name: "PgBouncer", fault: "Postgres behind PgBouncer in transaction mode: SIGKILL, started again",
			slow: half, without: settling,
			prepare: func(d *deployment) {
				d.postgres = postgrestest.Start(d.t)
				d.databaseURL = postgrestest.PgBouncer(d.t, d.postgres.URL())
			},
			inject: func(d *deployment) { d.postgres.Restart() },
		},
		{
			name:  "PostgresFailsOver",
			fault: "Postgres: the primary killed 2 s after its synchronous replica was, the replica started again and promoted",
			slow:  half, without: protection{name: "`synchronous_standby_names`"},
			doubled: inFlight,
			prepare: func(d *deployment) {
				d.postgres = postgrestest.Start(d.t)
				replica = postgrestest.StartReplica(d.t, d.postgres)
				if !red() {
					d.postgres.Exec("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
					d.postgres.Exec("SELECT pg_reload_conf()")
				}
				d.databaseURL = "postgres://pacer@" + d.postgres.Addr() + "," + replica.Addr() +
					"/postgres?sslmode=disable&target_session_attrs=read-write"
			},
			inject: func(d *deployment) {
				d.inFlight = d.sending()
				replica.Kill() // what is committed from now on without it is what the fail-over loses
				d.last(2 * time.Second)
				d.postgres.Kill()
				replica.Restart()
				replica.Promote()
				d.postgres = replica
			},
		},
		{
			name:  "PostgresRestored",
			fault: "Postgres restored from a snapshot of its disk that is 3 s old, while Redis lives on", slow: half,
			holds: "what was delivered since comes again", doubled: inFlight, inject: restorePostgres,
			without: protection{name: "the mark that both stores keep", rewrites: believesRedis},
		},
	}
}

// restorePostgres follows docs/operate.md. Nothing is accepted after the snapshot: the restored database would lack it.
func restorePostgres(d *deployment) {
	d.postgres.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'nothing is accepted now' USING ERRCODE = '53400'; END $$`)
	d.postgres.Exec("CREATE TRIGGER refuse BEFORE INSERT ON pacer.notifications EXECUTE FUNCTION refuse()")
	before := d.receiver.count()
	restore := d.postgres.Snapshot()
	d.last(3 * time.Second)
	for _, w := range d.workers {
		w.terminate()
	}
	restore()
	d.inFlight = d.receiver.count() - before + d.sending()
	d.postgres.Exec("DROP TRIGGER refuse ON pacer.notifications")
	for i := range d.workers {
		d.put(i, d.start())
	}
}

// freezePostgres freezes it and asks the API meanwhile.
func freezePostgres(d *deployment) {
	d.postgres.Freeze()
	thaw := time.After(20 * time.Second)
	slowest, refused := time.Duration(0), 0
	const asked = 4
	for i := range asked {
		body := fmt.Sprintf(`{"user_id":"frozen%d","to":"%s"}`, i, d.target)
		status, took := call(http.MethodPost, "http://"+d.workers[0].api+"/v1/notifications", []byte(body), nil)
		slowest = max(slowest, took)
		if status == http.StatusServiceUnavailable {
			refused++
		}
	}
	<-thaw
	d.postgres.Thaw()
	d.note("503 after %.1f s at most", slowest.Seconds())
	if refused != asked {
		d.blame("%d of %d requests were refused with 503", refused, asked)
	}
}

// lockTable holds a lock that nobody gets past.
func lockTable(d *deployment) {
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
	if err != nil {
		d.fail("%v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }()
	tx, err := conn.Begin(d.t.Context())
	if err == nil {
		_, err = tx.Exec(d.t.Context(), "LOCK TABLE pacer.notifications IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		d.fail("lock the table: %v", err)
	}
	d.last(8 * time.Second) // longer than a statement may take
	if err := tx.Rollback(d.t.Context()); err != nil {
		d.fail("unlock the table: %v", err)
	}
}

// useUpConnections ends the processes' connections and takes all that there are.
func useUpConnections(d *deployment) {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(context.WithoutCancel(d.t.Context()))
		}
	}()
	take := func() bool {
		conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
		if err == nil {
			taken = append(taken, conn)
		}
		return err == nil
	}
	if !take() {
		d.fail("no connection at the beginning")
	}
	end := time.Now().Add(3 * time.Second)
	for time.Now().Before(end) {
		_, err := taken[0].Exec(d.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name NOT LIKE 'faults%' AND pid <> pg_backend_pid()
				AND backend_type = 'client backend' AND NOT pid = ANY ($1)`, pids(taken))
		if err != nil {
			d.fail("end the connections: %v", err)
		}
		for take() {
		}
		<-time.After(50 * time.Millisecond)
	}
	d.note("%d connections taken", len(taken))
}

// pids are the server's processes behind connections.
func pids(conns []*pgx.Conn) []int32 {
	var all []int32
	for _, conn := range conns {
		all = append(all, int32(conn.PgConn().PID()))
	}
	return all
}

// execReadWrite runs a statement although transactions are read-only by default.
func (d *deployment) execReadWrite(statement string) {
	separator := "?"
	if strings.Contains(d.postgres.URL(), "?") {
		separator = "&"
	}
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL()+separator+"default_transaction_read_only=off")
	if err != nil {
		d.fail("%v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }()
	if _, err := conn.Exec(d.t.Context(), statement); err != nil {
		d.fail("%s: %v", statement, err)
	}
}

// somethingWasLost looks for the store's own word that there was something to find.
func somethingWasLost(d *deployment, _ verdict) {
	for _, w := range d.workers {
		text, err := os.ReadFile(w.log.Name())
		if err == nil && strings.Contains(string(text), losing) {
			return
		}
	}
	d.blame("nothing was lost on the way: the scenario shows nothing")
}

// terminate ends a process in good order and waits for it; one that does not end breaks the scenario.
func (w *worker) terminate() {
	w.signal(syscall.SIGTERM)
	if !eventually(time.Minute, w.ended) {
		panic(broken{"a process does not end within a minute of SIGTERM: " + w.says()})
	}
}
