package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/stats"
)

type statsOutput struct{ Body stats.Stats }

func (a *api) registerStats(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Read the counts of the whole deployment",
		Tags:    []string{"stats"}, Errors: problems(),
	}, a.stats)
}

func (a *api) stats(ctx context.Context, _ *struct{}) (*statsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	counts, err := a.cfg.Store.Stats(ctx)
	if err != nil {
		return nil, a.away(ctx, "read the counts", err)
	}
	processes, err := a.cfg.Processes(ctx)
	if err != nil {
		counts.Partial = true
	}
	if processes == nil {
		processes = []stats.Process{}
	}
	return &statsOutput{Body: stats.Stats{Counts: counts, Processes: processes}}, nil
}
