package throttle

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed testdata/virtual.lua
var virtualClock string

// NewRedisOnVirtualClock is NewRedis with the clock that testdata/virtual.lua describes.
func NewRedisOnVirtualClock(client redis.UniversalClient, prefix func(user string) string) *Redis {
	return newRedis(client, prefix, virtualClock)
}

// MemoryCell is one key of Memory as a test sees it.
type MemoryCell struct {
	Name    string
	Entries int
	// Expires is the first moment at which it counts no more.
	Expires Micros
}

// Cells lists what counts still at a moment.
func (m *Memory) Cells(now Micros) []MemoryCell {
	m.mu.Lock()
	defer m.mu.Unlock()
	var cells []MemoryCell
	for name, c := range m.cells {
		if !c.expired(now) {
			key := Key{User: name.user, Category: name.category}
			text := CapKey("", key)
			if !name.isCap {
				text = Plan{Algorithm: name.algorithm}.StateKey("", key)
			}
			cells = append(cells, MemoryCell{
				Name: text, Entries: len(c.times), Expires: Micros(1000 * (c.expires + 1)),
			})
		}
	}
	return cells
}
