// Package egress guards connections to targets that come from input. What counts is the address that is really dialled,
// judged at that moment, so that a name that changes what it resolves to (DNS rebinding) gains nothing; a check of the
// target's text, at accept, only tells producers early.
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
	// Timeout bounds the making of a connection. Defaults to 5 s.
	Timeout time.Duration
	// Resolver of names. Defaults to the system's.
	Resolver *net.Resolver
}

// Dialer connects to public addresses and to those allowed, by TCP only.
type Dialer struct {
	allow  []netip.Prefix
	dialer net.Dialer
}

// New makes a Dialer.
func New(cfg Config) *Dialer {
	d := &Dialer{allow: cfg.Allow}
	d.dialer = net.Dialer{Timeout: cmp.Or(cfg.Timeout, 5*time.Second), Resolver: cfg.Resolver, ControlContext: d.control}
	return d
}

// DialContext makes a connection, for [http.Transport]. A [*ForbiddenError] says that the address must not be called.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dialer.DialContext(ctx, network, address)
}

// control is called with each address after its name was resolved, right before the system connects to it.
func (d *Dialer) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &ForbiddenError{network + " " + address}
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &ForbiddenError{address}
	}
	return check(target.Addr(), d.allow)
}

// maxURL is how long a target may be.
const maxURL = 2048

// CheckURL tells whether a target can be right: an http or https URL with a host, no credentials, and, where the host is an
// address in any spelling that some resolver accepts, one that may be dialled.
func (d *Dialer) CheckURL(raw string) error {
	if raw == "" {
		return errors.New("is required: the URL to call")
	}
	if len(raw) > maxURL {
		return fmt.Errorf("may have at most %d characters", maxURL)
	}
	target, err := url.Parse(raw)
	if err != nil {
		return errors.New("is no URL") // the parser's own words repeat the URL
	}
	switch {
	case target.Scheme != "http" && target.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case target.Opaque != "" || target.Hostname() == "":
		return errors.New("has no host")
	case target.User != nil:
		return errors.New("must not hold credentials")
	}
	if port := target.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("has a port that is none")
		}
	}
	return d.checkHost(target.Hostname())
}

func (d *Dialer) checkHost(host string) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return check(address, d.allow)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return check(netip.AddrFrom4([4]byte{127, 0, 0, 1}), d.allow)
	}
	if address, ok := looseIPv4(name); ok {
		return check(address, d.allow)
	}
	if strings.ContainsAny(name, " %\\<>^`{|}[]") || name == "" {
		return errors.New("has a host that is none")
	}
	return nil
}

// looseIPv4 reads what the C library's inet_aton takes for an IPv4 address: one to four parts, decimal, octal (0…) or
// hexadecimal (0x…), the last one filling what is left. A host that ends in a number is an address or nothing.
func looseIPv4(name string) (netip.Addr, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 33)
		if octal := len(part) > 1 && part[0] == '0' && strings.Trim(part, "01234567") == ""; octal {
			n, err = strconv.ParseUint(part, 8, 33)
		}
		if err != nil || strings.Contains(part, "_") || strings.ContainsAny(part, "oObB") && !strings.HasPrefix(part, "0x") {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}
