package postgrestest

import (
	"net/url"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Link makes a piece of network before a database, which a test can make slow, and returns the URL through it.
func Link(tb testing.TB, address string) (link *toxiproxy.Proxy, through string) {
	tb.Helper()
	at, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	link = toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", at.Host)
	if err := link.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(link.Stop)
	at.Host = link.Listen
	return link, at.String()
}
