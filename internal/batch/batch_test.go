package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slowly doubles numbers, a second for each batch, and remembers the batches.
type slowly struct{ batches [][]int }

func (s *slowly) double(_ context.Context, requests []int) ([]int, error) {
	<-time.After(time.Second)
	s.batches = append(s.batches, requests)
	results := make([]int, len(requests))
	for i, q := range requests {
		results[i] = 2 * q
	}
	return results, nil
}

// double has each number doubled for a caller of its own, one after the other.
func double(t *testing.T, b *batch.Batcher[int, int], numbers ...int) *sync.WaitGroup {
	t.Helper()
	var callers sync.WaitGroup
	for _, q := range numbers {
		callers.Go(func() {
			if got, err := b.Do(t.Context(), q); got != 2*q || err != nil {
				t.Errorf("%d doubled is %d (%v)", q, got, err)
			}
		})
		synctest.Wait()
	}
	return &callers
}

// The first request runs at once. Those that come meanwhile wait, and run in order, as many in a batch as are allowed.
func TestRequestsThatComeMeanwhileShareABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, s := time.Now(), &slowly{}
		b := batch.New(3, s.double)
		defer b.Close()
		double(t, b, 1, 2, 3, 4, 5, 6, 7, 8).Wait()
		if got, want := fmt.Sprint(s.batches), "[[1] [2 3 4] [5 6 7] [8]]"; got != want {
			t.Errorf("the batches are %s, want %s", got, want)
		}
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("four batches took %s", took)
		}
		double(t, b, 9).Wait()
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("one more, alone, took %s in all", took)
		}
	})
}

// A caller that gives up does not end the batch of the others, even when the batch runs under its context.
func TestCallersThatGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var seen any
		b := batch.New(9, func(ctx context.Context, requests []int) ([]int, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			seen = ctx.Value(key{})
			return requests, nil
		})
		defer b.Close()
		first := make(chan struct{})
		go func() { defer close(first); _, _ = b.Do(t.Context(), 0) }() // keeps the others waiting
		synctest.Wait()
		ctx, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "of the first"))
		gone := make(chan error, 1)
		go func() { _, err := b.Do(ctx, 1); gone <- err }()
		synctest.Wait()
		var callers sync.WaitGroup
		callers.Go(func() {
			if got, err := b.Do(t.Context(), 2); got != 2 || err != nil {
				t.Errorf("the caller that stayed got %d (%v)", got, err)
			}
		})
		<-first
		synctest.Wait() // the second batch is under way
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
		callers.Wait()
		if seen != "of the first" {
			t.Errorf("the batch ran with the value %v", seen)
		}
	})
}

func TestAllCallersGetTheError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("no connection")
		b := batch.New(9, func(context.Context, []int) ([]int, error) {
			<-time.After(time.Second)
			return nil, fault
		})
		var callers sync.WaitGroup
		for q := range 5 {
			callers.Go(func() {
				if _, err := b.Do(t.Context(), q); !errors.Is(err, fault) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		b.Close() // waits for those five
		callers.Wait()
		if _, err := b.Do(t.Context(), 9); !errors.Is(err, batch.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func ExampleBatcher() {
	b := batch.New(100, func(_ context.Context, names []string) ([]int, error) {
		lengths := make([]int, len(names)) // one statement or script for all of them
		for i, name := range names {
			lengths[i] = len(name)
		}
		return lengths, nil
	})
	defer b.Close()
	fmt.Println(b.Do(context.Background(), "ada"))
	// Output: 3 <nil>
}
