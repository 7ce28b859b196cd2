// Package hosts decides under which host names a listener answers. A web page can point a name of its own at any
// address, this machine's loopback address included; the browser then takes page and listener for one origin (DNS
// rebinding). So what needs no token answers only under names that such a page cannot have: those of this machine, and
// those that the settings allow. Requests to a plain address are allowed, since no page can have an address for its
// name.
package hosts

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// Any allows every name.
const Any = "*"

// Allowed are the hosts under which a listener may be asked.
type Allowed struct {
	// loopback: the listener can be reached from this machine only, where only its loopback addresses are its own.
	loopback bool
	any      bool
	names    map[string]bool
	suffixes []string // of the form .example.com
}

// New gives those of a listener on an address, and names that it is known by besides: pacer.example.com, *.example.com
// for all below, or [Any].
func New(listen string, names []string) *Allowed {
	a := &Allowed{names: map[string]bool{"localhost": true}}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		host = canonical(host)
		ip, err := netip.ParseAddr(host)
		a.loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
		a.names[host] = true
	}
	for _, name := range names {
		name = canonical(name)
		suffix, below := strings.CutPrefix(name, "*.")
		switch {
		case name == Any:
			a.any = true
		case below:
			a.suffixes = append(a.suffixes, "."+suffix)
		default:
			a.names[name] = true
		}
	}
	return a
}

// Has tells whether the listener may be asked under the Host of a request. A request without any comes from no browser.
func (a *Allowed) Has(host string) bool {
	if a.any || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = canonical(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if a.names[host] {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !a.loopback || ip.Unmap().IsLoopback()
	}
	for _, suffix := range a.suffixes {
		if strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}

// canonical is a name as names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Check refuses what can't be one of the names given to [New]; the error goes on from the name of the setting.
func Check(name string) error {
	plain := strings.TrimPrefix(name, "*.")
	switch {
	case name == Any:
		return nil
	case plain == "" || strings.ContainsAny(plain, "*/@[]? ") || strings.HasPrefix(plain, "."):
		return errors.New("must hold names such as pacer.example.com or *.example.com")
	case strings.Contains(plain, ":"):
		if _, err := netip.ParseAddr(plain); err != nil {
			return errors.New("must hold names without a port")
		}
	}
	return nil
}
