package app

import "testing"

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:5000":              "192.0.2.7",
		"[::ffff:192.0.2.7]:5000":     "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:5000": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::9]:1":    "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:5000":      "2001:db8:1:3::/64",
		"[fe80::1%eth0]:5000":         "fe80::/64",
		"[::1]:5000":                  "::/64",
		"@":                           "@", // a socket without a name
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}
