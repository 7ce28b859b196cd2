package redistest

import "time"

// AwaitReplica waits until a replica has everything that was written to the server so far, by whomever.
//
// WAIT counts the replicas that have what its own connection wrote. A connection that wrote nothing is told of replicas
// that are still behind, so this one writes, and deletes what it wrote.
func (s *Server) AwaitReplica() {
	tb := s.TB
	tb.Helper()
	conn := s.Client(tb).Conn()
	defer func() { _ = conn.Close() }() // its replies have come
	const mark = "redistest:mark"
	if err := conn.Set(tb.Context(), mark, "", 0).Err(); err != nil {
		tb.Fatalf("write the mark: %v", err)
	}
	if err := conn.Del(tb.Context(), mark).Err(); err != nil {
		tb.Fatalf("delete the mark: %v", err)
	}
	if n, err := conn.Wait(tb.Context(), 1, time.Minute).Result(); n != 1 || err != nil {
		tb.Fatalf("%d replicas have everything, want one: %v", n, err)
	}
}
