// Package deploy holds the tests of the files that put pacer into containers: docker-compose.yml, Dockerfile and
// .dockerignore. They load the files the way the tools do and state what operators rely on: nothing is open to other
// hosts, nothing is evicted, nothing is cut off while it drains, no secret is written down. There is no program code.
package deploy
