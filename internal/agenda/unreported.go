package agenda

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// End is the end of a notification that no worker settled: it expired, say, or was replaced.
type End struct {
	ID     string
	Status notification.Status
	Reason string
	// Detail explains the reason, for people to read; empty when there is nothing to add.
	Detail string
	// At is the moment on Redis's clock.
	At time.Time
}

// EachEnds calls do, with about n at a time, for the ends of a partition that the other store does not know of. They
// come again until [Agendas.Acknowledge].
func (a *Agendas) EachEnds(ctx context.Context, partition, n int, do func([]End) error) error {
	for cursor := uint64(0); ; {
		pairs, next, err := a.Client.HScan(ctx, a.Prefixes()[partition]+"z", cursor, "", int64(n)).Result()
		if err != nil {
			return fmt.Errorf("read what ended in partition %d: %w", partition, err)
		}
		ends, err := endsOf(pairs)
		if err != nil {
			return err
		}
		if len(ends) > 0 {
			if err := do(ends); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// endsOf reads ends from a list of fields and values.
func endsOf(pairs []string) ([]End, error) {
	var ends []End
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return nil, fmt.Errorf("read the end of notification %s: it is empty", pairs[i])
		}
		at, reason, _ := strings.Cut(pairs[i+1][1:], " ")
		moment, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the end of notification %s: %w", pairs[i], err)
		}
		reason, detail, _ := strings.Cut(reason, "\t")
		ends = append(ends, End{
			ID: pairs[i], Status: StatusOf(pairs[i+1][:1]), Reason: reason, Detail: Explain(reason, detail),
			At: time.UnixMicro(moment),
		})
	}
	return ends, nil
}

// HasEnd reports which of the notifications of a partition have an end that the other store does not know of.
func (a *Agendas) HasEnd(ctx context.Context, partition int, ids []string) ([]bool, error) {
	has := make([]bool, len(ids))
	if len(ids) == 0 {
		return has, nil
	}
	ends, err := a.Client.HMGet(ctx, a.Prefixes()[partition]+"z", ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("look for ends of notifications in partition %d: %w", partition, err)
	}
	for i, end := range ends {
		has[i] = end != nil
	}
	return has, nil
}

// Acknowledge says that the other store knows of the ends of these notifications.
func (a *Agendas) Acknowledge(ctx context.Context, partition int, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := a.Client.HDel(ctx, a.Prefixes()[partition]+"z", ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge what ended in partition %d: %w", partition, err)
	}
	return nil
}
