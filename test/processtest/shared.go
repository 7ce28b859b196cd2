package processtest

import (
	"fmt"
	"os"
	"sync"

	"go.uber.org/goleak"
)

// Shared is a server that all tests of a binary have in common. It starts when the first test asks for it and is gone
// after the last.
type Shared struct {
	// Package is the one whose Main a package's TestMain has to call.
	Package string
	// Start runs the server.
	Start func() (*Instance, error)

	mu      sync.Mutex
	running bool // the tests are running
	in      *Instance
}

// Instance is the server.
func (s *Shared) Instance() (*Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil, fmt.Errorf("the shared server of %[1]s needs func TestMain(m *testing.M) { %[1]s.Main(m) }",
			s.Package)
	}
	if s.in == nil {
		in, err := s.Start()
		if err != nil {
			return nil, err
		}
		s.in = in
	}
	return s.in, nil
}

// Around is a test run with the shared server around it.
func (s *Shared) Around(m goleak.TestingM) goleak.TestingM { return run{m: m, shared: s} }

type run struct {
	m      goleak.TestingM
	shared *Shared
}

// Run implements goleak.TestingM: the server is gone before goroutines are counted.
func (r run) Run() int {
	r.shared.begin()
	code := r.m.Run()
	if err := r.shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, err) // No test is left that could be failed.
		return max(code, 1)
	}
	return code
}

func (s *Shared) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
}

// end stops the server when one was started.
func (s *Shared) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.in
	s.running, s.in = false, nil
	if in == nil {
		return nil
	}
	return in.Remove()
}
