package httpsend

import (
	"net/netip"
	"net/url"
	"strings"
)

// HostOf returns the host of a URL, or an empty text when the target is no URL. A port is no host of its own: whoever
// has a name has all of its ports, and a machine that hangs mostly hangs on all of them. Only where a host is not a
// public one, its ports tell the services of one machine apart.
func HostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	address, err := netip.ParseAddr(name)
	switch {
	case err == nil && (address.IsLoopback() || address.IsPrivate()), err != nil && !strings.Contains(name, "."):
		return strings.ToLower(u.Host)
	}
	return name
}
