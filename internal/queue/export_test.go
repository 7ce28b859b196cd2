package queue

import "github.com/redis/go-redis/v9"

// Acknowledger makes the connection that asynq's servers see.
func Acknowledger(conn redis.UniversalClient) redis.UniversalClient { return acknowledger{conn} }
