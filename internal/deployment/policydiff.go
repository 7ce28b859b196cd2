package deployment

import (
	"context"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/policy"
)

// DiffPolicy reports what the policy with a text would change. It changes nothing. Its error is a [desk.RefusalError]
// when the text has faults.
func (d *Deployment) DiffPolicy(ctx context.Context, text []byte) (*desk.PolicyDiff, error) {
	other, err := policy.Parse("FILE", text, d.cfg.Settings.Channels.Names()...)
	if err != nil {
		return nil, &desk.RefusalError{Reason: err.Error(), Err: err}
	}
	rules := d.Rules.Under(other)
	after, err := agenda.New(d.Redis.Pipe, agenda.Config{
		Direct: d.Redis.Client, Partitions: d.Agendas.Partitions(), Settings: rules.Settings, Guarded: d.Pool != nil,
		Apart: true, Changed: true, Paused: d.Rules.Paused,
	})
	if err != nil {
		return nil, err
	}
	diff, err := desk.Diff(ctx, d.Agendas, after)
	if err != nil {
		return nil, err
	}
	current := d.Rules.Current()
	diff.InForce, diff.Version, diff.Rules = current.Version(), other.Version(), current.Differences(other)
	if err := d.CheckRemoval(ctx, current, other); err != nil {
		diff.Refused = err.Error()
	}
	return diff, nil
}
