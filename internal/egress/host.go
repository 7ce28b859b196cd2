package egress

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
)

const (
	maxName  = 253 // characters of a name, without its last dot
	maxLabel = 63  // characters between two dots
)

// errHost says that a host is neither a name nor an address.
var errHost = errors.New("has a host that is neither a name nor an address")

// unresolved are the top-level domains that no resolver may know: RFC 6761, RFC 7686, RFC 9476. Not among them are
// .test, .local and .internal, which private resolvers may know, and .example, which programs should not treat as
// special.
var unresolved = []string{"invalid", "onion", "alt"}

// checkHost refuses a host as far as its text shows that it must not or can't be dialled. A name passes, since its
// address is known only when it is dialled. An address has only the spelling that the dialer reads: others, such as
// 127.1 or 0x7f000001, would be looked up as names.
func checkHost(host string, allow []netip.Prefix) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return check(address, allow)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case len(name) > maxName || slices.ContainsFunc(labels, isNoLabel):
		return errHost
	case isNumber(last):
		return &ForbiddenError{host, reasonNumber}
	case slices.Contains(unresolved, last):
		return &ForbiddenError{host, reasonReserved}
	case last == "localhost":
		return checkLoopback(host, allow)
	}
	return nil
}

func isNoLabel(label string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_"
	return label == "" || len(label) > maxLabel || strings.Trim(label, allowed) != ""
}

// isNumber reports whether a label is a number. A name that ends in one can only be an address, since no top-level
// domain is a number.
func isNumber(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	if hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// checkLoopback refuses names of the machine itself, unless loopback addresses are allowed.
func checkLoopback(host string, allow []netip.Prefix) error {
	if permitted(netip.AddrFrom4([4]byte{127, 0, 0, 1}), allow) || permitted(netip.IPv6Loopback(), allow) {
		return nil
	}
	return &ForbiddenError{host, reasonSpecial}
}
