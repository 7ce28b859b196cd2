package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

type statsOutput struct{ Body stats.Stats }

func (a *api) registerStats(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Read the counts of the whole deployment",
		Description: "All totals are exact once nothing is under way. partial is true while a part of the store does " +
			"not respond.",
		Tags: []string{"stats"}, Errors: problems(),
	}, a.stats)
	huma.Register(h, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/v1/history",
		Summary:     "Read what happened by hour and category, for up to 30 days",
		Description: "Hours without any notification are left out.",
		Tags:        []string{"stats"}, Errors: problems(http.StatusUnprocessableEntity),
	}, a.history)
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

type historyInput struct {
	Category string `query:"category" doc:"Only this category."`
	Since    string `query:"since" example:"7d" doc:"From the hour of this RFC 3339 time, or of so long ago, to now; at most 30 days. Defaults to 24 h ago."`
}

type historyOutput struct{ Body desk.History }

func (a *api) history(ctx context.Context, in *historyInput) (*historyOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	query := url.Values{"category": {in.Category}, "since": {in.Since}}
	history, err := desk.ReadHistory(ctx, a.cfg.Store, query, a.cfg.Names(), time.Now())
	if len(notification.FieldErrors(err)) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	if err != nil {
		return nil, a.away(ctx, "read the history", err)
	}
	return &historyOutput{Body: *history}, nil
}
