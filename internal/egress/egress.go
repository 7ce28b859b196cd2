// Package egress dials targets that come from input, and keeps them away from addresses that are not public. It checks
// the address that is really dialled, at that moment. So a name that changes what it resolves to (DNS rebinding) gains
// nothing. The check of the target's text, when a notification is accepted, only tells producers early.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config of a Dialer.
type Config struct {
	// Allow are networks that may be dialled although they are not public. Defaults to none.
	Allow []netip.Prefix
	// Timeout bounds making a connection, the lookup of its name included. Defaults to 5 s.
	Timeout time.Duration
	// Resolver of names. Defaults to the system's.
	Resolver *net.Resolver
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	for i, network := range c.Allow {
		if !network.IsValid() {
			faults = append(faults, fmt.Errorf("allow[%d] is no network", i))
		}
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout must not be negative, is %s", c.Timeout))
	}
	return errors.Join(faults...)
}

// Dialer connects to public addresses and to allowed ones, by TCP only.
type Dialer struct {
	allow  []netip.Prefix
	dialer net.Dialer
}

// New makes a Dialer. It fails on what [Config.Validate] refuses.
func New(cfg Config) (*Dialer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the guarded dialer: %w", err)
	}
	d := &Dialer{allow: make([]netip.Prefix, len(cfg.Allow))}
	for i, network := range cfg.Allow {
		d.allow[i] = unmap(network)
	}
	d.dialer = net.Dialer{
		Timeout: cmp.Or(cfg.Timeout, 5*time.Second), Resolver: cfg.Resolver,
		ControlContext: d.control,
	}
	return d, nil
}

// unmap turns a network of IPv4 addresses in IPv6 form into IPv4 form, in which addresses are compared.
func unmap(network netip.Prefix) netip.Prefix {
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network
}

// DialContext makes a connection, for [http.Transport]. A [*ForbiddenError] says that the address must not be called.
// Then nothing was sent to it, not even the first packet of a connection.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, &ForbiddenError{address, reasonNetwork}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// What needs no lookup is checked even where the machine can't connect to any address of its family.
	if err := checkHost(host, d.allow); err != nil {
		return nil, err
	}
	return d.dialer.DialContext(ctx, network, address)
}

// control is called with each address after its name was looked up, right before the system connects to it.
func (d *Dialer) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &ForbiddenError{address, reasonSpecial}
	}
	return check(target.Addr(), d.allow)
}

// maxURL is how long a target may be, in bytes.
const maxURL = 2048

// CheckURL refuses targets that can't be right. A target must be an http or https URL without credentials, and its host
// one that may be dialled. CheckURL looks up nothing. Its errors follow the name of a field, and repeat nothing of the
// URL but its host.
func (d *Dialer) CheckURL(raw string) error {
	switch {
	case raw == "":
		return errors.New("is required: the URL to call")
	case len(raw) > maxURL:
		return fmt.Errorf("may have at most %d bytes, has %d", maxURL, len(raw))
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }):
		// Letters beyond ASCII have look-alikes that are turned into digits and dots on the way to the resolver.
		return errors.New("may hold only ASCII characters without spaces: write the host as xn--… and the rest as %XX")
	}
	target, err := url.Parse(raw)
	if err != nil {
		return errors.New("is not a URL") // the parser's error repeats the URL
	}
	switch {
	case target.Scheme != "http" && target.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case target.User != nil:
		return errors.New("must not hold credentials before its host")
	case target.Hostname() == "":
		return errors.New("has no host")
	}
	if port := target.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("must have a port from 1 to 65535")
		}
	}
	return checkHost(target.Hostname(), d.allow)
}
