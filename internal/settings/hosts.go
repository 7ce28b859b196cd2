package settings

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// anyHost allows every name.
const anyHost = "*"

// Hosts are the names under which a listener serves requests. A web page can point its own name at any address, even
// this machine's loopback address. Then the browser takes page and listener for one origin (DNS rebinding). So a
// listener without tokens serves requests only under names that such a page cannot have: those of this machine, and
// those that the settings allow. Requests to a plain address are allowed too, since no page can have an address for its
// name.
type Hosts struct {
	// loopback: the listener is reached from this machine only, so among addresses only loopback ones are its own.
	loopback bool
	any      bool
	names    map[string]bool
	suffixes []string // of the form .example.com
}

// NewHosts allows the hosts of a listener on this address, and these names: pacer.example.com, *.example.com for all
// names below it, or * for any.
func NewHosts(listen string, names []string) *Hosts {
	h := &Hosts{names: map[string]bool{"localhost": true}}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		host = canonicalHost(host)
		ip, err := netip.ParseAddr(host)
		h.loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
		h.names[host] = true
	}
	for _, name := range names {
		name = canonicalHost(name)
		suffix, below := strings.CutPrefix(name, "*.")
		switch {
		case name == anyHost:
			h.any = true
		case below:
			h.suffixes = append(h.suffixes, "."+suffix)
		default:
			h.names[name] = true
		}
	}
	return h
}

// Has reports whether the listener serves requests with this Host. Requests without a Host do not come from browsers.
func (h *Hosts) Has(host string) bool {
	if h.any || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = canonicalHost(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if h.names[host] {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !h.loopback || ip.Unmap().IsLoopback()
	}
	for _, suffix := range h.suffixes {
		if strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}

// canonicalHost is the form in which names are compared.
func canonicalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkHost refuses a name that can't be given to [NewHosts]. The error follows the name of the setting.
func checkHost(name string) error {
	plain := strings.TrimPrefix(name, "*.")
	switch {
	case name == anyHost:
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
