package egress

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	maxName  = 253 // characters of a name, without its last dot
	maxLabel = 63  // characters between two dots
)

// errHost says that a host is neither a name nor an address.
var errHost = errors.New("has a host that is neither a name nor an address")

// checkHost refuses a host as far as its text shows that it must not be dialled. A name passes, since its address is
// known only when it is dialled.
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
		return checkLoose(labels, allow)
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

// checkLoose refuses forbidden IPv4 addresses in unusual spellings that resolvers accept. Some resolvers read a part
// with a leading zero as octal, as the C library does, and some as decimal. Both addresses have to be permitted.
func checkLoose(parts []string, allow []netip.Prefix) error {
	for _, zeroBase := range []int{8, 10} {
		address, ok := parseLoose(parts, zeroBase)
		if !ok {
			return errHost
		}
		if err := check(address, allow); err != nil {
			return err
		}
	}
	return nil
}

// parseLoose reads one to four parts. The last part fills the bytes that the others leave of the four.
func parseLoose(parts []string, zeroBase int) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		n, ok := parsePart(part, zeroBase)
		if !ok || n >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// parsePart reads a number: hexadecimal after 0x, in the given base after 0, else decimal.
func parsePart(part string, zeroBase int) (uint64, bool) {
	base := 10
	if digits, hex := strings.CutPrefix(part, "0x"); hex {
		part, base = "0"+digits, 16
	} else if part[0] == '0' {
		base = zeroBase
	}
	n, err := strconv.ParseUint(part, base, 64)
	return n, err == nil
}
