package postgres_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// smallTables have a row per partition, or per kind of record: to read all of one is cheap.
var smallTables = []string{"partitions", "partition_counts", "category_deferrals", "numbers"}

// wholeReaders are the statements that read a whole table, each with its reason.
var wholeReaders = map[string]string{
	"freshSQL":   "the checker sorts who was admitted since its last round",
	"missing":    "rebuild --verify compares everything that waits",
	"historySQL": "it reads the tallies, of which the relay leaves few, and the hours that were asked for",
	"totalsSQL":  "it adds up the tallies, of which the relay leaves few",
	"lookUpSQL":  "rebuild --verify looks for what is missing in the whole outbox",
}

// background statements hold no delivery up when they read more than they must. Without the session's settings they may
// do so while a table fills, until it is analysed for the first time.
var background = map[string]bool{
	"lostSQL": true, "calmSQL": true, "clearedSQL": true, "openSQL": true,
	"fillersSQL": true, "foldSQL": true, "purgeHistorySQL": true, "purgeClearedSQL": true, "purgeMarksSQL": true,
	"agedSQL": true, "findOpenSQL": true,
	"checkNewSQL": true,
	"recordsSQL":  true, "recordChangesSQL": true, "linesSQL": true, "newestLinesSQL": true, "forgetLinesSQL": true,
}

// wantedIndexes names the index of each statement that several indexes could serve, where all but one would read rows
// of other users.
var wantedIndexes = map[string]string{
	"findUserSQL": "notifications_user", "findSQL": "notifications_accepted",
	"findOpenSQL": "notifications_open", "findEndedSQL": "notifications_ended",
	"waitingOptedOutSQL": "notifications_user", "fillersSQL": "attempts_user",
	"groupSQL": "notifications_group",
}

// wantedByAlias does the same for parts of statements, by the alias of their table.
var wantedByAlias = map[string]string{"newer": "notifications_newest", "p": "preferences_pkey"}

// No plan depends on statistics. A connection keeps a plan that was made while the tables were empty, while 100,000
// rows come; and a plan that is made then does not know of them yet. So in each state of the tables each statement
// reaches its rows by the columns of an index, whether it is planned once for all arguments or for some. Without the
// session's settings, which a pooler may refuse, every statement is planned when it runs. Then the same must hold as
// soon as there is something to read.
//
//nolint:paralleltest,tparallel // Each state of the tables comes from the one before.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	statements := postgrestest.Statements(t, ".")
	if len(statements) < 30 {
		t.Fatalf("found %d statements only", len(statements))
	}
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, table := range []string{
		"notifications", "attempts", "outbox", "preferences", "devices", "deliveries",
		"tallies", "accepted_elsewhere", "history", "records", "lines", "cleared", "marks", "happened",
	} {
		exec("ALTER TABLE pacer." + table + " SET (autovacuum_enabled = off)")
	}
	modes := []planMode{
		{name: "generic", settings: sessionSettings("force_generic_plan")},
		{name: "custom", settings: sessionSettings("force_custom_plan")},
		{
			name: "custom without settings", settings: map[string]string{"plan_cache_mode": "force_custom_plan"},
			unsettled: true,
		},
	}
	for _, state := range []struct {
		name string
		fill []string
	}{
		{name: "empty"},
		{name: "filling", fill: append([]string{"ANALYZE"}, fillTables("NULL", "'waiting'")...)},
		{name: "backlog", fill: []string{"ANALYZE"}},
		{name: "history", fill: slices.Concat(
			[]string{`TRUNCATE pacer.notifications, pacer.attempts, pacer.outbox, pacer.preferences,
				pacer.devices, pacer.deliveries, pacer.tallies, pacer.accepted_elsewhere,
				pacer.history, pacer.records, pacer.lines, pacer.cleared, pacer.marks,
				pacer.happened`},
			fillTables("now()", "'delivered'"),
			[]string{"ANALYZE"},
		)},
	} {
		t.Run(state.name, func(t *testing.T) {
			exec("SET session_replication_role = replica") // no triggers: the tables are filled one by one
			for _, sql := range state.fill {
				exec(sql)
			}
			exec("RESET session_replication_role")
			for _, mode := range modes {
				if mode.unsettled && state.name == "empty" {
					continue
				}
				for name, value := range mode.settings {
					exec("SET " + name + " = '" + value + "'")
				}
				for i, s := range statements {
					if mode.unsettled && state.name == "filling" && background[s.Name] {
						continue
					}
					for _, fault := range planFaults(s,
						explain(t, conn, fmt.Sprintf("%s_%s_%d", state.name, mode.name, i), s.SQL)) {
						t.Errorf("%s: %s: %s", mode.name, s.Name, fault)
					}
				}
				exec("RESET ALL")
			}
		})
	}
}

// planMode is a way to plan.
type planMode struct {
	name     string
	settings map[string]string
	// unsettled lacks the settings of the store's sessions.
	unsettled bool
}

func sessionSettings(planCacheMode string) map[string]string {
	settings := connect.SessionParams()
	settings["plan_cache_mode"] = planCacheMode
	return settings
}

// fillTables are the statements that put 100,000 rows into the tables that grow.
func fillTables(endedAt, status string) []string {
	const series = " FROM generate_series(1, 100000) i"
	return []string{
		`INSERT INTO pacer.notifications
				(id, user_id, category, channel, priority, collapse_key, group_key, accepted_at, status, ended_at, idempotency_key)
			SELECT 'n' || i, 'user' || i % 1000, 'chat', 'log', 3, CASE WHEN i % 3 > 0 THEN 'key' ELSE '' END, CASE WHEN i % 3 > 1 THEN 'group' ELSE '' END,
				now() - i * interval '10 ms', ` + status + ", " + endedAt + ", 'k' || i" + series,
		`INSERT INTO pacer.attempts (notification_id, generation, attempt, user_id, category, admitted_at, outcome)
			SELECT 'n' || i, 1, 1, 'user' || i % 1000, 'chat', i * 1000000::bigint, 'delivered'` + series,
		`INSERT INTO pacer.outbox (key, ids, unchecked, refused_at) SELECT 'n' || i, ARRAY['n' || i], i % 2 = 0,
			CASE WHEN i % 4 = 0 THEN now() END` + series,
		`INSERT INTO pacer.preferences (user_id, updated_at) SELECT 'user' || i, now() - interval '1 day'` + series,
		`INSERT INTO pacer.devices (user_id, device_id, channel, target)
			SELECT 'user' || i % 10000, i, 'webhook', 't'` + series,
		`INSERT INTO pacer.deliveries (notification_id, device_id, attempts, ended, outcome)
			SELECT 'n' || i, 'd', 1, true, 'delivered'` + series,
		`INSERT INTO pacer.tallies (accepted) SELECT 1` + series,
		`INSERT INTO pacer.history (hour, category, accepted)
			SELECT now() - i % 700 * interval '1 hour', 'category' || i, 1` + series,
		`INSERT INTO pacer.records (kind, key, version, body, alias)
			SELECT 'endpoint', 'e' || i, i, CASE WHEN i % 10 > 0 THEN '{}'::json END, 'a' || i` + series,
		`INSERT INTO pacer.lines (log, number, at, line)
			SELECT 'audit', CASE WHEN i < 99900 THEN i END, now() - i * interval '10 s', '{}'` + series,
		`INSERT INTO pacer.cleared (user_id, log, until) SELECT 'user' || i, 'cap:', i * 1000000::bigint` + series,
		`INSERT INTO pacer.accepted_elsewhere (category, accepted) SELECT 'chat', 1` + series,
		`INSERT INTO pacer.happened (type) SELECT 'notification.delivered'` + series,
		`INSERT INTO pacer.marks (mark, history) SELECT 'm.' || i, ''` + series,
	}
}

// plan is a node of a plan as EXPLAIN shows it.
type plan struct {
	NodeType     string `json:"Node Type"`
	RelationName string `json:"Relation Name"`
	Alias        string `json:"Alias"`
	IndexName    string `json:"Index Name"`
	IndexCond    string `json:"Index Cond"`
	Filter       string `json:"Filter"`
	Plans        []plan `json:"Plans"`
	// When the statement was run: how many rows the node gave, and how many pages it and those below it read.
	Rows        int `json:"Actual Rows"`
	SharedHits  int `json:"Shared Hit Blocks"`
	SharedReads int `json:"Shared Read Blocks"`
}

// reads reports whether a plan reads a table. An arm that the arguments rule out does not.
func (p plan) reads() bool {
	return p.RelationName != "" || slices.ContainsFunc(p.Plans, plan.reads)
}

// streams are nodes that pass on the rows below them one by one: a limit above them is one of these rows, too.
var streams = []string{"LockRows", "WindowAgg", "Subquery Scan", "Result", "Append", "Merge Append"}

// planFaults finds the tables that a plan reads without going to a place in an index.
func planFaults(s postgrestest.Statement, root plan) []string {
	if wholeReaders[s.Name] != "" {
		return nil
	}
	var faults []string
	var look func(p plan, limited bool)
	look = func(p plan, limited bool) {
		wanted := cmp.Or(wantedByAlias[p.Alias], wantedIndexes[s.Name])
		switch {
		case p.NodeType == "Seq Scan" && !slices.Contains(smallTables, p.RelationName):
			faults = append(faults, "reads all of "+p.RelationName)
		case p.NodeType == "Sort" && limited && p.reads():
			faults = append(faults, "sorts everything before it takes the first")
		case p.IndexName != "" && p.IndexCond == "" && limited &&
			p.Filter == "": // it is read from its end, to the limit
		case p.IndexName != "" && p.IndexCond == "" && !slices.Contains(smallTables, p.RelationName):
			faults = append(faults, "reads all of the index "+p.IndexName)
		case p.IndexName != "" && wanted != "" && p.IndexName != wanted:
			faults = append(faults, "goes through "+p.IndexName+" instead of "+wanted)
		}
		for _, below := range p.Plans {
			look(below, p.NodeType == "Limit" || limited && slices.Contains(streams, p.NodeType))
		}
	}
	look(root, false)
	return faults
}

// explain returns the plan of a prepared statement for arguments of its types.
func explain(t *testing.T, conn *pgx.Conn, name, sql string) plan {
	t.Helper()
	name = "statement_" + strings.ReplaceAll(name, " ", "_")
	prepared, err := conn.Prepare(t.Context(), name, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	arguments := make([]string, len(prepared.ParamOIDs))
	for i, oid := range prepared.ParamOIDs {
		arguments[i] = argument(t, oid)
	}
	execute := "EXECUTE " + name
	if len(arguments) > 0 {
		execute += "(" + strings.Join(arguments, ", ") + ")"
	}
	var text []byte
	if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+
		execute, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var roots []struct{ Plan plan }
	if err := json.Unmarshal(text, &roots); err != nil {
		t.Fatal(err)
	}
	return roots[0].Plan
}

// argument is a value of a type, as SQL: arrays as long as a batch.
func argument(t *testing.T, oid uint32) string {
	t.Helper()
	array := func(value, kind string) string {
		return "'{" + strings.TrimSuffix(strings.Repeat(value+",", 250), ",") + "}'::" + kind + "[]"
	}
	switch oid {
	case pgtype.TextOID:
		return "'n7'::text"
	case pgtype.TextArrayOID:
		return array("n7", "text")
	case pgtype.Int4OID, pgtype.Int2OID, pgtype.Int8OID:
		return "500"
	case pgtype.Int4ArrayOID:
		return array("1", "int")
	case pgtype.Int8ArrayOID:
		return array("1", "bigint")
	case pgtype.BoolOID:
		return "false"
	case pgtype.BoolArrayOID:
		return array("false", "bool")
	case pgtype.TimestamptzOID:
		return "now() - interval '1 minute'"
	case pgtype.TimestamptzArrayOID:
		return array("2026-01-01", "timestamptz")
	case pgtype.IntervalOID:
		return "'30 days'::interval"
	case pgtype.JSONArrayOID:
		return array("1", "json")
	case pgtype.JSONOID:
		return "'{}'::json"
	case pgtype.JSONBOID:
		return "'{}'::jsonb"
	}
	t.Fatalf("no argument of the type %d: give the test one", oid)
	return ""
}
