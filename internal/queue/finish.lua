-- finish ends runs of tasks, as asynq's done and retry do with one. A task that is not active here any more is left as it is.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[1]  today, as it stands in the name of its counter
-- ARGV[2]  when that counter ends, seconds
-- ARGV[3…] per task: id, the second at which it comes again (0: it is done)
--
-- Result   how many were ended
local call, ARGV = redis.call, ARGV
local lane = KEYS[1]
local ended, gone, done = {}, {}, 0
for i = 3, #ARGV, 2 do
  local id, again = ARGV[i], ARGV[i + 1]
  -- The oldest stand at the end of the list.
  if call('LREM', lane .. 'active', -1, id) == 1 then
    ended[#ended + 1] = id
    if again == '0' then
      gone[#gone + 1] = lane .. 't:' .. id
      done = done + 1
    elseif call('EXISTS', lane .. 't:' .. id) == 1 then
      call('HSET', lane .. 't:' .. id, 'state', 'retry')
      call('ZADD', lane .. 'retry', again, id)
    end
  end
end
if #ended > 0 then call('ZREM', lane .. 'lease', unpack(ended)) end
if done > 0 then
  call('DEL', unpack(gone))
  local today = lane .. 'processed:' .. ARGV[1]
  if call('INCRBY', today, done) == done then call('EXPIREAT', today, ARGV[2]) end
  call('INCRBY', lane .. 'processed', done)
end
return #ended
