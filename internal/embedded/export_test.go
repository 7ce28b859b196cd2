package embedded

import (
	"net"
	"time"
)

// Age lets the time of the keys pass, as a sweep does that comes so long after the one before.
func (r *Redis) Age(elapsed time.Duration) { r.age(elapsed) }

// Pipe is a connection in memory.
func Pipe() (client, server net.Conn) { return newPipe() }
