// Package queue brings ticks from producers to workers over asynq: one asynq queue per lane, several asynq servers per
// process over the lanes, and a deferral that puts the same task back without counting as a failure.
//
// asynq's times are whole seconds, so a deferred tick is woken early and held by its handler; its retry budget is
// switched off, since it would archive a task that was only throttled; and its acknowledgements get a context that is
// not cancelled (see [acknowledger]).
package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// taskType is the asynq type of every tick.
const taskType = "pacer:tick"

// lead is how much earlier than its slot a task is woken: the forwarder's interval, the look for what is pending and some
// air. The whole seconds of asynq add up to one more second, which the handler holds.
const lead = forwardInterval + 4*watchEvery

// taskTimeout bounds one run of a handler: holding, waiting for room, sending. asynq knows whole seconds only.
const taskTimeout = 5 * time.Minute

// payload is what a task carries besides its id: whose mailbox it is for. Nothing of the content.
type payload struct {
	Version  int    `json:"v"`
	UserID   string `json:"u"`
	Category string `json:"c"`
}

const payloadVersion = 1

// tickOf reads a task back.
func tickOf(ctx context.Context, task *asynq.Task) (dispatch.Tick, error) {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	lane, err := dispatch.LaneOfName(queue)
	if err != nil {
		return dispatch.Tick{}, fmt.Errorf("find the lane of task %s: %w", id, err)
	}
	if task.Type() != taskType {
		return dispatch.Tick{}, fmt.Errorf("read task %s: its type is %q, not %q", id, task.Type(), taskType)
	}
	var p payload
	if err := json.Unmarshal(task.Payload(), &p); err != nil {
		return dispatch.Tick{}, fmt.Errorf("read the payload of task %s: %w", id, err)
	}
	if p.Version != payloadVersion {
		return dispatch.Tick{}, fmt.Errorf("task %s has payload version %d, this program knows %d", id, p.Version, payloadVersion)
	}
	return dispatch.Tick{ID: id, Mailbox: dispatch.Mailbox{Lane: lane, UserID: p.UserID, Category: p.Category}}, nil
}
