package keyspace

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Locate finds the partition that knows the notification, or returns [notification.ErrNotFound]. While some of the
// servers are away, it finds what the others know, and can't tell of anything else that it is not there.
func (s *Space) Locate(ctx context.Context, id string) (int, error) {
	locate := s.locateOnCluster
	if s.OneServer {
		locate = s.locateOnServer
	}
	partition, err := locate(ctx, id)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for notification %s: %w", id, err)
	case partition < 0:
		return 0, notification.ErrNotFound
	}
	return partition, nil
}

// locateOnServer asks all partitions in one round trip, and returns −1 when none knows the notification.
func (s *Space) locateOnServer(ctx context.Context, id string) (int, error) {
	pipe := s.Client.Pipeline()
	found := make([]*redis.IntCmd, s.Partitions())
	for partition, prefix := range s.Prefixes() {
		found[partition] = pipe.Exists(ctx, prefix+"n:"+id)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	for partition, cmd := range found {
		if cmd.Val() == 1 {
			return partition, nil
		}
	}
	return -1, nil
}

// locateOnCluster asks each partition by itself, and returns the first that knows the notification: it waits for none
// of the others, since their server may be away. One pipeline would wait for all servers, and fail with any of them.
// The questions that are left end with ctx, or with the driver's time-outs.
func (s *Space) locateOnCluster(ctx context.Context, id string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		partition int
		known     bool
		err       error
	}
	replies := make(chan reply, s.Partitions())
	for partition, prefix := range s.Prefixes() {
		go func() {
			n, err := s.Client.Exists(ctx, prefix+"n:"+id).Result()
			replies <- reply{partition, n == 1, err}
		}()
	}
	var failed error
	for range s.Prefixes() {
		select {
		case r := <-replies:
			if r.known {
				return r.partition, nil
			}
			if r.err != nil {
				failed = r.err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return -1, failed
}
