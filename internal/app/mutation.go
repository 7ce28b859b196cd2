//go:build !faults

package app

import (
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// The functions below change nothing. Builds with the tag faults can switch protections off through them, so that a
// fault scenario can be seen to fail without its protection: see mutation_faults.go.

// mutation tells whether a protection is switched off.
func mutation(string) bool { return false }

func openRedisClient(options *redis.UniversalOptions) redis.UniversalClient {
	return redis.NewUniversalClient(options)
}

func mutateDatabase(*pgxpool.Config) {}

func mutateTargets(*httpsend.GuardedConfig) {}

func mutateAPI(server *http.Server) *http.Server { return server }

func mutateSenders(senders push.Registry) push.Registry { return senders }

func mutateStoreConfig(config storepostgres.Config) storepostgres.Config { return config }

func mutateStore(r store) store { return r }
