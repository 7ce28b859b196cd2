// Package redistest gives tests a real Redis.
//
// A package whose tests need one hands its TestMain over:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// From then on [Client] and [URL] give each test an empty logical database of one server that all tests of the binary
// share. It is started on first use, and after the last test it is stopped and the binary is checked for leaked
// goroutines.
//
// What a logical database does not keep apart (CONFIG, FLUSHALL, publish/subscribe, the script cache, a crash) needs a
// server of its own: [Start]. Such a server can be killed, frozen and restarted while the test runs.
//
// [Mini] gives the in-process engine instead, for tests in a bubble of testing/synctest and for suites that run over
// both engines.
//
// The servers run redis-server from PATH on 127.0.0.1 and on a Unix socket, in a temporary directory, without
// persistence and without eviction. Where there is no redis-server a test fails and says what to install; it is never
// skipped. On Linux the kernel kills the servers when the test binary dies, however it dies.
package redistest
