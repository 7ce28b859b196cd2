package processtest

import (
	"path/filepath"
	"testing"
)

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		info string
		want uint64
	}{
		"a machine": {
			info: "MemTotal:   24684100 kB\nMemFree:   12462 kB\nMemAvailable:   8000000 kB\nBuffers: 1 kB\n",
			want: 8_000_000 << 10,
		},
		"an old kernel": {info: "MemTotal: 24684100 kB\nMemFree: 12462 kB\n"},
		"too large":     {info: "MemAvailable: 99999999999999999999 kB\n"},
		"nothing":       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := availableMemory([]byte(c.info)); got != c.want {
				t.Errorf("%d bytes are available, want %d", got, c.want)
			}
		})
	}
}

// Files are in memory where there is room, and in the system's temporary directory elsewhere: both may be removed.
func TestMemoryDir(t *testing.T) {
	t.Parallel()
	dir, err := newMemoryDir("memory")
	if err != nil {
		t.Fatal(err)
	}
	if inMemory := filepath.Dir(dir.Path) == memory; inMemory && !roomInMemory() {
		t.Errorf("%s is in memory, where there is no room", dir.Path)
	}
	if err := dir.Remove(); err != nil {
		t.Error(err)
	}
}
