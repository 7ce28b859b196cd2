//go:build !linux

package processtest

import "syscall"

// dieWithParent asks for nothing where the kernel has no such service: a server outlives a test binary that is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
