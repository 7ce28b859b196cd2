package hosts_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/hosts"
)

func TestHasAllowsOwnNamesAndAddresses(t *testing.T) {
	t.Parallel()
	const loopback, all, named = "127.0.0.1:8080", ":8080", "pacer.example:8080"
	for _, c := range []struct {
		listen string
		names  []string
		host   string
		want   bool
	}{
		{listen: loopback, host: "127.0.0.1:8080", want: true},
		{listen: loopback, host: "127.0.0.1", want: true},
		{listen: loopback, host: "127.9.9.9:1", want: true},
		{listen: loopback, host: "localhost:8080", want: true},
		{listen: loopback, host: "LocalHost.:8080", want: true},
		{listen: loopback, host: "[::1]:8080", want: true},
		{listen: loopback, host: "[::1]", want: true},
		{listen: loopback, host: "[::ffff:127.0.0.1]:8080", want: true},
		{listen: loopback, want: true},
		{listen: "[::1]:8080", host: "[::1]:8080", want: true},
		{listen: "localhost:8080", host: "127.0.0.1:8080", want: true},
		{listen: loopback, host: "evil.example:8080"},
		{listen: loopback, host: "evil.example"},
		{listen: loopback, host: "localhost.evil.example"},
		{listen: loopback, host: "127.0.0.1.evil.example"},
		{listen: loopback, host: "evil.localhost"},
		{listen: loopback, host: "0.0.0.0:8080"}, // what some systems take for this machine
		{listen: loopback, host: "[::]:8080"},
		{listen: loopback, host: "10.0.0.7:8080"},
		{listen: loopback, host: "2130706433"}, // 127.0.0.1 in one number
		{listen: loopback, host: ":8080"},
		{listen: loopback, host: "["},
		{listen: "localhost:8080", host: "10.0.0.7"},
		{listen: all, host: "10.0.0.7:8080", want: true}, // a probe of Kubernetes asks for the pod's address
		{listen: all, host: "[fd00::7]:8080", want: true},
		{listen: all, host: "localhost:8080", want: true},
		{listen: "0.0.0.0:8080", host: "10.0.0.7:8080", want: true},
		{listen: all, host: "evil.example:8080"},
		{listen: named, host: "pacer.example:8080", want: true},
		{listen: named, host: "PACER.example", want: true},
		{listen: named, host: "evil.pacer.example"},
		{listen: named, host: "10.0.0.7", want: true},
		{listen: all, names: []string{"Pacer.example."}, host: "pacer.example:443", want: true},
		{listen: all, names: []string{"pacer.example"}, host: "x.pacer.example"},
		{listen: loopback, names: []string{"pacer.example"}, host: "pacer.example", want: true},
		{listen: all, names: []string{"*.example"}, host: "a.b.example:1", want: true},
		{listen: all, names: []string{"*.example"}, host: "example"},
		{listen: all, names: []string{"*.example"}, host: ".example"},
		{listen: all, names: []string{"*.example"}, host: "evilexample"},
		{listen: all, names: []string{"a", "*"}, host: "evil.example", want: true},
		{listen: loopback, names: []string{"*"}, host: "evil.example", want: true},
		{listen: loopback, names: []string{"10.0.0.7"}, host: "10.0.0.7:8080", want: true},
	} {
		if got := hosts.New(c.listen, c.names).Has(c.host); got != c.want {
			t.Errorf("listening on %s with %v, asked as %q: %t, want %t", c.listen, c.names, c.host, got, c.want)
		}
	}
}

func TestCheckRefusesWhatIsNoName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"*": true, "pacer.example.com": true, "*.example.com": true, "pacer": true, "10.0.0.7": true, "fd00::7": true,
		"": false, "*.": false, "a.*.b": false, "http://pacer": false, "pacer:8080": false, "a b": false,
		".example": false, "[::1]": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := hosts.Check(name); (err == nil) != good {
				t.Errorf("%q: %v", name, err)
			}
		})
	}
}

func FuzzHas(f *testing.F) {
	f.Add("127.0.0.1:8080", "*.example", "[::1%25a]:1")
	f.Fuzz(func(_ *testing.T, listen, name, host string) { hosts.New(listen, []string{name}).Has(host) })
}
