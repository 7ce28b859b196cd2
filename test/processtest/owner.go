package processtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Owner is the user that a server runs as when it refuses to run as root. A nil Owner is whoever runs the tests.
type Owner struct {
	name     string
	uid, gid uint32
}

// NotRoot gives nil unless the tests run as root; then the first of the named users that the machine has.
func NotRoot(names ...string) (*Owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nobody else: no owner, no fault
	}
	for _, name := range names {
		known, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(known.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read the number of user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(known.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read the group of user %s: %w", name, err)
		}
		return &Owner{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("the tests run as root and the machine has none of the users %v to run the server as", names)
}

// Give makes a file or directory the owner's.
func (o *Owner) Give(path string) error {
	if o == nil {
		return nil
	}
	if err := os.Chown(path, int(o.uid), int(o.gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, o.name, err)
	}
	return nil
}

// attributes of a process that dies with this one, run as the owner.
func (o *Owner) attributes() *syscall.SysProcAttr {
	attributes := dieWithParent()
	if o != nil {
		attributes.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	return attributes
}
