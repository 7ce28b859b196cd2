// Package queue brings ticks from producers to workers over asynq's queues: one queue per lane, and a deferral that puts
// the same task back without counting as a failure.
//
// Ticks are put in, pulled and acknowledged many at a time, by scripts of this package that leave asynq's keys as asynq
// itself would; for what is not of the hot path a server of asynq's runs beside. asynq's times are whole seconds, so a
// deferred tick is woken early and held by its handler. Its retry budget is switched off, since asynq, when it takes a task
// back from a dead process, would archive one that was only throttled.
package queue

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// taskType is the asynq type of every tick.
const taskType = "pacer:tick"

// lead is how much earlier than its slot a task is woken: the forwarding's interval, the look for what is pending and some
// air. The whole seconds of asynq add up to one more second, which the handler holds.
const lead = forwardEvery + 4*watchEvery

// taskTimeout is what asynq would grant to one run; here drain and lease bound it.
const taskTimeout = 5 * time.Minute

// payload is what a task carries besides its id: whose mailbox it is for. Nothing of the content.
type payload struct {
	Version  int    `json:"v"`
	UserID   string `json:"u"`
	Category string `json:"c"`
}

const payloadVersion = 1

// decodeTask reads the tick out of a task of a lane.
func decodeTask(t task, lane int) (dispatch.Tick, error) {
	kind, body, err := readMessage(t.message)
	if err != nil {
		return dispatch.Tick{}, fmt.Errorf("read task %s: %w", t.id, err)
	}
	if kind != taskType {
		return dispatch.Tick{}, fmt.Errorf("read task %s: its type is %q, not %q", t.id, kind, taskType)
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return dispatch.Tick{}, fmt.Errorf("read the payload of task %s: %w", t.id, err)
	}
	if p.Version != payloadVersion {
		return dispatch.Tick{}, fmt.Errorf("task %s has payload version %d, this program knows %d", t.id, p.Version, payloadVersion)
	}
	return dispatch.Tick{ID: t.id, Mailbox: dispatch.Mailbox{Lane: lane, UserID: p.UserID, Category: p.Category}}, nil
}
