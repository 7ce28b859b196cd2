package events

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/record"
)

// Log is the log of events. Whatever makes one happen writes it there, in the same write.
var Log = record.Log{Name: "event", Keep: Kept, Most: MaxKept, Happened: true}

// records keeps everything in records.
type records struct {
	store     record.Store
	receivers record.Kind[receiver]
}

// receiver is how far a receiver has got.
type receiver struct {
	Done      int64     `json:"done"`
	Holder    string    `json:"holder"`
	HeldUntil time.Time `json:"held_until"`
	// Failing is the last of the events that it did not take, FailingSince since when, and Fault why.
	Failing      int64     `json:"failing"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	Fault        string    `json:"fault,omitempty"`
	Disabled     bool      `json:"disabled,omitempty"`
}

// NewStore makes a Store of records.
func NewStore(store record.Store) Store {
	return &records{store: store, receivers: record.Kind[receiver]{Store: store, Name: "receiver"}}
}

// After implements [Store].
func (r *records) After(ctx context.Context, sequence int64, limit int) ([]Event, error) {
	lines, err := r.store.After(ctx, Log, sequence, limit)
	if err != nil {
		return nil, err
	}
	all := make([]Event, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line.Text, &all[i]); err != nil {
			return nil, fmt.Errorf("read event %d: %w", line.Number, err)
		}
		all[i].Sequence, all[i].At = line.Number, line.At.UTC()
	}
	return all, nil
}

// change changes how far a receiver has got.
func (r *records) change(ctx context.Context, name string, change func(*receiver, time.Time) error) (Progress, error) {
	d, err := r.receivers.Change(ctx, name, func(d *record.Draft[receiver]) (err error) {
		if !d.Exists {
			if d.Doc.Done, err = r.store.Latest(ctx, Log); err != nil {
				return err
			}
		}
		return change(&d.Doc, d.Now)
	})
	if err != nil {
		return Progress{}, err
	}
	p := Progress{Done: d.Doc.Done, Now: d.Now}
	if d.Doc.Failing > d.Doc.Done {
		p.FailingSince, p.Failing = d.Doc.FailingSince, d.Doc.Failing
		p.Fault, p.Disabled = d.Doc.Fault, d.Doc.Disabled
	}
	return p, nil
}

// Hold implements [Store].
func (r *records) Hold(ctx context.Context, name, holder string, lease time.Duration) (Progress, bool, error) {
	var held bool
	p, err := r.change(ctx, name, func(to *receiver, now time.Time) error {
		if held = to.Holder == holder || !to.HeldUntil.After(now); !held {
			return record.ErrUnchanged
		}
		to.Holder, to.HeldUntil = holder, now.Add(lease)
		return nil
	})
	return p, held && err == nil, err
}

// Done implements [Store].
func (r *records) Done(ctx context.Context, name string, sequence int64) error {
	_, err := r.change(ctx, name, func(to *receiver, _ time.Time) error {
		if to.Done >= sequence {
			return record.ErrUnchanged
		}
		to.Done, to.Fault, to.Disabled = sequence, "", false
		return nil
	})
	return err
}

// Failed implements [Store].
func (r *records) Failed(ctx context.Context, name string, sequence int64, why string, longest time.Duration,
) (Progress, error) {
	return r.change(ctx, name, func(to *receiver, now time.Time) error {
		if to.Failing <= to.Done {
			to.FailingSince = now
		} else if now.Sub(to.FailingSince) >= longest {
			to.Disabled = true
		}
		to.Failing, to.Fault = max(to.Failing, sequence), why
		return nil
	})
}

// Enable implements [Store].
func (r *records) Enable(ctx context.Context, name string) error {
	_, err := r.change(ctx, name, func(to *receiver, now time.Time) error {
		if !to.Disabled {
			return record.ErrUnchanged
		}
		to.Disabled, to.FailingSince = false, now
		return nil
	})
	return err
}

// Forget implements [Store].
func (r *records) Forget(ctx context.Context) (more bool, err error) { return r.store.Forget(ctx, Log) }
