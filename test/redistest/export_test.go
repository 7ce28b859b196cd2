package redistest

// StartUnowned runs a server that no test cleans up after.
func StartUnowned() (*Server, error) {
	in, err := newInstance(nil)
	return &Server{in: in}, err
}
