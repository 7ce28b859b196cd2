// Package hosts decides under which host names a listener serves requests. A web page can point its own name at any
// address, even this machine's loopback address. Then the browser takes page and listener for one origin (DNS
// rebinding). So a listener without tokens serves requests only under names that such a page cannot have: those of this
// machine, and those that the settings allow. Requests to a plain address are allowed too, since no page can have an
// address for its name.
package hosts

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// Any allows every name.
const Any = "*"

// Allowed are the hosts under which a listener serves requests.
type Allowed struct {
	// loopback: the listener is reached from this machine only, so among addresses only loopback ones are its own.
	loopback bool
	any      bool
	names    map[string]bool
	suffixes []string // of the form .example.com
}

// New allows the hosts of a listener on this address, and these names: pacer.example.com, *.example.com for all names
// below it, or [Any].
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

// Has reports whether the listener serves requests with this Host. Requests without a Host do not come from browsers.
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

// canonical is the form in which names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Check refuses a name that can't be given to [New]. The error follows the name of the setting.
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
