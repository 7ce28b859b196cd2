package maintenance

import (
	"context"
	"fmt"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// waitingBatch is how many of a user's waiting notifications are read at a time.
const waitingBatch = 500

// EachOfUser calls do for every notification that waits for a user, some hundred at a time. One that comes or goes
// meanwhile may come twice, or not at all.
func (m *Agendas) EachOfUser(ctx context.Context, userID string, do func(Known) error) error {
	prefix := m.PrefixOf(userID)
	fields, err := m.Client.HKeys(ctx, prefix+"a:"+userID).Result()
	if err != nil {
		return fmt.Errorf("read the agenda of a user: %w", err)
	}
	sets := []string{prefix + "r:" + userID}
	for _, category := range fields {
		if agenda.IsCategory(category) {
			sets = append(sets, prefix+"w:"+category+":"+userID)
		}
	}
	for _, set := range sets {
		for at := int64(0); ; at += waitingBatch {
			ids, err := m.Client.ZRange(ctx, set, at, at+waitingBatch-1).Result()
			if err != nil {
				return fmt.Errorf("read what waits for a user: %w", err)
			}
			keys := make([]string, len(ids))
			for i, id := range ids {
				keys[i] = prefix + "n:" + id
			}
			if err := m.readKnown(ctx, m.PartitionOf(userID), keys, do); err != nil {
				return err
			}
			if len(ids) < waitingBatch {
				break
			}
		}
	}
	return nil
}
