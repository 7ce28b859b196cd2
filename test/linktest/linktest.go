// Package linktest puts a piece of network before a server, which a test can make slow or break: a proxy of
// Toxiproxy's.
package linktest

import (
	"net/url"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// AnyPort is a link's own address where a test needs no particular one.
const AnyPort = "127.0.0.1:0"

// Start makes a link that listens on an address and leads to another one. It is gone when the test ends.
func Start(tb testing.TB, listen, upstream string) *toxiproxy.Proxy {
	tb.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	link := toxiproxy.NewProxy(server, upstream, listen, upstream)
	if err := link.Start(); err != nil {
		tb.Fatalf("start a link before %s: %v", upstream, err)
	}
	tb.Cleanup(link.Stop)
	return link
}

// URL makes a link before the server of a URL, such as a database's, and returns the URL through it.
func URL(tb testing.TB, server string) (link *toxiproxy.Proxy, through string) {
	tb.Helper()
	at, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("read the server's URL: %v", err)
	}
	link = Start(tb, AnyPort, at.Host)
	at.Host = link.Listen
	return link, at.String()
}
