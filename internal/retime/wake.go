package retime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
)

// takePart wakes the users of partitions of a pass that nobody else works on.
func (s *Service) takePart(ctx context.Context, known *Progress) (wait time.Duration, err error) {
	if !known.UnderWay() {
		return later, nil
	}
	for ctx.Err() == nil && !s.pressing(ctx) {
		partition, err := claimPartition.Run(ctx, s.cfg.Client, []string{key}, known.pass, s.cfg.Process,
			lease.Microseconds()).Int()
		if err != nil {
			return later, fmt.Errorf("claim a partition to reschedule: %w", err)
		}
		if partition < 0 {
			return soon, nil
		}
		if err := s.wakeAll(ctx, known, partition); err != nil {
			return later, err
		}
	}
	return 0, nil
}

// errOver ends the way over the users of a partition that is not this process's any more, or that it leaves.
var errOver = errors.New("another pass has begun, or has to")

// wakeAll wakes the users of a partition, a page at a time. It leaves the rest for a change: a slow pass may take
// hours, and the other processes wait for this one to be ready.
func (s *Service) wakeAll(ctx context.Context, known *Progress, partition int) error {
	err := outlook.Of(s.cfg.Agendas).EachUser(ctx, partition, func(users []string) error {
		for some := range slices.Chunk(users, page) {
			if s.pressing(ctx) {
				return errOver
			}
			if err := s.cfg.Agendas.Wake(ctx, partition, some...); err != nil {
				return err
			}
			if err := s.note(ctx, known, partition, len(some), false); err != nil {
				return err
			}
			if err := s.pace(ctx, known, partition, len(some)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.note(ctx, known, partition, 0, true)
	}
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// note notes progress; errOver when the partition is another's.
func (s *Service) note(ctx context.Context, known *Progress, partition, users int, last bool) error {
	ours, err := notePage.Run(ctx, s.cfg.Client, []string{key}, known.pass, s.cfg.Process, lease.Microseconds(),
		partition, users, flag(last)).Int()
	if err != nil {
		return fmt.Errorf("note which users of partition %d are rescheduled: %w", partition, err)
	}
	if ours == 0 {
		return errOver
	}
	return nil
}

// pace waits as long as the rate says, and then for the partition to have room, but not for long: its queue may be
// paused.
func (s *Service) pace(ctx context.Context, known *Progress, partition, users int) error {
	wait := time.Duration(users) * time.Second / time.Duration(max(1, known.rate))
	for until := time.Now().Add(crowdedPatience); ; wait = page * time.Second / Rate {
		for wait > 0 { // a slow pace must not lose the partition
			some := min(wait, lease/3)
			select {
			case <-time.After(some):
			case <-s.kicked:
				if s.pressing(ctx) {
					return errOver
				}
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
			if wait -= some; wait > 0 {
				if err := s.note(ctx, known, partition, 0, false); err != nil {
					return err
				}
			}
		}
		pending, err := outlook.Of(s.cfg.Agendas).Pending(ctx, partition)
		if err != nil || pending <= crowded || time.Now().After(until) {
			return err
		}
	}
}
