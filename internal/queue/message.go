package queue

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Fields of asynq's protobuf message of a task, as its proto/asynq.proto numbers them.
const (
	fieldType     protowire.Number = 1
	fieldPayload  protowire.Number = 2
	fieldID       protowire.Number = 3
	fieldQueue    protowire.Number = 4
	fieldRetry    protowire.Number = 5
	fieldError    protowire.Number = 7
	fieldTimeout  protowire.Number = 8
	fieldFailedAt protowire.Number = 11
)

// encodeTask writes a tick as asynq's client would. The retry budget is off, and one run of it is bounded.
func encodeTask(queue string, t dispatch.Tick) ([]byte, error) {
	body, err := json.Marshal(payload{Version: payloadVersion, UserID: t.UserID, Category: t.Category})
	if err != nil {
		return nil, fmt.Errorf("encode tick %s: %w", t.ID, err)
	}
	message := make([]byte, 0, 48+len(body)+len(t.ID)+len(queue))
	text := func(field protowire.Number, value string) {
		message = protowire.AppendTag(message, field, protowire.BytesType)
		message = protowire.AppendString(message, value)
	}
	number := func(field protowire.Number, value uint64) {
		message = protowire.AppendTag(message, field, protowire.VarintType)
		message = protowire.AppendVarint(message, value)
	}
	text(fieldType, taskType)
	text(fieldPayload, string(body))
	text(fieldID, t.ID)
	text(fieldQueue, queue)
	number(fieldRetry, math.MaxInt32)
	number(fieldTimeout, uint64(taskTimeout/time.Second))
	return message, nil
}

// readMessage gives type and payload of asynq's message.
func readMessage(text string) (kind string, body []byte, err error) {
	message := []byte(text)
	for len(message) > 0 {
		field, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return "", nil, fmt.Errorf("it is no message of asynq's: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, wire, message); n < 0 {
			return "", nil, fmt.Errorf("it is no message of asynq's: %w", protowire.ParseError(n))
		}
		if wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			switch field {
			case fieldType:
				kind = string(value)
			case fieldPayload:
				body = value
			default:
			}
		}
		message = message[n:]
	}
	return kind, body, nil
}
