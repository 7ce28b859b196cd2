package queue

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed archive.lua
var archiveSource string

// archiveScript is archive.lua.
var archiveScript = script.NewWhenFull(archiveSource)

// archiveSize is how many archived tasks asynq keeps.
const archiveSize = 10_000

// Fields of asynq's protobuf message of a task, as its proto/asynq.proto numbers them.
const (
	fieldType     protowire.Number = 1
	fieldError    protowire.Number = 7
	fieldFailedAt protowire.Number = 11
)

// Archive archives an active task of a partition's queue, with the reason. Archiving it twice is harmless.
func (c *Client) Archive(ctx context.Context, partition int, t dispatch.Task, reason error) error {
	now := time.Now().Unix()
	// A field that stands twice in a protobuf message has its last value.
	message := protowire.AppendTag([]byte(t.Message), fieldError, protowire.BytesType)
	message = protowire.AppendString(message, fmt.Sprintf("%v: %s", reason, describe(t.Message)))
	message = protowire.AppendTag(message, fieldFailedAt, protowire.VarintType)
	message = protowire.AppendVarint(message, uint64(now))
	keys := PartitionKeys(prefixOf(partition))
	if err := archiveScript.Run(ctx, c.conn, keys, t.ID, message, now, archiveSize).Err(); err != nil {
		return fmt.Errorf("archive task %s of partition %d: %w", t.ID, partition, err)
	}
	return nil
}

// describe says why a message is not that of a wake-up.
func describe(text string) string {
	message := []byte(text)
	for len(message) > 0 {
		field, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return "it is not a message of asynq's"
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, wire, message); n < 0 {
			return "it is not a message of asynq's"
		}
		if field == fieldType && wire == protowire.BytesType {
			kind, _ := protowire.ConsumeString(message)
			return fmt.Sprintf("its type is %q, not %q", kind, taskType)
		}
		message = message[n:]
	}
	return "it has no type"
}
