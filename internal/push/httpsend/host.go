package httpsend

import (
	"net/url"
	"strings"
)

// HostOf returns the host of a URL with its port, or an empty text when the target is no URL.
func HostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
