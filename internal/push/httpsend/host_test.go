package httpsend_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

func TestAPortIsNoHost(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"https://hooks.example.com/x":       "hooks.example.com",
		"https://Hooks.Example.com:8443/x":  "hooks.example.com",
		"https://hooks.example.com.:8443/x": "hooks.example.com",
		"http://93.184.215.14:8080/":        "93.184.215.14",
		"http://[2606:2800:21f::1]:8080/":   "2606:2800:21f::1",
		"http://127.0.0.1:8080/":            "127.0.0.1:8080",
		"http://10.1.2.3:8080/":             "10.1.2.3:8080",
		"http://[::1]:8080/":                "[::1]:8080",
		"http://receiver:8080/":             "receiver:8080",
		"http://localhost/":                 "localhost",
		"no URL\x7f":                        "",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			if got := httpsend.HostOf(target); got != want {
				t.Errorf("the host is %q, want %q", got, want)
			}
		})
	}
}
