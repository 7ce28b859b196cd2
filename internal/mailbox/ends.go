package mailbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// End is how a notification ended in its mailbox by itself: it expired, or was replaced.
type End struct {
	ID     string
	Status notification.Status
	Reason string
	// At is when, on Redis's clock.
	At time.Time
}

// Ends gives about n of the ends in a lane that the record has not been told of. They are given again until
// [Store.Acknowledge].
func (s *Store) Ends(ctx context.Context, lane, n int) ([]End, error) {
	pairs, _, err := s.client.HScan(ctx, s.lanes[lane]+"z", 0, "", int64(n)).Result()
	if err != nil {
		return nil, fmt.Errorf("read what ended in lane %d: %w", lane, err)
	}
	var ends []End
	for i := 0; i+1 < len(pairs); i += 2 {
		at, reason, _ := strings.Cut(pairs[i+1][1:], " ")
		moment, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the end of notification %s: %w", pairs[i], err)
		}
		ends = append(ends, End{ID: pairs[i], Status: statuses[pairs[i+1][:1]], Reason: reason, At: time.UnixMicro(moment)})
	}
	return ends, nil
}

// Acknowledge tells that the record knows of the ends.
func (s *Store) Acknowledge(ctx context.Context, lane int, ends []End) error {
	ids := make([]string, len(ends))
	for i, end := range ends {
		ids[i] = end.ID
	}
	if err := s.client.HDel(ctx, s.lanes[lane]+"z", ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge what ended in lane %d: %w", lane, err)
	}
	return nil
}
