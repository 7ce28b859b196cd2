package settings

import (
	"testing"
)

func TestHostsAreOwnNamesAndAddresses(t *testing.T) {
	t.Parallel()
	const loopback, all, named = "127.0.0.1:8080", ":8080", "pacer.example:8080"
	for _, c := range []struct {
		name, listen, host string
		names              []string
		want               bool
	}{
		{name: "loopback address and port", listen: loopback, host: "127.0.0.1:8080", want: true},
		{name: "loopback address alone", listen: loopback, host: "127.0.0.1", want: true},
		{name: "another loopback address", listen: loopback, host: "127.9.9.9:1", want: true},
		{name: "localhost", listen: loopback, host: "localhost:8080", want: true},
		{name: "localhost in capitals, with a final dot", listen: loopback, host: "LocalHost.:8080", want: true},
		{name: "loopback address of IPv6 and port", listen: loopback, host: "[::1]:8080", want: true},
		{name: "loopback address of IPv6 alone", listen: loopback, host: "[::1]", want: true},
		{name: "loopback address of IPv4 in IPv6", listen: loopback, host: "[::ffff:127.0.0.1]:8080", want: true},
		{name: "no host", listen: loopback, want: true},
		{name: "on the loopback address of IPv6, that address", listen: "[::1]:8080", host: "[::1]:8080", want: true},
		{name: "on localhost, a loopback address", listen: "localhost:8080", host: "127.0.0.1:8080", want: true},
		{name: "foreign name and port", listen: loopback, host: "evil.example:8080"},
		{name: "foreign name alone", listen: loopback, host: "evil.example"},
		{name: "foreign name that begins with localhost", listen: loopback, host: "localhost.evil.example"},
		{name: "foreign name that begins with an address", listen: loopback, host: "127.0.0.1.evil.example"},
		{name: "name below localhost", listen: loopback, host: "evil.localhost"},
		// Some systems take it for this machine.
		{name: "unspecified address", listen: loopback, host: "0.0.0.0:8080"},
		{name: "unspecified address of IPv6", listen: loopback, host: "[::]:8080"},
		{name: "foreign address", listen: loopback, host: "10.0.0.7:8080"},
		{name: "127.0.0.1 as one number", listen: loopback, host: "2130706433"},
		{name: "port alone", listen: loopback, host: ":8080"},
		{name: "half an address", listen: loopback, host: "["},
		{name: "on localhost, a foreign address", listen: "localhost:8080", host: "10.0.0.7"},
		// A probe of Kubernetes asks for the pod's address.
		{name: "on all addresses, one of them", listen: all, host: "10.0.0.7:8080", want: true},
		{name: "on all addresses, one of IPv6", listen: all, host: "[fd00::7]:8080", want: true},
		{name: "on all addresses, localhost", listen: all, host: "localhost:8080", want: true},
		{name: "on 0.0.0.0, an address", listen: "0.0.0.0:8080", host: "10.0.0.7:8080", want: true},
		{name: "on all addresses, a foreign name", listen: all, host: "evil.example:8080"},
		{name: "on a name, that name", listen: named, host: "pacer.example:8080", want: true},
		{name: "on a name, that name in capitals", listen: named, host: "PACER.example", want: true},
		{name: "on a name, a name below it", listen: named, host: "evil.pacer.example"},
		{name: "on a name, an address", listen: named, host: "10.0.0.7", want: true},
		{
			name: "allowed name with a capital and a final dot", listen: all, names: []string{"Pacer.example."},
			host: "pacer.example:443", want: true,
		},
		{name: "name below an allowed one", listen: all, names: []string{"pacer.example"}, host: "x.pacer.example"},
		{
			name: "on loopback, an allowed name", listen: loopback, names: []string{"pacer.example"},
			host: "pacer.example", want: true,
		},
		{
			name: "name below an allowed domain", listen: all, names: []string{"*.example"},
			host: "a.b.example:1", want: true,
		},
		{name: "allowed domain itself", listen: all, names: []string{"*.example"}, host: "example"},
		{name: "nothing before an allowed domain", listen: all, names: []string{"*.example"}, host: ".example"},
		{name: "name that ends like an allowed domain", listen: all, names: []string{"*.example"}, host: "evilexample"},
		{name: "any name, among others", listen: all, names: []string{"a", "*"}, host: "evil.example", want: true},
		{name: "on loopback, any name", listen: loopback, names: []string{"*"}, host: "evil.example", want: true},
		{name: "allowed address", listen: loopback, names: []string{"10.0.0.7"}, host: "10.0.0.7:8080", want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := NewHosts(c.listen, c.names).Has(c.host); got != c.want {
				t.Errorf("listening on %s with %v, asked as %q: %t, want %t", c.listen, c.names, c.host, got, c.want)
			}
		})
	}
}

func TestAllowedHostsAreNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"*": true, "pacer.example.com": true, "*.example.com": true, "pacer": true, "10.0.0.7": true, "fd00::7": true,
		"": false, "*.": false, "a.*.b": false, "http://pacer": false, "pacer:8080": false, "a b": false,
		".example": false, "[::1]": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := checkHost(name); (err == nil) != good {
				t.Errorf("%q: %v", name, err)
			}
		})
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1:8080", "*.example", "[::1%25a]:1")
	f.Fuzz(func(_ *testing.T, listen, name, host string) { NewHosts(listen, []string{name}).Has(host) })
}
