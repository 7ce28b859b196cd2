-- events hands out the oldest events of a partition, under a name. The same events come again, under the same name, until
-- the next run is told that they were moved.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the name of those that were moved; "" for none
-- ARGV[2]  the name of the next
-- ARGV[3]  how many at most
--
-- Result   {their name, events as events.tell writes them}; {} when there are none
local events, moving, name = KEYS[1] .. 'events', KEYS[1] .. 'events:moving', KEYS[1] .. 'events:batch'
if ARGV[1] ~= '' and redis.call('GET', name) == ARGV[1] then redis.call('DEL', moving, name) end
local batch = redis.call('LRANGE', moving, '0', '-1')
if #batch == 0 then
  batch = redis.call('LRANGE', events, '0', ARGV[3] - 1)
  if #batch == 0 then return {} end
  redis.call('RPUSH', moving, unpack(batch))
  redis.call('LTRIM', events, #batch, '-1')
  redis.call('SET', name, ARGV[2])
end
return { redis.call('GET', name), batch }
