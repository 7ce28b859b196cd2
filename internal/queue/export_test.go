package queue

// Sources are the package's scripts.
func Sources() []string {
	return []string{fetchSource, finishSource, archiveSource, givebackSource, forwardSource, enqueueSource}
}
