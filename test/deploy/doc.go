// Package deploy holds the tests of the files around the code.
//
// Some of these files put pacer into containers and build it for others: docker-compose.yml, Dockerfile, .dockerignore
// and the workflows. The tests load them the way the tools do and state what operators rely on: nothing is open to
// other hosts, nothing is evicted, nothing is cut off while it drains, no secret is written down, and no workflow runs
// a foreign action that is not pinned.
//
// Others are for readers: the words are those of the glossary, and ARCHITECTURE.md names what there is.
//
// There is no program code.
package deploy
