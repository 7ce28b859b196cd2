package intake

import "context"

// Check returns why a request would be refused, as [Intake.Accept] does in its [Result], without accepting it. fault is
// set when that can't be told now.
func (in *Intake) Check(ctx context.Context, r Request) (refused, fault error) {
	if in.cfg.Full() {
		return nil, ErrFull
	}
	n, err := in.complete(&r)
	if err != nil {
		return err, nil
	}
	results := []Result{{Notification: n}}
	if _, err := in.withDevices(ctx, results, []int{0}); err != nil {
		return nil, err
	}
	return results[0].Err, nil
}
