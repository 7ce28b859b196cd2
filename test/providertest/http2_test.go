package providertest_test

import (
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"golang.org/x/net/http2"

	"github.com/pacer-notify/pacer/test/providertest"
)

// A call may be handled before the server has written its SETTINGS. A caller that reads GOAWAY before them takes it for
// a fault.
func TestGoAwayFollowsSettings(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]bool{"before the server begins": false, "after it has begun": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			written := make(chan struct{})
			t.Cleanup(func() { _ = near.Close(); <-written }) // a writer that nobody reads ends with it
			go func() {
				defer close(written)
				server := providertest.NewHTTP2Conn(far)
				defer server.Close()
				if !begun {
					server.GoAway()
				}
				framer := http2.NewFramer(server, nil)
				if err := framer.WriteSettings(); err != nil {
					t.Error(err)
				}
				if begun {
					server.GoAway()
				}
				if err := framer.WritePing(false, [8]byte{}); err != nil {
					t.Error(err)
				}
			}()
			caller := tls.Client(near, &tls.Config{
				RootCAs: providertest.Roots(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12,
			})
			framer := http2.NewFramer(nil, caller)
			var got []http2.FrameType
			for range 3 {
				frame, err := framer.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, frame.Header().Type)
			}
			if !slices.Equal(got, []http2.FrameType{http2.FrameSettings, http2.FrameGoAway, http2.FramePing}) {
				t.Errorf("the caller reads %v", got)
			}
		})
	}
}
