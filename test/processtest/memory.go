package processtest

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
)

const (
	// memory is where Linux keeps files in memory.
	memory = "/dev/shm"
	// memoryRoom is how many bytes have to be free there, and in memory as a whole. A server that tests share takes
	// some 200 MB, at most 500 MB, and a few packages are tested at once.
	memoryRoom = 2 << 30
	// tmpfs is the type of a file system in memory, see statfs(2).
	tmpfs = 0x01021994
)

// newMemoryDir makes an empty directory in memory if there is room, and else does what [NewDir] does. Postgres makes
// some thousand files for a database, which costs five times as much on a disk.
func newMemoryDir(name string) (*Dir, error) {
	if !roomInMemory() {
		return NewDir(name)
	}
	return newDir(memory, name)
}

// roomInMemory reports whether files of a server may be kept in memory.
func roomInMemory() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < memoryRoom {
		return false
	}
	info, err := os.ReadFile("/proc/meminfo")
	return err == nil && availableMemory(info) >= memoryRoom
}

var memAvailable = regexp.MustCompile(`(?m)^MemAvailable: +(\d+) kB$`)

// availableMemory returns how many bytes programs can still get, by the content of /proc/meminfo, or 0.
func availableMemory(info []byte) uint64 {
	found := memAvailable.FindSubmatch(info)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseUint(string(found[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
