// Package postgrestest gives tests real Postgres servers: a database of its own on a shared server, or a whole server
// that can be killed, frozen and restarted.
//
//	func TestMain(m *testing.M) { postgrestest.Main(m) }
//
//	func TestX(t *testing.T) {
//		url := postgrestest.URL(t) // an empty database with the current schema, gone when the test ends
//	}
//
// [Start] gives a server of the test's own, with fsync and synchronous_commit on, for what is said about durability;
// the shared one is fast and forgetful. Both run the postgres of the machine, from PATH or from where Debian keeps it,
// on 127.0.0.1 in a temporary directory. Where there is none a test fails and says what to install; it is never
// skipped. As root, which Postgres refuses, they run as the user postgres or nobody.
package postgrestest
