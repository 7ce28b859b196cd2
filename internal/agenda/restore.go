package agenda

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// requireRebuild stands before the script that restores windows.
const requireRebuild = "do\n" + keyspace.InRebuild + "if not in_rebuild(KEYS[1] .. 'rebuild', ARGV[1]) then " +
	keyspace.NotInRebuild + " end\nend\n"

// requireRebuildOf stands before the script that accepts, which works in a rebuild if its second argument is a token.
const requireRebuildOf = "if ARGV[2] ~= '' and ARGV[2] ~= 'epoch' then\n" + keyspace.InRebuild +
	"if not in_rebuild(KEYS[1] .. 'rebuild', ARGV[2]) then " + keyspace.NotInRebuild + " end\nend\n"

// RestoreEntries puts back notifications of one partition that wait or are in flight, in the order in which they
// arrived.
func (a *Agendas) RestoreEntries(ctx context.Context, token string, partition int, entries []Entry) ([]Placed, error) {
	return a.acceptUnder(ctx, token, partition, entries)
}

// Admission is one that counts in the windows of a backlog.
type Admission struct {
	At throttle.Micros
	// Channel is the notification's; empty when it is not known.
	Channel notification.Channel
	// InFlight names the grant of a delivery that is in flight, see [GrantName]; empty for all others.
	InFlight string
}

// GrantName names a grant in the logs of the limits, so that a settlement finds what it refunds.
func GrantName(id string, generation int) string { return id + "#" + strconv.Itoa(generation) }

// WindowPart is a part of the admissions that count in the windows of a backlog, oldest first.
type WindowPart struct {
	Admitted []Admission
	// Before is how many stand in the parts before this one. More says that another part follows.
	Before int
	More   bool
	// Cleared are the names of the caps in which these admissions count no more; "" is the user cap.
	Cleared []string
}

// RestoreWindow counts a part of a backlog's admissions once more. The parts must come in order, one after the other:
// where a window of a counter begins depends on everything before it. To restore the latest part again changes nothing.
// The deliveries in flight must have been restored before.
func (a *Agendas) RestoreWindow(ctx context.Context, token string, b dispatch.Backlog, part WindowPart) error {
	plan := a.cfg.Settings(b.UserID, b.Category).Plan.WithoutCaps(part.Cleared)
	args := make([]any, 0, 22+len(part.Admitted))
	args = append(args, token, b.Category, b.UserID, strconv.Itoa(len(part.Admitted)), strconv.Itoa(part.Before),
		Flag(part.More))
	for _, a := range part.Admitted {
		text := strconv.FormatInt(int64(a.At), 10)
		if len(plan.NamedCaps()) > 0 && a.Channel != "" {
			text += " " + string(a.Channel)
		}
		if a.InFlight != "" {
			text += "\t" + a.InFlight
		}
		args = append(args, text)
	}
	args = plan.Args(args)
	if err := a.restore.Run(ctx, a.Client, a.ScriptKeys(b.Partition), args...).Err(); err != nil {
		return fmt.Errorf("restore the window of category %s in partition %d: %w", b.Category, b.Partition,
			keyspace.Fault(err))
	}
	return nil
}
