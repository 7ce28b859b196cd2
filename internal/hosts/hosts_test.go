package hosts_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/hosts"
)

func TestAllowed(t *testing.T) {
	t.Parallel()
	const loopback, all, named = "127.0.0.1:8080", ":8080", "pacer.example:8080"
	for _, c := range []struct {
		listen string
		names  []string
		host   string
		want   bool
	}{
		{loopback, nil, "127.0.0.1:8080", true},
		{loopback, nil, "127.0.0.1", true},
		{loopback, nil, "127.9.9.9:1", true},
		{loopback, nil, "localhost:8080", true},
		{loopback, nil, "LocalHost.:8080", true},
		{loopback, nil, "[::1]:8080", true},
		{loopback, nil, "[::1]", true},
		{loopback, nil, "[::ffff:127.0.0.1]:8080", true},
		{loopback, nil, "", true},
		{"[::1]:8080", nil, "[::1]:8080", true},
		{"localhost:8080", nil, "127.0.0.1:8080", true},
		{loopback, nil, "evil.example:8080", false},
		{loopback, nil, "evil.example", false},
		{loopback, nil, "localhost.evil.example", false},
		{loopback, nil, "127.0.0.1.evil.example", false},
		{loopback, nil, "evil.localhost", false},
		{loopback, nil, "0.0.0.0:8080", false}, // what some systems take for this machine
		{loopback, nil, "[::]:8080", false},
		{loopback, nil, "10.0.0.7:8080", false},
		{loopback, nil, "2130706433", false}, // 127.0.0.1 in one number
		{loopback, nil, ":8080", false},
		{loopback, nil, "[", false},
		{"localhost:8080", nil, "10.0.0.7", false},
		{all, nil, "10.0.0.7:8080", true}, // a probe of Kubernetes asks for the pod's address
		{all, nil, "[fd00::7]:8080", true},
		{all, nil, "localhost:8080", true},
		{"0.0.0.0:8080", nil, "10.0.0.7:8080", true},
		{all, nil, "evil.example:8080", false},
		{named, nil, "pacer.example:8080", true},
		{named, nil, "PACER.example", true},
		{named, nil, "evil.pacer.example", false},
		{named, nil, "10.0.0.7", true},
		{all, []string{"Pacer.example."}, "pacer.example:443", true},
		{all, []string{"pacer.example"}, "x.pacer.example", false},
		{loopback, []string{"pacer.example"}, "pacer.example", true},
		{all, []string{"*.example"}, "a.b.example:1", true},
		{all, []string{"*.example"}, "example", false},
		{all, []string{"*.example"}, ".example", false},
		{all, []string{"*.example"}, "evilexample", false},
		{all, []string{"a", "*"}, "evil.example", true},
		{loopback, []string{"*"}, "evil.example", true},
		{loopback, []string{"10.0.0.7"}, "10.0.0.7:8080", true},
	} {
		if got := hosts.New(c.listen, c.names).Has(c.host); got != c.want {
			t.Errorf("listening on %s with %v, asked as %q: %t, want %t", c.listen, c.names, c.host, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"*": true, "pacer.example.com": true, "*.example.com": true, "pacer": true, "10.0.0.7": true, "fd00::7": true,
		"": false, "*.": false, "a.*.b": false, "http://pacer": false, "pacer:8080": false, "a b": false, ".example": false, "[::1]": false,
	} {
		if err := hosts.Check(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzHas(f *testing.F) {
	f.Add("127.0.0.1:8080", "*.example", "[::1%25a]:1")
	f.Fuzz(func(_ *testing.T, listen, name, host string) { hosts.New(listen, []string{name}).Has(host) })
}
