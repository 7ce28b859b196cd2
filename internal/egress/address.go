package egress

import "net/netip"

// special are the networks that are not the public Internet, or that lead to other ones: IANA's registries of
// special-purpose IPv4 and IPv6 addresses, the obsolete ones that some systems still route, and public addresses at
// which a cloud serves its own machines. Other clouds' metadata services have special addresses: 100.100.100.200
// (Alibaba), 192.0.0.192 (Oracle), fd00:ec2::254 (AWS), fd20:ce::254 (Google), fd00:42::42 (Scaleway).
var special = parseAll(
	"0.0.0.0/8",         // this network; Linux takes 0.0.0.0 for the machine itself
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // between a provider and its customers
	"127.0.0.0/8",       // loopback
	"161.26.0.0/16",     // IBM Cloud's services, as seen from inside
	"166.8.0.0/14",      // the same
	"168.63.129.16/32",  // Azure's machines: DHCP, names, and the keys and scripts that they are given
	"169.254.0.0/16",    // link-local, with the metadata services of most clouds
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments
	"192.0.2.0/24",      // documentation
	"192.31.196.0/24",   // AS112
	"192.52.193.0/24",   // AMT
	"192.88.99.0/24",    // 6to4 relays
	"192.168.0.0/16",    // private
	"192.175.48.0/24",   // AS112
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, and broadcast
	"2001::/23",         // protocol assignments: Teredo, ORCHID, benchmarks, AMT
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4: leads to any IPv4 address
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

var (
	// global is all of IPv6 that has been given out to the public. What lies outside is loopback, private, link-local,
	// multicast, some way of writing an IPv4 address, or not in use.
	global = netip.MustParsePrefix("2000::/3")
	// nat64 leads to the IPv4 address in its last four bytes, and that one counts.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
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
	// Address is the address that was checked: an IP address, or the text in its place.
	Address string
	// Reason says what is wrong with it.
	Reason string
}

// Error names the address and what is wrong with it.
func (e *ForbiddenError) Error() string { return "address " + e.Address + " " + e.Reason }

// Reasons of a ForbiddenError.
const (
	reasonSpecial  = "is not public; to call it, put its network into --webhook-allow (PACER_WEBHOOK_ALLOW)"
	reasonZone     = "must not name a zone"
	reasonNetwork  = "may be dialled by tcp only"
	reasonNumber   = "is neither a name nor an IP address; write IPv4 as four decimal numbers, such as 203.0.113.7"
	reasonReserved = "can't work: names under its top-level domain are reserved, and never have an address"
)

// check refuses an address that must not be dialled.
func check(address netip.Addr, allow []netip.Prefix) error {
	switch {
	case address.Zone() != "":
		return &ForbiddenError{address.String(), reasonZone}
	case !permitted(address.Unmap(), allow):
		return &ForbiddenError{address.String(), reasonSpecial}
	}
	return nil
}

func permitted(address netip.Addr, allow []netip.Prefix) bool {
	if contains(allow, address) {
		return true
	}
	if nat64.Contains(address) {
		bytes := address.As16()
		return permitted(netip.AddrFrom4([4]byte(bytes[12:])), allow)
	}
	return (address.Is4() || global.Contains(address)) && !contains(special, address)
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
