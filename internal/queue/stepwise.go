package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Stepwise works the lanes as a [Server] does, with the same scripts, but only when it is told to: for tests of whole
// deployments, in which somebody else decides what happens when.
type Stepwise struct {
	conn  redis.UniversalClient
	lanes []*lane
}

// NewStepwise makes one on a connection that stays the caller's.
func NewStepwise(conn redis.UniversalClient, lanes int, log *slog.Logger) *Stepwise {
	s := &Stepwise{conn: conn}
	for number := range lanes {
		s.lanes = append(s.lanes, newLane(conn, number, 1, nil, log))
	}
	return s
}

// Pull takes up to n ticks off a lane. The error is the first of them that is none of ours; it is archived.
func (s *Stepwise) Pull(ctx context.Context, lane, n int) ([]dispatch.Tick, error) {
	l := s.lanes[lane]
	tasks, err := l.fetch(ctx, n)
	if err != nil {
		return nil, err
	}
	var ticks []dispatch.Tick
	var faults []error
	for _, t := range tasks {
		tick, err := decodeTask(t, lane)
		if err != nil {
			l.putAside(ctx, t, err)
			faults = append(faults, err)
			continue
		}
		ticks = append(ticks, tick)
	}
	return ticks, errors.Join(faults...)
}

// End acknowledges a tick whose handler ended with an error or none, until Redis has answered or ctx has ended.
func (s *Stepwise) End(ctx context.Context, lane int, id string, err error) {
	s.lanes[lane].finish(ctx, []ending{endingOf(id, err, time.Now())})
}

// Forward moves ticks whose time has come into the queues.
func (s *Stepwise) Forward(ctx context.Context) error {
	now := time.Now()
	var faults []error
	for _, l := range s.lanes { // each by itself, as on Redis Cluster
		faults = append(faults, forwardScript.Run(ctx, s.conn, l.keys, now.Unix(), now.UnixNano()).Err())
	}
	return errors.Join(faults...)
}
