package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Opened are the channels by which a process can send.
type Opened struct {
	Set
	Senders push.Registry

	process   Process
	renewable map[notification.Channel]*renewable
}

// Open opens the senders of all channels that are configured. Close them after use.
func Open(all []Descriptor, process Process) (*Opened, error) {
	opened := &Opened{
		Set: Set{}, Senders: push.Registry{}, process: process, renewable: map[notification.Channel]*renewable{},
	}
	for _, descriptor := range all {
		if !descriptor.Configured {
			continue
		}
		sender, err := descriptor.Open(process)
		if err != nil {
			return nil, errors.Join(opened.refuse(descriptor, err), opened.Close())
		}
		if descriptor.Renew != nil {
			of := newRenewable(descriptor, sender)
			opened.renewable[descriptor.Name], sender = of, of
		}
		opened.Senders[descriptor.Name] = sender
		opened.Set[descriptor.Name] = Deployed{Descriptor: descriptor, Checker: sender}
	}
	return opened, nil
}

// refuse says that a channel can't be opened.
func (o *Opened) refuse(d Descriptor, err error) error {
	if d.Name.Kind() != d.Name {
		return refusal.New("the settings of channel %s: %v", d.Name, err)
	}
	return refusal.New("the settings of channel %s (--%[1]s-…): %v", d.Name, err)
}

// Sources are the channels whose credentials stand in files. When these change, a new sender is opened and checked, and
// takes the place of the one before, which is closed once its calls have ended. Then renewed is called.
func (o *Opened) Sources(renewed func(context.Context, Descriptor)) []secret.Source {
	var sources []secret.Source
	for name, of := range o.renewable {
		d := o.Set[name].Descriptor
		renew := func(ctx context.Context) error {
			fresh, err := d.Renew()
			if err != nil {
				return err
			}
			sender, err := fresh.Open(o.process)
			if err != nil {
				return o.refuse(fresh, err)
			}
			of.replace(fresh, sender)
			renewed(ctx, fresh)
			return nil
		}
		sources = append(sources, secret.Source{Name: string(name), Files: d.Files, Renew: renew})
	}
	return sources
}

// PublicKey is what a page needs to subscribe a browser for a channel; empty where there is nothing to subscribe to.
func (o *Opened) PublicKey(name notification.Channel) string {
	if of, ok := o.renewable[name]; ok {
		return of.described().PublicKey
	}
	return o.Set[name].PublicKey
}

// Close ends the senders' connections.
func (o *Opened) Close() error {
	var faults []error
	for _, sender := range o.Senders {
		faults = append(faults, closeSender(sender))
	}
	return errors.Join(faults...)
}

// closeSender ends the connections of a sender that keeps some.
func closeSender(sender push.Sender) error {
	if open, ok := sender.(io.Closer); ok {
		return open.Close()
	}
	return nil
}

// BudgetKey names what the channel's limits belong to: the credential, of which it shows only a hash.
func (d Descriptor) BudgetKey() string {
	sum := sha256.Sum256([]byte(d.Credential))
	return hex.EncodeToString(sum[:8])
}
