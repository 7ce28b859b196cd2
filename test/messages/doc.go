// Package messages is the table of what pacer says to people: each row provokes a message for real, through the API,
// the programs, settings, files or logs, and compares it word by word. A message says what happened, with which value,
// what is allowed, what to do, and in which setting.
package messages
