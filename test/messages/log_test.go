package messages_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// oneProcess is a deployment for the log of one process, on a Redis of its own.
type oneProcess struct {
	log    *processLog
	server *redistest.Server
	policy string
	addr   string
}

func startOne(t *testing.T) *oneProcess {
	t.Helper()
	o := &oneProcess{log: &processLog{}, server: redistest.Start(t), policy: filepath.Join(t.TempDir(), "policy.yaml")}
	if err := os.WriteFile(o.policy, []byte(messagesPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	o.addr = start(t, resolved(t, o.server.URL(), o.policy), o.log).Addr()
	return o
}

// says returns the line that a process logs at its start.
func says(holds string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		o := startOne(t)
		return strings.ReplaceAll(o.log.await(t, holds), o.policy, "POLICY")
	}
}

// refusedPolicy returns the line about a policy file with a fault.
func refusedPolicy(t *testing.T) string {
	t.Helper()
	o := startOne(t)
	if err := processtest.ReplaceFile(o.policy, "version: 1\ncategories: {chat: {limits: []}}\n"); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(o.log.await(t, "policy file refused"), o.policy, "POLICY")
}

// changedPolicy returns the line about a policy that reaches what waits.
func changedPolicy(t *testing.T) string {
	t.Helper()
	o := startOne(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+o.addr+"/v1/notifications",
		strings.NewReader(`{"user_id":"ada","channel":"log","send_at":"`+
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	reply(t, request)
	if err := processtest.ReplaceFile(o.policy, anotherPolicy); err != nil {
		t.Fatal(err)
	}
	return o.log.await(t, "rescheduling waiting notifications")
}

// changedSecret returns the line about the file of a token whose content changes to each of some texts.
func changedSecret(holds string, texts ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			if err := processtest.ReplaceFile(file, text); err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		var program struct{ settings.Server }
		parser, err := settings.NewParser(&program, "dispatcher", "", settings.Environ{"PACER_OPS_TOKEN=file:" + file})
		if err == nil {
			_, err = settings.Parse(parser, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		read, err := program.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		policy, log := filepath.Join(t.TempDir(), "policy.yaml"), &processLog{}
		if err := os.WriteFile(policy, []byte(messagesPolicy), 0o600); err != nil {
			t.Fatal(err)
		}
		s := resolved(t, redistest.Start(t).URL(), policy)
		s.OpsToken, s.Renewed = read.OpsToken, read.Renewed
		start(t, s, log)
		for i, text := range texts {
			write(text)
			if i < len(texts)-1 {
				log.await(t, "a secret's file can't be used")
			}
		}
		return log.await(t, holds)
	}
}

// away gives a line that is logged while Redis is away, or once it is back.
func away(holds string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		o := startOne(t)
		o.server.Kill()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+o.addr+"/v1/notifications/n1", nil)
		if err != nil {
			t.Fatal(err)
		}
		reply(t, request)
		if strings.Contains(holds, "again") {
			o.log.await(t, "could not sweep")
			o.server.Restart()
		}
		line := o.log.await(t, holds)
		if !strings.Contains(holds, "again") {
			o.server.Restart()
		}
		return line
	}
}

// refusesMost returns the line about a provider that takes one device and then refuses all others as another app's.
func refusesMost(t *testing.T) string {
	t.Helper()
	provider := providertest.StartHTTP(t, providertest.HTTPConfig{Target: providertest.FirebaseTarget},
		providertest.Rule{
			Target: providertest.Matching("^other"),
			Reply:  providertest.FirebaseError(http.StatusForbidden, "SENDER_ID_MISMATCH"),
		}, providertest.FirebaseTokens())
	d := &fleet{log: &processLog{}, policy: filepath.Join(t.TempDir(), "policy.yaml")}
	if err := os.WriteFile(d.policy, []byte(messagesPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	d.settings = resolved(t, redistest.URL(t), d.policy)
	d.settings.Channels.FCM.Endpoint = provider.URL
	d.settings.Channels.FCM.Credentials = providertest.ServiceAccount(t, provider.URL+"/token")
	d.process = start(t, d.settings, d.log)
	for i := range 12 {
		to := "own"
		if i > 0 {
			to = fmt.Sprint("other-", i)
		}
		d.post(fmt.Sprintf(`{"user_id":"user-%d","channel":"fcm","to":%q,"body":"x"}`, i, to))(t)
		if i == 0 {
			provider.Await(t, providertest.Called, 2) // for a token, and the delivery
		}
	}
	return strings.ReplaceAll(d.log.await(t, "most devices belong to another app"), provider.Address(), "PROVIDER")
}

// notNoted returns the line about the end of a notification that could not be noted.
func notNoted(t *testing.T) string {
	t.Helper()
	d := deploy(t)
	d.post(fmt.Sprintf(`{"id":"n1","user_id":"ada","channel":"log","body":"x","send_at":%q}`,
		time.Now().Add(time.Hour).Format(time.RFC3339)))(t)
	conn := postgrestest.Connect(t, d.settings.DatabaseURL)
	// While it is on its way to its backlog, its end is left to the relay.
	for onItsWay := 1; onItsWay > 0; <-time.After(20 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pacer.unplaced) +
			(SELECT count(*) FROM pacer.outbox)`).Scan(&onItsWay); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), `
		CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it stays'; END $$;
		CREATE TRIGGER stay BEFORE DELETE ON pacer.outbox FOR EACH ROW EXECUTE FUNCTION stay()`); err != nil {
		t.Fatal(err)
	}
	d.call(http.MethodDelete, "/v1/notifications/n1", "", "")(t)
	return d.log.await(t, "could not note")
}

// logRows are lines of the log: what a process says at its start, and under faults.
func logRows() []row {
	return []row{
		{
			name: "the set-up", provoke: says("the set-up of this"),
			want: `level=INFO msg="the set-up of this deployment" kind=redis redis=redis://127.0.0.1:<any> ` +
				`means="notifications are as durable as Redis is configured to be"`,
		},
		{
			name: "the process", provoke: says("process has started"),
			want: `level=INFO msg="this process has started" id=<any> roles=api,worker,ops`,
		},
		{
			name: "the API", provoke: says("the API is listening"),
			want: `level=INFO msg="the API is listening" url=http://127.0.0.1:<any>`,
		},
		{
			name: "the ops pages", provoke: says("ops pages are listening"),
			want: `level=INFO msg="the ops pages are listening" url=http://127.0.0.1:<any>`,
		},
		{
			name: "the policy", provoke: says("policy is in force"),
			want: `level=INFO msg="this policy is in force" file=POLICY version=<any> categories=3`,
		},
		{
			name: "the channels", provoke: says("channels are configured"),
			want: `level=INFO msg="these channels are configured" channels=log,webhook`,
		},
		{
			name: "the partitions", provoke: says("divided into"),
			want: `level=INFO msg="the queue is divided into partitions" partitions=4`,
		},
		{
			name: "the workers", provoke: says("workers are ready"),
			want: `level=INFO msg="the workers are ready" concurrency=64`,
		},
		{
			name: "a policy that is refused", provoke: refusedPolicy,
			want: `level=ERROR msg="policy file refused; keeping the policy in force" policy=POLICY error="POLICY:2:1: ` +
				`categories.default: is missing; it is for notifications that name no category"`,
		},
		{
			name: "a policy that reaches what waits", provoke: changedPolicy,
			want: `level=INFO msg="rescheduling waiting notifications under the new policy" version=<any> users=1 ` +
				`on_every_process=true`,
		},
		{
			name: "a secret that changed", provoke: changedSecret("a secret has changed", "two"),
			want: `level=INFO msg="a secret has changed in its file, and the new value is in force" secret=ops-token`,
		},
		{
			name: "a secret's file that is empty", provoke: changedSecret("a secret's file can't", ""),
			want: `level=ERROR msg="a secret's file can't be used; keeping the value in force" secret=ops-token ` +
				`error="--ops-token (PACER_OPS_TOKEN) names an empty file"`,
		},
		{
			name: "a secret's file that is right again", provoke: changedSecret("in force again", "", "one"),
			want: `level=INFO msg="a secret's file holds the value in force again" secret=ops-token`,
		},
		{
			name: "Redis away, at the API", provoke: away("could not reach the store"),
			want: `level=ERROR msg="could not reach the store" while="look up a notification" error="look for ` +
				`notification n1: dial tcp 127.0.0.1:<any>: connect: connection refused"`,
		},
		{
			name: "Redis away, at the queue", provoke: away("could not forward due tasks"),
			want: `level=WARN msg="could not forward due tasks; retrying" error="forward due wake-ups: dial tcp ` +
				`127.0.0.1:<any>: connect: connection refused"`,
		},
		{
			name: "Redis away, at the sweeper", provoke: away("could not sweep"),
			want: `level=WARN msg="could not sweep a partition; retrying" error="sweep partition <any>: dial tcp ` +
				`127.0.0.1:<any>: connect: connection refused"`,
		},
		{
			name: "Redis away, at the endpoints", provoke: away("could not check for changed webhook endpoints"),
			want: `level=WARN msg="could not check for changed webhook endpoints; keeping the known ones" ` +
				`error="look for changes of webhook endpoints: dial tcp 127.0.0.1:<any>: connect: connection refused"`,
		},
		{
			name: "Redis back, at the sweeper", provoke: away("reaches all partitions again"),
			want: `level=INFO msg="the sweeper reaches all partitions again"`,
		},
		{
			name: "most devices refused", provoke: refusesMost,
			want: "level=WARN " +
				`msg="the provider says that most devices belong to another app, so none is deactivated; check the channel's settings"` +
				` channel=fcm host="" code=403.SENDER_ID_MISMATCH`,
		},
		{
			name: "an end that could not be noted", provoke: notNoted,
			want: "level=WARN " +
				`msg="could not note that an ended notification is out of its agenda; the relay will check it"` +
				` notification_id=n1 error="ERROR: it stays (SQLSTATE P0001)"`,
		},
	}
}
