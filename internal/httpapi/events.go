package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/events"
)

// Events lists what happened to the deployment.
type Events interface {
	After(ctx context.Context, sequence int64, limit int) ([]events.Event, error)
}

// DeploymentEvent is the JSON form of an event, as receivers get it too.
type DeploymentEvent struct {
	ID         string    `json:"id" doc:"The same each time that it is sent."`
	Sequence   int64     `json:"sequence" doc:"Its place among the events of the deployment: one more than the event before, unless Redis failed over in between."`
	Type       string    `json:"type" doc:"endpoint.disabled or endpoint.enabled; others may come."`
	At         time.Time `json:"at"`
	EndpointID string    `json:"endpoint_id,omitempty" doc:"The webhook endpoint that it is about."`
	Reason     string    `json:"reason,omitempty" doc:"Why it happened, in words."`
}

type eventsInput struct {
	After int64 `query:"after" minimum:"0" default:"0" doc:"The sequence of the last event that is known."`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many to list."`
}

type eventsOutput struct {
	Body struct {
		Events []DeploymentEvent `json:"events" nullable:"false"`
	}
}

func (a *api) registerEvents(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Summary: "List events, oldest first",
		Description: "What happened after the event with the sequence number after. Events are kept for 30 days, and " +
			"sent to --events-endpoints.",
		Tags: []string{"events"}, Errors: problems(http.StatusUnprocessableEntity),
	}, a.listEvents)
}

func (a *api) listEvents(ctx context.Context, in *eventsInput) (*eventsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := a.cfg.Events.After(ctx, in.After, in.Limit)
	if err != nil {
		return nil, a.away(ctx, "list events", err)
	}
	out := &eventsOutput{}
	out.Body.Events = make([]DeploymentEvent, len(all))
	for i, e := range all {
		out.Body.Events[i] = DeploymentEvent{
			ID: e.ID, Sequence: e.Sequence, Type: string(e.Type), At: instant(e.At), EndpointID: e.EndpointID,
			Reason: e.Reason,
		}
	}
	return out, nil
}
