package deployment

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/refusal"
)

const (
	// partitionsKey holds how many partitions the deployment has.
	partitionsKey = "pacer:partitions"
	// policyKey holds the text of the policy in force.
	policyKey = "pacer:policy"
)

// AgreeOnPartitions keeps one number of partitions per deployment: the first process writes it, and a process with
// another number is refused.
func AgreeOnPartitions(ctx context.Context, client redis.UniversalClient, partitions int) error {
	if err := client.SetNX(ctx, partitionsKey, partitions, 0).Err(); err != nil {
		return fmt.Errorf("write the number of partitions: %w", err)
	}
	stored, err := Partitions(ctx, client)
	if err != nil {
		return err
	}
	if stored != partitions {
		return refusePartitions(stored, partitions)
	}
	return nil
}

// refusePartitions says that a process has another number of partitions than its deployment.
func refusePartitions(deployed, own int) error {
	return refusal.New("this deployment has %s, but --partitions is %d: every process must use the same number",
		plural.Of(deployed, "partition", "partitions"), own)
}

// Partitions reads the deployment's number of partitions; 0 when no process has started yet.
func Partitions(ctx context.Context, client redis.UniversalClient) (int, error) {
	text, err := client.Get(ctx, partitionsKey).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of partitions: %w", err)
	}
	partitions, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read the number of partitions: %w", err)
	}
	return partitions, nil
}

// PublishPolicy writes the text of the policy in force.
func PublishPolicy(ctx context.Context, client redis.UniversalClient, p *policy.Policy) error {
	if err := client.Set(ctx, policyKey, p.Text, 0).Err(); err != nil {
		return fmt.Errorf("publish the policy: %w", err)
	}
	return nil
}

// Policy reads the policy in force; nil when no dispatcher has started yet.
func Policy(ctx context.Context, client redis.UniversalClient) (*policy.Policy, error) {
	text, err := client.Get(ctx, policyKey).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // none published: no policy, no fault
	}
	if err != nil {
		return nil, fmt.Errorf("read the deployment's policy: %w", err)
	}
	return parsePublished(text)
}

func parsePublished(text string) (*policy.Policy, error) {
	return policy.Parse("the deployment's policy", []byte(text))
}
