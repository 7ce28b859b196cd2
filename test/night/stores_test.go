package night_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/linktest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// ownRedis gives a deployment a Redis server of its own, in server.
func ownRedis(server **redistest.Server, args ...string) func(*deployment) {
	return func(d *deployment) {
		*server = redistest.Start(d.T, args...)
		d.redisURL = (*server).URL()
	}
}

func redisFrozen() *night {
	var server *redistest.Server
	return &night{
		title: "Redis stands still", happens: "Redis takes connections and does not respond.", postgres: true,
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.post("n0", "")
			d.is("n0", "delivered")
			server.Freeze()
			posted := 0
			d.await("one is accepted while Redis stands still", func() bool {
				posted++ // each without another try, which might find that it had been accepted
				body := fmt.Sprintf(`{"id":"n%d","user_id":"ada","body":"hello","to":%q}`, posted, d.receiver.URL)
				status, reply := d.requestBy(apitest.Once, *patience, http.MethodPost,
					"http://"+d.first().api+"/v1/notifications", body)
				if status != http.StatusAccepted && status != http.StatusServiceUnavailable { // Postgres may be slow
					d.Fatalf("while Redis stands still: %d %s", status, reply)
				}
				return status == http.StatusAccepted
			})
			d.post("n1", "") // if it is not the one
		},
		user:    "Redis does not respond: nothing goes out until it does",
		explain: "Redis does not respond: nothing goes out until it does",
		dashboard: []string{
			"Redis does not respond: nothing is delivered until it does. The figures are DURATION old.",
		},
		alerts: []string{"PacerAway", "PacerStoreAway"},
		do:     "Repair Redis. What is accepted meanwhile waits in Postgres.",
	}
}

func redisAway() *night {
	var server *redistest.Server
	return &night{
		title: "Redis is away", happens: "Redis, which is the store, is down.",
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.post("n1", `,"category":"chat"`)
			d.is("n1", "delivered")
			server.End(syscall.SIGKILL)
		},
		user:    "dispatcher: user ada: Redis does not respond: nothing is delivered until it does",
		explain: "dispatcher: explain n1: Redis does not respond: nothing is delivered until it does",
		dashboard: []string{
			"Redis does not respond: nothing is delivered until it does. The figures are DURATION old.",
		},
		alerts: []string{"PacerAway", "PacerStoreAway"},
		do:     "Start Redis. Producers get 503 until then.",
	}
}

func redisFull() *night {
	var server *redistest.Server
	return &night{
		title: "Redis is full", happens: "Redis, which is the store, has used more than 90 % of its `maxmemory`.",
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			used, err := d.redisClient().InfoMap(d.Context(), "memory").Result()
			if err != nil {
				d.Fatal(err)
			}
			var bytes int
			if _, err := fmt.Sscan(used["Memory"]["used_memory"], &bytes); err != nil {
				d.Fatal(err)
			}
			server.ConfigSet("maxmemory", fmt.Sprint(bytes*100/97))
		},
		user:    "nothing is known about a user with this id: nothing waits, nothing was sent lately, no devices, no preferences",
		explain: "dispatcher: explain n1: no such notification: \"n1\" was never accepted, or ended so long ago that it is no longer kept",
		dashboard: []string{
			"Redis is full, with COUNT % of its maxmemory used: nothing more is accepted until it has room again.",
		},
		alerts: []string{"PacerRedisFull"},
		do:     "Give Redis more memory, and find what grows.",
	}
}

func redisEvicts() *night {
	var server *redistest.Server
	return &night{
		title: "Redis may forget", happens: "Somebody changed `maxmemory-policy`: a full Redis evicts keys.",
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.post("n1", "")
			server.ConfigSet("maxmemory-policy", "allkeys-lru")
		},
		user:    "nothing waits, and nothing holds this user's notifications back",
		explain: "delivered",
		dashboard: []string{
			"Redis evicts keys when it is full (allkeys-lru), which loses notifications: set maxmemory-policy noeviction.",
		},
		alerts: []string{"PacerRedisEvicts"},
		do:     "`redis-cli config set maxmemory-policy noeviction`, and the same in its configuration file.",
	}
}

func postgresSlow() *night {
	var link *toxiproxy.Proxy
	return &night{
		title: "Postgres is slow", happens: "Every reply of Postgres takes 800 ms.", postgres: true,
		prepare: func(d *deployment) { link, d.databaseURL = linktest.URL(d.T, postgrestest.URL(d.T)) },
		trouble: func(d *deployment) {
			d.post("n0", "")
			d.is("n0", "delivered")
			slow := strings.NewReader(`{"type":"latency","stream":"downstream","attributes":{"latency":800}}`)
			d.calmNow()
			if _, err := link.Toxics.AddToxicJson(slow); err != nil {
				d.Fatal(err)
			}
			d.post("n1", "")
		},
		user:    "dispatcher: user ada: Postgres is slow: a reply takes SECONDS s",
		explain: "dispatcher: explain n1: Postgres is slow: a reply takes SECONDS s",
		dashboard: []string{
			"Postgres is slow: a reply takes SECONDS s. The figures are DURATION old.",
		},
		alerts: []string{"PacerLate"},
		do:     "Look at the load and the disk of Postgres, and at the network to it.",
	}
}

func postgresAway() *night {
	var server *postgrestest.Server
	return &night{
		title: "Postgres is away", happens: "Postgres is down.", postgres: true,
		prepare: func(d *deployment) {
			server = postgrestest.Start(d.T)
			server.Migrate()
			d.databaseURL = server.URL()
		},
		trouble: func(d *deployment) {
			d.post("n0", "")
			d.is("n0", "delivered")
			server.End(syscall.SIGQUIT)
		},
		user:    "dispatcher: user ada: Postgres does not respond: nothing is delivered until it does",
		explain: "dispatcher: explain n1: Postgres does not respond: nothing is delivered until it does",
		dashboard: []string{
			"Postgres does not respond: nothing is delivered until it does. The figures are DURATION old.",
		},
		alerts: []string{"PacerStoreAway"},
		do:     "Start Postgres. Producers get 503 until then, and everything goes on by itself.",
	}
}

func postgresLocked() *night {
	return &night{
		title: "A table is locked", happens: "Somebody's transaction locks `pacer.notifications`.", postgres: true,
		trouble: func(d *deployment) {
			d.post("n0", `,"category":"chat"`)
			d.is("n0", "delivered")
			d.post("n1", `,"category":"chat"`)
			d.is("n1", "deferred")
			d.calmNow()
			connection := postgrestest.Connect(d.T, d.databaseURL)
			for _, statement := range []string{"BEGIN", "LOCK TABLE pacer.notifications IN ACCESS EXCLUSIVE MODE"} {
				if _, err := connection.Exec(d.Context(), statement); err != nil {
					d.Fatal(err)
				}
			}
			d.call(http.MethodDelete, "/v1/users/ada/throttle?category=chat", "") // n1 may go now
		},
		user:    "dispatcher: user ada: the store takes too long to respond: see the dashboard for what is slow or locked",
		explain: "dispatcher: explain n1: the store takes too long to respond: see the dashboard for what is slow or locked",
		dashboard: []string{
			"Locked: COUNT of pacer's statements have waited for up to DURATION for a lock that session COUNT holds on Postgres (user USER).",
		},
		alerts: []string{"PacerStalls"},
		do:     "`SELECT * FROM pg_stat_activity WHERE state = 'idle in transaction'` shows who; end that session.",
	}
}

func redisClock() *night {
	return &night{
		title: "Redis's clock is wrong", happens: "Redis's clock is an hour ahead of all others.", postgres: true,
		prepare: func(d *deployment) {
			library := filepath.Join(d.TempDir(), "clock.so")
			out, err := exec.CommandContext(d.Context(), "gcc", "-shared", "-fPIC", "-O2", "-o", library,
				"../faults/testdata/clock.c").CombinedOutput()
			if err != nil {
				d.Fatalf("gcc, which race tests need too: %v\n%s", err, out)
			}
			clock := d.file("clock", string(binary.NativeEndian.AppendUint64(nil, 3600)))
			under := []string{"env", "LD_PRELOAD=" + library, "FAULTS_CLOCK=" + clock}
			d.redisURL = redistest.StartUnder(d.T, under).URL()
		},
		trouble: func(d *deployment) {
			d.post("n1", fmt.Sprintf(`,"send_at":%q`, time.Now().Add(30*time.Minute).UTC().Format(time.RFC3339)))
		},
		user:    "the clocks of Redis and of a process are 1h apart, so times shown here are wrong",
		explain: "delivered; the clocks of Redis and of a process are 1h apart, so times shown here are wrong",
		dashboard: []string{
			"Redis's clock is 3600.0 s ahead of those of all processes and of Postgres: correct it.",
		},
		alerts: []string{"PacerClocksApart"},
		do:     "Set the clock right (NTP), and let it never jump.",
	}
}
