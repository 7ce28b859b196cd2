// Package nearest proposes what somebody probably meant who wrote a name that does not exist, and lists what there is:
//
//	"chatt" is not named in the policy; it names chat, default, security (did you mean chat?)
package nearest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// longest is how many characters of a name are compared. What is longer is no slip of the finger.
	longest = 64
	// compared is how many names are compared, so that a request full of unknown names stays cheap.
	compared = 256
	// listed is how many names [List] spells out: all fields of a notification are among them.
	listed = 24
	// prefix is how many characters of a name stand for all of it.
	prefix = 3
)

// Name returns that of the names which is nearest to what was written: the same but for a third of its characters
// (one inserted, left out, replaced, or exchanged with its neighbour counts as one; upper and lower case are alike), or
// else one that it begins. Of two that are equally near it is the first in the alphabet. Without any it is empty.
func Name(written string, names []string) string {
	wanted := []rune(strings.ToLower(written))
	if len(wanted) == 0 || len(wanted) > longest {
		return ""
	}
	found, least, begun := "", len(wanted)/3+1, ""
	for _, name := range first(names, compared) {
		letters := []rune(strings.ToLower(name))
		if len(letters) > longest {
			continue
		}
		if d := distance(wanted, letters); d < least {
			found, least = name, d
		}
		if begun == "" && len(wanted) >= prefix && strings.HasPrefix(string(letters), string(wanted)) {
			begun = name
		}
	}
	if found == "" {
		return begun
	}
	return found
}

// Hint words the nearest [Name] as the end of a message, " (did you mean chat?)"; it is empty without any.
func Hint(written string, names []string) string {
	name := Name(written, names)
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", name)
}

// List lists the names in alphabetical order, "chat, default, security"; of many it lists the first and counts the
// others.
func List(names []string) string {
	all := first(names, len(names))
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:listed], ", "), len(all)-listed)
}

// Quote quotes what was written as Go does, and cuts it when it would fill the message.
func Quote(written string) string {
	if len(written) > longest {
		return strconv.Quote(strings.ToValidUTF8(written[:longest], "")) + "…"
	}
	return strconv.Quote(written)
}

// first returns at most n of the names, each once, in alphabetical order.
func first(names []string, n int) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	return sorted[:min(n, len(sorted))]
}

// distance counts the characters to insert, leave out, replace, or exchange with their neighbour to get from a to b
// (the optimal string alignment of Damerau and Levenshtein).
func distance(a, b []rune) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
