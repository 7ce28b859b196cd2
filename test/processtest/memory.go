package processtest

import "syscall"

const (
	// memory is where Linux keeps files in memory.
	memory = "/dev/shm"
	// memoryRoom is how many bytes have to be free there. A server that tests share takes some 200 MB, at most 500 MB,
	// and a few packages are tested at once.
	memoryRoom = 2 << 30
	// tmpfs is the type of a file system in memory, see statfs(2).
	tmpfs = 0x01021994
)

// newMemoryDir makes an empty directory in memory if there is room, and else does what [NewDir] does. Postgres makes
// some thousand files for a database, which costs five times as much on a disk.
func newMemoryDir(name string) (*Dir, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < memoryRoom {
		return NewDir(name)
	}
	return newDir(memory, name)
}
