package notification

import "strings"

// Basis is by what a notification was admitted, or is expected to be.
type Basis struct {
	// PolicyVersion names the policy; empty when it is not known.
	PolicyVersion string
	// Zone is the user's time zone, where closed hours or calendar days depended on it; otherwise empty.
	Zone string
}

// String is the form that stores keep: the version and, after a space, the zone.
func (b Basis) String() string {
	if b.Zone == "" {
		return b.PolicyVersion
	}
	return b.PolicyVersion + " " + b.Zone
}

// ParseBasis reads what [Basis.String] wrote.
func ParseBasis(text string) Basis {
	version, zone, _ := strings.Cut(text, " ")
	return Basis{PolicyVersion: version, Zone: zone}
}
