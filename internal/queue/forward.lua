-- forward moves tasks whose time has come into their queues, as asynq's forwarder does for one queue.
--
-- KEYS     per queue: asynq's keys of it begin with this; a second one, see LaneKeys
-- ARGV[1]  seconds since the epoch
--
-- Result   how many
local moved = 0
local clock = redis.call('TIME')
local now = clock[1] .. string.format('%06d', clock[2]) .. '000' -- ns, on the clock by which the lists go
for i = 1, #KEYS, 2 do
  local lane = KEYS[i]
  for _, place in ipairs({ 'scheduled', 'retry' }) do
    local due = redis.call('ZRANGEBYSCORE', lane .. place, '-inf', ARGV[1], 'LIMIT', 0, 500)
    if #due > 0 then
      redis.call('ZREM', lane .. place, unpack(due))
      redis.call('LPUSH', lane .. 'pending', unpack(due))
      for _, id in ipairs(due) do
        redis.call('HSET', lane .. 't:' .. id, 'state', 'pending', 'pending_since', now)
      end
      moved = moved + #due
    end
  end
end
return moved
