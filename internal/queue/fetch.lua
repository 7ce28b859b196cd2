-- fetch takes tasks of a queue, as asynq's dequeue takes one: oldest first, each with a lease.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[1]  end of the leases, seconds
-- ARGV[2]  how many at most
-- ARGV[3]  hash in which to count them, of the same slot ("": nowhere), and
-- ARGV[4]  its field
--
-- Result   their ids and messages, in turn; none while the queue is paused
local call, ARGV = redis.call, ARGV
local lane, tasks = KEYS[1], {}
if call('EXISTS', lane .. 'paused') == 1 then return tasks end
local ids = call('RPOP', lane .. 'pending', ARGV[2])
if not ids then return tasks end
local taken, leases = {}, {}
for _, id in ipairs(ids) do
  local key = lane .. 't:' .. id
  local message = call('HGET', key, 'msg')
  if message then -- else somebody deleted it
    call('HSET', key, 'state', 'active')
    taken[#taken + 1] = id
    leases[#leases + 1] = ARGV[1]
    leases[#leases + 1] = id
    tasks[#tasks + 1] = id
    tasks[#tasks + 1] = message
  end
end
if #taken > 0 then
  call('LPUSH', lane .. 'active', unpack(taken))
  call('ZADD', lane .. 'lease', unpack(leases))
  if ARGV[3] ~= '' then call('HINCRBY', ARGV[3], ARGV[4], #taken) end
end
return tasks
