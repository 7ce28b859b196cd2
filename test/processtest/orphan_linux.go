package processtest

import "syscall"

// dieWithParent has the kernel kill the child when this process dies, be it by a panic or by SIGKILL.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
