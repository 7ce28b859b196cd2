package egress

import (
	"fmt"
	"net/netip"
)

// special are the networks that are not the public Internet, or that stand for such: IANA's registries of special-purpose
// IPv4 and IPv6 addresses, and the obsolete site-local and IPv4-compatible ones.
var special = parseAll(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// Networks whose addresses carry an IPv4 address, which is what counts.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

func parseAll(networks ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		prefixes[i] = netip.MustParsePrefix(network)
	}
	return prefixes
}

// ForbiddenError says that a target must not be called.
type ForbiddenError struct {
	// Address as judged, an IP address or a name.
	Address string
}

// Error names the address.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("address %s is not public and not allowed", e.Address)
}

// check judges the address that would really be spoken to.
func check(address netip.Addr, allow []netip.Prefix) error {
	address = address.Unmap()
	if address.Zone() != "" {
		return &ForbiddenError{address.String()}
	}
	for _, network := range allow {
		if network.Contains(address) {
			return nil
		}
	}
	if inner, carried := carriedIPv4(address); carried {
		if check(inner, allow) != nil {
			return &ForbiddenError{address.String()}
		}
		return nil
	}
	for _, network := range special {
		if network.Contains(address) {
			return &ForbiddenError{address.String()}
		}
	}
	return nil
}

// carriedIPv4 gives the IPv4 address inside a NAT64 or 6to4 address.
func carriedIPv4(address netip.Addr) (netip.Addr, bool) {
	bytes := address.As16()
	switch {
	case nat64.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[12:16])), true
	case sixTo4.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:6])), true
	}
	return netip.Addr{}, false
}
