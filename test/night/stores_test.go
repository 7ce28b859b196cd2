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
		title: "Redis hangs", postgres: true,
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.delivered("n0", "")
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
		alerts: []string{"PacerAway", "PacerStoreAway"},
		do:     "Go to [PacerStoreAway](#pacerstoreaway).",
	}
}

func redisAway() *night {
	var server *redistest.Server
	return &night{
		title:   "Redis is down",
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.delivered("n1", `,"category":"chat"`)
			server.End(syscall.SIGKILL)
		},
		alerts: []string{"PacerAway", "PacerStoreAway"},
		do:     "Go to [PacerStoreAway](#pacerstoreaway).",
	}
}

func redisFull() *night {
	var server *redistest.Server
	return &night{
		title:   "Redis is full",
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
		alerts: []string{"PacerRedisFull"},
		do:     "Go to [PacerRedisFull](#pacerredisfull).",
	}
}

func redisEvicts() *night {
	var server *redistest.Server
	return &night{
		title:   "Redis may evict keys",
		prepare: ownRedis(&server),
		trouble: func(d *deployment) {
			d.post("n1", "")
			server.ConfigSet("maxmemory-policy", "allkeys-lru")
		},
		alerts: []string{"PacerRedisEvicts"},
		do:     "Go to [PacerRedisEvicts](#pacerredisevicts).",
	}
}

func postgresSlow() *night {
	var link *toxiproxy.Proxy
	return &night{
		title: "Postgres is slow", postgres: true, slow: true,
		prepare: func(d *deployment) { link, d.databaseURL = linktest.URL(d.T, postgrestest.URL(d.T)) },
		trouble: func(d *deployment) {
			d.delivered("n0", "")
			slow := strings.NewReader(`{"type":"latency","stream":"downstream","attributes":{"latency":800}}`)
			d.calmNow()
			if _, err := link.Toxics.AddToxicJson(slow); err != nil {
				d.Fatal(err)
			}
			d.post("n1", "")
		},
		alerts: []string{"PacerLate"},
		do:     "Go to [PacerStoreAway](#pacerstoreaway).",
	}
}

func postgresAway() *night {
	var server *postgrestest.Server
	return &night{
		title: "Postgres is down", postgres: true,
		prepare: func(d *deployment) {
			server = postgrestest.Start(d.T)
			server.Migrate()
			d.databaseURL = server.URL()
		},
		trouble: func(d *deployment) {
			d.delivered("n0", "")
			server.End(syscall.SIGQUIT)
		},
		alerts: []string{"PacerStoreAway"},
		do:     "Go to [PacerStoreAway](#pacerstoreaway).",
	}
}

func postgresLocked() *night {
	return &night{
		title: "A table is locked", postgres: true, slow: true,
		trouble: func(d *deployment) {
			d.behind(`,"category":"chat"`)
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
		alerts: []string{"PacerStalls"},
		do:     "Go to [PacerStoreAway](#pacerstoreaway).",
	}
}

func redisClock() *night {
	return &night{
		title: "Redis's clock is wrong", postgres: true,
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
		alerts: []string{"PacerClocksApart"},
		do:     "Go to [PacerClocksApart](#pacerclocksapart).",
	}
}
