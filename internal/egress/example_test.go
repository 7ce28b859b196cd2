package egress_test

import (
	"fmt"
	"net/netip"

	"github.com/pacer-notify/pacer/internal/egress"
)

// Targets that come from input must be public, unless their network is allowed (--webhook-allow).
func ExampleDialer_CheckURL() {
	dialer, err := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, target := range []string{
		"https://example.com/hook", "http://10.1.2.3/hook", "http://10.2.0.1/hook", "http://0x7f.1/",
		"ftp://example.com/",
	} {
		if err := dialer.CheckURL(target); err != nil {
			fmt.Printf("%s\n  %v\n", target, err)
			continue
		}
		fmt.Println(target, "may be called")
	}
	// Output:
	// https://example.com/hook may be called
	// http://10.1.2.3/hook may be called
	// http://10.2.0.1/hook
	//   address 10.2.0.1 is not public; to call it, put its network into --webhook-allow (PACER_WEBHOOK_ALLOW)
	// http://0x7f.1/
	//   address 0x7f.1 is neither a name nor an IP address; write IPv4 as four decimal numbers, such as 203.0.113.7
	// ftp://example.com/
	//   must begin with http:// or https://
}
