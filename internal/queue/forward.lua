-- forward moves due tasks into their queues, as asynq's forwarder does for one queue: the earliest of each queue, up to
-- a number in all. The server's clock says what is due, as it did when the task was scheduled.
--
-- KEYS     per queue: the prefix of asynq's keys of it, and a second key, see PartitionKeys
-- ARGV[1]  how many tasks to move at most
-- ARGV[2]  1 to tell processes that have nothing to do of a list that is no longer empty, see wakeup.lua
--
-- Result   {how many tasks were moved, the part of the present second that has passed in µs}
local left = tonumber(ARGV[1])
local clock = redis.call('TIME')
local now = clock[1] .. string.format('%06d', clock[2]) .. '000' -- ns, on the clock that orders the lists
for _, place in ipairs({ 'scheduled', 'retry' }) do
  local places = {}
  for i = 1, #KEYS, 2 do places[#places + 1] = KEYS[i] .. place end
  if redis.call('EXISTS', unpack(places)) == 0 then places = {} end -- one look instead of one each
  for i, from in ipairs(places) do
    local due = left > 0 and redis.call('ZRANGEBYSCORE', from, '-inf', clock[1], 'LIMIT', '0', left) or {}
    if #due > 0 then
      local partition = KEYS[2 * i - 1]
      redis.call('ZREM', from, unpack(due))
      local pending = redis.call('LPUSH', partition .. 'pending', unpack(due))
      if ARGV[2] == '1' and pending == #due then redis.pcall('PUBLISH', 'asynq:pacer:pending', '') end
      for _, id in ipairs(due) do
        redis.call('HSET', partition .. 't:' .. id, 'state', 'pending', 'pending_since', now)
      end
      left = left - #due
    end
  end
end
return { ARGV[1] - left, tonumber(clock[2]) }
