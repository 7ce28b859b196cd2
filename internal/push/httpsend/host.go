package httpsend

import (
	"net/url"
	"strings"
)

// HostOf gives the host of a URL, port included; empty for what is no URL.
func HostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
