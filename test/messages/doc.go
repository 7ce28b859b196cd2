// Package messages plays what pacer says to people: each transcript under testdata provokes the messages of one
// surface for real, through the API, the programs, settings or SQL. log.txt lists the log messages of the source.
package messages
