package queue

import (
	"fmt"
	"strconv"
	"strings"
)

// PartitionName names a partition's queue. As the hash tag of all keys of the partition it keeps them on one shard.
func PartitionName(partition int) string { return partitionName + strconv.Itoa(partition) }

// PartitionKeys are the keys that a script of a partition names: the prefix of all keys that it touches, and a second
// one. Neither is ever written. While Redis Cluster moves the partition's hash slot, each server has some of the keys;
// a script that names two missing keys is refused then (TRYAGAIN), while one that names a single key would run on half
// of the partition.
func PartitionKeys(prefix string) []string { return []string{prefix, prefix + "whole"} }

// PartitionOfName reads a partition's number back from its name.
func PartitionOfName(name string) (int, error) {
	partition, err := strconv.Atoi(strings.TrimPrefix(name, partitionName))
	if err != nil || PartitionName(partition) != name {
		return 0, fmt.Errorf("%q names no partition", name)
	}
	return partition, nil
}

const partitionName = "push-"
