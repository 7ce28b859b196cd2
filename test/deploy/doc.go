// Package deploy holds the tests of the files that put pacer into containers and build it for others:
// docker-compose.yml, Dockerfile, .dockerignore and the workflows. They load the files the way the tools do and state
// what operators rely on: nothing is open to other hosts, nothing is evicted, nothing is cut off while it drains, no
// secret is written down, and nothing of others runs in a workflow that is not pinned. There is no program code.
package deploy
