package retime

import (
	"context"
	"time"
)

// Start and Step are what Run does.
func (s *Service) Start(ctx context.Context) { s.start(ctx) }

// Step is one turn of Run.
func (s *Service) Step(ctx context.Context) (time.Duration, error) { return s.step(ctx) }

// RateOf is the pace of a pass.
var RateOf = rate

// The figures of a pass.
const (
	Key      = key
	Patience = patience
)
