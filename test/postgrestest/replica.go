package postgrestest

import (
	"errors"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

const (
	// promoteTimeout bounds a promotion on a busy machine.
	promoteTimeout = 90 * time.Second
	// pollInterval is the pause between two looks at a replica that is being promoted.
	pollInterval = 10 * time.Millisecond
)

// StartReplica runs a server that follows another over the network, from a copy of its files, and names itself
// "replica". It returns when the replica responds. Settings are as in Start.
func StartReplica(tb testing.TB, primary *Server, settings ...string) *Server {
	tb.Helper()
	program, err := replica(primary, settings)
	if err != nil {
		tb.Fatal(err)
	}
	return &Server{processtest.Start(tb, program)}
}

// Promote makes a replica a server of its own, which can be written to when this returns.
func (s *Server) Promote() {
	s.TB.Helper()
	s.Exec("SELECT pg_promote(false)")
	deadline := time.Now().Add(promoteTimeout)
	for execute(s.URL(), "CREATE TEMPORARY TABLE promoted ()") != nil {
		if time.Now().After(deadline) {
			s.Check(errors.New("the replica was not promoted within " + promoteTimeout.String()))
			return
		}
		<-time.After(pollInterval)
	}
}
