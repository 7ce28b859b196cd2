package main

// The time zones are part of the program: its image holds nothing else, and a zone that only some machines know would
// be refused on the others.
import _ "time/tzdata"
