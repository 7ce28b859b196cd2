package processtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// dirPrefix begins the name of every directory that [NewDir] makes, so that a later process recognises it.
const dirPrefix = "pacertest-"

// removeAbandonedOnce removes what earlier processes left behind, once in the life of this process.
var removeAbandonedOnce sync.Once

// Dir is a directory in the system's temporary directory, or in memory, that lasts no longer than it is needed. When
// the process is killed before it calls Remove, the next process that makes a Dir removes this one too.
//
// A lock on the directory reports whether its process still lives. The kernel holds the lock for the process and drops
// it when the process ends, however it ends. A process number in a file could not tell: numbers are used again, and
// every container counts its own.
type Dir struct {
	Path string
	lock *os.File
}

// NewDir makes an empty directory whose name contains name.
func NewDir(name string) (*Dir, error) { return newDir("", name) }

// newDir makes it below parent, or in the system's temporary directory when parent is empty.
func newDir(parent, name string) (*Dir, error) {
	removeAbandonedOnce.Do(func() {
		removeAbandoned(os.TempDir())
		removeAbandoned(memory)
	})
	for {
		path, err := os.MkdirTemp(parent, dirPrefix+name+"-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for %s: %w", name, err)
		}
		lock, err := lockDir(path, syscall.LOCK_EX)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// Another process took the directory for abandoned in the moment before it was locked.
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock the directory of %s: %w", name, err), os.Remove(path))
		default:
			return &Dir{Path: path, lock: lock}, nil
		}
	}
}

// Remove deletes the directory with all that is in it.
func (d *Dir) Remove() error {
	if err := errors.Join(os.RemoveAll(d.Path), d.lock.Close()); err != nil {
		return fmt.Errorf("remove a test's directory: %w", err)
	}
	return nil
}

// removeAbandoned deletes the directories of dead processes below parent. It leaves what it may not open, which belongs
// to another user, and what still changes because a dying server writes to it: a later process tries again.
func removeAbandoned(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*")) // a constant pattern
	for _, path := range paths {
		lock, err := lockDir(path, syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue // its process lives
		}
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}
}

// lockDir locks a directory as flock(2) does. The error is fs.ErrNotExist when another process removed it first.
func lockDir(path string, how int) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), how); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	// The one who held the lock may have removed the directory before letting go.
	if _, err := os.Lstat(path); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
