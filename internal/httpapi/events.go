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
	Type       string    `json:"type" doc:"What happened, such as notification.failed; docs/channels.md lists all types, and others may come."`
	At         time.Time `json:"at"`
	EndpointID string    `json:"endpoint_id,omitempty" doc:"The webhook endpoint that it is about."`

	NotificationID string `json:"notification_id,omitempty" doc:"The notification that it is about."`
	DeviceID       string `json:"device_id,omitempty" doc:"The device that it is about."`
	UserID         string `json:"user_id,omitempty"`
	Category       string `json:"category,omitempty"`
	Status         string `json:"status,omitempty" doc:"The notification's status from then on."`
	Reason         string `json:"reason,omitempty" doc:"Why it happened."`
	Attempt        int    `json:"attempt,omitempty" doc:"How many attempts the notification took."`
	PolicyVersion  string `json:"policy_version,omitempty" doc:"The version of the policy that allowed the latest attempt."`
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
		Description: "What happened after the event with the sequence number after. Events are kept for 30 days, on " +
			"Redis the latest 100,000, and sent to --events-endpoints.",
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
			ID: e.ID, Sequence: e.Sequence, Type: e.Type, At: instant(e.At), EndpointID: e.EndpointID,
			NotificationID: e.NotificationID, DeviceID: e.DeviceID, UserID: e.UserID, Category: e.Category,
			Status: e.Status, Reason: e.Reason, Attempt: e.Attempt, PolicyVersion: e.PolicyVersion,
		}
	}
	return out, nil
}
