package retime

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
)

// key holds the latest pass, see [Progress]: a hash with version, pass, began, ended (both µs), everywhere,
// partitions, users, rate; and for each partition that somebody has begun c<i>, "process until" or "done", and d<i>,
// how many users of it are done.
const key = "pacer:{retime}"

// Progress is how far the latest pass over the users is.
type Progress struct {
	// Version is the policy that what waits is decided by; empty when there was no pass yet.
	Version string `json:"version"`
	// Users is for how many something waited when the pass began, Done how many of them have been woken.
	Users int       `json:"users"`
	Done  int       `json:"done"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Everywhere is true when every process had the policy as the pass began.
	Everywhere bool `json:"everywhere"`

	pass int // counts the passes; 0 when there was none
	rate int // users per second and process
}

// UnderWay reports whether the pass has begun and not ended.
func (p *Progress) UnderWay() bool { return p.pass > 0 && p.Ended.IsZero() }

// Left is how many users have not been woken yet; 0 once the pass has ended.
func (p *Progress) Left() int {
	if !p.Ended.IsZero() {
		return 0
	}
	return p.Users - p.Done
}

// Read reports how far the latest pass is.
func Read(ctx context.Context, client redis.Cmdable) (Progress, error) {
	fields, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return Progress{}, fmt.Errorf("read the progress of the policy change: %w", err)
	}
	number := func(name string) int { n, _ := strconv.Atoi(fields[name]); return n } // absent means 0
	moment := func(name string) time.Time {
		if n := number(name); n > 0 {
			return time.UnixMicro(int64(n)).UTC()
		}
		return time.Time{}
	}
	p := Progress{
		Version: fields["version"], Users: number("users"), Began: moment("began"), Ended: moment("ended"),
		Everywhere: fields["everywhere"] == "1", pass: number("pass"), rate: number("rate"),
	}
	for partition := range number("partitions") {
		p.Done += number("d" + strconv.Itoa(partition))
	}
	p.Done = min(p.Done, p.Users) // users who began to wait meanwhile are woken too
	return p, nil
}

// beginPass begins a pass, unless another process has begun one since.
//
// KEYS[1] the hash; ARGV[1] how many passes there were; ARGV[2] version; ARGV[3] 1: every process has it; ARGV[4]
// partitions; ARGV[5] users; ARGV[6] rate; ARGV[7] 1: nobody is to be woken
// Result  1 when it was begun.
var beginPass = script.NewWhenFull(`
if tonumber(redis.call('HGET', KEYS[1], 'pass') or 0) ~= tonumber(ARGV[1]) then return 0 end
local clock = redis.call('TIME')
local now = clock[1] .. string.format('%06d', clock[2])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'pass', string.format('%d', ARGV[1] + 1), 'version', ARGV[2], 'everywhere', ARGV[3],
  'partitions', ARGV[4], 'users', ARGV[5], 'rate', ARGV[6], 'began', now)
if ARGV[7] == '1' then redis.call('HSET', KEYS[1], 'ended', now) end
return 1`)

// renameVersion has what was decided by one version count as decided by another, whose limits are the same.
//
// KEYS[1] the hash; ARGV[1] one version; ARGV[2] the other.
var renameVersion = script.NewWhenFull(`
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2])
return 1`)

// claimPartition gives a process a partition of a pass that nobody works on: nobody began it, or whoever did died,
// or the process itself left it. It works on one at a time.
//
// KEYS[1] the hash; ARGV[1] pass; ARGV[2] process; ARGV[3] for how long in µs
// Result  the partition; -1 when there is none.
var claimPartition = script.NewWhenFull(`
if redis.call('HGET', KEYS[1], 'pass') ~= ARGV[1] then return -1 end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
for i = 0, tonumber(redis.call('HGET', KEYS[1], 'partitions')) - 1 do
  local claim = redis.call('HGET', KEYS[1], 'c' .. i)
  local holder, till = string.match(claim or '', '^(.*) (%d+)$')
  if not claim or holder == ARGV[2] or till and tonumber(till) < now then
    redis.call('HSET', KEYS[1], 'c' .. i, ARGV[2] .. ' ' .. string.format('%d', now + ARGV[3]), 'd' .. i, '0')
    return i
  end
end
return -1`)

// notePage notes that a process has woken some more users of its partition, and keeps the partition its own.
//
// KEYS[1] the hash; ARGV[1] pass; ARGV[2] process; ARGV[3] for how long in µs; ARGV[4] partition; ARGV[5] users;
// ARGV[6] 1: these were the last
// Result  1 when the partition is the process's.
var notePage = script.NewWhenFull(`
local field = 'c' .. ARGV[4]
local claim = redis.call('HGET', KEYS[1], field)
if redis.call('HGET', KEYS[1], 'pass') ~= ARGV[1] or not claim or string.match(claim, '^(.*) %d+$') ~= ARGV[2] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'd' .. ARGV[4], ARGV[5])
local clock = redis.call('TIME')
if ARGV[6] ~= '1' then
  redis.call('HSET', KEYS[1], field, ARGV[2] .. ' ' .. string.format('%d', clock[1] * 1000000 + clock[2] + ARGV[3]))
  return 1
end
redis.call('HSET', KEYS[1], field, 'done')
for i = 0, tonumber(redis.call('HGET', KEYS[1], 'partitions')) - 1 do
  if redis.call('HGET', KEYS[1], 'c' .. i) ~= 'done' then return 1 end
end
redis.call('HSET', KEYS[1], 'ended', clock[1] .. string.format('%06d', clock[2]))
return 1`)
