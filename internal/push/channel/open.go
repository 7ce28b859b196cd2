package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/refusal"
)

// Opened are the channels by which a process can send.
type Opened struct {
	Set
	Senders push.Registry
}

// Open opens the senders of all channels that are configured. Close them after use.
func Open(all []Descriptor, process Process) (*Opened, error) {
	opened := &Opened{Set: Set{}, Senders: push.Registry{}}
	for _, descriptor := range all {
		if !descriptor.Configured {
			continue
		}
		sender, err := descriptor.Open(process)
		if err != nil {
			err = refusal.New("the settings of channel %s (--%[1]s-…): %v", descriptor.Name, err)
			return nil, errors.Join(err, opened.Close())
		}
		opened.Senders[descriptor.Name] = sender
		opened.Set[descriptor.Name] = Deployed{Descriptor: descriptor, Checker: sender}
	}
	return opened, nil
}

// Close ends the senders' connections.
func (o *Opened) Close() error {
	var faults []error
	for _, sender := range o.Senders {
		if open, ok := sender.(io.Closer); ok {
			faults = append(faults, open.Close())
		}
	}
	return errors.Join(faults...)
}

// BudgetKey names what the channel's limits belong to: the credential, of which it shows only a hash.
func (d Descriptor) BudgetKey() string {
	sum := sha256.Sum256([]byte(d.Credential))
	return hex.EncodeToString(sum[:8])
}
