package httpapi

import "testing"

func TestAddressOf(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, remote, want string }{
		{name: "IPv4", remote: "192.0.2.7:5000", want: "192.0.2.7"},
		{name: "IPv4 within IPv6", remote: "[::ffff:192.0.2.7]:5000", want: "192.0.2.7"},
		{
			name: "IPv6 counts by its network of 64 bits", remote: "[2001:db8:1:2:3:4:5:6]:5000",
			want: "2001:db8:1:2::/64",
		},
		{name: "another host of that network", remote: "[2001:db8:1:2:ffff::9]:1", want: "2001:db8:1:2::/64"},
		{name: "the network beside it", remote: "[2001:db8:1:3::1]:5000", want: "2001:db8:1:3::/64"},
		{name: "link-local with a zone", remote: "[fe80::1%eth0]:5000", want: "fe80::/64"},
		{name: "loopback", remote: "[::1]:5000", want: "::/64"},
		{name: "a socket without a name", remote: "@", want: "@"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := addressOf(tt.remote); got != tt.want {
				t.Errorf("%s counts as %s, want %s", tt.remote, got, tt.want)
			}
		})
	}
}
