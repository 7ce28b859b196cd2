-- end ends deliveries of one partition that keep their throttle slots. This is the most common settlement, so it takes
-- the fewest commands, and does without the functions of agenda.lua: loading them would cost as much as the script
-- itself.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  retention in ms
-- then     per delivery: notification, generation that was granted, D delivered or F failed, reason, the provider's
--          reply
--
-- Result   for each delivery 1: written, now or before; 0: another generation is in flight; 2: its lease has ended and
--          it waits again, so settle.lua has to end it
local call, ARGV = redis.call, ARGV
local partition, retention = KEYS[1], ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] .. string.format('%06d', clock[2])

local ended, counts, happened, told = {}, {}, {}, {}

local function write(id, generation, state, reason, reply)
  local key = partition .. 'n:' .. id
  local before, granted, category = unpack(call('HMGET', key, F.state, F.generation, F.category))
  if granted ~= generation then return 0 end
  if before == S.queued then return 2 end
  if before ~= S.sending then return before == state and 1 or 0 end
  if state == S.delivered then -- what explained an earlier attempt is left, and not shown
    call('HSET', key, F.state, state, F.reason, reason, F.ended, now)
  else
    call('HSET', key, F.state, state, F.reason, reason, F.ended, now, F.detail, reply)
  end
  redis.call('PEXPIRE', key, retention)
  ended[#ended + 1] = id
  if string.find(EVENTS, state, 1, true) then
    local user, returned, basis = unpack(call('HMGET', key, F.user, F.returned, F.basis))
    told[#told + 1] = table.concat({ state, now, id, user or '', category or '',
      string.format('%d', granted - (returned or 0)), basis or '', reason }, '\31')
  end
  counts[state] = (counts[state] or 0) + 1
  local field = state .. (category or '')
  happened[field] = (happened[field] or 0) + 1
  return 1
end

local written = {}
for i = 2, #ARGV, 5 do
  written[#written + 1] = write(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
if #ended > 0 then call('ZREM', partition .. 'e', unpack(ended)) end
for state, n in pairs(counts) do call('HINCRBY', partition .. 'c', state, string.format('%d', n)) end
if #told > 0 and call('RPUSH', partition .. 'events', unpack(told)) > 10000 then -- as in events.tell
  call('LTRIM', partition .. 'events', '-10000', '-1')
end
if not GUARDED then -- as in write_changes
  local history = partition .. 'history:' .. string.format('%d', math.floor(clock[1] / 3600))
  for field, n in pairs(happened) do
    if call('HINCRBY', history, field, string.format('%d', n)) == n then redis.call('EXPIRE', history, '2678400') end
  end
end
return written
