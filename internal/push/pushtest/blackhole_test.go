package pushtest_test

import (
	"io"
	"net"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// A test whose client keeps a connection open ends all the same, and the connection with it.
//
//nolint:tparallel // the test looks at what the subtest leaves
func TestBlackholeEndsWithItsTest(t *testing.T) {
	t.Parallel()
	server := listen(t)
	var conn net.Conn
	if !t.Run("Swallowed", func(t *testing.T) {
		hole := pushtest.NewBlackhole(t, server.Addr().String())
		var err error
		if conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", hole.Address()); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the echo: the connection is through
			t.Fatal(err)
		}
		hole.Swallow()
	}) {
		return
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("something came through a connection that was swallowed")
	}
}

// listen starts a server that echoes whatever it is sent.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	tb.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn)
	}()
	return listener
}
