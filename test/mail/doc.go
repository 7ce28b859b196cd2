// Package mail has tests of e-mail against a real mail server: Postfix, as a process of its own, with its queue and its
// configuration in a temporary folder. What pacer sends is read back where it is delivered, and what Postfix returns
// goes through its pipe to the dispatcher.
package mail
