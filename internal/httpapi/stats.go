package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Stats are the counts of the whole deployment.
type Stats struct {
	Queued                int64       `json:"queued"`
	Scheduled             int64       `json:"scheduled"`
	Deferred              int64       `json:"deferred"`
	Retrying              int64       `json:"retrying"`
	Sending               int64       `json:"sending"`
	OldestDeferredSeconds float64     `json:"oldest_deferred_seconds"`
	UsersDeferred         int64       `json:"users_deferred"`
	Totals                Totals      `json:"totals"`
	Partitions            []Partition `json:"partitions"`
	Processes             []Process   `json:"processes"`
	Partial               bool        `json:"partial,omitempty" doc:"True when a part of Redis could not be asked: the figures of the unreachable partitions, or the processes, are missing."`
}

// Totals count since the deployment began.
type Totals struct {
	Accepted  int64 `json:"accepted"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
	Replaced  int64 `json:"replaced"`
	Pulls     int64 `json:"pulls" doc:"How often a worker took a task off the queue; pulls / delivered is the price of throttling."`
	Deferrals int64 `json:"deferrals"`
	Attempts  int64 `json:"attempts"`
}

// Partition is one partition of the queue.
type Partition struct {
	Partition int   `json:"partition"`
	Queued    int64 `json:"queued"`
	Deferred  int64 `json:"deferred"`
	// Unreachable partitions are not in any of the sums.
	Unreachable bool `json:"unreachable,omitempty" doc:"True when the partition's Redis could not be asked: its figures are missing everywhere."`
}

// Process is one process of the deployment.
type Process struct {
	ID       string    `json:"id"`
	Host     string    `json:"host"`
	Roles    []string  `json:"roles"`
	Since    time.Time `json:"since"`
	InFlight int       `json:"in_flight"`
}

type statsOutput struct{ Body Stats }

func (a *api) registerStats(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Count what the whole deployment holds and did",
		Tags:    []string{"stats"}, Errors: answers(),
	}, a.stats)
}

func (a *api) stats(ctx context.Context, _ *struct{}) (*statsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stats, err := a.cfg.Stats(ctx)
	if err != nil {
		return nil, a.away(ctx, "read the counts", err)
	}
	return &statsOutput{Body: stats}, nil
}
